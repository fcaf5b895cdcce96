"""Whether a SQLite file is what was written: a checksum of the whole, made whenever nobody is left in it.

SQLite checks the frames of its write-ahead log when it takes them up after a crash, and nothing in the file itself.
Here the file stays as it was sealed while it is used: automatic checkpoints are off, and one that cannot end in a
new seal takes the old one away. So whoever comes into a file that nobody is in can tell whether it is as it was left,
after ``kill -9`` too. Who is in it is said by a shared flock on a file beside it.

The file is read only when no connection of this process has it open: closing it would drop SQLite's locks
(https://www.sqlite.org/howtocorrupt.html, 2.2).
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import zlib
from pathlib import Path

_DUE = 4 << 20
_PIECE = 1 << 20


class Stay:
    """This process's stay in a file."""

    def __init__(self, path: str) -> None:
        self._file = Path(path)
        self._log = Path(f"{path}-wal")
        self._log_name = str(self._log)
        self._seal = Path(f"{path}.seal")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._lock = os.open(f"{path}.lock", flags, 0o600)
        self._is_over = False
        try:
            self.is_trusted = not self.is_alone() or self._is_sealed()
        except BaseException:
            os.close(self._lock)
            raise

    def is_alone(self) -> bool:
        """Whether nobody else is in the file, who then has to wait until we settle or leave."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Trying has cost us the lock that we had.
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            return False
        return True

    def _is_sealed(self) -> bool:
        try:
            return self._seal.read_bytes() == self._fingerprint()
        except FileNotFoundError:
            return False

    def settle(self) -> None:
        """Let others in."""
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def is_due(self) -> bool:
        """Whether the log has grown so far that moving it into the file is worth reading that."""
        try:
            # A hot path: no Path here.
            grown = os.stat(self._log_name).st_size  # noqa: PTH116
        except FileNotFoundError:
            return False
        return grown > _DUE and grown > self._file.stat().st_size // 4

    def shorten(self, connection: sqlite3.Connection) -> bool:
        """Move the log into the file, which has no seal from now on; whether all of it could be moved."""
        self._seal.unlink(missing_ok=True)
        is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not is_busy

    def leave(self, connection: sqlite3.Connection | None = None) -> None:
        """Close a connection and go; the last one leaves a sealed file."""
        if self._is_over:
            return
        self._is_over = True
        try:
            if connection is not None:
                is_whole = self.is_alone() and self.shorten(connection)
                connection.close()
                if is_whole and not self._log.exists():
                    self._write()
        finally:
            os.close(self._lock)

    def _write(self) -> None:
        beside = Path(f"{self._seal}.{os.getpid()}")
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, self._fingerprint())
        finally:
            os.close(fd)
        beside.rename(self._seal)

    def _fingerprint(self) -> bytes:
        check = size = 0
        with self._file.open("rb") as file:
            while data := file.read(_PIECE):
                check = zlib.crc32(data, check)
                size += len(data)
        return b"%d %08x\n" % (size, check)
