"""How often roles had to be changed or were refused, for metrics.

The keys can never outgrow a fixed bound, because clients choose role strings: a transformation is
counted under the folded name that was understood, a refusal under one of four reasons, and
whatever would exceed the bound goes under ``other``.
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
    """What the counters stood at in one moment."""

    messages: int
    transformations: Mapping[tuple[str, str], int]
    """(folded name that came, spelling that it became) → how often."""
    rejections: Mapping[str, int]
    """Reason → how often; a refused list of messages is one rejection."""

    @property
    def transformed(self) -> int:
        """How many roles were changed in all."""
        return sum(self.transformations.values())

    @property
    def rejected(self) -> int:
        """How many times a role was refused in all."""
        return sum(self.rejections.values())


class RoleCounters:
    """Counters that any number of threads may share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages = 0
        self._transformations: Counter[tuple[str, str]] = Counter()
        self._rejections: Counter[str] = Counter()

    def accept(self, messages: int, transformations: Iterable[tuple[str, str]] = ()) -> None:
        """Count messages whose roles were accepted, and which of these were changed."""
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
        """Give all counts as they are at this moment."""
        with self._lock:
            return RoleCounts(
                messages=self._messages,
                transformations=MappingProxyType(dict(self._transformations)),
                rejections=MappingProxyType(dict(self._rejections)),
            )
