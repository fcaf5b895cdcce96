"""The command line: one verb per module, each a thin layer over the library.

verb
    the first word after ``cannery``; each is a module of ``cannery.cli.verbs`` with ``add_arguments`` and ``run``
complaint
    an error message for the user: what is wrong and what to do about it, in one or two lines
note
    a message on stderr beside the output; ``--quiet`` suppresses it

Output goes to stdout and has no formatting when piped; everything else goes to stderr. Exit codes: 0 success; 1 the
verb ran, and its input is wrong, is missing or lost something; 2 invalid usage. A verb is imported when it is called,
so that starting costs only what is used.
"""

from cannery.cli.entry import main

__all__ = ["main"]
