"""The rules of each provider: every module is named after its dialect and has one table, ``CHECKS``."""
