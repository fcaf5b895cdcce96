"""Usage records: a table beside the conversations.

Notes are written without a sync of their own; the next commit makes them durable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cannery.backends._contract import Cursor
from cannery.backends._exchanges import Note, NotePage, page_of, sound
from cannery.backends._seals import seal
from cannery.backends.sqlite.tables import Database
from cannery.errors import StoreUnavailableError

_PAGE = 1000
# In a damaged row it may have another type.
_RECORD = "ifnull(CAST(record AS BLOB), x'')"


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
        query = f"SELECT place, {_RECORD} FROM exchanges WHERE conversation = ?"  # noqa: S608 - names are ours
        found: list[tuple[int, bytes]] = []
        for name in dict.fromkeys(conversations):
            found += self._rows(query, name)
        return list(sound(sorted(found)))

    def page(self, cursor: Cursor | None = None) -> NotePage:
        """The records after a cursor, some at a time."""
        query = f"SELECT place, {_RECORD} FROM exchanges WHERE place > ? ORDER BY place LIMIT ?"  # noqa: S608 - names are ours
        last = "SELECT max(place), x'' FROM exchanges"
        return page_of(
            cursor,
            lambda place: self._rows(query, place, _PAGE),
            lambda: self._rows(last)[0][0] or 0 if self._database.has_exchanges else 0,
        )

    def torn(self) -> None:
        """Nothing: a transaction leaves no incomplete record."""

    def replied(self, reply: str) -> bytes | None:
        """The last record of a reply."""
        query = (
            f"SELECT place, {_RECORD} FROM exchanges"  # noqa: S608 - names are ours
            " WHERE reply = ? AND reply <> '' ORDER BY place DESC LIMIT 1"
        )
        return next(sound(self._rows(query, reply)), None)

    def _rows(self, query: str, *values: object) -> list[tuple[int, bytes]]:
        if not self._database.has_exchanges:
            return []
        with self._database.reading() as connection:
            return connection.execute(query, values).fetchall()
