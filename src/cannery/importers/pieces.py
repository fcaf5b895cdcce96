"""What importers share: times as sources write them, canisters at a given time, opaque blocks, titles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from cannery.errors import CanneryError
from cannery.importers.contract import Unknown
from cannery.messages import AnyCanister, OpaqueContentClass, UserCanisterClass
from cannery.messages.json_text import write_json
from cannery.translation import normalize_request

_LONGEST_TITLE = 80
# Numbers beyond this are milliseconds.
_MILLISECONDS = 100_000_000_000


def moment(value: Any) -> datetime | None:
    """The time that a number of seconds or milliseconds or an ISO date stands for; None for anything else."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return _iso(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return datetime.fromtimestamp(value / 1000 if value > _MILLISECONDS else value, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _iso(value: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def text_of(value: Any) -> str:
    """A string, or "" for anything else."""
    return value if isinstance(value, str) else ""


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def opaque(source: str, kind: Any, value: Any, unknown: Counter[str]) -> OpaqueContentClass:
    """A piece that nobody here knows, kept as it is and counted."""
    tag = kind if isinstance(kind, str) and kind else "unknown"
    unknown[tag] += 1
    return OpaqueContentClass(source, tag, write_json(value))


def unknown_record(kind: Any, place: str, value: Any) -> Unknown:
    """A record that nobody here knows."""
    return Unknown(kind if isinstance(kind, str) and kind else "unknown", place, write_json(value))


def spoken_by(dialect: str, body: dict[str, Any], when: datetime | None) -> list[AnyCanister]:
    """The canisters of a body of a dialect, at a given time; InputError if it is none."""
    conversation = normalize_request(body, dialect).conversation
    return at_time(conversation, when)


def at_time(canisters: Iterable[AnyCanister], when: datetime | None) -> list[AnyCanister]:
    """Canisters as said at a time, if that is known."""
    if when is None:
        return list(canisters)
    return [canister.replace(timestamp=when) for canister in canisters]


def joined(canisters: list[AnyCanister]) -> tuple[AnyCanister, ...]:
    """Canisters of one message: all but the first belong to the one before."""
    first, rest = canisters[:1], canisters[1:]
    return (*first, *(canister.replace(joined=True) for canister in rest))


def title_of(canisters: Iterable[AnyCanister]) -> str:
    """The first line that the user said, for a conversation without a title."""
    for canister in canisters:
        if isinstance(canister, UserCanisterClass):
            try:
                line = canister.text.strip().partition("\n")[0].strip()
            except CanneryError:
                continue
            if line:
                return line if len(line) <= _LONGEST_TITLE else line[: _LONGEST_TITLE - 1] + "…"
    return ""
