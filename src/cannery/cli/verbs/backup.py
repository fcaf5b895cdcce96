"""``cannery backup``: a consistent copy of a store that may be in use."""

from __future__ import annotations

import argparse

import msgspec

from cannery.cli.complaints import DONE
from cannery.cli.files import write_json
from cannery.cli.parser import Parser
from cannery.cli.progress import Progress
from cannery.cli.stores import opened
from cannery.wording import counted, size_text

DESCRIPTION = (
    "Copy the store, as it is at one moment, to a new directory (a store in one file: to a new file). Can run "
    "while others write. The copy is a store; `cannery restore` makes another from it."
)
EXAMPLES = """
cannery backup /mnt/backup/2026-11-18
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("path", metavar="PATH", help="a path that does not exist")


def run(options: argparse.Namespace) -> int:
    """Copy the store."""
    with opened(options) as store, Progress("copying", quiet=options.quiet) as progress:
        made = store.backup(options.path, progress)
    if options.json:
        write_json({"path": options.path, **msgspec.to_builtins(made._asdict())})
    else:
        print(
            f"copied {counted(made.conversations, 'conversation')}, {size_text(made.copied_bytes)}"
        )
    return DONE
