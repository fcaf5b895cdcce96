"""Every file operation of the directory backend, behind one small interface.

Nothing else in the backend calls the operating system, so that tests can substitute a simulated disk, or one that fails
or dies at a chosen operation. Paths are relative to the store; descriptors are ints. No link in a store is followed:
each folder of a path is opened relative to the one above it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from cannery.errors import StoreUnavailableError

_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700
_ROOT = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
_FOLDER = _ROOT | os.O_NOFOLLOW
# A pipe in place of a file must not block us until another process opens its other end.
_FILE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
# The most used directory stays open.
_KEPT = "conversations"


class Facts(NamedTuple):
    """Facts that distinguish states of a file."""

    size: int
    inode: int
    modified: int
    is_file: bool = True


class SharedBytes(Protocol):
    """Bytes that several processes share; fewer than requested at the end of the file."""

    def __getitem__(self, place: slice, /) -> bytes | bytearray: ...

    def __setitem__(self, place: slice, data: bytes, /) -> None: ...


class Files(Protocol):
    """The operations, each as atomic as POSIX makes it and no more."""

    root: str

    def make_root(self) -> None:
        """Create the store's own directory, durably."""

    def open(self, path: str, *, create: bool = False) -> int:
        """A descriptor for reading and writing; FileNotFoundError if the file does not exist."""

    def close(self, fd: int) -> None: ...

    def read(self, fd: int, length: int, offset: int) -> bytes:
        """Up to ``length`` bytes."""

    def write(self, fd: int, data: bytes, offset: int) -> None:
        """All of the bytes, or an OSError."""

    def size(self, fd: int) -> int: ...

    def is_named(self, fd: int) -> bool:
        """Whether the file still has a name."""

    def truncate(self, fd: int, size: int) -> None: ...

    def sync(self, fd: int) -> None:
        """Make written data durable."""

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""

    def sync_all(self) -> bool:
        """Make everything durable at once; False on a system without such a call."""

    def facts(self, path: str) -> Facts | None:
        """None if the file does not exist."""

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def make_directory(self, path: str) -> bool:
        """Whether it was created now."""

    def make_filled(self, path: str, contents: Mapping[str, bytes]) -> bool:
        """Create a directory with files in it, in order; whether it was created now, otherwise nothing is written."""

    def remove_directory(self, path: str) -> None: ...

    def names(self, path: str) -> list[str]:
        """The entries of a directory; empty if it does not exist."""

    def folders(self, path: str) -> list[str]:
        """The directories in a directory, links excluded; empty if it does not exist."""

    def lock(self, fd: int, *, shared: bool = False, wait: bool = True) -> bool:
        """Whether the lock was acquired; a process that dies releases it."""

    def unlock(self, fd: int) -> None: ...

    def share(self, fd: int, length: int) -> SharedBytes:
        """The start of a file, as bytes shared by every process that has it open."""


class OperatingSystem:
    """The real file system."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)  # noqa: PTH100 - this layer is about strings and descriptors
        # The last descriptor is in use; another thread may still use an earlier one.
        self._kept_open: list[int] = []
        self._kept_inode = 0

    def __del__(self) -> None:
        for fd in self._kept_open:
            os.close(fd)

    def make_root(self) -> None:
        """Create the store's own directory, durably."""
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

    def _enter(self, path: str) -> int:
        """A descriptor of a directory of the store, or of the store itself, which alone may be reached by a link."""
        if not path:
            return os.open(self.root, _ROOT)
        first, *rest = path.split("/")
        try:
            fd = self._keep() if first == _KEPT else os.open(f"{self.root}/{first}", _FOLDER)
            for name in rest:
                above, fd = fd, -1
                try:
                    fd = os.open(name, _FOLDER, dir_fd=above)
                finally:
                    self._leave(above)
        except NotADirectoryError:
            raise not_followed(path) from None
        return fd

    def _keep(self) -> int:
        """The descriptor that stays open, if its name still leads to the same directory."""
        path = f"{self.root}/{_KEPT}"
        if not self._kept_open or os.lstat(path).st_ino != self._kept_inode:
            fd = os.open(path, _FOLDER)
            self._kept_open.append(fd)
            self._kept_inode = os.fstat(fd).st_ino
        return self._kept_open[-1]

    def _leave(self, fd: int) -> None:
        if fd not in self._kept_open:
            os.close(fd)

    def _open(self, path: str, flags: int) -> int:
        folder, _, name = path.rpartition("/")
        above = self._enter(folder)
        try:
            return os.open(name, flags | _FILE, _FILE_MODE, dir_fd=above)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise not_followed(path) from None
            raise
        finally:
            self._leave(above)

    def open(self, path: str, *, create: bool = False) -> int:
        """A descriptor for reading and writing."""
        return self._open(path, os.O_RDWR | (os.O_CREAT if create else 0))

    def close(self, fd: int) -> None:
        """Close a descriptor."""
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
        """The length of the file."""
        return os.fstat(fd).st_size

    def is_named(self, fd: int) -> bool:
        """Whether the file still has a name."""
        return os.fstat(fd).st_nlink > 0

    def truncate(self, fd: int, size: int) -> None:
        """Truncate the file."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Make written data durable."""
        os.fdatasync(fd)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        with self._entered(path) as fd:
            os.fsync(fd)

    def sync_all(self) -> bool:
        """Make the whole file system durable; syncfs(2) reports errors as syncing each file does (Linux 5.8)."""
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(library, "syncfs"):
            return False
        fd = self._enter("")
        try:
            if library.syncfs(fd):
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))
        finally:
            os.close(fd)
        return True

    def facts(self, path: str) -> Facts | None:
        """None if the file does not exist."""
        folder, _, name = path.rpartition("/")
        try:
            above = self._enter(folder)
            try:
                found = os.stat(name, dir_fd=above, follow_symlinks=False)
            finally:
                self._leave(above)
        except FileNotFoundError:
            return None
        return Facts(found.st_size, found.st_ino, found.st_mtime_ns, stat.S_ISREG(found.st_mode))

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, atomically."""
        before, _, old_name = old.rpartition("/")
        after, _, new_name = new.rpartition("/")
        with self._entered(before) as source:
            if before == after:
                os.rename(old_name, new_name, src_dir_fd=source, dst_dir_fd=source)
                return
            with self._entered(after) as target:
                os.rename(old_name, new_name, src_dir_fd=source, dst_dir_fd=target)

    def remove(self, path: str) -> None:
        """Remove a file; one that does not exist is not an error."""
        folder, _, name = path.rpartition("/")
        with contextlib.suppress(FileNotFoundError), self._entered(folder) as above:
            os.unlink(name, dir_fd=above)

    def make_directory(self, path: str) -> bool:
        """Whether it was created now."""
        folder, _, name = path.rpartition("/")
        with self._entered(folder) as above:
            try:
                os.mkdir(name, _DIRECTORY_MODE, dir_fd=above)
            except FileExistsError:
                return False
        return True

    def make_filled(self, path: str, contents: Mapping[str, bytes]) -> bool:
        """Create a directory with files in it, in order; whether it was created now, otherwise nothing is written."""
        folder, _, own = path.rpartition("/")
        above = self._enter(folder)
        try:
            os.mkdir(own, _DIRECTORY_MODE, dir_fd=above)
            for name, data in contents.items():
                # A directory that was just created is not a link, so it need not be opened separately.
                fd = os.open(f"{own}/{name}", _NEW_FILE, _FILE_MODE, dir_fd=above)
                try:
                    self.write(fd, data, 0)
                finally:
                    os.close(fd)
        except FileExistsError:
            return False
        finally:
            self._leave(above)
        return True

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory; one that does not exist is not an error."""
        folder, _, name = path.rpartition("/")
        with contextlib.suppress(FileNotFoundError), self._entered(folder) as above:
            os.rmdir(name, dir_fd=above)

    def names(self, path: str) -> list[str]:
        """The entries of a directory."""
        with contextlib.suppress(FileNotFoundError), self._entered(path) as folder:
            return os.listdir(folder)  # noqa: PTH208 - descriptors
        return []

    def folders(self, path: str) -> list[str]:
        """The directories in a directory."""
        with (
            contextlib.suppress(FileNotFoundError),
            self._entered(path) as folder,
            os.scandir(folder) as found,
        ):
            return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
        return []

    @contextlib.contextmanager
    def _entered(self, path: str) -> Iterator[int]:
        fd = self._enter(path)
        try:
            yield fd
        finally:
            self._leave(fd)

    def lock(self, fd: int, *, shared: bool = False, wait: bool = True) -> bool:
        """Whether the lock was acquired."""
        how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        try:
            fcntl.flock(fd, how)
        except BlockingIOError:
            return False
        return True

    def unlock(self, fd: int) -> None:
        """Release the lock."""
        fcntl.flock(fd, fcntl.LOCK_UN)

    def share(self, fd: int, length: int) -> SharedBytes:
        """The start of a file as shared bytes."""
        size = os.fstat(fd).st_size
        if size < length:
            self.write(fd, bytes(length - size), size)
        return _Shared(self, fd)


class _Shared:
    """Bytes of a file, read and written in place.

    Not mapped into memory: a missing page (a full disk, a truncated file) would kill the process.
    """

    __slots__ = ("_fd", "_system")

    def __init__(self, system: OperatingSystem, fd: int) -> None:
        self._system = system
        self._fd = fd

    def __getitem__(self, place: slice) -> bytes:
        return os.pread(self._fd, place.stop - place.start, place.start)

    def __setitem__(self, place: slice, data: bytes) -> None:
        if os.pwrite(self._fd, data, place.start) != len(data):
            OperatingSystem.write(self._system, self._fd, data, place.start)


def not_followed(path: str) -> OSError:
    """The error for a name where something else than a file or folder of the store is."""
    return OSError(errno.ELOOP, "a link or another kind of file; a store follows no links", path)


class medium:  # noqa: N801 - used as a statement: with medium("content")
    """Turn errors of the operating system, and lack of memory, into StoreUnavailableError."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (OSError, MemoryError, OverflowError)):
            raise StoreUnavailableError(f"{self._what}: {self._reason(error)}") from error

    def _reason(self, error: BaseException) -> str:
        if not isinstance(error, OSError) or not error.strerror:
            return str(error) or "not enough memory"
        is_same = error.filename in (None, self._what)
        return error.strerror if is_same else f"{error.strerror}: {error.filename!r}"


def write_whole(files: Files, path: str, data: bytes, *, durable: bool) -> None:
    """Replace a file in one step."""
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
    """All of a file, or None if it does not exist."""
    try:
        fd = files.open(path)
    except FileNotFoundError:
        return None
    try:
        return files.read(fd, files.size(fd), 0)
    finally:
        files.close(fd)
