"""JSON laid out in lines, each with the path of the value that begins on it.

Numbers and strings keep their spelling as far as Python's parser preserves it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

_LONGEST = 300_000
_SHORT = 72


class Line(Struct, frozen=True):
    """A line of JSON; ``path`` leads to the value that begins on it, None for a closing bracket."""

    text: str
    path: tuple[str | int, ...] | None


def pretty(text: str) -> str | None:
    """Indent JSON; None if it is invalid or too long."""
    if len(text) > _LONGEST:
        return None
    try:
        return "\n".join(line.text for line in laid_out(json.loads(text)))
    except (ValueError, RecursionError):
        return None


def laid_out(value: Any) -> Iterator[Line]:
    """Lay out a value in lines; short values stay on one."""
    yield from _lines(value, (), "", "", "")


def _lines(
    value: Any, path: tuple[str | int, ...], indent: str, name: str, end: str
) -> Iterator[Line]:
    is_object, is_list = (
        isinstance(value, Mapping),
        isinstance(value, Sequence) and not isinstance(value, str),
    )
    if not value or not (is_object or is_list) or _is_short(value):
        yield Line(f"{indent}{name}{_spelled(value)}{end}", path)
        return
    opening, closing = "{}" if is_object else "[]"
    yield Line(f"{indent}{name}{opening}", path)
    pairs: list[tuple[str | int, Any]] = (
        list(value.items()) if is_object else list(enumerate(value))
    )
    for number, (key, item) in enumerate(pairs):
        comma = "" if number == len(pairs) - 1 else ","
        label = f"{_spelled(key)}: " if is_object else ""
        yield from _lines(item, (*path, key), f"{indent}  ", label, comma)
    yield Line(f"{indent}{closing}{end}", None)


def _is_short(value: Any) -> bool:
    """Whether a list or an object is simple enough for one line."""
    items = value.values() if isinstance(value, Mapping) else value
    if len(value) > 6 or any(isinstance(item, (Mapping, list, tuple)) for item in items):
        return False
    if any(isinstance(item, str) and len(item) > _SHORT for item in items):
        return False
    return len(_spelled(value)) <= _SHORT


def _spelled(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
