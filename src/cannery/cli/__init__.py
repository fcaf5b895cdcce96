"""The command line: every face of the library, one verb a file.

verb
    the first word after ``cannery``; each is a module of ``cannery.cli.verbs`` with ``add_arguments`` and ``run``
complaint
    an error as a person reads it: what is wrong, and what to do about it, in one or two lines
note
    something said on stderr beside the answer; ``--quiet`` leaves it out

The answer goes to stdout and is plain when piped; everything else goes to stderr. Exit codes: 0 done; 1 it ran, and
what it looked at is wrong, missing or lost something; 2 it was asked wrongly. A verb is imported when it is called, so
that starting costs what is used.
"""

from cannery.cli.entry import main

__all__ = ["main"]
