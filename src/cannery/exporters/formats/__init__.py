"""Every module here is a format that conversations are exported in."""
