"""``cannery delete``: delete conversations; their forks stay readable."""

from __future__ import annotations

import argparse

from cannery.cli.complaints import DONE, WRONG
from cannery.cli.files import note, write_json
from cannery.cli.parser import Parser
from cannery.cli.stores import agreed, find, opened
from cannery.cli.tables import counted

DESCRIPTION = (
    "Delete conversations. Their forks stay readable; `cannery gc` frees what nothing needs any more. "
    "Asks first on a terminal; elsewhere it needs --yes."
)
EXAMPLES = """
cannery delete 01k7
cannery delete 01k7 01k8 --yes
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """What the verb takes."""
    add = parser.add_argument
    add("ids", metavar="ID", nargs="+", help="the conversations")
    add("-y", "--yes", action="store_true", help="do not ask")


def run(options: argparse.Namespace) -> int:
    """Delete."""
    with opened(options) as store:
        found = list(dict.fromkeys(find(store, word) for word in options.ids))
        if not options.yes and not agreed(found, "Delete"):
            note("nothing was deleted")
            return WRONG
        for conversation in found:
            conversation.delete()
    if options.json:
        write_json({"deleted": [conversation.identifier for conversation in found]})
    else:
        note(f"deleted {counted(len(found), 'conversation')}", quiet=options.quiet)
    return DONE
