"""Detects damage to a SQLite file: a checksum of each page, kept in a file beside it.

SQLite verifies the frames of its write-ahead log when it recovers them after a crash, and nothing in the file itself.
Here the file changes only by our own checkpoints, and the pages that one moves are in the log before, so their
checksums need no read of the other pages. Pages are compared with them a few at a time: some when a process enters a
file that no other uses, more while it is used, in rotation. So neither opening nor closing takes time proportional to
the file, and a flipped bit is found. A shared flock on a file beside it shows which processes are in the file.

The seal is a header (``_Header``) and four bytes for each page. It is marked while pages are moved: if that is
interrupted, the pages in the log are not compared, because SQLite moves them again.

Closing a file drops SQLite's locks on it in the same process (https://www.sqlite.org/howtocorrupt.html, 2.2), so
descriptors that were opened to read pages are closed when no connection of this process to the file is left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import struct
import threading
import time
import zlib
from pathlib import Path
from typing import NamedTuple

_DUE = 4 << 20
_LARGEST = 64 << 20
_FIRST_LOOK = 256
_LOOK = 64
_EACH = 0.05
_TRIES = 5

_HEAD = struct.Struct("<8s5I")
_MAGIC = b"CNRYPGS1"
_SIZE = _HEAD.size + 4
_LOG_HEAD = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")


class _Header(NamedTuple):
    """The page size, the number of pages, the next page to compare, and whether pages are being moved."""

    page: int
    pages: int
    next: int
    is_moving: int

    def encode(self) -> bytes:
        body = _HEAD.pack(_MAGIC, *self, 0)
        return body + zlib.crc32(body).to_bytes(4, "little")


def _decode_header(data: bytes) -> _Header | None:
    if len(data) < _SIZE or data[:8] != _MAGIC:
        return None
    if zlib.crc32(data[: _HEAD.size]).to_bytes(4, "little") != data[_HEAD.size : _SIZE]:
        return None
    return _Header(*_HEAD.unpack(data[: _HEAD.size])[1:5])


class _Log(NamedTuple):
    """The committed content of a write-ahead log: the last state of each page, and the number of pages."""

    page: int
    pages: int
    frames: int
    places: dict[int, int]


def _read_log(path: Path) -> tuple[_Log, bytes]:
    """The committed frames of a log (https://www.sqlite.org/walformat.html), and its bytes."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    if len(data) < _LOG_HEAD.size:
        return _Log(0, 0, 0, {}), b""
    _, _, page, _, *salts, _, _ = _LOG_HEAD.unpack_from(data)
    step = _FRAME.size + page
    places: dict[int, int] = {}
    begun: dict[int, int] = {}
    count = frames = 0
    for number, at in enumerate(range(_LOG_HEAD.size, len(data) - step + 1, step), 1):
        which, size, *found, _, _ = _FRAME.unpack_from(data, at)
        if found != salts:
            break
        begun[which] = at + _FRAME.size
        if size:
            places.update(begun)
            begun.clear()
            count, frames = size, number
    return _Log(page, count, frames, places), data


class _Opened:
    """Descriptors that are closed when this process leaves the file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[int, list[int]]] = {}

    def enter(self, path: str) -> None:
        with self._lock:
            count, held = self._held.get(path, (0, []))
            self._held[path] = (count + 1, held)

    def keep(self, path: str, fd: int) -> None:
        with self._lock:
            self._held[path][1].append(fd)

    def leave(self, path: str) -> None:
        with self._lock:
            count, held = self._held.pop(path)
            if count > 1:
                self._held[path] = (count - 1, held)
                return
        for fd in held:
            os.close(fd)


_opened = _Opened()


class Stay:
    """This process's presence in a file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = Path(path)
        self._log = Path(f"{path}-wal")
        self._log_name = str(self._log)
        self._seal = Path(f"{path}.seal")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._lock = os.open(f"{path}.lock", flags, 0o600)
        self._is_over = False
        self._pages: int | None = None
        self._seals: int | None = None
        self._unseen = 0
        self._looked = self._tidied = time.monotonic()
        _opened.enter(path)
        try:
            self.is_trusted = not self.is_alone() or self._is_sealed()
        except BaseException:
            self._let_go()
            raise

    def is_alone(self) -> bool:
        """Whether no other process is in the file; others then wait until we settle or leave."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # The attempt has released the lock that we held.
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            return False
        return True

    def renew(self) -> None:
        """Forget the file, which was discarded."""
        self._pages = None
        self._unseen = 0
        if self._seals is not None:
            os.close(self._seals)
            self._seals = None

    def settle(self) -> None:
        """Let other processes in."""
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    # Comparing

    def _is_sealed(self) -> bool:
        """Whether there is a seal, and it matches the pages that are compared first."""
        header = self._header()
        if header is None or not self._file.exists():
            return False
        log, _ = _read_log(self._log)
        if not log.frames and os.fstat(self._fd()).st_size != header.page * header.pages:
            return False
        self._unseen = header.pages
        return self._compare(_FIRST_LOOK)

    def _header(self) -> _Header | None:
        """The header of the seal; None if there is none."""
        if self._seals is None:
            try:
                self._seals = os.open(self._seal, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                self._unseen = -1
            except FileNotFoundError:
                return None
        header = _decode_header(os.pread(self._seals, _SIZE, 0))
        if header is not None and self._unseen < 0:
            self._unseen = header.pages
        return header

    def _fd(self) -> int:
        if self._pages is None:
            self._pages = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            _opened.keep(self._path, self._pages)
        return self._pages

    def look(self) -> None:
        """Compare some more pages, if due; DatabaseError for a damaged one."""
        now = time.monotonic()
        if not self._unseen or now - self._looked < _EACH:
            return
        self._looked = now
        for attempt in range(_TRIES):
            if self._compare(_LOOK):
                return
            # Another process may be moving pages at this moment.
            time.sleep(0.01 * attempt)
        raise sqlite3.DatabaseError("a page of the index does not match its checksum")

    def _compare(self, most: int) -> bool:
        """Compare the next pages with their checksums."""
        header = self._header()
        if header is None or not header.pages:
            self._unseen = 0
            return header is not None
        most = min(most, header.pages)
        begin = header.next % header.pages
        skipped = _read_log(self._log)[0].places if header.is_moving else {}
        done = 0
        while done < most:
            length = min(most - done, header.pages - begin)
            if not self._compare_run(header, begin, length, skipped):
                return False
            done += length
            begin = (begin + length) % header.pages
        self._unseen = max(self._unseen - most, 0)
        if self._seals is not None:
            os.pwrite(self._seals, header._replace(next=begin).encode(), 0)
        return True

    def _compare_run(
        self, header: _Header, begin: int, length: int, skipped: dict[int, int]
    ) -> bool:
        seals = b"" if self._seals is None else os.pread(self._seals, 4 * length, _SIZE + 4 * begin)
        data = os.pread(self._fd(), header.page * length, header.page * begin)
        if len(seals) != 4 * length or len(data) != header.page * length:
            return bool(skipped)
        for index in range(length):
            page = data[header.page * index : header.page * (index + 1)]
            seal = int.from_bytes(seals[4 * index : 4 * index + 4], "little")
            if zlib.crc32(page) != seal and begin + index + 1 not in skipped:
                return False
        return True

    # Checkpoints

    def is_due(self) -> bool:
        """Whether the log is long enough for a checkpoint to be worth it."""
        try:
            # A hot path: no Path here.
            grown = os.stat(self._log_name).st_size  # noqa: PTH116
        except FileNotFoundError:
            return False
        if grown <= _DUE or grown <= min(self._file.stat().st_size // 4, _LARGEST):
            return False
        # A log keeps its length after a checkpoint until the next write to it.
        return time.monotonic() - self._tidied > _EACH or grown > 2 * _LARGEST

    def tidy(self, connection: sqlite3.Connection) -> None:
        """Checkpoint the log into the file."""
        if self.is_alone():
            self.shorten(connection)
            self.settle()
        else:
            self._move(connection, "PASSIVE")
        self._tidied = time.monotonic()

    def shorten(self, connection: sqlite3.Connection) -> bool:
        """Checkpoint the log into the file and truncate it; whether all of it could be moved."""
        return self._move(connection, "TRUNCATE")

    def _move(self, connection: sqlite3.Connection, how: str) -> bool:
        is_cut = how == "TRUNCATE"
        for _ in range(_TRIES):
            log = self._note_pages()
            is_busy, frames, moved = connection.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
            if is_busy:
                return False
            # Later frames of other processes are moved too, and must be recorded while they are in the log.
            if frames == moved and (is_cut or frames == log.frames):
                break
        header = self._header()
        if header is not None and self._seals is not None:
            os.pwrite(self._seals, header._replace(is_moving=0).encode(), 0)
        return True

    def _note_pages(self) -> _Log:
        """Write the checksums of the pages in the log."""
        log, data = _read_log(self._log)
        header = self._header()
        if not log.frames or header is None or self._seals is None:
            return log
        if header.page not in {0, log.page}:
            self._drop_seal()
            return log
        found = _Header(log.page, log.pages, header.next, 1)
        os.pwrite(self._seals, found.encode(), 0)
        for number, at in log.places.items():
            seal = zlib.crc32(data[at : at + log.page]).to_bytes(4, "little")
            os.pwrite(self._seals, seal, _SIZE + 4 * (number - 1))
        return log

    def begin(self) -> None:
        """Create a seal for a new file."""
        data = os.pread(self._fd(), os.fstat(self._fd()).st_size, 0)
        page = int.from_bytes(data[16:18], "big") if len(data) > 18 else 0
        page = 65536 if page == 1 else page
        count = len(data) // page if page else 0
        seals = b"".join(
            zlib.crc32(data[page * index : page * (index + 1)]).to_bytes(4, "little")
            for index in range(count)
        )
        self._drop_seal()
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self._seals = os.open(self._seal, flags, 0o600)
        os.pwrite(self._seals, _Header(page, count, 0, 0).encode() + seals, 0)
        self._unseen = 0

    def _drop_seal(self) -> None:
        if self._seals is not None:
            os.close(self._seals)
            self._seals = None
        self._seal.unlink(missing_ok=True)

    # Leaving

    def leave(self, connection: sqlite3.Connection | None = None) -> None:
        """Close a connection and leave; the last process leaves an empty log."""
        if self._is_over:
            return
        self._is_over = True
        try:
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    if self.is_alone():
                        self.shorten(connection)
                connection.close()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._is_over = True
        if self._seals is not None:
            os.close(self._seals)
            self._seals = None
        _opened.leave(self._path)
        os.close(self._lock)
