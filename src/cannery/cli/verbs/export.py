"""``cannery export``: conversations as a dialect, as JSON lines, Markdown or HTML."""

from __future__ import annotations

import argparse
from pathlib import Path

from cannery.cli.complaints import DONE, Complaint, Misuse, choose
from cannery.cli.exports import written
from cannery.cli.files import note, writing
from cannery.cli.parser import Parser
from cannery.cli.progress import Progress
from cannery.cli.stores import find, opened
from cannery.cli.tables import counted
from cannery.dialects import dialect_names, find_dialect, is_dialect
from cannery.storage import Store, StoredConversation

DESCRIPTION = (
    "Write conversations: as requests of any dialect or records of a data set (one a line when there are several), as "
    "`jsonl` (one conversation a line with title, tags and all content; `cannery import` gives the same conversations "
    "and forks back), `canisters` (one message a line), `markdown` or `html` (one file that needs nothing else and "
    "runs nothing). The format is told from --output when --as is missing."
)
EXAMPLES = """
cannery export @ -o bread.md
cannery export 01k7 01k8 -o both.html
cannery export --all -o everything.jsonl
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
            for data in written(chosen, form, options):
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
    if form not in FORMATS and is_dialect(form):
        return find_dialect(form).name
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
