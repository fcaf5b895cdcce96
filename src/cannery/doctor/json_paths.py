"""Paths in JSON values: iteration with paths, and changes at a path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cannery.doctor.contract import Object
from cannery.wire.places import Path


def objects(value: Any, path: Path) -> list[tuple[Path, Object]]:
    """The objects of a list, each with its path; an empty list for anything else."""
    if not isinstance(value, list):
        return []
    return [((*path, index), item) for index, item in enumerate(value) if isinstance(item, dict)]


def walk(value: Any, path: Path = (), skip: Iterable[str] = ()) -> Iterator[tuple[Path, Object]]:
    """Yield each object at any depth with its path, except below the keys to skip."""
    left: list[tuple[Path, Any]] = [(path, value)]
    while left:
        here, found = left.pop()
        if isinstance(found, dict):
            yield here, found
            left += [((*here, key), each) for key, each in found.items() if key not in skip][::-1]
        elif isinstance(found, list):
            left += [((*here, index), each) for index, each in enumerate(found)][::-1]


def strings(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield each string at any depth with its path; a key has the path of its object."""
    left: list[tuple[Path, Any]] = [(path, value)]
    while left:
        here, found = left.pop()
        if isinstance(found, str):
            yield here, found
        elif isinstance(found, dict):
            yield from ((here, key) for key in found)
            left += [((*here, key), each) for key, each in found.items()][::-1]
        elif isinstance(found, list):
            left += [((*here, index), each) for index, each in enumerate(found)][::-1]


def at(value: Any, path: Path) -> Any:
    """The value at a path; None if there is none."""
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def put(value: Any, path: Path, new: Any) -> None:
    """Set the value at a path; all steps but the last must exist."""
    at(value, path[:-1])[path[-1]] = new


def remove(value: Any, path: Path) -> None:
    """Remove the value at a path."""
    del at(value, path[:-1])[path[-1]]


def is_blank(text: Any) -> bool:
    """Whether a value is text without a visible character."""
    return isinstance(text, str) and not text.strip()


def shown(value: Any) -> str:
    """A value for an error text, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}…{text[-1]}"
