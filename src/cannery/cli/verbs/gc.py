"""``cannery gc``: free what nothing reaches."""

from __future__ import annotations

import argparse

import msgspec

from cannery.cli.complaints import DONE
from cannery.cli.files import note, write_json
from cannery.cli.parser import Parser
from cannery.cli.progress import Progress
from cannery.cli.stores import opened
from cannery.cli.tables import counted, size

DESCRIPTION = (
    "Free deleted conversations that no fork needs, and content that no conversation refers to. "
    "Safe beside running writers."
)
EXAMPLES = """
cannery gc --dry-run
cannery gc
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """What the verb takes."""
    parser.add_argument("--dry-run", action="store_true", help="only say what would be freed")


def run(options: argparse.Namespace) -> int:
    """Collect garbage."""
    with opened(options) as store, Progress("collecting", quiet=options.quiet) as progress:
        freed = store.collect_garbage(dry_run=options.dry_run, progress=progress)
    if options.json:
        write_json(msgspec.to_builtins(freed))
        return DONE
    verb = "would free" if freed.is_dry_run else "freed"
    parts = [counted(len(freed.conversations), "conversation"), counted(freed.contents, "content")]
    print(f"{verb} {', '.join(parts)}, {size(freed.freed_bytes)}")
    for damage in freed.damages:
        note(f"kept: {damage}", quiet=options.quiet)
    return DONE
