"""The catalogue of a store in one file: it lies beside the truth, and is written in the same transactions."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from cannery.backends._catalogue import writing
from cannery.backends._catalogue.queries import Queries
from cannery.backends._catalogue.schema import make_tables, row_of
from cannery.backends._contract import ContentTable, Describe, Entry, Metadata, Progress
from cannery.backends._seals import ordinal_of, unseal
from cannery.backends.sqlite.tables import LINE, VERSION, Database
from cannery.errors import CanneryError

T = TypeVar("T")


class HasContents(Protocol):
    """Gives the content of a scope."""

    def contents(self, scope: str) -> ContentTable:
        """The content of a scope."""


class SqliteCatalogue(Queries):
    """Tables beside the truth."""

    def __init__(self, database: Database, backend: HasContents, describe: Describe) -> None:
        self._database = database
        self._backend = backend
        self._describe = describe

    def _ask(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        needs_words: bool = False,  # noqa: ARG002 - words are written with the lines
    ) -> T:
        with self._database.reading() as connection:
            return work(connection)

    def rebuild(self, progress: Progress | None = None) -> None:
        """Derive the rows of each conversation again, in short transactions."""
        with self._database.reading() as connection:
            numbers = [found for (found,) in connection.execute("SELECT number FROM stored")]
        for done in self._database.in_turns(numbers, self._derive, is_lazy=True):
            if progress is not None:
                progress(done, len(numbers))

    def upgrade(self) -> None:
        """Bring the tables of an older version to this one, all at once: they are derived from what is stored."""
        with self._database.writing() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == VERSION:
                return
            make_tables(connection)
            for (number,) in connection.execute(
                "SELECT number FROM stored ORDER BY number"
            ).fetchall():
                self._derive(connection, number)
            connection.execute(f"PRAGMA user_version={VERSION}")

    def _derive(self, connection: sqlite3.Connection, number: int) -> None:
        found = connection.execute(
            "SELECT id, metadata FROM stored WHERE number = ?", (number,)
        ).fetchone()
        raw = None if found is None else unseal(found[1])
        if raw is None:
            return
        metadata = msgspec.json.decode(raw, type=Metadata)
        entries = read_entries(
            connection, number, metadata, self._backend.contents(metadata.scope), self._describe
        )
        row = row_of(connection, metadata.id)
        if row is not None:
            writing.forget_words(connection, row, row.position, entries)
            writing.remove(connection, row)
        row = writing.begin(
            connection, metadata, zlib.crc32(raw), writing.base_of(connection, metadata)
        )
        root = number if row.root == row.number else row.root
        row = row._replace(number=number, root=root)
        writing.put(connection, writing.grown(connection, row, entries, with_words=True))


def read_entries(
    connection: sqlite3.Connection,
    number: int,
    metadata: Metadata,
    contents: ContentTable,
    describe: Describe,
    start: int | None = None,
) -> Sequence[Entry | None]:
    """What the stored lines of a conversation mean, from its first own position or a later one on."""
    first = metadata.position if start is None else start
    query = "SELECT place - ?, line FROM lines WHERE place >= ? AND place < ? ORDER BY place"
    begin = number * LINE
    lines = dict(connection.execute(query, (begin, begin + first, begin + LINE)))
    end = max(lines, default=first - 1) + 1
    entries: list[Entry | None] = []
    for position in range(first, end):
        line = lines.get(position)
        if line is None or ordinal_of(line) != position:
            entries.append(None)
            continue
        try:
            entries += describe(contents, [line])
        except CanneryError:
            entries.append(None)
    return entries
