"""Usage records: one JSON line each in ``gateway/exchanges.jsonl``, and an index of the lines.

The file is authoritative; its lines are sealed, except those of earlier versions. The index is a table beside the
catalogue's: it follows the file by its size, is updated when it is read, and is rebuilt if it is lost. Several
processes append under a lock on the file. A line torn by a crash is terminated by the next writer, and is not a note.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from cannery.backends._contract import Cursor
from cannery.backends._exchanges import Note, NotePage
from cannery.backends._seals import seal, unseal
from cannery.backends.directory.files import Files, medium
from cannery.backends.directory.index_file import DiscardedError, IndexFile
from cannery.backends.directory.layout import EXCHANGES, OLD_EXCHANGES, parent
from cannery.backends.directory.lines import is_plain
from cannery.errors import StoreUnavailableError

T = TypeVar("T")

_PIECE = 4 << 20
_PAGE = 1000
_TRIES = 3
_CURSOR = re.compile(r"([01]):([0-9]+):([0-9]+)")
_TABLES = (
    """CREATE TABLE IF NOT EXISTS exchanges (
    place INTEGER PRIMARY KEY, file INTEGER NOT NULL, start INTEGER NOT NULL, size INTEGER NOT NULL,
    conversation TEXT NOT NULL, time TEXT NOT NULL, reply TEXT NOT NULL
)""",
    "CREATE INDEX IF NOT EXISTS exchanges_of ON exchanges (conversation)",
    "CREATE INDEX IF NOT EXISTS replies ON exchanges (reply) WHERE reply <> ''",
)
# The older file first: an earlier version started a new one at some size.
_NAMES = (OLD_EXCHANGES, EXCHANGES)


class _Found(Struct):
    """The search keys of a line."""

    conversation: str
    time: str = ""
    reply: str | None = None


_decode = msgspec.json.Decoder(_Found).decode


class _File(NamedTuple):
    """One of the files: its identity, and how much of it is indexed."""

    inode: int = 0
    end: int = 0


class DirectoryExchanges:
    """The notes of one directory."""

    def __init__(self, files: Files, index: IndexFile, *, is_read_only: bool) -> None:
        self._files = files
        self._index = index
        self._is_read_only = is_read_only
        self._lock = threading.Lock()

    # Writing

    def append(self, notes: Sequence[Note]) -> None:
        """Add lines at the end of the file."""
        if self._is_read_only:
            raise StoreUnavailableError(f"{self._files.root} can only be read")
        data = b"".join(seal(note.record, 0) for note in notes)
        with self._lock, medium(EXCHANGES):
            fd = self._open()
            try:
                self._files.lock(fd)
                self._write(fd, data)
            finally:
                self._files.close(fd)

    def _open(self) -> int:
        try:
            return self._files.open(EXCHANGES)
        except FileNotFoundError:
            self._files.make_directory(parent(EXCHANGES))
            return self._files.open(EXCHANGES, create=True)

    def _write(self, fd: int, data: bytes) -> None:
        end = self._files.size(fd)
        is_torn = end > 0 and self._files.read(fd, 1, end - 1) != b"\n"
        try:
            self._files.write(fd, b"\n" + data if is_torn else data, end)
        except OSError:
            with contextlib.suppress(OSError):
                self._files.truncate(fd, end)
            raise

    # Reading

    def of(self, conversations: Iterable[str]) -> list[bytes]:
        """The records of some conversations."""
        query = "SELECT place, file, start, size FROM exchanges WHERE conversation = ?"
        names = list(dict.fromkeys(conversations))

        def look(connection: sqlite3.Connection) -> list[tuple[int, int, int, int]]:
            return [row for name in names for row in connection.execute(query, (name,))]

        return list(self._read(sorted(self._ask(look))))

    def replied(self, reply: str) -> bytes | None:
        """The last record of a reply."""
        query = (
            "SELECT place, file, start, size FROM exchanges WHERE reply = ? AND reply <> ''"
            " ORDER BY place DESC LIMIT 1"
        )
        found = self._ask(lambda connection: connection.execute(query, (reply,)).fetchall())
        return next(self._read(found), None)

    def page(self, cursor: Cursor | None = None) -> NotePage:
        """The records after a cursor, read directly from the files: a number, an inode and an offset."""
        with medium(EXCHANGES):
            place = self._place(cursor)
            is_first = place is None
            file, start = place or (0, 0)
            records, end = self._some(file, start)
            if not records and not file:
                file = 1
                records, end = self._some(file, 0)
            facts = self._files.facts(_NAMES[file])
        inode = 0 if facts is None else facts.inode
        return NotePage(f"{file}:{inode}:{end}", records, is_first)

    def _some(self, file: int, start: int) -> tuple[list[bytes | None], int]:
        """The next records of a file, and where they end."""
        records: list[bytes | None] = []
        for at, line in itertools.islice(self._lines(_NAMES[file], start), _PAGE):
            records.append(_record(line))
            start = at + len(line) + 1
        return records, start

    def _place(self, cursor: Cursor | None) -> tuple[int, int] | None:
        """The position of a cursor; None if the file is not the one that it was made for."""
        found = _CURSOR.fullmatch(cursor or "")
        if found is None:
            return None
        file, inode, start = map(int, found.groups())
        facts = self._files.facts(_NAMES[file])
        # The cursor of a file that did not exist has no inode.
        if inode and (facts is None or facts.inode != inode or facts.size < start):
            return None
        return file, start

    def torn(self) -> str | None:
        """The bytes after the last newline while no process writes."""
        torn = [name for name in _NAMES if not self._has_end(name)]
        return f"the last line of {torn[0]} has no end" if torn else None

    def _has_end(self, name: str) -> bool:
        with medium(name):
            try:
                fd = self._files.open(name)
            except FileNotFoundError:
                return True
            try:
                self._files.lock(fd)
                size = self._files.size(fd)
                return not size or self._files.read(fd, 1, size - 1) == b"\n"
            finally:
                self._files.close(fd)

    def _read(self, rows: Iterable[tuple[int, int, int, int]]) -> Iterator[bytes]:
        opened: dict[int, int] = {}
        with medium(EXCHANGES):
            try:
                for _, file, start, size in rows:
                    if file not in opened:
                        opened[file] = self._files.open(_NAMES[file])
                    line = self._files.read(opened[file], size, start)
                    record = _record(line)
                    if record is not None:
                        yield record
            except FileNotFoundError:
                return
            finally:
                for fd in opened.values():
                    self._files.close(fd)

    def _lines(self, name: str, start: int) -> Iterator[tuple[int, bytes]]:
        """The whole lines of a file from an offset on, each with its own offset."""
        with medium(name):
            try:
                fd = self._files.open(name)
            except FileNotFoundError:
                return
            try:
                at, wanted = start, _PIECE
                while data := self._files.read(fd, wanted, at):
                    end = data.rfind(b"\n") + 1
                    if not end and len(data) < wanted:
                        return
                    # A line that is longer than a piece.
                    wanted = _PIECE if end else wanted * 2
                    for line in data[:end].splitlines(keepends=True):
                        yield at, line.rstrip(b"\n")
                        at += len(line)
            finally:
                self._files.close(fd)

    # Following

    def _ask(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of a query on an index with every whole line of the files."""
        for _ in range(_TRIES - 1):
            with contextlib.suppress(DiscardedError):
                return self._try(work)
        return self._try(work)

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def look(connection: sqlite3.Connection) -> tuple[T] | None:
            return (work(connection),) if self._is_current(connection) else None

        def follow(connection: sqlite3.Connection) -> T:
            self._follow(connection)
            return work(connection)

        found = self._index.read(look)
        return self._index.write(follow) if found is None else found[0]

    def _is_current(self, connection: sqlite3.Connection) -> bool:
        known = _known(connection)
        return known is not None and all(
            self._rest(name, file) is None for name, file in zip(_NAMES, known, strict=True)
        )

    def _rest(self, name: str, known: _File) -> _File | None:
        """Where reading continues; None if the index has all of it."""
        facts = self._files.facts(name)
        if facts is None:
            return None if known == _File() else _File()
        if (facts.inode, facts.size) == known:
            return None
        is_same = facts.inode == known.inode and facts.size >= known.end
        return known if is_same else _File(facts.inode)

    def _follow(self, connection: sqlite3.Connection) -> None:
        """Index the additions; everything anew if a file is not the one that was indexed."""
        for statement in _TABLES:
            connection.execute(statement)
        known = list(_known(connection) or [_File()] * len(_NAMES))
        begun = [self._rest(name, file) for name, file in zip(_NAMES, known, strict=True)]
        if any(one is not None and one.end == 0 != known[at].end for at, one in enumerate(begun)):
            connection.execute("DELETE FROM exchanges")
            begun = [self._rest(name, _File()) for name in _NAMES]
            known = [_File()] * len(_NAMES)
        for at, one in enumerate(begun):
            if one is not None:
                known[at] = _File(one.inode, self._bring_in(connection, at, one.end))
        value = msgspec.json.encode(known).decode()
        connection.execute("INSERT OR REPLACE INTO progress VALUES ('exchanges', ?)", (value,))

    def _bring_in(self, connection: sqlite3.Connection, file: int, start: int) -> int:
        """Record the places of a file's lines; returns the end of the last whole one."""
        end = start
        query = (
            "INSERT INTO exchanges (file, start, size, conversation, time, reply)"
            " VALUES (?, ?, ?, ?, ?, ?)"
        )

        def rows() -> Iterator[tuple[object, ...]]:
            nonlocal end
            for at, line in self._lines(_NAMES[file], start):
                end = at + len(line) + 1
                found = _found(line)
                if found is not None:
                    yield file, at, len(line), found.conversation, found.time, found.reply or ""

        connection.executemany(query, rows())
        return end


def _known(connection: sqlite3.Connection) -> list[_File] | None:
    query = "SELECT value FROM progress WHERE name = 'exchanges'"
    row = connection.execute(query).fetchone()
    return None if row is None else msgspec.json.decode(row[0], type=list[_File])


def _record(line: bytes) -> bytes | None:
    """The record of a line, which earlier versions did not seal; None if its seal is wrong."""
    record = unseal(line + b"\n")
    if record is None and is_plain(line) and _found(line) is not None:
        return line
    return record


def _found(line: bytes) -> _Found | None:
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeError):
        return None
