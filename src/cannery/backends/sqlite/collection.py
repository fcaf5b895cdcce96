"""gc in a file: deleted conversations are freed in short transactions, so that writers have their turn.

A fork has a higher number than its parent, so descending numbers free forks before the lines that they share. A long
conversation is shortened from its end, in batches. Content that loses its last user is hidden from writers first, and
then freed a few pieces at a time.
"""

from __future__ import annotations

import sqlite3
import time

from cannery.backends._catalogue import writing
from cannery.backends._catalogue.schema import Row, rows
from cannery.backends._contract import (
    Collection,
    Damage,
    Describe,
    Progress,
    referred,
)
from cannery.backends.sqlite.catalogue import PART, Lines
from cannery.backends.sqlite.contents import (
    SqliteContents,
    abandon_content,
    find_content,
    remove_pieces,
)
from cannery.backends.sqlite.tables import LINE, Database, note_freed
from cannery.errors import StoreUnavailableError


class Collector:
    """One run of gc."""

    def __init__(self, database: Database, describe: Describe, grace: float) -> None:
        self._database = database
        self._describe = describe
        self._grace = grace
        self._dead: list[str] = []
        self._contents = 0
        self._freed = 0

    def run(self, *, dry_run: bool, progress: Progress | None) -> Collection:
        """Free unreachable data, or list what would be freed."""
        damages: tuple[Damage, ...] = ()
        if dry_run:
            self._rehearse(progress)
        else:
            self._work(progress)
            problem = self._purge()
            if problem:
                damages = (Damage(self._database.path, problem, is_lost=False),)
        dead = tuple(sorted(self._dead))
        return Collection(dead, self._contents, self._freed, dry_run, damages)

    def _purge(self) -> str:
        """Remove all traces of freed data from the file; returns why something may be left."""
        try:
            if not self._database.has_freed() or self._database.purge(is_thorough=False):
                return ""
        except StoreUnavailableError as error:
            return f"what was freed may be in it until the next gc: {error}"
        return (
            "too large to be written anew by gc: what was freed may be in it until `cannery erase`"
        )

    def _rehearse(self, progress: Progress | None) -> None:
        """Do everything in one transaction, and roll it back."""
        with self._database.rehearsing() as connection:
            for done, number in enumerate(numbers := _tombstones(connection), 1):
                while self._free_part(connection, number):
                    pass
                if progress is not None:
                    progress(done, len(numbers))
            for content in self._stale(connection):
                while self._free_pieces(connection, content):
                    pass

    def _work(self, progress: Progress | None) -> None:
        with self._database.reading() as connection:
            numbers = _tombstones(connection)
        for done in self._database.in_turns(numbers, self._free_part, is_lazy=False):
            if progress is not None:
                progress(done, len(numbers))
        with self._database.reading() as connection:
            stale = self._stale(connection)
        for _ in self._database.in_turns(stale, self._free_pieces, is_lazy=False):
            pass

    def _free_part(self, connection: sqlite3.Connection, number: int) -> bool:
        """Free a batch of a deleted conversation, or of the part that no fork shares; whether there is more."""
        row = next(rows(connection, "c.number = ? AND c.deleted", (number,)), None)
        if row is None:
            # Another run was faster.
            return False
        needed = [fork.position for fork in writing.forks_of(connection, row)]
        end = max([row.position, *needed])
        if needed and end >= row.length:
            return False
        length = max(end, row.length - PART)
        self._cut(connection, row, length)
        if length > end:
            return True
        self._release_unused(connection, row)
        if not needed:
            writing.remove(connection, row.number)
            connection.execute("DELETE FROM stored WHERE number = ?", (number,))
            self._dead.append(row.id)
        return False

    def _cut(self, connection: sqlite3.Connection, row: Row, length: int) -> None:
        """Remove the lines after a position, and all data derived from them."""
        note_freed(connection)
        first, last = row.number * LINE + length, row.number * LINE + LINE
        (size,) = connection.execute(
            "SELECT coalesce(sum(length(line)), 0) FROM lines WHERE place >= ? AND place < ?",
            (first, last),
        ).fetchone()
        self._freed += size
        contents = SqliteContents(self._database, row.scope)
        span = range(length, max(row.length, length))
        entries = Lines(connection, row.number, span).entries(contents, self._describe)
        writing.forget_words(connection, row, length, entries)
        connection.execute("DELETE FROM lines WHERE place >= ? AND place < ?", (first, last))
        connection.execute("UPDATE stored SET stop = ? WHERE number = ?", (length, row.number))
        writing.cut(connection, row, length)

    def _release_unused(self, connection: sqlite3.Connection, row: Row) -> None:
        """Drop references to content that no line has any more; content without references is then hidden."""
        kept = connection.execute(
            "SELECT line FROM lines WHERE place >= ? AND place < ?",
            (row.number * LINE, row.number * LINE + LINE),
        )
        digests = referred(b"\n".join(line for (line,) in kept))
        still = {find_content(connection, row.scope, digest) for digest in digests}
        query = "SELECT content FROM uses WHERE number = ?"
        for (content,) in connection.execute(query, (row.number,)).fetchall():
            if content in still:
                continue
            query = "DELETE FROM uses WHERE number = ? AND content = ?"
            connection.execute(query, (row.number, content))
            query = "SELECT 1 FROM uses WHERE content = ?"
            if connection.execute(query, (content,)).fetchone() is None:
                abandon_content(connection, content)

    def _stale(self, connection: sqlite3.Connection) -> list[int]:
        """Content that was staged long ago and never used, and hidden content."""
        query = "SELECT content FROM contents WHERE staged IS NOT NULL AND staged <= ?"
        until = time.time() - self._grace
        return [content for (content,) in connection.execute(query, (until,))]

    def _free_pieces(self, connection: sqlite3.Connection, content: int) -> bool:
        """Free some pieces of unreferenced content; whether there are more."""
        query = "SELECT 1 FROM contents WHERE content = ? AND staged <= ?"
        until = time.time() - self._grace
        if connection.execute(query, (content, until)).fetchone() is None:
            # A writer has requested it meanwhile.
            return False
        note_freed(connection)
        abandon_content(connection, content)
        size, has_more = remove_pieces(connection, content)
        self._freed += size
        self._contents += not has_more
        return has_more


def _tombstones(connection: sqlite3.Connection) -> list[int]:
    """The deleted conversations, forks before the lines that they share."""
    query = "SELECT number FROM conversations WHERE deleted ORDER BY number DESC"
    return [number for (number,) in connection.execute(query)]
