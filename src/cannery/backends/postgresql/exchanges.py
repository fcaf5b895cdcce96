"""Usage records: a table beside the conversations, written by every gateway that shares the store.

Notes do not wait for the server's disk; the next commit does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cannery.backends._contract import Cursor
from cannery.backends._exchanges import Note, NotePage, page_of, sound
from cannery.backends._seals import seal
from cannery.backends.postgresql.connections import Pool, to_text
from cannery.backends.postgresql.pipelines import BEGIN, COMMIT, Rows, Statement, exchange
from cannery.errors import StoreUnavailableError

_PAGE = 1000
_LAZY = Statement("SET LOCAL synchronous_commit = off", is_prepared=False)
_APPEND = Statement(
    "INSERT INTO cannery.exchanges (conversation, time, reply, record)"
    " SELECT * FROM unnest($1, $2, $3, $4)",
    "text[] text[] text[] bytea[]",
)
_OF = Statement(
    "SELECT place, record FROM cannery.exchanges WHERE conversation = ANY($1) ORDER BY place",
    "text[]",
)
_BEHIND = Statement(
    "SELECT place, record FROM cannery.exchanges WHERE place > $1 ORDER BY place LIMIT $2",
    "int8 int8",
)
_LAST = Statement("SELECT coalesce(max(place), 0) FROM cannery.exchanges")
# One after the other: numbers become visible in order, and a follower of the log misses none.
_IN_TURN = Statement("SELECT pg_advisory_xact_lock(hashtextextended('cannery.exchanges', 0))")
_REPLIED = Statement(
    "SELECT place, record FROM cannery.exchanges WHERE reply = $1 AND reply <> ''"
    " ORDER BY place DESC LIMIT 1",
    "text",
)


class PostgresqlExchanges:
    """The notes of one database."""

    def __init__(self, pool: Pool, why_read_only: str | None) -> None:
        self._pool = pool
        self._why_read_only = why_read_only

    def append(self, notes: Sequence[Note]) -> None:
        """Add notes, in one round trip."""
        if self._why_read_only is not None:
            raise StoreUnavailableError(
                f"{self._pool.name} can only be read: {self._why_read_only}"
            )
        values = (
            [note.conversation for note in notes],
            [note.time for note in notes],
            [to_text(note.reply) for note in notes],
            [seal(note.record, 0) for note in notes],
        )
        with self._pool.connection() as connection:
            statements = [(_LAZY, ()), (_IN_TURN, ()), (_APPEND, values)]
            exchange(connection, [(BEGIN, ()), *statements, (COMMIT, ())])

    def of(self, conversations: Iterable[str]) -> list[bytes]:
        """The records of some conversations."""
        (rows,) = self._pool.exchange([(_OF, (list(dict.fromkeys(conversations)),))])
        return list(sound(rows))

    def page(self, cursor: Cursor | None = None) -> NotePage:
        """The records after a cursor, some at a time."""

        def behind(place: int) -> Rows:
            (rows,) = self._pool.exchange([(_BEHIND, (place, _PAGE))])
            return rows

        def last() -> int:
            ((found,),) = self._pool.exchange([(_LAST, ())])[0]
            return int(found)

        return page_of(cursor, behind, last)

    def torn(self) -> None:
        """Nothing: a transaction leaves no incomplete record."""

    def replied(self, reply: str) -> bytes | None:
        """The last record of a reply."""
        (rows,) = self._pool.exchange([(_REPLIED, (to_text(reply),))])
        return next(sound(rows), None)
