"""The output of ``cannery export``: the chosen conversations, files of sessions, and the report on redaction."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from cannery.cli.complaints import Complaint, Misuse
from cannery.cli.exports import Piece
from cannery.cli.files import note, writing
from cannery.cli.progress import Progress
from cannery.cli.stores import find
from cannery.errors import InputError
from cannery.redaction import Redactor
from cannery.storage import Store, StoredConversation


def make_redactor(options: argparse.Namespace) -> Redactor | None:
    """The redactor for the options; None without ``--redact``."""
    if options.dry_run and not options.redact:
        raise Misuse("--dry-run needs --redact", "Add --redact")
    try:
        return Redactor(options.redact_pattern) if options.redact else None
    except InputError as error:
        raise Misuse(str(error), "Give a regular expression of Python's") from None


def write_files(
    pieces: Iterator[Piece], options: argparse.Namespace, progress: Progress, count: int
) -> None:
    """Write each session to a file of its own, or a single one to the path given."""
    folder = Path(options.output) if options.output else None
    is_folder = folder is not None and (folder.is_dir() or count > 1)
    if count > 1 and folder is None:
        raise Misuse("several sessions are several files", "Add -o FOLDER")
    if is_folder and folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    for piece in pieces:
        target = str(folder / piece.name) if is_folder and folder is not None else options.output
        with writing(target) as file:
            file.write(piece.data)
        progress.advance()
        note(f"{piece.name}: {piece.hint}", quiet=options.quiet)


def report_redacted(redactor: Redactor, options: argparse.Namespace) -> None:
    """Report what was redacted; in a dry run list each match by its first characters."""
    counts = ", ".join(f"{count} × {kind}" for kind, count in redactor.counts.items())
    if options.dry_run:
        for each in redactor.sightings():
            print(f"{each.kind:8} {each.label:22} {each.begins:10} {each.times} ×")
        print(f"would leave out: {counts or 'nothing'}")
    else:
        note(f"redacted: {counts or 'nothing was found'}", quiet=options.quiet)


def choose_conversations(store: Store, options: argparse.Namespace) -> list[StoredConversation]:
    """The chosen conversations, without duplicates."""
    chosen = [find(store, word) for word in options.ids]
    if options.all or options.tag:
        chosen += [store.get(each.identifier) for each in reversed(store.list(tag=options.tag))]
    if not chosen and options.tag:
        raise Complaint(f"no conversation has the tag {options.tag!r}", "`cannery list` shows tags")
    if not chosen and not options.all:
        raise Misuse("export what?", "Give ids (@ is the newest conversation), --tag TAG or --all")
    return list(dict.fromkeys(chosen))
