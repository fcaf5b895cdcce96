"""The common part of verbs that remove conversations: they ask for confirmation, and report what was removed."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from cannery.cli.complaints import DONE, WRONG
from cannery.cli.files import note, write_json
from cannery.cli.parser import Parser
from cannery.cli.stores import confirmed, find, opened
from cannery.storage import Store, StoredConversation
from cannery.wording import counted


def add_removal_arguments(parser: Parser) -> None:
    """Add the arguments of such a verb."""
    add = parser.add_argument
    add("ids", metavar="ID", nargs="+", help="the conversations")
    add("-y", "--yes", action="store_true", help="do not ask for confirmation")


def remove(
    options: argparse.Namespace,
    verb: str,
    done: str,
    take_away: Callable[[Store, StoredConversation], None],
) -> int:
    """Remove the named conversations; ``verb`` is used in the question, ``done`` in the report."""
    with opened(options) as store:
        found = list(dict.fromkeys(find(store, word) for word in options.ids))
        if not options.yes and not confirmed(found, verb):
            note(f"nothing was {done}")
            return WRONG
        for conversation in found:
            take_away(store, conversation)
    if options.json:
        write_json({done: [conversation.identifier for conversation in found]})
    else:
        note(f"{done} {counted(len(found), 'conversation')}", quiet=options.quiet)
    return DONE
