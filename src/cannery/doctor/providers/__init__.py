"""What each provider refuses: every module is named after its dialect and has one table, ``CHECKS``."""
