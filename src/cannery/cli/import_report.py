"""The report of ``cannery import``: the format of each file, and the results."""

from __future__ import annotations

import argparse
from collections import Counter

from cannery.backends import shown
from cannery.cli.complaints import DONE
from cannery.cli.files import note, write_json
from cannery.cli.stores import find_place
from cannery.cli.tables import aligned
from cannery.cli.terminal import harmless
from cannery.importers import ImportSummary, find_folders, find_format, format_names
from cannery.wording import counted, size_text

_MOST = 10
_FEW = 3
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


def print_file_report(options: argparse.Namespace, summary: ImportSummary) -> None:
    """Print the formats that a file was read as, and its problems."""
    for source, told in list(summary.formats.items())[:_MOST]:
        note(f"{harmless(source)}: read as {harmless(told)}", quiet=options.quiet)
    for problem in summary.problems[:_MOST]:
        note(f"problem: {harmless(problem)}", quiet=options.quiet)
    if summary.left_alone:
        names = ", ".join(harmless(name) for name in summary.left_alone[:_FEW])
        more = ", …" if len(summary.left_alone) > _FEW else ""
        left = f"{len(summary.left_alone):,} without a conversation"
        note(f"left out: {left} ({names}{more})", quiet=options.quiet)
    if len(summary.problems) > _MOST:
        note(f"… and {len(summary.problems) - _MOST} more problems", quiet=options.quiet)


def print_totals(options: argparse.Namespace, found: list[ImportSummary]) -> None:
    """Print the results of all files."""
    rows = [
        [harmless(summary.path), *(f"{getattr(summary, name):,}" for name in _COUNTS)]
        for summary in found
    ]
    print(aligned(["file", *_COUNTS], rows, numbers=" ".join(_COUNTS)))
    _print_unknown(found)
    place = shown(find_place(options.store)[0])
    if options.dry_run:
        note(
            f"dry run: these are the changes to {place}; nothing was written",
            quiet=options.quiet,
        )
    elif any(summary.added for summary in found):
        note(f"in {place}; see `cannery list`", quiet=options.quiet)


def _print_unknown(found: list[ImportSummary]) -> None:
    """Print how many records and parts are of unknown kinds, and how to find them."""
    kinds: Counter[str] = Counter()
    for summary in found:
        kinds.update(summary.unknown)
    if not kinds:
        return
    told = ", ".join(f"{count:,} {harmless(kind)}" for kind, count in kinds.most_common(_MOST))
    more = f" and {len(kinds) - _MOST} kinds more" if len(kinds) > _MOST else ""
    print(
        f"{counted(kinds.total(), 'record or piece', 'records or pieces')} of no known kind: {told}{more}"
    )
    if any(summary.added for summary in found):
        print("stored with the messages that follow them; see `cannery show --unknown ID`")


def discover(options: argparse.Namespace) -> int:
    """List the folders of known programs on this machine, and their files."""
    found = find_folders()
    if options.json:
        write_json([each._asdict() for each in found])
        return DONE
    if not found:
        note("found no folder of a known program", quiet=options.quiet)
        return DONE
    rows = [
        [each.program, harmless(each.path), f"{each.files:,}", size_text(each.bytes)]
        for each in found
    ]
    print(aligned(["program", "folder", "files", "size"], rows, numbers="files size"))
    note(
        "nothing was imported; `cannery import FOLDER --dry-run` says what would come of one",
        quiet=options.quiet,
    )
    return DONE


def list_formats(options: argparse.Namespace) -> int:
    """List every format."""
    rows = [[name, find_format(name).title] for name in format_names()]
    if options.json:
        write_json([{"name": name, "title": title} for name, title in rows])
    else:
        print(aligned(["format", "what"], rows))
    return DONE
