"""``cannery tag``: add and remove tags, set a title."""

from __future__ import annotations

import argparse

from cannery.cli.complaints import DONE, Misuse
from cannery.cli.files import note, write_json
from cannery.cli.parser import Parser
from cannery.cli.stores import find, opened
from cannery.cli.terminal import harmless

DESCRIPTION = "Add or remove tags of a conversation, or set its title. Prints the resulting tags."
EXAMPLES = """
cannery tag @ work urgent
cannery tag 01k7 --remove urgent
cannery tag 01k7 --title "Sourdough"
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add = parser.add_argument
    add("id", metavar="ID", help="the conversation")
    add("tags", metavar="TAG", nargs="*", help="tags to add")
    add("--remove", metavar="TAG", action="append", default=[], help="a tag to remove")
    add("--title", metavar="TEXT", help="the title to give")


def run(options: argparse.Namespace) -> int:
    """Change tags and title."""
    for tag in options.tags:
        if not tag.strip() or not tag.isprintable():
            raise Misuse(f"{tag!r} is not a tag", "A tag is one line of visible characters")
    with opened(options) as store:
        conversation = find(store, options.id)
        for tag in options.remove:
            if tag not in conversation.tags:
                note(f"{conversation.identifier} has no tag {tag!r}", quiet=options.quiet)
        kept = [tag for tag in conversation.tags if tag not in options.remove]
        tags = tuple(dict.fromkeys([*kept, *options.tags]))
        if tags != conversation.tags:
            conversation.retag(*tags)
        if options.title is not None:
            conversation.rename(options.title)
        title = conversation.title
    if options.json:
        write_json({"id": conversation.identifier, "title": title, "tags": tags})
    elif tags:
        print(harmless(" ".join(tags)))
    return DONE
