"""Counts of changed and refused roles, for metrics.

The number of keys is bounded, because clients choose role strings: a transformation is counted under the folded name
that was recognised, a refusal under one of four reasons, and everything beyond the bound under ``other``.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Reason = Literal["dangerous", "missing", "not_text", "unknown"]

MOST_KEYS = 256
OTHER = ("other", "other")


class RoleCounts(NamedTuple):
    """A snapshot of the counters."""

    messages: int
    transformations: Mapping[tuple[str, str], int]
    """(folded inbound name, resulting spelling) → count."""
    rejections: Mapping[str, int]
    """Reason → count; a refused list of messages is one rejection."""

    @property
    def transformed(self) -> int:
        """The total number of changed roles."""
        return sum(self.transformations.values())

    @property
    def rejected(self) -> int:
        """The total number of refusals."""
        return sum(self.rejections.values())


class RoleCounters:
    """Thread-safe counters."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages = 0
        self._transformations: Counter[tuple[str, str]] = Counter()
        self._rejections: Counter[str] = Counter()

    def accept(self, messages: int, transformations: Iterable[tuple[str, str]] = ()) -> None:
        """Count messages with accepted roles, and those that were changed."""
        with self._lock:
            self._messages += messages
            for key in transformations:
                is_kept = key in self._transformations or len(self._transformations) < MOST_KEYS
                self._transformations[key if is_kept else OTHER] += 1

    def reject(self, reason: Reason) -> None:
        """Count one refusal."""
        with self._lock:
            self._rejections[reason] += 1

    def snapshot(self) -> RoleCounts:
        """Return all counts at this moment."""
        with self._lock:
            return RoleCounts(
                messages=self._messages,
                transformations=MappingProxyType(dict(self._transformations)),
                rejections=MappingProxyType(dict(self._rejections)),
            )
