"""Checks of calls and results for APIs that require every call to be answered before the next turn.

A table presents its conversation as events: a call, a result, and a turn before which all calls must have been
answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from cannery.doctor.contract import Broken, Judged
from cannery.doctor.json_paths import shown
from cannery.wire.places import Path

CALL, RESULT, TURN = "call", "result", "turn"


class Event(NamedTuple):
    """An event at a path; ``key`` is the id that links calls and results."""

    kind: str
    path: Path = ()
    key: Any = None


Events: TypeAlias = Callable[[Judged], Iterable[Event]]
Find: TypeAlias = Callable[[Judged], Iterator[Broken]]


def unanswered(events: Events) -> Find:
    """Calls without a result before the next turn."""

    def find(judged: Judged) -> Iterator[Broken]:
        waiting: list[Event] = []
        for event in (*events(judged), Event(TURN)):
            if event.kind == CALL:
                waiting.append(event)
            elif event.kind == RESULT:
                waiting = [call for call in waiting if call.key != event.key]
            else:
                for call in waiting:
                    yield call.path, f"the call {shown(call.key)} has no result behind it"
                waiting = []

    return find


def orphans(events: Events) -> Find:
    """Results without a call before them."""

    def find(judged: Judged) -> Iterator[Broken]:
        for event, is_known in _results(events(judged)):
            if not is_known:
                yield event.path, f"no call {shown(event.key)} precedes its result"

    return find


def duplicates(events: Events) -> Find:
    """Further results of a call that has one."""

    def find(judged: Judged) -> Iterator[Broken]:
        seen: set[Any] = set()
        for event, is_known in _results(events(judged)):
            key = repr(event.key)
            if is_known and key in seen:
                yield event.path, f"the call {shown(event.key)} has a second result"
            seen = seen | {key} if is_known else seen

    return find


def _results(events: Iterable[Event]) -> Iterator[tuple[Event, bool]]:
    """Each result, and whether a call of its turn has its id."""
    called: list[Any] = []
    is_over = False
    for event in events:
        if event.kind == CALL:
            called, is_over = ([] if is_over else called), False
            called.append(event.key)
        elif event.kind == RESULT:
            yield event, event.key in called
        else:
            is_over = True
            called = []
