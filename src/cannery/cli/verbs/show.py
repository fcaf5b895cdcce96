"""``cannery show``: print a conversation for reading, as a dialect, or in its stored form."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import msgspec

from cannery.cli.complaints import DONE, WRONG, choose_dialect
from cannery.cli.files import note, pretty, write_json
from cannery.cli.parser import Parser, whole
from cannery.cli.recognition import instructions_data, show_instructions, show_tree, show_why
from cannery.cli.stores import find, opened
from cannery.cli.terminal import harmless, page, paint
from cannery.cli.unknown import show_unknown
from cannery.cli.usage import usage_line
from cannery.storage import Reading, StoredConversation
from cannery.storage.portable import conversation_data

DESCRIPTION = (
    "Print a conversation: roles in colour, Markdown rendered, calls with their results, media as type and size. "
    "ID may be any unique prefix of an id; @ is the most recently changed conversation, @2 the one before."
)
EXAMPLES = """
cannery show @
cannery show 01k7 --last 4
cannery show 01k7 --as anthropic_messages
cannery show 01k7 --tree
cannery show 01k7 --instructions
cannery show 01k7 --why
cannery show 01k7 --unknown | jq .kind
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add = parser.add_argument
    add("id", metavar="ID", help="the conversation")
    add("--as", dest="dialect", metavar="DIALECT", help="write it as a request in this dialect")
    add("--raw", action="store_true", help="print the stored lines")
    add("--unknown", action="store_true", help="print the unknown records of an import")
    add("--tree", action="store_true", help="draw its parent and forks")
    add("--instructions", action="store_true", help="print the versions of its instructions")
    add("--why", action="store_true", help="print how the gateway recognised each exchange")
    add("--last", metavar="N", type=whole, help="only the last N messages")
    add("--no-pager", action="store_true", help="do not use a pager")


def run(options: argparse.Namespace) -> int:
    """Show a conversation."""
    if options.dialect is not None:
        options.dialect = choose_dialect(options.dialect)
    with opened(options) as store:
        conversation = find(store, options.id)
        if options.tree or options.why or options.instructions:
            alone = show_why if options.why else show_instructions
            show = show_tree if options.tree else alone
            show(options, conversation)
            return DONE
        if options.raw:
            return _raw(options, store, conversation)
        start = 0 if options.last is None else max(len(conversation) - options.last, 0)
        reading = conversation.read(start, hydrate=True)
        for damage in reading.damages:
            note(f"damaged: {damage}", quiet=options.quiet)
        if options.unknown:
            show_unknown(options, reading.canisters, start)
        elif options.dialect is not None:
            _native(options, conversation, reading)
        elif options.json:
            told = conversation_data(conversation.metadata, reading.canisters)
            versions = instructions_data(conversation.instructions())
            write_json({**told, "instructions": versions})
        else:
            _read(options, conversation, reading, start)
    return WRONG if reading.damages else DONE


def _read(
    options: argparse.Namespace, conversation: StoredConversation, reading: Reading, start: int
) -> None:
    from cannery.cli.conversation_text import paragraphs

    facts = conversation.metadata
    told = [paint(harmless(facts.title) or "(no title)", "bold"), conversation.identifier]
    told += [facts.created.astimezone().strftime("%Y-%m-%d %H:%M"), harmless(facts.model or "")]
    told += [*(f"#{harmless(tag)}" for tag in facts.tags), usage_line(reading.canisters)]
    blocks = paragraphs(reading.canisters, start=start)
    head = "  ".join(filter(None, told))
    page("\n\n".join([head, *blocks]), paged=not options.no_pager)


def _native(
    options: argparse.Namespace, conversation: StoredConversation, reading: Reading
) -> None:
    from cannery.cli.reports import describe
    from cannery.messages import Request, absent
    from cannery.translation import nativize_request

    model = conversation.metadata.model or absent
    rendered = nativize_request(Request(reading.canisters, model), options.dialect)
    sys.stdout.flush()
    sys.stdout.buffer.write(pretty(rendered.body) + b"\n")
    if rendered.losses or rendered.repairs:
        note(describe(rendered.losses, rendered.repairs), quiet=options.quiet)


def _raw(options: argparse.Namespace, store: Any, conversation: StoredConversation) -> int:
    from cannery.storage.lineage import segments

    lines = []
    for segment in segments(conversation.metadata, store.any_metadata, 0, None):
        lines += [line for line in store.backend.read(*segment).lines if line is not None]
    if options.json:
        write_json([msgspec.Raw(line) for line in lines])
    else:
        sys.stdout.buffer.write(b"".join(line.rstrip(b"\n") + b"\n" for line in lines))
    return DONE
