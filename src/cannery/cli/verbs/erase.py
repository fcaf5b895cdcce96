"""``cannery erase``: delete conversations and leave none of their words in any file."""

from __future__ import annotations

import argparse

from cannery.cli.complaints import DONE, WRONG
from cannery.cli.files import note, write_json
from cannery.cli.parser import Parser
from cannery.cli.stores import agreed, find, opened
from cannery.cli.tables import counted

DESCRIPTION = (
    "Delete conversations and leave none of their words in any file of the store. What forks share with them stays, "
    "and so does content to which other conversations refer. The index is built again at the next search. "
    "Asks first on a terminal; elsewhere it needs --yes."
)
EXAMPLES = """
cannery erase 01k7 --yes
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """What the verb takes."""
    add = parser.add_argument
    add("ids", metavar="ID", nargs="+", help="the conversations")
    add("-y", "--yes", action="store_true", help="do not ask")


def run(options: argparse.Namespace) -> int:
    """Erase."""
    with opened(options) as store:
        found = list(dict.fromkeys(find(store, word) for word in options.ids))
        if not options.yes and not agreed(found, "Erase"):
            note("nothing was erased")
            return WRONG
        for conversation in found:
            store.erase(conversation.identifier)
    if options.json:
        write_json({"erased": [conversation.identifier for conversation in found]})
    else:
        note(f"erased {counted(len(found), 'conversation')}", quiet=options.quiet)
    return DONE
