"""The export formats: every module here is one."""
