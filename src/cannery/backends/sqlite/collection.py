"""gc in a file: deleted conversations are freed in short transactions, so that writers have their turn.

A fork has a higher number than its parent, so that going down the numbers frees forks before what they share. Content
goes with the last conversation that uses it; writers cannot use it again in between, because all of it happens under
the lock that they need.
"""

from __future__ import annotations

import sqlite3
import time

import msgspec

from cannery.backends._catalogue import writing
from cannery.backends._catalogue.schema import Row, rows
from cannery.backends._contract import (
    Collection,
    Damage,
    Describe,
    Metadata,
    Progress,
    referred,
)
from cannery.backends._seals import unseal
from cannery.backends.sqlite.catalogue import read_entries
from cannery.backends.sqlite.contents import SqliteContents, find_content, remove_content
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
        """Free what nothing reaches, or say what would be freed."""
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
        """Leave nothing of what was freed in the file; why something may be left."""
        try:
            if not self._database.has_freed() or self._database.purge(is_thorough=False):
                return ""
        except StoreUnavailableError as error:
            return f"what was freed may be in it until the next gc: {error}"
        return (
            "too large to be written anew by gc: what was freed may be in it until `cannery erase`"
        )

    def _rehearse(self, progress: Progress | None) -> None:
        """Do all of it in one transaction, and take it back."""
        with self._database.rehearsing() as connection:
            for done, number in enumerate(numbers := _tombstones(connection), 1):
                self._free(connection, number)
                if progress is not None:
                    progress(done, len(numbers))
            self._free_staged(connection)

    def _work(self, progress: Progress | None) -> None:
        with self._database.reading() as connection:
            numbers = _tombstones(connection)
        for done in self._database.in_turns(numbers, self._free, is_lazy=False):
            if progress is not None:
                progress(done, len(numbers))
        with self._database.writing() as connection:
            self._free_staged(connection)

    def _free(self, connection: sqlite3.Connection, number: int) -> None:
        """Free a deleted conversation, or what no fork shares of it."""
        row = next(rows(connection, "c.number = ? AND c.deleted", (number,)), None)
        if row is None:
            # Another run was faster.
            return
        needed = [fork.position for fork in writing.forks_of(connection, row)]
        if not needed:
            self._cut(connection, row, row.position)
            writing.remove(connection, row)
            connection.execute("DELETE FROM stored WHERE number = ?", (number,))
            self._dead.append(row.id)
        elif max(needed) < row.length:
            self._cut(connection, row, max(*needed, row.position))

    def _cut(self, connection: sqlite3.Connection, row: Row, length: int) -> None:
        first, last = row.number * LINE + length, row.number * LINE + LINE
        (size, count) = connection.execute(
            "SELECT coalesce(sum(length(line)), 0), count(*) FROM lines WHERE place >= ? AND place < ?",
            (first, last),
        ).fetchone()
        if not count and length != row.position:
            return
        self._freed += size
        note_freed(connection)
        self._forget(connection, row, length)
        connection.execute("DELETE FROM lines WHERE place >= ? AND place < ?", (first, last))
        connection.execute("UPDATE stored SET stop = ? WHERE number = ?", (length, row.number))
        writing.cut(connection, row, length)
        kept = connection.execute(
            "SELECT line FROM lines WHERE place >= ? AND place < ?",
            (row.number * LINE, row.number * LINE + LINE),
        )
        digests = referred(b"\n".join(line for (line,) in kept))
        still = {find_content(connection, row.scope, digest) for digest in digests}
        query = "SELECT content FROM uses WHERE number = ?"
        for (content,) in connection.execute(query, (row.number,)).fetchall():
            if content not in still:
                self._release(connection, row.number, content)

    def _forget(self, connection: sqlite3.Connection, row: Row, start: int) -> None:
        """Take the words out of what is searched."""
        (data,) = connection.execute(
            "SELECT metadata FROM stored WHERE number = ?", (row.number,)
        ).fetchone()
        raw = unseal(data)
        if raw is None:
            return
        metadata = msgspec.json.decode(raw, type=Metadata)
        contents = SqliteContents(self._database, row.scope)
        entries = read_entries(connection, row.number, metadata, contents, self._describe, start)
        writing.forget_words(connection, row, start, entries)

    def _release(self, connection: sqlite3.Connection, number: int, content: int) -> None:
        connection.execute("DELETE FROM uses WHERE number = ? AND content = ?", (number, content))
        used = connection.execute("SELECT 1 FROM uses WHERE content = ?", (content,)).fetchone()
        if used is None:
            self._freed += remove_content(connection, content)
            self._contents += 1

    def _free_staged(self, connection: sqlite3.Connection) -> None:
        """Free content that was staged long ago and never used."""
        query = "SELECT content FROM contents WHERE staged IS NOT NULL AND staged <= ?"
        for (content,) in connection.execute(query, (time.time() - self._grace,)).fetchall():
            note_freed(connection)
            self._freed += remove_content(connection, content)
            self._contents += 1


def _tombstones(connection: sqlite3.Connection) -> list[int]:
    """The deleted conversations, forks before what they share."""
    query = "SELECT number FROM conversations WHERE deleted ORDER BY number DESC"
    return [number for (number,) in connection.execute(query)]
