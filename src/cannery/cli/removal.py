"""Verbs that take conversations away: they ask first, and say what is gone."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from cannery.cli.complaints import DONE, WRONG
from cannery.cli.files import note, write_json
from cannery.cli.parser import Parser
from cannery.cli.stores import agreed, find, opened
from cannery.storage import Store, StoredConversation
from cannery.wording import counted


def add_removal_arguments(parser: Parser) -> None:
    """What such a verb takes."""
    add = parser.add_argument
    add("ids", metavar="ID", nargs="+", help="the conversations")
    add("-y", "--yes", action="store_true", help="do not ask for confirmation")


def remove(
    options: argparse.Namespace,
    verb: str,
    done: str,
    take_away: Callable[[Store, StoredConversation], None],
) -> int:
    """Take the named conversations away; ``verb`` is what is asked, ``done`` what is told."""
    with opened(options) as store:
        found = list(dict.fromkeys(find(store, word) for word in options.ids))
        if not options.yes and not agreed(found, verb):
            note(f"nothing was {done}")
            return WRONG
        for conversation in found:
            take_away(store, conversation)
    if options.json:
        write_json({done: [conversation.identifier for conversation in found]})
    else:
        note(f"{done} {counted(len(found), 'conversation')}", quiet=options.quiet)
    return DONE
