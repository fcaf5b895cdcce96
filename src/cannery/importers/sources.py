"""Sources: one file, or one member of an archive, read as records, as text, or as a database.

Reading never raises an error for the content of a file. Damage is added to ``problems``, with its place.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from cannery.errors import DialectError, InputError
from cannery.importers.archives import DAMAGE
from cannery.importers.contract import Sample
from cannery.importers.databases import SQLITE, opened_database, tables_of
from cannery.importers.values import Problems, Record, ValueReader, encoding_of

_SAMPLED = 200
_SAMPLED_BYTES = 4 << 20

Progress = Callable[[int, int], None]


class Source:
    """One file, or one member of an archive."""

    def __init__(
        self, name: str, opened: Callable[[], Any], size: int, path: Path | None = None
    ) -> None:
        self.name = name
        self.size = size
        self.path = path
        self.problems: Problems = Problems()
        # Messages about content that is not part of a conversation.
        self.notes: list[str] = []
        self.progress: Progress | None = None
        self._open = opened

    def head(self, count: int = 4096) -> bytes:
        """Read the first bytes."""
        return self._bytes(count, Problems())

    def _bytes(self, count: int, problems: list[str]) -> bytes:
        try:
            with self._open() as stream:
                return read_some(stream, count, problems)
        except DAMAGE as error:
            problems.append(f"cannot be opened: {error}")
            return b""

    def whole(self, most: int) -> bytes:
        """Read all bytes, up to ``most``; a longer file gives b"" and a problem."""
        data = self._bytes(most + 1, self.problems)
        if len(data) > most:
            self.problems.append(f"longer than {most:,} bytes")
            return b""
        return data

    @property
    def is_database(self) -> bool:
        """Whether it is an SQLite database."""
        return self.head(16) == SQLITE

    def sample(self) -> Sample:
        """Read the beginning for detection, without adding problems."""
        head = self.head()
        if head.startswith(SQLITE):
            with self.database() as connection:
                tables = {} if connection is None else tables_of(connection)
            return Sample(self.name, (), head, tables=tables)
        kept, self.problems = self.problems, Problems()
        told, self.progress = self.progress, None
        values, size = [], 0
        for record, value in self.values():
            values.append(value)
            size += len(record.raw)
            if len(values) == _SAMPLED or size > _SAMPLED_BYTES:
                break
        found = tuple(self.problems)
        self.problems, self.progress = kept, told
        return Sample(self.name, tuple(values), head, found)

    def records(self) -> Iterator[Record]:
        """The records: the items of arrays, and every other JSON value."""
        try:
            stream = self._open()
        except DAMAGE as error:
            self.problems.append(f"cannot be opened: {error}")
            return
        with closing(stream):
            reader = ValueReader(
                lambda size: read_some(stream, size, self.problems),
                self.problems,
                self._report_progress,
            )
            yield from reader.records()

    def _report_progress(self, done: int) -> None:
        if self.progress is not None:
            self.progress(min(done, self.size), self.size)

    def place_of(self, record: Record) -> str:
        """The place of a record, as text for the user."""
        if record.place == "$":
            return self.name
        apart = "" if record.place.startswith("[") else ", "
        return f"{self.name}{apart}{record.place}"

    def values(self) -> Iterator[tuple[Record, Any]]:
        """The records with their decoded values; invalid JSON is a problem."""
        for record in self.records():
            try:
                value = record.value
            except InputError as error:
                told = error.problem if isinstance(error, DialectError) else str(error)
                self.problems.append(f"{record.place}: {told}; the record is left out")
                continue
            yield record, value

    def text(self, most: int = 256 << 20) -> str:
        """Read the whole text; bytes that are invalid in its encoding are a problem."""
        data = self.whole(most)
        encoding = encoding_of(data[:4])
        self._report_progress(self.size)
        try:
            found = data.decode(encoding)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            told = f"bytes that are not {encoding.upper()}, read as U+FFFD"
            self.problems.append(f"line {line}, byte {error.start}: {told}")
            found = data.decode(encoding, "replace")
        return found.removeprefix("\ufeff")

    @contextmanager
    def database(self) -> Iterator[sqlite3.Connection | None]:
        """Open the database for reading; None, and a problem, if it cannot be opened."""
        with opened_database(self.path, self._open, self.problems) as connection:
            yield connection
        self._report_progress(self.size)

    def rows(self, query: str) -> Iterator[sqlite3.Row]:
        """The rows of a query; damage ends them and is a problem."""
        with self.database() as connection:
            if connection is None:
                return
            try:
                yield from connection.execute(query)
            except sqlite3.Error as error:
                self.problems.append(f"the database cannot be read: {error}")


def read_some(stream: Any, size: int, problems: list[str]) -> bytes:
    """Read up to ``size`` bytes; damage ends the stream and is added to ``problems``."""
    parts: list[bytes] = []
    while size > 0:
        try:
            data = stream.read(size)
        except DAMAGE as error:
            problems.append(f"the compressed data is damaged: {error}")
            break
        if not data:
            break
        parts.append(data)
        size -= len(data)
    return b"".join(parts)
