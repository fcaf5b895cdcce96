"""The operations on the keys of an encrypted store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class ScopeKey(NamedTuple):
    """The key of an encrypted scope: its name, and why it cannot be used; "" if it can."""

    scope: str
    key: str
    problem: str


class Encryption(Protocol):
    """The keys of an encrypted store."""

    def states(self) -> Sequence[ScopeKey]:
        """Every scope that has, or had, a key."""

    def rotate(self, scope: str, new: str) -> ScopeKey:
        """Replace a scope's key with the one that another setting names; data is not encrypted again."""

    def destroy(self, scope: str) -> None:
        """Make everything in a scope permanently unreadable."""
