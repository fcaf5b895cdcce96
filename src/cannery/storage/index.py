"""The index: listing, recognition and search in one SQLite file, derived from the truth and never trusted over it.

It follows the backend's change log; what it missed, it compares. A file that is damaged, of another version, or
not as the last user left it, is thrown away and built again. Texts are read only when somebody searches.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from cannery.backends import Cursor

T = TypeVar("T")

_VERSION = 1
_SCHEMA = """
CREATE TABLE conversations (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, seen INTEGER NOT NULL,
    title TEXT NOT NULL, tags TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL,
    profile TEXT NOT NULL, model TEXT, parent TEXT, position INTEGER NOT NULL, deleted INTEGER NOT NULL,
    length INTEGER NOT NULL, chain BLOB, chained INTEGER NOT NULL, spoken INTEGER NOT NULL,
    searched INTEGER NOT NULL
);
CREATE INDEX by_update ON conversations (updated);
CREATE TABLE prefixes (
    digest BLOB NOT NULL, number INTEGER NOT NULL, position INTEGER NOT NULL,
    PRIMARY KEY (digest, number)
) WITHOUT ROWID;
CREATE INDEX prefixes_of ON prefixes (number);
CREATE TABLE roles (number INTEGER NOT NULL, role TEXT NOT NULL, PRIMARY KEY (number, role)) WITHOUT ROWID;
CREATE TABLE places (place INTEGER PRIMARY KEY, number INTEGER NOT NULL, position INTEGER NOT NULL, role TEXT NOT NULL);
CREATE INDEX places_of ON places (number);
CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2');
CREATE TABLE progress (name TEXT PRIMARY KEY, generation INTEGER NOT NULL, offset INTEGER NOT NULL) WITHOUT ROWID;
"""


class Row(NamedTuple):
    """A conversation as the index knows it."""

    number: int
    id: str
    seen: int
    title: str
    tags: str
    created: str
    updated: str
    profile: str
    model: str | None
    parent: str | None
    position: int
    deleted: int
    length: int
    chain: bytes | None
    chained: int
    spoken: int
    searched: int


_COLUMNS = ", ".join(Row._fields)


class Index:
    """The tables; what goes into them is decided in ``indexing``."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._seal = None if path is None else _Seal(path)
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self.rebuilds = 0

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do something with the tables in one transaction; if they are damaged, once more with new ones."""
        with self._lock:
            try:
                return self._try(work)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError) and not _is_damage(error):
                    raise
                self.discard()
                return self._try(work)

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._connect()
        connection.execute("BEGIN IMMEDIATE")
        try:
            value = work(connection)
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        return value

    def _connect(self) -> sqlite3.Connection:
        if self._connection is not None and os.getpid() == self._process:
            return self._connection
        self._process = os.getpid()
        if self._seal is not None and self._seal.is_broken():
            self._remove_files()
            self.rebuilds += 1
        connection = sqlite3.connect(
            self._path or ":memory:", timeout=30, isolation_level=None, check_same_thread=False
        )
        self._connection = connection
        if self._path is not None:
            Path(self._path).chmod(0o600)
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        self._check_version(connection)
        if self._seal is not None:
            self._seal.remove()
        return connection

    def _check_version(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={_VERSION}")
        connection.execute("COMMIT")
        if version not in {0, _VERSION}:
            raise sqlite3.DatabaseError(f"index version {version}")

    def discard(self) -> None:
        """Throw the tables away."""
        with self._lock:
            self.rebuilds += 1
            self._disconnect()
            self._remove_files()

    def close(self) -> None:
        """Let go of the file, sealed so that any change to it will be seen."""
        with self._lock:
            if self._connection is None:
                return
            if self._seal is not None and os.getpid() == self._process:
                with contextlib.suppress(sqlite3.Error, OSError):
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                    self._disconnect()
                    self._seal.write()
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _remove_files(self) -> None:
        if self._path is not None:
            for suffix in ("", "-wal", "-shm", ".seal"):
                Path(self._path + suffix).unlink(missing_ok=True)


class _Seal:
    """A checksum of the whole file as of the last orderly close; SQLite itself keeps none."""

    def __init__(self, path: str) -> None:
        self._index = Path(path)
        self._path = Path(path + ".seal")

    def write(self) -> None:
        """Seal the file, unless somebody else still uses it."""
        if not Path(f"{self._index}-wal").exists():
            self._path.write_bytes(self._fingerprint())
            self._path.chmod(0o600)

    def is_broken(self) -> bool:
        """Whether the file is not as it was sealed."""
        if not self._path.exists() or not self._index.exists():
            return False
        return self._path.read_bytes() != self._fingerprint()

    def remove(self) -> None:
        """The file is about to change."""
        self._path.unlink(missing_ok=True)

    def _fingerprint(self) -> bytes:
        check = size = 0
        with self._index.open("rb") as file:
            while data := file.read(1 << 20):
                check = zlib.crc32(data, check)
                size += len(data)
        return b"%d %08x\n" % (size, check)


def _is_damage(error: sqlite3.OperationalError) -> bool:
    text = str(error)
    return not ("locked" in text or "busy" in text or "full" in text or "fts5: syntax" in text)


def cursor_of(connection: sqlite3.Connection) -> Cursor | None:
    """How far the change log has been followed."""
    row = connection.execute(
        "SELECT generation, offset FROM progress WHERE name = 'changes'"
    ).fetchone()
    return None if row is None else Cursor(*row)


def set_cursor(connection: sqlite3.Connection, cursor: Cursor) -> None:
    """Remember how far the change log has been followed."""
    connection.execute("INSERT OR REPLACE INTO progress VALUES ('changes', ?, ?)", cursor)


def rows(
    connection: sqlite3.Connection, where: str = "1", parameters: Sequence[Any] = ()
) -> Iterator[Row]:
    """The conversations that satisfy a condition."""
    query = f"SELECT {_COLUMNS} FROM conversations WHERE {where}"  # noqa: S608 - conditions are ours
    for found in connection.execute(query, parameters):
        yield Row(*found)


def row_of(connection: sqlite3.Connection, identifier: str) -> Row | None:
    """One conversation."""
    return next(rows(connection, "id = ?", (identifier,)), None)


def put_row(connection: sqlite3.Connection, row: Row) -> int:
    """Write a conversation; its number."""
    marks = ", ".join("?" * len(row))
    values = (row.number or None, *row[1:])
    query = f"INSERT OR REPLACE INTO conversations ({_COLUMNS}) VALUES ({marks})"  # noqa: S608 - names are ours
    return int(connection.execute(query, values).lastrowid or 0)


def remove(connection: sqlite3.Connection, row: Row) -> None:
    """Take a conversation out; its words stay behind without a place, and are never shown."""
    for table in ("conversations", "prefixes", "roles", "places"):
        connection.execute(f"DELETE FROM {table} WHERE number = ?", (row.number,))  # noqa: S608 - names are ours


def encode_tags(tags: Sequence[str]) -> str:
    """Tags as the index keeps them."""
    return msgspec.json.encode(tags).decode()
