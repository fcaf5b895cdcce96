"""The command line, through the real executable."""
