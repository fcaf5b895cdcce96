"""What exchanges took: a table beside the conversations.

Notes are written without a sync of their own; the next commit makes them durable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cannery.backends._contract import Note
from cannery.backends._seals import seal, unseal
from cannery.backends.sqlite.tables import Database
from cannery.errors import StoreUnavailableError

_PAGE = 1000


class SqliteExchanges:
    """The notes of one file."""

    def __init__(self, database: Database, *, is_read_only: bool) -> None:
        self._database = database
        self._is_read_only = is_read_only

    def append(self, notes: Sequence[Note]) -> None:
        """Add notes."""
        if self._is_read_only:
            raise StoreUnavailableError(f"{self._database.path} can only be read")
        query = "INSERT INTO exchanges (conversation, time, reply, record) VALUES (?, ?, ?, ?)"
        rows = [(*note[:3], seal(note.record, 0)) for note in notes]
        with self._database.writing(is_lazy=True) as connection:
            connection.executemany(query, rows)

    def of(self, conversations: Iterable[str]) -> list[bytes]:
        """The records of some conversations."""
        query = "SELECT place, record FROM exchanges WHERE conversation = ?"
        found: list[tuple[int, bytes]] = []
        for name in dict.fromkeys(conversations):
            found += self._rows(query, name)
        return list(_sound(sorted(found)))

    def since(self, time: str = "") -> Iterator[bytes]:
        """The records from a time on, some at a time."""
        last = -1
        query = "SELECT place, record FROM exchanges WHERE place > ? AND time >= ? ORDER BY place LIMIT ?"
        while page := self._rows(query, last, time, _PAGE):
            yield from _sound(page)
            last = page[-1][0]

    def replied(self, reply: str) -> bytes | None:
        """The last record of a reply."""
        query = (
            "SELECT place, record FROM exchanges WHERE reply = ? AND reply <> ''"
            " ORDER BY place DESC LIMIT 1"
        )
        return next(_sound(self._rows(query, reply)), None)

    def _rows(self, query: str, *values: object) -> list[tuple[int, bytes]]:
        if not self._database.has_exchanges:
            return []
        with self._database.reading() as connection:
            return connection.execute(query, values).fetchall()


def _sound(rows: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """The records that are as they were written."""
    for _, sealed in rows:
        record = unseal(sealed)
        if record is not None:
            yield record
