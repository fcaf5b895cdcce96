"""The file: its tables, and the two connections of a process to it.

SQLite has no checksums for its pages; so lines and metadata are sealed as in a directory, and pieces of content and
rows of the catalogue have checksums of their own.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from cannery.backends._catalogue.schema import make_tables
from cannery.backends._contract import Progress
from cannery.backends._hashing import Hashing
from cannery.errors import (
    CanneryError,
    ConfigurationError,
    DamageError,
    InputError,
    StorageError,
    StoreUnavailableError,
)

T = TypeVar("T")

LINE = 1 << 32
"""The place of a line is its conversation's number times this, plus its position."""

METADATA_BYTES = "ifnull(CAST(metadata AS BLOB), x'')"
LINE_BYTES = "ifnull(CAST(line AS BLOB), x'')"
STOP = "ifnull(CAST(stop AS INTEGER), 0)"
"""Columns as what they must be: in a damaged row they may have another type."""

MOST_MISSING = 1 << 20
"""At most this many lines of a conversation may be missing; a larger gap means that the recorded count is damaged."""

_APPLICATION = int.from_bytes(b"CNRY", "big")
VERSION = 2
_OLDEST = 1
_TIMEOUT = 60
_POLL = 0.001
_TURN = 0.02
_PAUSE = 0.003
_PAGES = 1000
_TRIES = 200
_MERGED = 64
_MERGES = 10_000
# A larger file is not rewritten by every gc.
_LARGEST = 16 << 20
_FREED = "freed"
_MEMORY = ":memory:"
_BESIDE = ("-wal", "-shm", "-journal")
_TABLES = """
CREATE TABLE stored (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, scope TEXT NOT NULL, metadata BLOB NOT NULL,
    stop INTEGER NOT NULL, changed INTEGER NOT NULL
);
CREATE UNIQUE INDEX by_change ON stored (changed);
CREATE TABLE lines (place INTEGER PRIMARY KEY, line BLOB NOT NULL);
CREATE TABLE contents (
    content INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, digest BLOB NOT NULL,
    size INTEGER NOT NULL, staged REAL, UNIQUE (scope, digest)
);
CREATE INDEX by_staging ON contents (staged) WHERE staged IS NOT NULL;
CREATE TABLE pieces (
    content INTEGER NOT NULL, piece INTEGER NOT NULL, size INTEGER NOT NULL, is_zstd INTEGER NOT NULL,
    seal INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (content, piece)
);
CREATE TABLE uses (
    number INTEGER NOT NULL, content INTEGER NOT NULL, PRIMARY KEY (number, content)
) WITHOUT ROWID;
CREATE INDEX users ON uses (content);
CREATE TABLE keys (
    made INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, key TEXT NOT NULL,
    start INTEGER NOT NULL, stop INTEGER NOT NULL, place TEXT NOT NULL, UNIQUE (scope, key)
);
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
# Older files lack this table: it is created when they are opened for writing.
_EXCHANGES = (
    """CREATE TABLE IF NOT EXISTS exchanges (
    place INTEGER PRIMARY KEY, conversation TEXT NOT NULL, time TEXT NOT NULL, reply TEXT NOT NULL,
    record BLOB NOT NULL
)""",
    "CREATE INDEX IF NOT EXISTS exchanges_of ON exchanges (conversation)",
    "CREATE INDEX IF NOT EXISTS replies ON exchanges (reply) WHERE reply <> ''",
)


def is_writable(path: str) -> bool:
    """Whether a store in a file can be written, or created there."""
    if path == _MEMORY:
        return True
    file = Path(path)
    is_there = os.access(file, os.F_OK)
    return os.access(file.parent, os.W_OK) and (not is_there or os.access(file, os.W_OK))


class Database:
    """The connections of this process: one that writes, and one that reads unless everything is in memory."""

    def __init__(self, path: str, hashing: Hashing, *, is_read_only: bool) -> None:
        self.path = path
        self.hashing = hashing
        self.is_in_memory = path == _MEMORY
        self._process = os.getpid()
        self._is_open = True
        self._is_read_only = is_read_only
        self._is_lazy: bool | None = None
        self.write_lock = threading.RLock()
        self._read_lock = self.write_lock if self.is_in_memory else threading.RLock()
        with translated(path):
            _check_file(path, may_make=not is_read_only)
            self._writer = _connect(path, is_read_only=is_read_only)
            self._reader = self._writer
            try:
                self.version = _prepare(self._writer, path, is_read_only=is_read_only)
                self.has_exchanges = _has(self._writer, "table", "exchanges")
                if not self.is_in_memory and not is_read_only:
                    self._reader = _connect(path, is_read_only=False)
            except BaseException:
                self._writer.close()
                raise

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise StorageError("the store was opened before a fork; open it again in this process")
        if not self._is_open:
            raise StorageError("the store is closed")

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One state of the file, for a reader."""
        self._check()
        with self._read_lock, translated(self.path):
            is_nested = self._reader.in_transaction
            if not is_nested:
                self._reader.execute("BEGIN")
            try:
                yield self._reader
            finally:
                if not is_nested:
                    self._reader.execute("COMMIT")

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """One state of the file, for a long reader: on a connection of its own, so that others read as well."""
        if self.is_in_memory:
            with self.reading() as connection:
                yield connection
            return
        self._check()
        with (
            translated(self.path),
            contextlib.closing(_connect(self.path, is_read_only=self._is_read_only)) as connection,
        ):
            connection.execute("BEGIN")
            yield connection

    def purge(self, *, is_thorough: bool) -> bool:
        """Rewrite the file without freed data, and truncate the log beside it; whether it did.

        Zeroing deleted rows is not enough. SQLite leaves copies of rows that it has moved from one page to another in
        the gaps of pages, and before version 3.42 words in the index of words until that is merged. This takes time
        proportional to the file: a large one is rewritten only if ``is_thorough``.
        """
        self._check()
        if not is_thorough and not self.is_in_memory and Path(self.path).stat().st_size > _LARGEST:
            self._shorten()
            return False
        self._merge_words()
        with self.write_lock, translated(self.path):
            # Its writes are synced with the next commit, or when the log is truncated.
            self._set_lazy(is_lazy=True)
            self._when_unlocked("VACUUM")
        if not self.is_in_memory and not self._shorten():
            raise StoreUnavailableError(f"{self.path}-wal: others read all the time")
        with self.writing() as connection:
            connection.execute("DELETE FROM facts WHERE name = ?", (_FREED,))
        return True

    def _merge_words(self) -> None:
        """Merge the whole index of words, which removes all traces of deleted words, a few pages at a time."""
        # A negative number begins a merge of everything.
        pages = -_MERGED
        for _ in range(_MERGES):
            with self.writing(is_lazy=True) as connection:
                before = connection.total_changes
                query = "INSERT INTO texts (texts, rank) VALUES ('merge', ?)"
                connection.execute(query, (pages,))
                if connection.total_changes < before + 2:
                    return
            pages = _MERGED
            time.sleep(_PAUSE)

    def has_freed(self) -> bool:
        """Whether something was freed since the file was rewritten."""
        with self.reading() as connection:
            query = "SELECT 1 FROM facts WHERE name = ?"
            return connection.execute(query, (_FREED,)).fetchone() is not None

    def copy_to(self, path: str, progress: Progress | None = None) -> int:
        """Copy a snapshot of the file to a new one, durably; returns the number of bytes."""
        if Path(path).exists():
            raise StorageError(f"{path} is there already; name a new file")
        beside = Path(f"{path}.new")
        beside.unlink(missing_ok=True)

        def tell(_: int, left: int, total: int) -> None:
            if progress is not None:
                progress(total - left, total)

        with self.reading() as connection, translated(path):
            descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with contextlib.closing(sqlite3.connect(beside)) as target:
                    # It is not a store before it has its name, so a rollback is not needed.
                    target.execute("PRAGMA journal_mode=OFF")
                    connection.backup(target, pages=_PAGES, progress=tell)
                os.fsync(descriptor)
            except BaseException:
                beside.unlink(missing_ok=True)
                raise
            finally:
                os.close(descriptor)
            beside.rename(path)
        return Path(path).stat().st_size

    @contextlib.contextmanager
    def writing(self, *, is_lazy: bool = False) -> Iterator[sqlite3.Connection]:
        """A transaction, durable when it ends, unless it is lazy: then with the next one that is not."""
        self._check()
        with self.write_lock, translated(self.path):
            self._set_lazy(is_lazy=is_lazy)
            self._when_unlocked("BEGIN IMMEDIATE")
            try:
                yield self._writer
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._writer.execute("ROLLBACK")
                raise
            try:
                self._writer.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._writer.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def rehearsing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is rolled back."""
        self._check()
        with self.write_lock, translated(self.path):
            self._when_unlocked("BEGIN IMMEDIATE")
            try:
                yield self._writer
            finally:
                self._writer.execute("ROLLBACK")

    def _set_lazy(self, *, is_lazy: bool) -> None:
        if is_lazy != self._is_lazy:
            self._writer.execute(f"PRAGMA synchronous={'NORMAL' if is_lazy else 'FULL'}")
            self._is_lazy = is_lazy

    def _when_unlocked(self, statement: str) -> None:
        """Execute a statement that takes the writer lock, as soon as no other process has it.

        SQLite itself retries after up to 100 ms, and would miss most of the moments without a writer.
        """
        until = time.monotonic() + _TIMEOUT
        while True:
            try:
                self._writer.execute(statement)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(_POLL)
            else:
                return

    def in_turns(
        self, items: Sequence[T], work: Callable[[sqlite3.Connection, T], bool], *, is_lazy: bool
    ) -> Iterator[int]:
        """Process many items in short transactions with pauses for others; returns how many are done.

        ``work`` does a short part of an item's work, and returns whether there is more. Others try to get the lock now
        and then (``_when_unlocked``), so a pause is as long as the work before it: on a busy processor a short one
        would be over before they try, and they would wait for all of the work.
        """
        done = 0
        while done < len(items):
            with self.writing(is_lazy=is_lazy) as connection:
                start = time.monotonic()
                begun = done
                while done < len(items) and time.monotonic() < start + _TURN:
                    done += not work(connection, items[done])
            yield from range(begun + 1, done + 1)
            time.sleep(max(_PAUSE, time.monotonic() - start))

    def _shorten(self) -> bool:
        """Checkpoint the write-ahead log into the file and truncate it; whether readers allowed it within a while."""
        for _ in range(_TRIES):
            with (
                self.write_lock,
                self._read_lock,
                contextlib.suppress(sqlite3.OperationalError),
            ):
                # Most of it is checkpointed while others write.
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                is_busy, _, _ = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if not is_busy:
                    return True
            time.sleep(_PAUSE)
        return False

    def close(self) -> None:
        """Close; a second call has no effect."""
        with self.write_lock, self._read_lock:
            if not self._is_open or os.getpid() != self._process:
                return
            self._is_open = False
            with contextlib.suppress(sqlite3.Error):
                self._reader.close()
            with contextlib.suppress(sqlite3.Error):
                self._writer.close()


def note_freed(connection: sqlite3.Connection) -> None:
    """Record that something was freed of which copies may be in the file."""
    connection.execute("INSERT OR REPLACE INTO facts VALUES (?, '')", (_FREED,))


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Errors of SQLite and of the operating system as ours."""
    try:
        yield
    except CanneryError:
        raise
    except UnicodeEncodeError:
        raise InputError("not valid Unicode: a lone surrogate") from None
    except UnicodeDecodeError as error:
        raise DamageError(path, f"text that is not UTF-8: {error.reason}") from None
    except sqlite3.OperationalError as error:
        if str(error).startswith(("no such", "malformed")):
            raise DamageError(path, str(error)) from error
        raise StoreUnavailableError(f"{path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise DamageError(path, str(error)) from error
    except OSError as error:
        raise StoreUnavailableError(f"{path}: {error.strerror}") from error


def _check_file(path: str, *, may_make: bool) -> None:
    """Refuse a file that is not a store, before anything is written to it."""
    if path == _MEMORY:
        return
    head = _head_of(Path(path), may_make=may_make)
    if head and not head.startswith(b"SQLite format 3\0"):
        raise StorageError(f"{path} is not a Cannery store. First bytes: {head!r}")


def _head_of(file: Path, *, may_make: bool) -> bytes:
    """The first bytes of a file, which is created if it does not exist."""
    if file.is_dir():
        raise ConfigurationError(str(file), "is a directory; a sqlite store is one file")
    # SQLite opens the files beside it by their names, and would wait for the other end of a pipe.
    for one in (file, *(Path(f"{file}{suffix}") for suffix in _BESIDE)):
        if one.exists() and not one.is_file():
            raise StorageError(f"{one} is not a file, which SQLite needs there")
    try:
        with file.open("rb") as opened:
            return opened.read(16)
    except FileNotFoundError:
        if not may_make:
            raise StorageError(f"{file} is not a Cannery store: it is missing") from None
        if not file.parent.is_dir():
            raise StoreUnavailableError(f"{file}: there is no directory {file.parent}") from None
        with contextlib.suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        return b""


def _connect(path: str, *, is_read_only: bool) -> sqlite3.Connection:
    name = path
    if is_read_only:
        # Without a log beside it other processes cannot write the file either.
        is_alone = not Path(f"{path}-wal").exists()
        name = f"{Path(path).absolute().as_uri()}?mode=ro" + ("&immutable=1" if is_alone else "")
    connection = sqlite3.connect(
        name, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False, uri=is_read_only
    )
    # Otherwise data for a rollback goes to a file in a system folder.
    connection.execute("PRAGMA temp_store=MEMORY")
    return connection


def _prepare(connection: sqlite3.Connection, path: str, *, is_read_only: bool) -> int:
    """Create the tables of a new store; returns the version of the store."""
    # In this order: another process may create the store meanwhile, and marks it in the transaction of its tables.
    (count,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION and count:
        raise StorageError(f"{path} is a SQLite file of something else, not a Cannery store")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if is_read_only:
        if not version:
            raise StorageError(f"{path} is not a Cannery store: it is empty")
        if version != VERSION:
            reason = (
                f"version {version}; opening it for writing once brings it to version {VERSION}"
            )
            raise StorageError(f"{path}: {reason}")
        return VERSION
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        _make_tables(connection)
        connection.execute("INSERT INTO facts VALUES ('identity', ?)", (os.urandom(8).hex(),))
        connection.execute(f"PRAGMA application_id={_APPLICATION}")
        connection.execute(f"PRAGMA user_version={VERSION}")
        version = VERSION
    if not _has(connection, "table", "exchanges"):
        for statement in _EXCHANGES:
            connection.execute(statement)
    if _has(connection, "index", "calls_of"):
        # Older files look up calls by their conversation only.
        connection.execute("CREATE INDEX calls_at ON calls (number, position)")
        connection.execute("DROP INDEX calls_of")
    connection.execute("COMMIT")
    # From here on this connection retries by itself.
    connection.execute("PRAGMA busy_timeout=0")
    if not _OLDEST <= version <= VERSION:
        known = f"versions {_OLDEST} to {VERSION}"
        raise StorageError(f"{path}: version {version}; this program reads {known}")
    return int(version)


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in _TABLES.strip().removesuffix(";").split(";\n"):
        connection.execute(statement)
    make_tables(connection)


def _changed(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """The tables and indexes that a file lacks, or has in another form: kind, name and statement."""
    with contextlib.closing(sqlite3.connect(_MEMORY)) as new:
        _make_tables(new)
        for statement in _EXCHANGES:
            new.execute(statement)
        query = "SELECT type, name, sql FROM sqlite_master"
        expected, there = (set(one.execute(query)) for one in (new, connection))
    return sorted(one for one in expected - there if one[2] is not None)


def problems(connection: sqlite3.Connection, most: int) -> list[str]:
    """What a file lacks, and what SQLite finds in its pages and indexes."""
    lacking = [
        f"the {kind} {name!r} is missing or changed" for kind, name, _ in _changed(connection)
    ]
    checked = connection.execute(f"PRAGMA integrity_check({most})").fetchall()
    return (lacking + [" ".join(text.split()) for (text,) in checked if text != "ok"])[:most]


def mend_indexes(connection: sqlite3.Connection) -> None:
    """Create all indexes again."""
    for kind, name, statement in _changed(connection):
        if kind == "index":
            connection.execute(f"DROP INDEX IF EXISTS {name}")
            connection.execute(statement)
    connection.execute("REINDEX")


def _has(connection: sqlite3.Connection, kind: str, name: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = ? AND name = ?"
    return connection.execute(query, (kind, name)).fetchone() is not None
