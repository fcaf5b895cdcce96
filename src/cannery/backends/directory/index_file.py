"""The file of a directory's catalogue: derived from the store and never trusted over it.

A file that is damaged or of another version is discarded and rebuilt. SQLite has no checksums for its pages, so two are
added: ``index_seal`` compares its pages with their checksums, some at a time, and each row has its own, which is
checked whenever the row is read.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from cannery.backends._catalogue.schema import make_tables
from cannery.backends.directory import references
from cannery.backends.directory.index_seal import Stay
from cannery.errors import InputError, StorageError, StoreUnavailableError

T = TypeVar("T")

_VERSION = 7
# From this version on SQLite can remove deleted words from its file at once.
_DELETES_WORDS = sqlite3.sqlite_version_info >= (3, 42)
_TRIES = 50
# A larger file is not rewritten by every gc.
_LARGEST = 16 << 20
_PAUSE = 0.01


class DiscardedError(StoreUnavailableError):
    """The tables were damaged and have been discarded: query again."""


class IndexFile:
    """The tables; ``catalogue`` decides their content."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._opening: _Opening | None = None
        self._is_closed = False
        self.rebuilds = 0
        # Whether words were removed that SQLite leaves in its file for now.
        self.has_forgotten = False

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read one state of the tables; DiscardedError if they were damaged and are empty now."""
        return self._use(work, "BEGIN")

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Change the tables in one transaction; DiscardedError if they were damaged and are empty now."""
        return self._use(work, "BEGIN IMMEDIATE")

    def _use(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        with self._lock:
            if self._is_closed:
                raise StorageError("the store is closed")
            try:
                return self._try(work, begin)
            except UnicodeEncodeError:
                raise InputError("not valid Unicode: a lone surrogate") from None
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError) and not _is_damage(error):
                    raise StoreUnavailableError(f"the index: {error}") from error
                self.discard()
                raise DiscardedError(f"the index: {error}") from error
            except FileNotFoundError as error:
                # Another process discarded the file while this one opened it.
                self._close()
                raise DiscardedError(f"the index: {error}") from error
            except OSError as error:
                raise StoreUnavailableError(f"the index: {error}") from error

    def _try(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        opening = self._open()
        opening.look()
        connection = opening.connection
        connection.execute(begin)
        try:
            value = work(connection)
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        opening.tidy()
        return value

    def _open(self) -> _Opening:
        if self._opening is not None and self._opening.is_current():
            return self._opening
        self._close()
        opening = _Opening(self._path)
        self.rebuilds += opening.is_rebuilt
        self._opening = opening
        # A program that exits without closing its store has not damaged its index.
        opening.finalizer = weakref.finalize(self, opening.close)
        return opening

    def purge(self, *, is_thorough: bool) -> bool:
        """Remove all traces of deleted rows from all files; whether that is certain.

        SQLite zeroes deleted rows, but not copies of rows that it moved from one page to another before. Only a
        rewritten file has none, which takes time proportional to its size: a large file is rewritten only if
        ``is_thorough``.
        """
        if self._path is None:
            return True
        if self.has_forgotten and not _DELETES_WORDS:
            self.write(lambda one: one.execute("INSERT INTO texts (texts) VALUES ('optimize')"))
        self.has_forgotten = False
        is_clean = self._write_anew(is_thorough=is_thorough)
        with self._lock:
            for _ in range(_TRIES):
                if self._opening is None or self._opening.shorten():
                    return is_clean
                time.sleep(_PAUSE)
            # Readers are continuously active: a discarded file keeps nothing.
            self.discard()
        return True

    def _write_anew(self, *, is_thorough: bool) -> bool:
        """Rewrite the file, unless nothing was removed since the last rewrite; whether it is clean now."""
        if self.read(_is_free_of_freed):
            return True
        if not is_thorough and Path(str(self._path)).stat().st_size > _LARGEST:
            return False
        with self._lock, contextlib.suppress(sqlite3.OperationalError):
            # Readers of other processes may prevent it.
            if self._opening is not None:
                self._opening.connection.execute("VACUUM")
                self.write(lambda one: one.execute("DELETE FROM progress WHERE name = 'freed'"))
                return True
        return False

    def discard(self) -> None:
        """Discard the tables."""
        with self._lock:
            self.rebuilds += 1
            self._close()
            if self._path is not None:
                remove_files(self._path)

    def close(self) -> None:
        """Close the file permanently."""
        with self._lock:
            self._is_closed = True
            self._close()

    def _close(self) -> None:
        if self._opening is not None:
            self._opening.close()
            self._opening = None


class _Opening:
    """One connection, and this process's presence in the file that it opened."""

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
                self._stay.renew()
        try:
            self.connection = sqlite3.connect(
                path or ":memory:", timeout=30, isolation_level=None, check_same_thread=False
            )
            if path is not None:
                Path(path).chmod(0o600)
                _use_log(self.connection)
                # The file itself changes only when it is sealed.
                self.connection.execute("PRAGMA wal_autocheckpoint=0")
            self.connection.execute("PRAGMA synchronous=NORMAL")
            self.connection.execute("PRAGMA secure_delete=ON")
            _make_tables(self.connection, self._stay)
            if self._stay is not None:
                self._stay.settle()
        except BaseException:
            if self._stay is not None:
                self._stay.leave()
            raise
        self._inode = None if path is None else Path(path).stat().st_ino

    def is_current(self) -> bool:
        """Whether the name still leads to this file, and this process is the one that opened it."""
        if os.getpid() != self._process:
            # A forked child must not close its parent's connection.
            _inherited.append(self)
            return False
        if self._path is None:
            return True
        try:
            return os.stat(self._path).st_ino == self._inode  # noqa: PTH116 - a hot path
        except FileNotFoundError:
            return False

    def shorten(self) -> bool:
        """Checkpoint the log into the file; False if readers prevent it."""
        return self._stay is None or self._stay.shorten(self.connection)

    def look(self) -> None:
        """Compare some pages of the file with their checksums, if due."""
        if self._stay is not None:
            self._stay.look()

    def tidy(self) -> None:
        """Checkpoint a long log into the file."""
        if self._stay is not None and self._stay.is_due():
            self._stay.tidy(self.connection)

    def close(self) -> None:
        """Close; a second call has no effect."""
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


def _use_log(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log; SQLite does not wait while another connection switches too (sqlite.org/wal.html)."""
    for left in reversed(range(_TRIES)):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if not left or error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _make_tables(connection: sqlite3.Connection, stay: Stay | None) -> None:
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        if stay is not None:
            stay.begin()
        make_tables(connection)
        references.make_tables(connection)
        if _DELETES_WORDS:
            connection.execute("INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1)")
        connection.execute("CREATE TABLE progress (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
        connection.execute(f"PRAGMA user_version={_VERSION}")
    connection.execute("COMMIT")
    if version not in {0, _VERSION}:
        connection.close()
        raise sqlite3.DatabaseError(f"index version {version}")


def note_freed(connection: sqlite3.Connection) -> None:
    """Record that rows were removed of which copies may be in the file."""
    connection.execute("INSERT OR REPLACE INTO progress VALUES ('freed', '')")


def _is_free_of_freed(connection: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM progress WHERE name = 'freed'"
    return connection.execute(query).fetchone() is None


def remove_files(path: str) -> None:
    """Remove an index, whatever its state."""
    for suffix in (".seal", "", "-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)


def _is_damage(error: sqlite3.OperationalError) -> bool:
    text = str(error)
    return not any(
        word in text for word in ("locked", "busy", "full", "fts5: syntax", "readonly", "unable to")
    )
