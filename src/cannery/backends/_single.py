"""A commit of one change is a batch of one; shared by all backends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from cannery.backends._contract import Change, Durability, Receipt
from cannery.errors import CanneryError


class SingleCommits(ABC):
    """Implements ``commit`` by ``commit_each``."""

    @abstractmethod
    def commit_each(
        self, changes: Iterable[Change], durability: Durability = "sync"
    ) -> list[Receipt | CanneryError]:
        """Make several changes."""

    def commit(self, change: Change, durability: Durability = "sync") -> Receipt:
        """Make all of a change or nothing of it."""
        (outcome,) = self.commit_each((change,), durability)
        if isinstance(outcome, CanneryError):
            raise outcome
        return outcome
