"""gc as queries: each deleted conversation is freed in a short transaction, so that writers have their turn.

A fork has a higher number than its parent, so descending numbers free forks before the lines that they share. A
transaction that creates a fork locks its parent's row, and one that refers to content locks that row; gc waits for both
and checks again. Objects in S3 are deleted after the transaction that has removed their content.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

from cannery.backends._catalogue.schema import Row
from cannery.backends._contract import GRACE, Collection, Progress, referred
from cannery.backends.postgresql import rows
from cannery.backends.postgresql.connections import Pool, RacedError, execute, translated
from cannery.backends.postgresql.contents import empty_trash, remove_contents
from cannery.backends.postgresql.objects import Objects
from cannery.backends.postgresql.pipelines import Connection

_ATTEMPTS = 20
_AT_ONCE = 100


class Collector:
    """One run of gc."""

    def __init__(self, pool: Pool, objects: Objects | None, grace: float) -> None:
        self._pool = pool
        self._objects = objects
        self._grace = grace
        self._dead: list[str] = []
        self._contents = 0
        self._freed = 0

    def run(self, *, dry_run: bool, progress: Progress | None) -> Collection:
        """Free unreachable data, or list what would be freed."""
        connection = self._pool.connect()
        try:
            with translated(self._pool.name):
                if dry_run:
                    with connection.transaction(force_rollback=True):
                        self._rehearse(connection, progress)
                else:
                    self._work(connection, progress)
        finally:
            connection.close()
        if not dry_run:
            empty_trash(self._pool, self._objects)
        return Collection(tuple(sorted(self._dead)), self._contents, self._freed, dry_run)

    def _rehearse(self, connection: Connection, progress: Progress | None) -> None:
        """Do everything in one transaction, and roll it back."""
        numbers = _tombstones(connection)
        for done, number in enumerate(numbers, 1):
            self._free(connection, number)
            if progress is not None:
                progress(done, len(numbers))
        self._release(connection, self._stale(connection))

    def _work(self, connection: Connection, progress: Progress | None) -> None:
        numbers = _tombstones(connection)
        for done, number in enumerate(numbers, 1):
            self._in_turn(connection, number)
            if progress is not None:
                progress(done, len(numbers))
        while stale := self._stale(connection)[:_AT_ONCE]:
            with connection.transaction():
                if not self._release(connection, stale):
                    break

    def _in_turn(self, connection: Connection, number: int) -> None:
        for _ in range(_ATTEMPTS):
            before = (len(self._dead), self._contents, self._freed)
            with contextlib.suppress(RacedError), translated(self._pool.name):
                with connection.transaction():
                    self._free(connection, number)
                return
            del self._dead[before[0] :]
            self._contents, self._freed = before[1:]

    def _free(self, connection: Connection, number: int) -> None:
        """Free a deleted conversation, or the part of it that no fork shares."""
        condition = "c.number = %s AND c.deleted FOR UPDATE"
        row = next(rows.rows(connection, condition, (number,)), None)
        if row is None:
            # Another run was faster.
            return
        query = "SELECT max(position) FROM cannery.conversations WHERE parent = %s"
        (needed,) = execute(connection, query, (row.id,)).fetchone() or (None,)
        if needed is None:
            self._cut(connection, row, row.position)
            for table in ("conversations", "tags"):
                execute(connection, f"DELETE FROM cannery.{table} WHERE number = %s", (number,))  # noqa: S608 - names are ours
            self._dead.append(row.id)
        elif needed < row.length:
            self._cut(connection, row, max(needed, row.position))

    def _cut(self, connection: Connection, row: Row, length: int) -> None:
        """Remove the lines of a deleted conversation after a position; no fork shares them."""
        query = (
            "WITH gone AS (DELETE FROM cannery.lines WHERE number = %s AND position >= %s"
            " RETURNING length(line) AS size) SELECT coalesce(sum(size), 0)::bigint FROM gone"
        )
        (size,) = execute(connection, query, (row.number, length)).fetchone() or (0,)
        self._freed += size
        rows.clear(connection, row.number, length)
        query = "UPDATE cannery.conversations SET length = %s, searched = %s WHERE number = %s"
        execute(connection, query, (length, min(row.searched, length), row.number))
        self._release(connection, self._unused(connection, row))

    def _unused(self, connection: Connection, row: Row) -> list[int]:
        """The content that a conversation no longer refers to."""
        lines = execute(
            connection, "SELECT line FROM cannery.lines WHERE number = %s", (row.number,)
        )
        still = list(referred(b"\n".join(line for (line,) in lines)))
        query = (
            "DELETE FROM cannery.uses u USING cannery.contents c WHERE u.number = %s"
            " AND c.content = u.content AND NOT c.digest = ANY(%s) RETURNING u.content"
        )
        return [content for (content,) in execute(connection, query, (row.number, still))]

    def _stale(self, connection: Connection) -> list[int]:
        """Content that was staged long ago and never used; an upload in progress has at least an hour."""
        now = time.time()
        query = (
            "SELECT content FROM cannery.contents WHERE staged <= %s"
            " AND (length(digest) = 32 OR staged <= %s) ORDER BY content"
        )
        values = (now - self._grace, now - max(self._grace, GRACE))
        return [content for (content,) in execute(connection, query, values)]

    def _release(self, connection: Connection, contents: Sequence[int]) -> int:
        """Free content unless something refers to it; transactions about to do so are awaited."""
        if not contents:
            return 0
        query = "SELECT content FROM cannery.contents WHERE content = ANY(%s) ORDER BY content FOR UPDATE"
        held = [content for (content,) in execute(connection, query, (list(contents),))]
        query = (
            "SELECT c.content FROM cannery.contents c WHERE c.content = ANY(%s)"
            " AND NOT EXISTS (SELECT 1 FROM cannery.uses u WHERE u.content = c.content)"
        )
        free = [content for (content,) in execute(connection, query, (held,))]
        if free:
            self._freed += remove_contents(connection, free)
            self._contents += len(free)
        return len(free)


def _tombstones(connection: Connection) -> list[int]:
    """The deleted conversations, forks before the lines that they share."""
    query = "SELECT number FROM cannery.conversations WHERE deleted ORDER BY number DESC"
    return [number for (number,) in execute(connection, query)]


def purge(pool: Pool) -> None:
    """Remove freed data from tables and indexes; ``docs/scale-out.md`` says where the server still has it."""
    connection = pool.connect()
    try:
        with translated(pool.name):
            query = "SELECT tablename FROM pg_tables WHERE schemaname = 'cannery' ORDER BY 1"
            for (table,) in execute(connection, query).fetchall():
                statement = f"VACUUM (INDEX_CLEANUP ON) cannery.{table}"
                connection.execute(statement, prepare=False)
    finally:
        connection.close()
