"""The index: listing, recognition and search in one SQLite file, derived from the truth and never trusted over it.

It follows the backend's change log; what it missed, it compares. A file that is damaged or of another version is
thrown away and built again. SQLite keeps no checksums of its pages, so two are added: ``sealing`` vouches for the
file as a whole whenever nobody was in it, and each row has its own, which is looked at whenever the row is.
Texts are read only when somebody searches.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from cannery.backends import Cursor
from cannery.errors import InputError, StorageError, StoreUnavailableError
from cannery.storage.sealing import Stay

T = TypeVar("T")

_VERSION = 3
_SCHEMA = """
CREATE TABLE conversations (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, seen INTEGER NOT NULL,
    title TEXT NOT NULL, tags TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL,
    profile TEXT NOT NULL, model TEXT, parent TEXT, position INTEGER NOT NULL, deleted INTEGER NOT NULL,
    length INTEGER NOT NULL, chained INTEGER NOT NULL, spoken INTEGER NOT NULL, unreadable INTEGER NOT NULL,
    searched INTEGER NOT NULL, searched_from INTEGER NOT NULL, seal INTEGER NOT NULL
);
CREATE INDEX by_update ON conversations (updated);
CREATE INDEX by_parent ON conversations (parent);
CREATE INDEX unchained ON conversations (number) WHERE chained < length AND NOT unreadable;
CREATE INDEX unsearched ON conversations (number) WHERE searched < length AND NOT deleted;
CREATE INDEX tombstones ON conversations (id) WHERE deleted;
CREATE TABLE prefixes (
    number INTEGER NOT NULL, position INTEGER NOT NULL, digest BLOB NOT NULL, calls INTEGER NOT NULL,
    seal INTEGER NOT NULL, PRIMARY KEY (number, position)
) WITHOUT ROWID;
CREATE INDEX by_digest ON prefixes (digest);
CREATE TABLE calls (
    number INTEGER NOT NULL, identifier TEXT NOT NULL, ordinal INTEGER NOT NULL, position INTEGER NOT NULL,
    PRIMARY KEY (number, identifier, ordinal)
) WITHOUT ROWID;
CREATE TABLE roles (
    number INTEGER NOT NULL, role TEXT NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (number, role)
) WITHOUT ROWID;
CREATE TABLE places (
    place INTEGER PRIMARY KEY, number INTEGER NOT NULL, position INTEGER NOT NULL, role TEXT NOT NULL,
    said TEXT NOT NULL
);
CREATE INDEX places_of ON places (number);
CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2');
CREATE TABLE progress (
    name TEXT PRIMARY KEY, generation INTEGER NOT NULL, offset INTEGER NOT NULL, seal INTEGER NOT NULL
) WITHOUT ROWID;
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
    chained: int
    spoken: int
    unreadable: int
    searched: int
    searched_from: int


_COLUMNS = ", ".join((*Row._fields, "seal"))
_MARKS = ", ".join("?" * (len(Row._fields) + 1))
_PUT_ROW = f"INSERT OR REPLACE INTO conversations ({_COLUMNS}) VALUES ({_MARKS})"  # noqa: S608 - names are ours


class Index:
    """The tables; what goes into them is decided in ``indexing``."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._opening: _Opening | None = None
        self._is_closed = False
        self.rebuilds = 0

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do something with the tables in one transaction; if they are damaged, once more with new ones."""
        with self._lock:
            if self._is_closed:
                raise StorageError("the store is closed")
            try:
                try:
                    return self._try(work)
                except sqlite3.DatabaseError as error:
                    if isinstance(error, sqlite3.OperationalError) and not _is_damage(error):
                        raise
                    self.discard()
                    return self._try(work)
            except UnicodeEncodeError:
                raise InputError("not valid Unicode: a lone surrogate") from None
            except (sqlite3.Error, OSError) as error:
                raise StoreUnavailableError(f"the index: {error}") from error

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T:
        opening = self._open()
        connection = opening.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            value = work(connection)
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        if opening.tidy():
            self._opening = None
        return value

    def _open(self) -> _Opening:
        if self._opening is not None and self._opening.is_current():
            return self._opening
        self._close()
        opening = _Opening(self._path)
        self.rebuilds += opening.is_rebuilt
        self._opening = opening
        # A program that ends without closing its store has not damaged its index.
        opening.finalizer = weakref.finalize(self, opening.close)
        return opening

    def discard(self) -> None:
        """Throw the tables away."""
        with self._lock:
            self.rebuilds += 1
            self._close()
            if self._path is not None:
                remove_files(self._path)

    def close(self) -> None:
        """Let go of the file for good."""
        with self._lock:
            self._is_closed = True
            self._close()

    def _close(self) -> None:
        if self._opening is not None:
            self._opening.close()
            self._opening = None


class _Opening:
    """One connection, and this process's stay in the file that it is to."""

    def __init__(self, path: str | None) -> None:
        self._process = os.getpid()
        self._path = path
        self._stay: Stay | None = None
        self.is_rebuilt = False
        self.finalizer: weakref.finalize[..., Any] | None = None
        if path is not None:
            self._stay = Stay(path)
            if not self._stay.is_trusted:
                self.is_rebuilt = Path(path).exists()
                remove_files(path)
            self._stay.settle()
        try:
            self.connection = sqlite3.connect(
                path or ":memory:", timeout=30, isolation_level=None, check_same_thread=False
            )
            if path is not None:
                Path(path).chmod(0o600)
                self.connection.execute("PRAGMA journal_mode=WAL")
                # The file itself changes only when it is sealed.
                self.connection.execute("PRAGMA wal_autocheckpoint=0")
            self.connection.execute("PRAGMA synchronous=NORMAL")
            _make_tables(self.connection)
        except BaseException:
            if self._stay is not None:
                self._stay.leave()
            raise
        self._inode = None if path is None else Path(path).stat().st_ino

    def is_current(self) -> bool:
        """Whether this is still the file that others find, and this process the one that opened it."""
        if os.getpid() != self._process:
            # A forked child must not close what its parent uses.
            _inherited.append(self)
            return False
        if self._path is None:
            return True
        try:
            return os.stat(self._path).st_ino == self._inode  # noqa: PTH116 - a hot path
        except FileNotFoundError:
            return False

    def tidy(self) -> bool:
        """Move a log that has grown long into the file; True if that meant closing it."""
        if self._stay is None or not self._stay.is_due():
            return False
        if self._stay.is_alone():
            self.close()
            return True
        self._stay.shorten(self.connection)
        return False

    def close(self) -> None:
        """Let go; closing twice is fine."""
        if os.getpid() != self._process:
            return
        if self.finalizer is not None:
            self.finalizer.detach()
        with contextlib.suppress(sqlite3.Error, OSError):
            if self._stay is not None:
                self._stay.leave(self.connection)
        with contextlib.suppress(sqlite3.Error):
            self.connection.close()


_inherited: list[_Opening] = []


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        for statement in _SCHEMA.split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={_VERSION}")
    connection.execute("COMMIT")
    if version not in {0, _VERSION}:
        connection.close()
        raise sqlite3.DatabaseError(f"index version {version}")


def remove_files(path: str) -> None:
    """Take an index away, whatever state it is in."""
    for suffix in (".seal", "", "-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)


def _is_damage(error: sqlite3.OperationalError) -> bool:
    text = str(error)
    return not any(
        word in text for word in ("locked", "busy", "full", "fts5: syntax", "readonly", "unable to")
    )


def _seal_of(values: Sequence[Any]) -> int:
    return zlib.crc32(repr(values).encode())


def _check(values: Sequence[Any], seal: int) -> None:
    """Refuse a row that is not what was written."""
    if _seal_of(values) != seal:
        raise sqlite3.DatabaseError("a row does not match its checksum")


def cursor_of(connection: sqlite3.Connection) -> Cursor | None:
    """How far the change log has been followed."""
    found = connection.execute(
        "SELECT generation, offset, seal FROM progress WHERE name = 'changes'"
    ).fetchone()
    if found is None:
        return None
    _check(found[:2], found[2])
    return Cursor(*found[:2])


def set_cursor(connection: sqlite3.Connection, cursor: Cursor) -> None:
    """Remember how far the change log has been followed."""
    values = (*cursor, _seal_of(tuple(cursor)))
    connection.execute("INSERT OR REPLACE INTO progress VALUES ('changes', ?, ?, ?)", values)


def rows(
    connection: sqlite3.Connection, where: str = "1", parameters: Sequence[Any] = ()
) -> Iterator[Row]:
    """The conversations that satisfy a condition."""
    query = f"SELECT {_COLUMNS} FROM conversations WHERE {where}"  # noqa: S608 - conditions are ours
    for found in connection.execute(query, parameters):
        _check(found[:-1], found[-1])
        yield Row(*found[:-1])


def row_of(connection: sqlite3.Connection, identifier: str) -> Row | None:
    """One conversation."""
    return next(rows(connection, "id = ?", (identifier,)), None)


class Pending:
    """Rows on their way into the tables, written many at once; in one transaction one gives out numbers."""

    __slots__ = ("_calls", "_connection", "_next", "_prefixes", "_roles", "_rows")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._next = 0
        self._rows: list[tuple[Any, ...]] = []
        self._prefixes: list[tuple[Any, ...]] = []
        self._calls: list[tuple[int, str, int, int]] = []
        self._roles: list[tuple[int, str, int]] = []

    def next_number(self) -> int:
        """A number for a conversation that is new."""
        if not self._next:
            (last,) = self._connection.execute("SELECT max(number) FROM conversations").fetchone()
            self._next = (last or 0) + 1
        number = self._next
        self._next += 1
        return number

    def put_row(self, row: Row) -> None:
        """Write a conversation."""
        self._rows.append((*row, _seal_of(tuple(row))))

    def put_prefix(self, prefix: Prefix) -> None:
        """Write what is known of a history."""
        self._prefixes.append((*prefix, _seal_of(tuple(prefix))))

    def put_call(self, prefix: Prefix, identifier: str) -> None:
        """Write which call had an id; its ordinal is the number of calls before it."""
        self._calls.append((prefix.number, identifier, prefix.calls - 1, prefix.position))

    def put_roles(self, number: int, roles: Mapping[str, int]) -> None:
        """Write where somebody first spoke in a role, unless that is known."""
        self._roles += [(number, role, first) for role, first in roles.items()]

    def write(self) -> None:
        """Write what is waiting."""
        for statement, waiting in (
            (_PUT_ROW, self._rows),
            ("INSERT OR REPLACE INTO prefixes VALUES (?, ?, ?, ?, ?)", self._prefixes),
            ("INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?)", self._calls),
            ("INSERT OR IGNORE INTO roles VALUES (?, ?, ?)", self._roles),
        ):
            if waiting:
                self._connection.executemany(statement, waiting)
                waiting.clear()


def put_row(connection: sqlite3.Connection, row: Row) -> Row:
    """Write a conversation."""
    connection.execute(_PUT_ROW, (*row, _seal_of(tuple(row))))
    return row


def remove(connection: sqlite3.Connection, row: Row) -> None:
    """Take a conversation out; its words stay behind without a place, and are never shown."""
    for table in ("conversations", "prefixes", "calls", "roles", "places"):
        connection.execute(f"DELETE FROM {table} WHERE number = ?", (row.number,))  # noqa: S608 - names are ours


class Prefix(NamedTuple):
    """The digest of a conversation's first ``position`` canisters, and how many calls are among them."""

    number: int
    position: int
    digest: bytes
    calls: int


def prefixes(
    connection: sqlite3.Connection, where: str, parameters: Sequence[Any]
) -> Iterator[Prefix]:
    """What is known of histories under a condition."""
    query = f"SELECT number, position, digest, calls, seal FROM prefixes WHERE {where}"  # noqa: S608 - conditions are ours
    for found in connection.execute(query, parameters):
        _check(found[:-1], found[-1])
        yield Prefix(*found[:-1])


def encode_tags(tags: Sequence[str]) -> str:
    """Tags as the index keeps them."""
    return msgspec.json.encode(tags).decode()
