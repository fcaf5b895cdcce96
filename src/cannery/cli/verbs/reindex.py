"""``cannery reindex``: build the index again; it is derived from the files."""

from __future__ import annotations

import argparse
import time

from cannery.cli.complaints import DONE
from cannery.cli.files import write_json
from cannery.cli.parser import Parser
from cannery.cli.progress import Progress
from cannery.cli.stores import opened
from cannery.wording import counted

DESCRIPTION = "Delete the index and build it again from the files. Nothing is lost, because it is derived from them."
EXAMPLES = """
cannery reindex
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """Add no arguments: the verb has only the common options."""


def run(options: argparse.Namespace) -> int:
    """Rebuild the index."""
    began = time.monotonic()
    with opened(options) as store, Progress("indexing", unit="steps", quiet=options.quiet) as told:
        store.rebuild_index(told)
        found = len(store.list(kinds=None))
    seconds = time.monotonic() - began
    if options.json:
        write_json({"conversations": found, "seconds": round(seconds, 3)})
    else:
        print(f"indexed {counted(found, 'conversation')} in {seconds:.1f} s")
    return DONE
