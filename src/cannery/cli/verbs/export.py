"""``cannery export``: conversations as a dialect, as JSON lines, Markdown or HTML."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from cannery.cli.complaints import DONE, Complaint, Misuse, choose
from cannery.cli.files import note, pretty, writing
from cannery.cli.parser import Parser
from cannery.cli.progress import Progress
from cannery.cli.stores import find, opened
from cannery.cli.tables import counted
from cannery.cli.terminal import harmless, is_terminal
from cannery.storage import Store, StoredConversation
from cannery.translation import dialect_names

DESCRIPTION = (
    "Write conversations: as requests of any dialect or records of a data set (one a line when there are several), as "
    "`jsonl` (one conversation a line, all content inside), `canisters` (one message a line), `markdown` or `html` "
    "(one file that needs nothing else and runs nothing). The format is told from --output when --as is missing."
)
EXAMPLES = """
cannery export @ -o bread.md
cannery export 01k7 01k8 -o both.html
cannery export --all --as sharegpt -o dataset.jsonl
cannery export @ --as anthropic_messages | jq .messages
"""
USES_STORE = True
FORMATS = ("canisters", "html", "jsonl", "markdown")
ENDINGS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".jsonl": "jsonl",
}


def add_arguments(parser: Parser) -> None:
    """What the verb takes."""
    add = parser.add_argument
    add("ids", metavar="ID", nargs="*", help="the conversations")
    add("--all", action="store_true", help="every conversation")
    add("--tag", metavar="TAG", help="every conversation with this tag")
    add("--as", dest="form", metavar="FORMAT", help="a dialect, or one of " + ", ".join(FORMATS))
    add("-o", "--output", metavar="FILE", help="write there instead of stdout")


def run(options: argparse.Namespace) -> int:
    """Export."""
    form = _form(options)
    with opened(options) as store:
        chosen = _choose(store, options)
        with (
            Progress("exporting", len(chosen), "conversations", quiet=options.quiet) as progress,
            writing(options.output) as file,
        ):
            for data in _WRITERS.get(form, _dialect)(chosen, form, options):
                file.write(data)
                progress.advance()
    if options.output:
        note(
            f"{options.output}: {counted(len(chosen), 'conversation')} as {form}",
            quiet=options.quiet,
        )
    return DONE


def _form(options: argparse.Namespace) -> str:
    ending = Path(options.output or "").suffix.lower()
    form = options.form or ENDINGS.get(ending) or ("jsonl" if options.json else "markdown")
    return choose(form, (*FORMATS, *dialect_names()), "format")


def _choose(store: Store, options: argparse.Namespace) -> list[StoredConversation]:
    chosen = [find(store, word) for word in options.ids]
    if options.all or options.tag:
        chosen += [store.get(each.identifier) for each in reversed(store.list(tag=options.tag))]
    if not chosen and options.tag:
        raise Complaint(f"no conversation has the tag {options.tag!r}", "`cannery list` shows tags")
    if not chosen and not options.all:
        raise Misuse("export what?", "Give ids (@ is the newest conversation), --tag TAG or --all")
    return list(dict.fromkeys(chosen))


Writer = Callable[[list[StoredConversation], str, argparse.Namespace], Iterator[bytes]]


def _markdown(
    chosen: list[StoredConversation], _: str, options: argparse.Namespace
) -> Iterator[bytes]:
    from cannery.cli.pages.markdown import markdown_page

    for conversation in chosen:
        page = markdown_page(conversation.metadata, conversation.hydrate())
        yield (page if options.output or not is_terminal() else harmless(page)).encode()


def _html(chosen: list[StoredConversation], _: str, __: Any) -> Iterator[bytes]:
    from cannery.cli.pages.html import html_page

    yield html_page([(each.metadata, each.hydrate()) for each in chosen]).encode()


def _lines(chosen: list[StoredConversation], form: str, _: Any) -> Iterator[bytes]:
    from cannery.cli.portable import portable

    for conversation in chosen:
        lines = [portable(canister) for canister in conversation.hydrate()]
        if form == "canisters":
            yield b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
            continue
        facts = msgspec.to_builtins(conversation.metadata)
        facts = {name: facts[name] for name in facts if name not in ("parent", "position")}
        yield msgspec.json.encode({**facts, "canisters": lines}) + b"\n"


def _dialect(
    chosen: list[StoredConversation], form: str, options: argparse.Namespace
) -> Iterator[bytes]:
    from cannery.cli.reports import describe, describe_many
    from cannery.messages import Request, absent
    from cannery.translation import nativize_request

    everything = []
    for conversation in chosen:
        model = conversation.metadata.model or absent
        rendered = nativize_request(Request(conversation.hydrate(), model), form)
        everything.append((conversation.identifier, rendered.losses, rendered.repairs))
        yield (pretty(rendered.body) if len(chosen) == 1 else rendered.body) + b"\n"
    _, losses, repairs = everything[0] if everything else ("", (), ())
    told = describe(losses, repairs) if len(chosen) == 1 else describe_many(everything)
    if told:
        note(told, quiet=options.quiet)


_WRITERS: dict[str, Writer] = {
    "markdown": _markdown,
    "html": _html,
    "jsonl": _lines,
    "canisters": _lines,
}
