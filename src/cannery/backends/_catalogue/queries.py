"""The queries of a catalogue in SQLite, on a connection of any backend."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from cannery.backends._catalogue import finding, matching
from cannery.backends._contract import (
    Branch,
    Cursor,
    Found,
    Holder,
    Match,
    Selection,
    Summary,
    Term,
)

T = TypeVar("T")


class Queries(ABC):
    """A catalogue in SQLite; ``_ask`` gives a connection in one state that includes every acknowledged change."""

    @abstractmethod
    def _ask(self, work: Callable[[sqlite3.Connection], T], *, needs_words: bool = False) -> T:
        """The result of a function on a connection; ``needs_words`` if it searches texts."""

    def key(self, scope: str) -> bytes:  # noqa: ARG002 - the same for all
        """Digests are not keyed."""
        return b""

    def match(
        self, scope: str, session: str | None, histories: Sequence[Sequence[bytes | None]]
    ) -> list[Match | None]:
        """The longest prefix of each history that a conversation of a scope and session holds."""
        return self._ask(
            lambda connection: [
                matching.match(connection, scope, session, digests) for digests in histories
            ]
        )

    def holders(self, scope: str, digests: Iterable[bytes], limit: int = 16) -> list[Holder]:
        """The places in a scope of digests of single canisters; the latest few places of each."""
        return self._ask(lambda connection: matching.holders(connection, scope, digests, limit))

    def said_before(self, identifier: str, position: int) -> tuple[bytes | None, int] | None:
        """The digest of a conversation's history before a position, and where its last content ends."""
        return self._ask(lambda connection: matching.said_before(connection, identifier, position))

    def list(
        self, selection: Selection, after: Cursor | None = None, limit: int | None = None
    ) -> Sequence[Summary]:
        """Conversations after a cursor, most recently changed first."""
        return self._ask(lambda connection: finding.list_rows(connection, selection, after, limit))

    def search(self, terms: Sequence[Term], selection: Selection, limit: int) -> Sequence[Found]:
        """The messages that contain all terms, best first."""
        return self._ask(
            lambda connection: finding.search(connection, terms, selection, limit),
            needs_words=True,
        )

    def tree(self, identifier: str) -> Sequence[Branch]:
        """A conversation, its oldest ancestor and all forks of that one."""
        return self._ask(lambda connection: finding.tree(connection, identifier))

    def begin_with(self, scope: str | None, text: str, limit: int) -> Sequence[str]:
        """The conversations, not deleted, whose id has a prefix, in order."""
        return self._ask(lambda connection: finding.begin_with(connection, scope, text, limit))
