"""Detects the format of a source: every format examines a sample, and the most confident wins.

A format considers the whole sample, its speakers and texts, never a single key. If none matches, the error names the
first bytes of the file and the nearest formats.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from cannery.errors import InputError, NotFoundError
from cannery.importers.contract import Detection, Format, Sample
from cannery.importers.databases import SQLITE
from cannery.importers.sources import Source

_SHOWN = 60
_DEEPEST = 5
_LOOKED_AT = 2000
_SPEAKERS = frozenset({"role", "author", "sender", "from", "is_user", "speaker", "isCreatedByUser"})
_TABLES = frozenset({"message", "messages", "chat", "chats", "conversation", "conversations"})
_WORDS = frozenset({"content", "text", "parts", "value", "mes", "message", "blocks", "contents"})


@lru_cache(maxsize=1)
def format_names() -> tuple[str, ...]:
    """The names of all formats, sorted."""
    package = importlib.import_module("cannery.importers.formats")
    return tuple(sorted(module.name for module in pkgutil.iter_modules(package.__path__)))


@lru_cache(maxsize=128)
def find_format(name: str) -> Format:
    """The format with a name; NotFoundError lists the known ones."""
    if name not in format_names():
        near = difflib.get_close_matches(str(name), format_names(), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise NotFoundError(f"unknown format {name!r}.{hint} Known: {', '.join(format_names())}")
    found: Format = importlib.import_module(f"cannery.importers.formats.{name}").FORMAT
    return found


def detect_format(source: Source) -> tuple[Format, Detection]:
    """Detect the format of a source, and the reason; InputError if it is unknown."""
    sample = source.sample()
    found = []
    for name in format_names():
        candidate = find_format(name)
        detection = candidate.detect(sample)
        if detection is not None:
            found.append((detection.confidence, candidate, detection))
    if not found:
        told = " ".join(_reasons(source, sample))
        raise InputError(f"{source.name}: not a known conversation format. {told}")
    _, surest, detection = max(found, key=lambda each: each[0])
    return surest, detection


def _reasons(source: Source, sample: Sample) -> Iterator[str]:
    """The observations about a file in an unknown format."""
    problems = [*source.problems, *sample.problems]
    if not sample.head.strip():
        yield f"Problem: {problems[0]}." if problems else "It is empty."
        return
    if sample.head.startswith(SQLITE):
        tables = ", ".join(sorted(sample.tables)[:8])
        yield f"It is an SQLite database with the tables {tables or '(none)'}."
    else:
        yield f"First bytes: {sample.text[:_SHOWN]!r}."
    if problems:
        yield f"Problem: {problems[0]}."
    near = nearest_formats(sample)
    if near:
        yield "Nearest: " + "; ".join(f"{name} (it has {keys})" for name, keys in near) + "."
    elif not problems:
        yield "Nothing in it looks like a message."


def nearest_formats(sample: Sample) -> list[tuple[str, str]]:
    """The formats that share most keys with a sample, with those keys; at most three."""
    words = {key for record in sample.records for key in _keys(record)}
    words |= {column for columns in sample.tables.values() for column in columns}
    words |= set(sample.tables)
    ranked = []
    for name in format_names():
        own = find_format(name).keys
        shared = [key for key in own if key in words]
        if shared:
            ranked.append((len(shared) / len(own), len(shared), name, ", ".join(shared)))
    ranked.sort(key=lambda each: (-each[0], -each[1], each[2]))
    return [(name, shared) for _, _, name, shared in ranked[:3]]


def _keys(value: Any) -> Iterator[str]:
    """The keys of a record and of the objects in it."""
    for found in _objects(value):
        yield from found


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """The objects in a record, up to a depth and a number."""
    waiting = [(value, 0)]
    seen = 0
    while waiting and seen < _LOOKED_AT:
        found, depth = waiting.pop()
        seen += 1
        if isinstance(found, dict):
            yield found
            inside: Any = found.values()
        elif isinstance(found, list):
            inside = found
        else:
            continue
        if depth < _DEEPEST:
            waiting += [(each, depth + 1) for each in inside if isinstance(each, (dict, list))]


def is_without_messages(sample: Sample) -> bool:
    """Whether a sample contains no message: no speaker beside a text."""
    if sample.problems:
        return False
    if any(
        name.lower() in _TABLES or (_SPEAKERS & set(columns) and _WORDS & set(columns))
        for name, columns in sample.tables.items()
    ):
        return False
    return not any(
        _SPEAKERS & found.keys() and _WORDS & found.keys()
        for record in sample.records
        for found in _objects(record)
    )
