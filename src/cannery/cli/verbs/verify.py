"""``cannery verify``: recompute every hash, and report all damage."""

from __future__ import annotations

import argparse

import msgspec

from cannery.cli.complaints import DONE, WRONG
from cannery.cli.files import write_json
from cannery.cli.parser import Parser
from cannery.cli.progress import Progress
from cannery.cli.stores import opened
from cannery.cli.terminal import harmless
from cannery.wording import counted, size_text

DESCRIPTION = (
    "Recompute every hash, decode every line, follow every reference, and report all damage. Exits with 1 if "
    "there is any."
)
EXAMPLES = """
cannery verify
cannery verify --store /var/lib/cannery --json
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """Add no arguments: the verb has only the common options."""


def run(options: argparse.Namespace) -> int:
    """Verify the store."""
    with opened(options) as store, Progress("verifying", quiet=options.quiet) as progress:
        report = store.verify(progress)
    if options.json:
        write_json({"is_sound": report.is_sound, **msgspec.to_builtins(report)})
    else:
        print("\n".join(harmless(str(damage)) for damage in report.damages) or "sound")
        looked = [
            counted(report.conversations, "conversation"),
            counted(report.messages, "message"),
            f"{counted(report.contents, 'content')} ({size_text(report.content_bytes)})",
            counted(report.exchanges, "exchange"),
        ]
        wrong = f": {counted(len(report.damages), 'damage')}" if report.damages else ""
        print(f"checked {', '.join(looked)}{wrong}")
        if report.exchanges_of_none:
            gone = counted(report.exchanges_of_none, "exchange")
            print(f"{gone} of conversations that no longer exist: their cost is kept")
    return DONE if report.is_sound else WRONG
