"""Parses and formats times for the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cannery.cli.complaints import Misuse

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_time(text: str) -> datetime:
    """Parse a date, a time, or an age (``90m``, ``12h``, ``7d``, ``2w``)."""
    if text[:-1].isdecimal() and text[-1:] in _UNITS:
        return datetime.now(UTC) - timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Misuse(f"no time: {text!r}", "For example 2026-01-31, or 7d for a week ago") from None
    return found if found.tzinfo else found.astimezone()


def ago(time: datetime) -> str:
    """The age in short form; the date after 30 days."""
    seconds = (datetime.now(UTC) - time).total_seconds()
    if seconds < 60:
        return "now"
    for unit, length in (("m", 60), ("h", 3600), ("d", 86400)):
        if seconds < {"m": 3600, "h": 86400, "d": 30 * 86400}[unit]:
            return f"{seconds // length:.0f}{unit} ago"
    return time.astimezone().strftime("%Y-%m-%d")
