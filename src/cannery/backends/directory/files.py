"""Every file operation of the directory backend, behind one small interface.

Nothing else in the backend touches the operating system, so that tests can put a simulated disk here,
or one that fails or dies at a chosen operation. Paths are relative to the store; descriptors are ints.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
from typing import NamedTuple, Protocol

from cannery.errors import StoreUnavailableError

_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700


class Facts(NamedTuple):
    """What tells one state of a file from another."""

    size: int
    inode: int
    modified: int


class Files(Protocol):
    """The operations, each as atomic as POSIX makes it and no more."""

    root: str

    def make_root(self) -> None:
        """Make the store's own directory, durably."""

    def open(self, path: str, *, create: bool = False) -> int:
        """A descriptor for reading and writing; FileNotFoundError if it is not there."""

    def close(self, fd: int) -> None: ...

    def read(self, fd: int, length: int, offset: int) -> bytes:
        """Up to ``length`` bytes."""

    def write(self, fd: int, data: bytes, offset: int) -> None:
        """All of the bytes, or an OSError."""

    def size(self, fd: int) -> int: ...

    def truncate(self, fd: int, size: int) -> None: ...

    def sync(self, fd: int) -> None:
        """Make what was written durable."""

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""

    def sync_all(self) -> bool:
        """Make everything durable at once; False where the system has no such call."""

    def facts(self, path: str) -> Facts | None:
        """None if it is not there."""

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def make_directory(self, path: str) -> bool:
        """Whether it was made now."""

    def remove_directory(self, path: str) -> None: ...

    def names(self, path: str) -> list[str]:
        """What a directory holds; nothing if it is not there."""

    def lock(self, fd: int, *, shared: bool = False, wait: bool = True) -> bool:
        """Whether the lock was had; a process that dies lets go of it."""

    def unlock(self, fd: int) -> None: ...

    def share(self, fd: int, length: int) -> mmap.mmap | bytearray:
        """The start of a file as memory that every process which has it open shares."""


class OperatingSystem:
    """The real thing."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)  # noqa: PTH100 - this layer is about strings and descriptors

    def make_root(self) -> None:
        """Make the store's own directory, durably."""
        missing = []
        path = self.root
        while not os.path.isdir(path):  # noqa: PTH112 - strings
            missing.append(path)
            path = os.path.dirname(path)  # noqa: PTH120 - strings
        for path in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, _DIRECTORY_MODE)  # noqa: PTH102 - strings
            fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)  # noqa: PTH120 - strings
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def open(self, path: str, *, create: bool = False) -> int:
        """A descriptor for reading and writing."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
        return os.open(self._at(path), flags, _FILE_MODE)

    def close(self, fd: int) -> None:
        """Let go of a descriptor."""
        os.close(fd)

    def read(self, fd: int, length: int, offset: int) -> bytes:
        """Up to ``length`` bytes."""
        data = os.pread(fd, length, offset)
        if len(data) == length or not data:
            return data
        pieces = [data]
        got = len(data)
        while got < length and (data := os.pread(fd, length - got, offset + got)):
            pieces.append(data)
            got += len(data)
        return b"".join(pieces)

    def write(self, fd: int, data: bytes, offset: int) -> None:
        """All of the bytes, or an OSError."""
        done = os.pwrite(fd, data, offset)
        while done < len(data):
            more = os.pwrite(fd, memoryview(data)[done:], offset + done)
            if more == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done += more

    def size(self, fd: int) -> int:
        """How long the file is."""
        return os.fstat(fd).st_size

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Make what was written durable."""
        os.fdatasync(fd)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        fd = os.open(self._at(path), os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self) -> bool:
        """Make the whole file system durable; syncfs(2) tells of errors as syncing each file does (Linux 5.8)."""
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(library, "syncfs"):
            return False
        fd = os.open(self.root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            if library.syncfs(fd):
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))
        finally:
            os.close(fd)
        return True

    def facts(self, path: str) -> Facts | None:
        """None if it is not there."""
        try:
            found = os.stat(self._at(path))  # noqa: PTH116 - a hot path
        except FileNotFoundError:
            return None
        return Facts(found.st_size, found.st_ino, found.st_mtime_ns)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, atomically."""
        os.rename(self._at(old), self._at(new))  # noqa: PTH104 - strings

    def remove(self, path: str) -> None:
        """Take a file away; fine if it is gone."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._at(path))  # noqa: PTH108 - strings

    def make_directory(self, path: str) -> bool:
        """Whether it was made now."""
        try:
            os.mkdir(self._at(path), _DIRECTORY_MODE)  # noqa: PTH102 - strings
        except FileExistsError:
            return False
        return True

    def remove_directory(self, path: str) -> None:
        """Take an empty directory away; fine if it is gone."""
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(self._at(path))  # noqa: PTH106 - strings

    def names(self, path: str) -> list[str]:
        """What a directory holds."""
        try:
            return os.listdir(self._at(path))  # noqa: PTH208 - strings
        except (FileNotFoundError, NotADirectoryError):
            return []

    def lock(self, fd: int, *, shared: bool = False, wait: bool = True) -> bool:
        """Whether the lock was had."""
        how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        try:
            fcntl.flock(fd, how)
        except BlockingIOError:
            return False
        return True

    def unlock(self, fd: int) -> None:
        """Let others have the lock."""
        fcntl.flock(fd, fcntl.LOCK_UN)

    def share(self, fd: int, length: int) -> mmap.mmap | bytearray:
        """The start of a file as shared memory."""
        if os.fstat(fd).st_size < length:
            os.ftruncate(fd, length)
        return mmap.mmap(fd, length)


class medium:  # noqa: N801 - used as a statement: with medium("content")
    """Turn what the operating system refuses into StoreUnavailableError."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise StoreUnavailableError(f"{self._what}: {error}") from error


def write_whole(files: Files, path: str, data: bytes, *, durable: bool) -> None:
    """Put a file in place of another in one step."""
    beside = path + ".new"
    fd = files.open(beside, create=True)
    try:
        files.truncate(fd, 0)
        files.write(fd, data, 0)
        if durable:
            files.sync(fd)
    finally:
        files.close(fd)
    files.rename(beside, path)


def read_whole(files: Files, path: str) -> bytes | None:
    """All of a file, or None if it is not there."""
    try:
        fd = files.open(path)
    except FileNotFoundError:
        return None
    try:
        return files.read(fd, files.size(fd), 0)
    finally:
        files.close(fd)
