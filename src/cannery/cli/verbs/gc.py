"""``cannery gc``: delete expired conversations, and free unreachable data."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cannery.cli.complaints import DONE, Misuse
from cannery.cli.files import note, write_json
from cannery.cli.gateway_settings import load_gateway_settings
from cannery.cli.parser import Parser
from cannery.cli.progress import Progress
from cannery.cli.stores import find_place, opened
from cannery.cli.terminal import one_line
from cannery.errors import InputError
from cannery.storage import Expired, KeepDays
from cannery.storage.retention import check_days
from cannery.wording import counted, size_text

DESCRIPTION = (
    "Delete conversations beyond their retention time, and free deleted conversations that no fork needs and "
    "content to which no conversation refers. --keep-days sets the retention time, or for the gateway's store "
    "[retention] of its configuration; without either no conversation is deleted. Can run while others write."
)
EXAMPLES = """
cannery gc --dry-run
cannery gc
cannery gc --keep-days 90 --keep-days alice=30 --dry-run
"""
USES_STORE = True
_SHOWN = 10


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "--dry-run", action="store_true", help="only report what would be deleted and freed"
    )
    parser.add_argument(
        "--keep-days",
        action="append",
        default=[],
        metavar="[SCOPE=]DAYS",
        help="delete conversations unchanged for DAYS, in one scope or in all others; 0: never",
    )


def run(options: argparse.Namespace) -> int:
    """Delete by age, and collect garbage."""
    keep = read_days(options.keep_days) if options.keep_days else configured_days(options.store)
    with opened(options) as store, Progress("collecting", quiet=options.quiet) as progress:
        expired = store.expire(keep, dry_run=options.dry_run) if keep else ()
        freed = store.collect_garbage(dry_run=options.dry_run, progress=progress)
    if options.json:
        write_json({**msgspec.to_builtins(freed), "expired": msgspec.to_builtins(expired)})
        return DONE
    _print_expired(expired, is_dry_run=options.dry_run)
    verb = "would free" if freed.is_dry_run else "freed"
    parts = [counted(len(freed.conversations), "conversation"), counted(freed.contents, "content")]
    print(f"{verb} {', '.join(parts)}, {size_text(freed.freed_bytes)}")
    for damage in freed.damages:
        note(f"kept: {damage}", quiet=options.quiet)
    return DONE


def read_days(said: Sequence[str]) -> KeepDays:
    """Parse the values of ``--keep-days``."""
    others: float | None = None
    scopes: dict[str, float | None] = {}
    for text in said:
        scope, equals, number = text.rpartition("=")
        try:
            days = float(number)
        except ValueError:
            raise Misuse(f"--keep-days {text}: not a number of days") from None
        if equals:
            scopes[scope] = days
        else:
            others = days
    try:
        return check_days(KeepDays(others, scopes))
    except InputError as error:
        raise Misuse(f"--keep-days: {error}") from None


def configured_days(chosen: str | None) -> KeepDays:
    """The retention days of the gateway's configuration, if it configures the chosen store."""
    loaded = load_gateway_settings()
    if loaded is None or not loaded.settings.retention.days:
        return KeepDays()
    place = find_place(loaded.settings.recording.store)[0]
    days: KeepDays = loaded.settings.retention.days
    return days if _same(place, find_place(chosen)[0]) else KeepDays()


def _same(one: str, other: str) -> bool:
    return Path(one).expanduser().absolute() == Path(other).expanduser().absolute()


def _print_expired(expired: Sequence[Expired], *, is_dry_run: bool) -> None:
    counts = Counter((one.scope, one.keep_days) for one in expired)
    verb = "would delete" if is_dry_run else "deleted"
    for (scope, days), count in sorted(counts.items()):
        of = f" of scope {one_line(scope, 60)}" if scope else ""
        print(f"{verb} {counted(count, 'conversation')}{of}, unchanged for {days:g} days")
    if is_dry_run:
        for one in expired[:_SHOWN]:
            print(f"  {one.identifier} {one.updated:%Y-%m-%d}")
        if len(expired) > _SHOWN:
            print(f"  and {len(expired) - _SHOWN} more")
