"""``cannery import``: import chats of other programs and data sets; importing again adds nothing."""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from cannery.cli.complaints import DONE, WRONG, Complaint, Misuse, choose
from cannery.cli.files import as_path, note, shown, write_json
from cannery.cli.import_report import discover, list_formats, print_file_report, print_totals
from cannery.cli.parser import Parser
from cannery.cli.progress import Progress
from cannery.cli.stores import find_place, is_there, opened
from cannery.errors import ConfigurationError, InputError
from cannery.importers import ImportSummary, check_format, format_names, import_into
from cannery.storage import Store

DESCRIPTION = (
    "Import chats of other programs, transcripts and data sets: a file, an archive or a folder. The format is "
    "detected and reported. Branches become forks; each row of a data set stays a conversation of its own. "
    "Importing a file twice adds nothing. Records of an unknown kind are stored and counted (`cannery show "
    "--unknown`). Exits with 1 if something could not be read."
)
EXAMPLES = """
cannery import ~/Downloads/conversations.json
cannery import ~/.claude/projects --dry-run
cannery import dataset.jsonl --format sharegpt --store ./chats
cannery import --discover
cannery import --formats
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add = parser.add_argument
    add("files", metavar="FILE", nargs="*", help="files, archives or folders; - is stdin")
    add("--format", metavar="FORMAT", help="the format (default: detected)")
    add("--formats", action="store_true", help="list the formats")
    add("--dry-run", action="store_true", help="only report what is new and what is known")
    add(
        "--merge",
        action="store_true",
        help="merge rows of data sets that begin with the same messages",
    )
    add(
        "--discover",
        action="store_true",
        help="look for the folders of known programs on this machine, and import nothing",
    )


def run(options: argparse.Namespace) -> int:
    """Import files."""
    if options.formats:
        return list_formats(options)
    if options.discover:
        return discover(options)
    if not options.files:
        raise Misuse("import what?", "Give a file, an archive or a folder, or - for stdin")
    if options.format is not None:
        choose(options.format, format_names(), "format")
    for name in options.files:
        if name != "-" and not Path(name).exists():
            raise Complaint(f"{name}: there is no such file", "Give a file, an archive or a folder")
    with contextlib.ExitStack() as stack:
        # A file that cannot be read creates no store.
        store = functools.cache(lambda: stack.enter_context(_store(options)))
        done = [_import(store, name, options) for name in options.files]
    found = [summary for summary in done if summary is not None]
    if options.json:
        write_json([msgspec.to_builtins(summary) for summary in found])
    elif found:
        print_totals(options, found)
    failed = len(found) < len(done) or any(summary.problems for summary in found)
    return WRONG if failed else DONE


@contextlib.contextmanager
def _store(options: argparse.Namespace) -> Iterator[Store | None]:
    """Open the store; None for a dry run if there is none yet."""
    if options.dry_run and not is_there(find_place(options.store)[0]):
        yield None
        return
    with opened(options, make=not options.dry_run) as store:
        yield store


def _import(
    store: Callable[[], Store | None], name: str, options: argparse.Namespace
) -> ImportSummary | None:
    """Import one file; return None if it failed and there are other files."""
    with (
        as_path(name) as path,
        Progress(f"importing {Path(name).name}", unit="B", quiet=options.quiet) as progress,
    ):
        try:
            if not is_there(find_place(options.store)[0]):
                check_format(path, options.format)
            summary = import_into(
                store(), path, options.format, options.dry_run, progress, merge=options.merge
            )
        except ConfigurationError:
            raise
        except InputError as error:
            progress.clear()
            fix = "`cannery import --formats` lists formats; --format names one"
            if len(options.files) == 1:
                raise Complaint(str(error), fix) from None
            note(f"{name}: {error}", quiet=options.quiet)
            return None
    summary.path = shown(name)
    print_file_report(options, summary)
    return summary
