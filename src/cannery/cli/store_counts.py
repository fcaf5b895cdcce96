"""Counts of a store: messages, roles, models, days, and sizes before and after deduplication.

Lines are counted in their stored form, without decoding: a role, a time and references to content are found by
patterns, which rely on ``docs/storage-format.md``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from cannery.storage import Store, Summary

_ROLE = re.compile(rb'^\{"role":"([a-z]+)"')
_DAY = re.compile(rb'"timestamp":"(\d{4}-\d{2}-\d{2})')
_CONTENT = re.compile(rb'"content_id":"sha256:([0-9a-f]{64})","size":(\d+)')


class Census(Struct):
    """The counts of a store."""

    conversations: int = 0
    forks: int = 0
    messages: int = 0
    stored_messages: int = 0
    by_role: dict[str, int] = field(default_factory=dict)
    by_model: dict[str, int] = field(default_factory=dict)
    by_day: dict[str, int] = field(default_factory=dict)
    contents: int = 0
    said_bytes: int = 0
    kept_bytes: int = 0
    disk_bytes: int = 0

    @property
    def ratio(self) -> float:
        """The size before deduplication divided by the size after it: 1 if nothing is shared."""
        return self.said_bytes / self.kept_bytes if self.kept_bytes else 1.0


def count_store(store: Store, progress: Callable[[int, int], object]) -> Census:
    """Count everything; a message shared by forks counts once per fork in ``said_bytes`` and once in ``kept_bytes``."""
    census = Census()
    roles: Counter[str] = Counter()
    days: Counter[str] = Counter()
    models: Counter[str] = Counter()
    contents: dict[bytes, int] = {}
    said: dict[str, _Said] = {}
    summaries = sorted(store.list(kinds=None), key=lambda each: each.created)
    for done, summary in enumerate(summaries, 1):
        lines = _own_lines(store, summary)
        for line in lines:
            roles[_found(_ROLE, line)] += 1
            days[_found(_DAY, line)] += 1
        base = summary.position if summary.parent else 0
        before = _said_until(said, summary.parent, base)
        sizes = [*accumulate(_size(line, contents) for line in lines)]
        said[summary.identifier] = _Said(summary.parent, base, before, sizes)
        census.said_bytes += before + (sizes[-1] if sizes else 0)
        census.kept_bytes += sum(map(len, lines))
        census.stored_messages += len(lines)
        census.messages += summary.count
        census.forks += summary.parent is not None
        models[summary.model or "unknown"] += summary.count
        progress(done, len(summaries))
    census.conversations = len(summaries)
    census.by_role, census.by_model = dict(roles.most_common()), dict(models.most_common())
    census.by_day = dict(sorted(days.items()))
    census.contents = len(contents)
    census.kept_bytes += sum(contents.values())
    return census


class _Said(NamedTuple):
    """The lines that a conversation does not share with its parent: cumulative sizes, and the bytes before the fork."""

    parent: str | None
    base: int
    before: int
    sizes: list[int]


def _said_until(said: dict[str, _Said], identifier: str | None, position: int) -> int:
    """The size of the first messages of a conversation; 0 if it is missing."""
    while identifier in said and position:
        own = said[identifier]
        if position > own.base:
            counted = min(position - own.base, len(own.sizes))
            return own.before + (own.sizes[counted - 1] if counted else 0)
        identifier = own.parent
    return 0


def _own_lines(store: Store, summary: Summary) -> list[bytes]:
    base = summary.position if summary.parent else 0
    reading = store.backend.read(summary.identifier, base, base)
    return [line for line in reading.lines if line is not None]


def _size(line: bytes, contents: dict[bytes, int]) -> int:
    """The size of a line, with the content that it refers to."""
    referred = [(found[1], int(found[2])) for found in _CONTENT.finditer(line)]
    contents.update(referred)
    return len(line) + sum(size for _, size in referred)


def _found(pattern: re.Pattern[bytes], line: bytes) -> str:
    match = pattern.search(line)
    return match[1].decode() if match else "unknown"


def disk_size(place: str) -> int:
    """The disk usage of a store's files in bytes; 0 for a store without files."""
    folder = Path(place.removeprefix("file://").removeprefix("file:"))
    if not folder.is_dir():
        return 0
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
