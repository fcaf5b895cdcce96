"""Fixes a body: checks with a fix change what they found, from the end to the beginning, and list every change.

Only parts that violate a rule are changed. A change may violate another rule (a message that became empty), so the
table is run again until there is nothing more to fix.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from cannery.doctor.contract import MESSAGES, PROBLEM, Finding, Judged, Object
from cannery.doctor.examination import checks_of, judge, read_body
from cannery.messages.json_text import utf8
from cannery.wire.places import Path, path_text

_ROUNDS = 6


class Change(Struct, frozen=True):
    """One change: the rule that was violated, the path, and a description."""

    code: str
    path: str
    text: str


class Mended(Struct, frozen=True):
    """A fixed body, the changes, and the remaining findings."""

    body: Object
    changes: tuple[Change, ...]
    left: tuple[Finding, ...]


def mend_body(
    body: bytes | Object, dialect: str, *, model: str | None = None, is_request: bool = True
) -> Mended:
    """Fix everything in a body that can be fixed; values that violate no rule are unchanged."""
    value, size = read_body(body, dialect)
    judged = Judged(value, model, size)
    return mend(judged, dialect, is_request=is_request)


def mend(
    judged: Judged,
    dialect: str,
    *,
    is_request: bool = True,
    place: Callable[[Path], str] = path_text,
) -> Mended:
    """Fix a body in place; ``place`` formats a path before it is changed."""
    changes: list[Change] = []
    for _ in range(_ROUNDS):
        made = _round(judged, dialect, is_request=is_request, place=place)
        changes += made
        if not made:
            break
        judged.size = _size(judged.body) if judged.size else 0
    return Mended(judged.body, tuple(changes), judge(judged, dialect, is_request=is_request))


def _round(
    judged: Judged, dialect: str, *, is_request: bool, place: Callable[[Path], str]
) -> list[Change]:
    changes = []
    for check in checks_of(dialect):
        if check.fix is None or check.severity != PROBLEM:
            continue
        if not is_request and check.about != MESSAGES:
            continue
        for path, _ in reversed(list(check.find(judged))):
            where = place(path)
            done = check.fix(judged, path)
            if done is not None:
                changes.append(Change(check.code, where, done))
    return changes


def _size(body: Object) -> int:
    import json  # the standard library can write lone surrogates, which may remain

    return len(utf8(json.dumps(body, ensure_ascii=False)))
