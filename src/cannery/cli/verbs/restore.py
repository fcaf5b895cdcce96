"""``cannery restore``: create a store from a backup, and verify it."""

from __future__ import annotations

import argparse

import msgspec

from cannery.cli.complaints import DONE, WRONG
from cannery.cli.files import write_json
from cannery.cli.parser import Parser
from cannery.cli.progress import Progress
from cannery.cli.stores import find_key, find_place
from cannery.cli.terminal import harmless
from cannery.storage import restore
from cannery.wording import counted

DESCRIPTION = "Make a new store from a backup and verify it against the manifest in it. The backup is only read."
EXAMPLES = """
cannery restore /mnt/backup/2026-11-18 --store /var/lib/cannery
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("path", metavar="BACKUP", help="the copy that `cannery backup` made")


def run(options: argparse.Namespace) -> int:
    """Restore a backup."""
    place, _ = find_place(options.store)
    with Progress("restoring", quiet=options.quiet) as progress:
        key, _ = find_key(options.encryption_key)
        report = restore(options.path, place, progress, encryption_key=key)
    if options.json:
        write_json({"is_sound": report.is_sound, **msgspec.to_builtins(report)})
    else:
        for damage in report.damages:
            print(harmless(str(damage)))
        state = "sound" if report.is_sound else counted(len(report.damages), "damage")
        print(f"restored {counted(report.conversations, 'conversation')} to {place}: {state}")
    return DONE if report.is_sound else WRONG
