"""The import formats: every module here is one and has one value, ``FORMAT``."""
