"""What ``cannery import`` says: what each file was read as, and what came of it."""

from __future__ import annotations

import argparse

from cannery.cli.complaints import DONE
from cannery.cli.files import note, write_json
from cannery.cli.stores import find_place
from cannery.cli.tables import aligned, counted
from cannery.cli.terminal import harmless
from cannery.importers import ImportSummary, find_format, format_names

_MOST = 10
_COUNTS = (
    "conversations",
    "branches",
    "messages",
    "created",
    "forked",
    "continued",
    "known",
    "added",
)


def tell(options: argparse.Namespace, summary: ImportSummary) -> None:
    """What a file was read as, and what is wrong with it."""
    for source, told in list(summary.formats.items())[:_MOST]:
        note(f"{harmless(source)}: read as {harmless(told)}", quiet=options.quiet)
    for problem in summary.problems[:_MOST]:
        note(f"problem: {harmless(problem)}", quiet=options.quiet)
    if len(summary.problems) > _MOST:
        note(f"… and {len(summary.problems) - _MOST} more problems", quiet=options.quiet)


def conclude(options: argparse.Namespace, found: list[ImportSummary]) -> None:
    """What came of all files."""
    rows = [
        [harmless(summary.path), *(f"{getattr(summary, name):,}" for name in _COUNTS)]
        for summary in found
    ]
    print(aligned(["file", *_COUNTS], rows, numbers=" ".join(_COUNTS)))
    unknown = sum(summary.unknown_count for summary in found)
    if unknown:
        print(f"{counted(unknown, 'unknown record or piece', 'unknown records or pieces')}, kept")
    place = find_place(options.store)[0]
    if options.dry_run:
        note(
            f"a dry run: this is what {place} would be given; nothing was written",
            quiet=options.quiet,
        )
    elif any(summary.added for summary in found):
        note(f"in {place}; see `cannery list`", quiet=options.quiet)


def list_formats(options: argparse.Namespace) -> int:
    """Every format."""
    rows = [[name, find_format(name).title] for name in format_names()]
    if options.json:
        write_json([{"name": name, "title": title} for name, title in rows])
    else:
        print(aligned(["format", "what"], rows))
    return DONE
