"""The catalogue of a store in one file: stored beside the data, and written in the same transactions."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from cannery.backends._catalogue import writing
from cannery.backends._catalogue.queries import Queries
from cannery.backends._catalogue.schema import Row, make_tables, rows
from cannery.backends._contract import (
    ContentTable,
    Describe,
    Entry,
    Metadata,
    Progress,
    referred,
)
from cannery.backends._seals import ordinal_of, unseal
from cannery.backends.sqlite.contents import find_content
from cannery.backends.sqlite.tables import (
    LINE,
    LINE_BYTES,
    METADATA_BYTES,
    MOST_MISSING,
    STOP,
    VERSION,
    Database,
    mend_indexes,
    problems,
)
from cannery.errors import CanneryError, DamageError

T = TypeVar("T")

PART = 50
"""How many lines are derived in one transaction."""


class HasContents(Protocol):
    """The source of a scope's content."""

    def contents(self, scope: str) -> ContentTable:
        """The content of a scope."""


class SqliteCatalogue(Queries):
    """Tables beside the data."""

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

    def catch_up(self) -> None:
        """Nothing: rows change with the lines they describe."""

    def rebuild(self, progress: Progress | None = None) -> None:
        """Derive the rows of each conversation again, in short transactions.

        If a table is damaged so that it cannot be written to, all are created anew in one transaction.
        """
        try:
            self._mend_indexes()
            self._derive_each(progress)
        except DamageError:
            with self._database.writing() as connection:
                self._derive_all(connection)

    def _mend_indexes(self) -> None:
        """Build indexes again if SQLite finds problems; DamageError if there are others."""
        with self._database.snapshot() as connection:
            if not problems(connection, 1):
                return
        with self._database.writing() as connection:
            mend_indexes(connection)
            left = problems(connection, 1)
            if left:
                raise DamageError(self._database.path, left[0])

    def _derive_each(self, progress: Progress | None) -> None:
        with self._database.reading() as connection:
            numbers = _numbers(connection)
        deriving = _Deriving(self._backend, self._describe)
        for done in self._database.in_turns(numbers, deriving.derive_part, is_lazy=True):
            if progress is not None:
                progress(done, len(numbers))

    def upgrade(self) -> None:
        """Migrate the tables of an older version, all at once: they are derived from stored data."""
        with self._database.writing() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == VERSION:
                return
            self._derive_all(connection)
            connection.execute(f"PRAGMA user_version={VERSION}")

    def _derive_all(self, connection: sqlite3.Connection) -> None:
        make_tables(connection)
        mend_indexes(connection)
        deriving = _Deriving(self._backend, self._describe)
        for number in _numbers(connection):
            while deriving.derive_part(connection, number):
                pass
        # A child that shares nothing may be older than its parent.
        strayed = "conversations p JOIN conversations c ON c.parent = p.id AND c.root <> p.root"
        for row in list(rows(connection, "1", (), strayed)):
            writing.put(connection, writing.moved(connection, row, row.parent))


def _numbers(connection: sqlite3.Connection) -> list[int]:
    """All conversations; a fork comes after its parent."""
    query = "SELECT number FROM stored ORDER BY number"
    return [number for (number,) in connection.execute(query)]


class _Deriving:
    """Derives the rows of conversations again, one after the other, each in short transactions.

    Others may write between the transactions. The rows of lines are replaced in batches, and that of the conversation
    with the last batch, when all lines that were appended meanwhile are derived as well. A conversation whose metadata
    has changed, or that gc has shortened, is started again.
    """

    def __init__(self, backend: HasContents, describe: Describe) -> None:
        self._backend = backend
        self._describe = describe
        self._row: Row | None = None
        self._uses: Uses

    def derive_part(self, connection: sqlite3.Connection, number: int) -> bool:
        """Derive the next lines of a conversation; whether there are more."""
        row, self._row = self._row, None
        query = f"SELECT {METADATA_BYTES}, {STOP} FROM stored WHERE number = ?"  # noqa: S608 - names are ours
        found, noted = connection.execute(query, (number,)).fetchone() or (b"", 0)
        raw = unseal(found)
        metadata = None if raw is None else decoded(raw)
        if raw is None or metadata is None:
            return False
        end = end_of_lines(connection, number, metadata.position, noted)
        seen = zlib.crc32(raw)
        if row is None or (row.number, row.seen) != (number, seen) or row.length > end:
            row = _begun(connection, metadata, seen, number)
            self._uses = Uses(connection, number, metadata.scope)
        stop = min(row.length + PART, end)
        lines = Lines(connection, number, range(row.length, stop))
        self._uses.add(lines)
        entries = lines.entries(self._backend.contents(metadata.scope), self._describe)
        writing.forget_words(connection, row, row.length, entries)
        writing.clear(connection, number, row.length, stop)
        row = writing.grown(connection, row, entries, with_words=True)
        if stop < end:
            self._row = row
            return True
        writing.clear(connection, number, stop)
        writing.put(connection, row)
        if noted < end:
            # A higher number stays: it is all that shows that lines are missing.
            connection.execute("UPDATE stored SET stop = ? WHERE number = ?", (end, number))
        self._uses.put()
        return False


def _begun(connection: sqlite3.Connection, metadata: Metadata, seen: int, number: int) -> Row:
    """The row of a conversation before any line is derived."""
    query = "SELECT number FROM conversations WHERE id = ? AND number <> ?"
    for (other,) in connection.execute(query, (metadata.id, number)).fetchall():
        writing.remove(connection, other)
    base = writing.base_of(connection, metadata)
    return writing.begin(connection, metadata, seen, base, number)


def decoded(raw: bytes) -> Metadata | None:
    """The metadata, if it is valid."""
    try:
        return msgspec.json.decode(raw, type=Metadata)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def end_of_lines(connection: sqlite3.Connection, number: int, first: int, noted: int) -> int:
    """The position after a conversation's last line, which may be missing; ``noted`` is the recorded end.

    Neither is trusted if too many lines would be missing.
    """
    query = "SELECT coalesce(max(place), ?) FROM lines WHERE place >= ? AND place < ?"
    begin = number * LINE + first
    nothing = begin - 1

    def last_before(place: int) -> int:
        (found,) = connection.execute(query, (nothing, begin, place)).fetchone()
        return int(found)

    last = last_before(number * LINE + LINE)
    while (before := last_before(last)) < last - 1 - MOST_MISSING:
        last = before
    end = last + 1 - number * LINE
    return noted if end < noted <= end + MOST_MISSING else end


class Lines:
    """Stored lines of a conversation: those of a span."""

    def __init__(self, connection: sqlite3.Connection, number: int, span: range) -> None:
        self.span = span
        query = f"SELECT place - ?, {LINE_BYTES} FROM lines WHERE place >= ? AND place < ? ORDER BY place"  # noqa: S608 - names are ours
        begin = number * LINE
        self._held: dict[int, bytes] = dict(
            connection.execute(query, (begin, begin + span.start, begin + span.stop))
        )
        self._sound = {at for at, line in self._held.items() if ordinal_of(line) == at}

    @property
    def are_sound(self) -> bool:
        """Whether all lines are there, as they were written."""
        return len(self._sound) == len(self.span)

    def digests(self) -> set[bytes]:
        """The content that the lines refer to, damaged ones too."""
        return referred(b"\n".join(self._held.values()))

    def entries(self, contents: ContentTable, describe: Describe) -> Sequence[Entry | None]:
        """The catalogue entries; None for a damaged line."""
        entries: list[Entry | None] = []
        for position in self.span:
            if position not in self._sound:
                entries.append(None)
                continue
            try:
                entries += describe(contents, [self._held[position]])
            except CanneryError:
                entries.append(None)
        return entries


class Uses:
    """The content that a conversation refers to: what its lines say, and what the table says."""

    def __init__(self, connection: sqlite3.Connection, number: int, scope: str) -> None:
        self._connection = connection
        self._number = number
        self._scope = scope
        self._found: set[int] = set()
        self._are_all = True

    def add(self, lines: Lines) -> None:
        """Add what more lines refer to."""
        self._are_all &= lines.are_sound
        known = (find_content(self._connection, self._scope, one) for one in lines.digests())
        self._found |= {content for content in known if content is not None}

    def _noted(self) -> set[int]:
        query = "SELECT content FROM uses WHERE number = ?"
        return {content for (content,) in self._connection.execute(query, (self._number,))}

    def are_noted(self) -> bool:
        """Whether the table has all of them, so that gc frees none."""
        return self._found <= self._noted()

    def put(self) -> None:
        """Write them to the table; a damaged line may refer to more."""
        noted = self._noted()
        query = "INSERT INTO uses VALUES (?, ?)"
        more = [(self._number, content) for content in self._found - noted]
        self._connection.executemany(query, more)
        if self._are_all:
            query = "DELETE FROM uses WHERE number = ? AND content = ?"
            others = [(self._number, content) for content in noted - self._found]
            self._connection.executemany(query, others)
