"""What exchanges took: a table beside the conversations, written by every gateway that shares the store.

Notes do not wait for the disk of the server; the next commit does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cannery.backends._contract import Note
from cannery.backends._seals import seal, unseal
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
_SINCE = Statement(
    "SELECT place, record FROM cannery.exchanges WHERE place > $1 AND time >= $2"
    " ORDER BY place LIMIT $3",
    "int8 text int8",
)
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
            exchange(connection, [(BEGIN, ()), (_LAZY, ()), (_APPEND, values), (COMMIT, ())])

    def of(self, conversations: Iterable[str]) -> list[bytes]:
        """The records of some conversations."""
        (rows,) = self._pool.exchange([(_OF, (list(dict.fromkeys(conversations)),))])
        return list(_sound(rows))

    def since(self, time: str = "") -> Iterator[bytes]:
        """The records from a time on, some at a time."""
        last = -1
        while True:
            (rows,) = self._pool.exchange([(_SINCE, (last, time, _PAGE))])
            if not rows:
                return
            yield from _sound(rows)
            last = rows[-1][0]

    def replied(self, reply: str) -> bytes | None:
        """The last record of a reply."""
        (rows,) = self._pool.exchange([(_REPLIED, (to_text(reply),))])
        return next(_sound(rows), None)


def _sound(rows: Rows) -> Iterator[bytes]:
    """The records that are as they were written."""
    for _, sealed in rows:
        record = unseal(sealed)
        if record is not None:
            yield record
