"""``cannery export``: conversations as a dialect, as an agent's session, as JSON lines, Markdown or HTML."""

from __future__ import annotations

import argparse
from pathlib import Path

from cannery.cli.complaints import DONE, Misuse, choose
from cannery.cli.exporting import choose_conversations, make_redactor, report_redacted, write_files
from cannery.cli.exports import written
from cannery.cli.files import note, writing
from cannery.cli.parser import Parser
from cannery.cli.progress import Progress
from cannery.cli.stores import opened
from cannery.dialects import dialect_names, find_dialect, is_dialect
from cannery.exporters import exporter_names, find_exporter
from cannery.wording import counted

DESCRIPTION = (
    "Write conversations: as bodies of any dialect or records of a data set (one a line if there are several), as "
    "sessions that Claude Code, Codex or Gemini CLI resume (`claude_code`, `codex`, `gemini_cli`; several into a "
    "folder), as messages of the Vercel AI SDK (`uimessage`) or as preference rows from forks (`preferences`), as "
    "`jsonl` (one conversation a line with title, tags and all content; `cannery import` gives the same "
    "conversations and forks back), `canisters` (one message a line), `markdown` or `html` (one file that loads "
    "and runs nothing). Without --as the suffix of --output gives the format. An export has what the conversation "
    "has: no turn and no setting is added. --redact leaves out secrets, e-mail addresses and home folders; the "
    "store is not changed."
)
EXAMPLES = """
cannery export @ -o bread.md
cannery export 01k7 01k8 -o both.html
cannery export --all -o everything.jsonl
cannery export --all --as sharegpt -o dataset.jsonl
cannery export --all --as preferences -o preferences.jsonl
cannery export @ --as claude_code -o ~/.claude/projects/-home-me-work
cannery export @ --as anthropic_messages | jq .messages
cannery export @ --redact --dry-run
cannery export @ --redact --redact-pattern 'ACME-\\d+' -o shared.html
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
    """Add the verb's arguments."""
    add = parser.add_argument
    forms = ", ".join((*FORMATS, *exporter_names()))
    add("ids", metavar="ID", nargs="*", help="the conversations")
    add("--all", action="store_true", help="every conversation")
    add("--tag", metavar="TAG", help="every conversation with this tag")
    add("--as", dest="form", metavar="FORMAT", help=f"a dialect, or one of {forms}")
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="write to this file instead of stdout; a folder for sessions",
    )
    add(
        "--redact", action="store_true", help="leave out secrets, e-mail addresses and home folders"
    )
    add(
        "--redact-pattern",
        metavar="REGEX",
        action="append",
        default=[],
        help="leave this out too (implies --redact)",
    )
    add("--dry-run", action="store_true", help="with --redact: only say what would be left out")


def run(options: argparse.Namespace) -> int:
    """Export conversations."""
    form = _form(options)
    options.redact = options.redact or bool(options.redact_pattern)
    redactor = make_redactor(options)
    with opened(options) as store:
        chosen = choose_conversations(store, options)
        progress = Progress("exporting", len(chosen), "conversations", quiet=options.quiet)
        with progress:
            pieces = written(chosen, form, options, redactor)
            if options.dry_run:
                for _ in pieces:
                    progress.advance()
            elif form in exporter_names() and find_exporter(form).is_file:
                write_files(pieces, options, progress, len(chosen))
            else:
                with writing(options.output) as file:
                    for piece in pieces:
                        file.write(piece.data)
                        progress.advance()
    if redactor is not None:
        report_redacted(redactor, options)
    if options.output and not options.dry_run:
        told = f"{options.output}: {counted(len(chosen), 'conversation')} as {form}"
        note(told, quiet=options.quiet)
    return DONE


def _form(options: argparse.Namespace) -> str:
    ending = Path(options.output or "").suffix.lower()
    known = (*FORMATS, *exporter_names())
    form = options.form or ENDINGS.get(ending)
    if form is None and ending and not options.dry_run:
        endings = ", ".join(sorted(ENDINGS))
        raise Misuse(
            f"{options.output}: {ending} is no format of an export",
            f"Say which with --as, or end the name in {endings}",
        )
    form = form or ("jsonl" if options.json else "markdown")
    if form not in known and is_dialect(form):
        return find_dialect(form).name
    return choose(form, (*known, *dialect_names()), "format")
