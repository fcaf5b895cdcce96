"""Small changes of JSON bodies, for tests that break one thing at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Change = Callable[[Any], None]


def put(*path: str | int, value: Any) -> Change:
    """A change that sets one place of a body."""

    def change(target: Any) -> None:
        _at(target, path[:-1])[path[-1]] = value

    return change


def drop(*path: str | int) -> Change:
    """A change that removes one place of a body."""

    def change(target: Any) -> None:
        del _at(target, path[:-1])[path[-1]]

    return change


def add(*path: str | int, value: Any) -> Change:
    """A change that appends to a list, or inserts when the last step is an index."""

    def change(target: Any) -> None:
        if isinstance(path[-1], int):
            _at(target, path[:-1]).insert(path[-1], value)
        else:
            _at(target, path).append(value)

    return change


def _at(target: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        target = target[step]
    return target
