"""``cannery fork``: branch off a conversation; nothing is copied."""

from __future__ import annotations

import argparse

from cannery.cli.complaints import DONE, Complaint
from cannery.cli.files import note, write_json
from cannery.cli.parser import Parser, whole
from cannery.cli.stores import find, opened
from cannery.errors import InputError

DESCRIPTION = "Fork a conversation: the fork shares its first messages, nothing is copied. Prints the id of the fork."
EXAMPLES = """
cannery fork @
cannery fork 01k7 --at 12 --title "Another way"
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add = parser.add_argument
    add("id", metavar="ID", help="the conversation")
    add("--at", metavar="POSITION", type=whole, help="share the first POSITION messages (all)")
    add(
        "--move",
        action="store_true",
        help="move the position before a tool exchange instead of cutting it",
    )
    add("--title", metavar="TEXT", help="the title of the fork")


def run(options: argparse.Namespace) -> int:
    """Fork a conversation."""
    with opened(options) as store:
        parent = find(store, options.id)
        edge = "move" if options.move else "refuse"
        try:
            fork = parent.fork(options.at, edge=edge, title=options.title)  # type: ignore[arg-type]
        except InputError as error:
            fix = "--move steps back to before it" if "tool exchange" in str(error) else ""
            raise Complaint(str(error).partition(";")[0], fix) from None
        position = fork.metadata.position
    if options.json:
        write_json({"id": fork.identifier, "parent": parent.identifier, "position": position})
    else:
        print(fork.identifier)
        note(f"forked {parent.identifier} at {position}", quiet=options.quiet)
    return DONE
