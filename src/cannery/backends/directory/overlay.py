"""A read-only store: writes stay in memory.

Opening a store may have to write: a leftover journal is replayed. Here that happens on copies in memory, so that all
code above works as usual. Nothing is locked; the store is read as it was when it was opened, and later changes of
others may be seen or not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from cannery.backends.directory.files import Facts, OperatingSystem, SharedBytes
from cannery.backends.directory.layout import MARKER

# Descriptors of files in memory; the operating system's own stay far below.
_FIRST = 1 << 24


def is_read_only(files: OperatingSystem) -> bool:
    """Whether there is a store that this process may read and not write."""
    return files.facts(MARKER) is not None and not os.access(files.root, os.W_OK)


class Overlay(OperatingSystem):
    """The file system, with files written here in front of it."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        # By path; None for a removed file.
        self._kept: dict[str, bytearray | None] = {}
        self._paths: dict[int, str] = {}
        self._last = _FIRST

    def make_root(self) -> None:
        """Nothing: the directory exists."""

    def open(self, path: str, *, create: bool = False) -> int:
        """A descriptor for reading, and for writing to memory."""
        if path not in self._kept:
            try:
                fd = self._open(path, os.O_RDONLY)
            except FileNotFoundError:
                if not create:
                    raise
                self._kept[path] = bytearray()
            else:
                self._paths[fd] = path
                return fd
        if self._kept[path] is None:
            if not create:
                raise FileNotFoundError(path)
            self._kept[path] = bytearray()
        self._last += 1
        self._paths[self._last] = path
        return self._last

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        del self._paths[fd]
        if fd < _FIRST:
            os.close(fd)

    def read(self, fd: int, length: int, offset: int) -> bytes:
        """Up to ``length`` bytes."""
        kept = self._kept.get(self._paths[fd])
        return (
            super().read(fd, length, offset)
            if kept is None
            else bytes(kept[offset : offset + length])
        )

    def write(self, fd: int, data: bytes, offset: int) -> None:
        """All of the bytes, to memory."""
        kept = self._copy(fd)
        kept.extend(bytes(max(offset - len(kept), 0)))
        kept[offset : offset + len(data)] = data

    def _copy(self, fd: int) -> bytearray:
        path = self._paths[fd]
        kept = self._kept.get(path)
        if kept is None:
            kept = self._kept[path] = bytearray(super().read(fd, super().size(fd), 0))
        return kept

    def size(self, fd: int) -> int:
        """The length of the file."""
        kept = self._kept.get(self._paths[fd])
        return super().size(fd) if kept is None else len(kept)

    def is_named(self, fd: int) -> bool:
        """Whether the file still has a name."""
        return fd >= _FIRST or super().is_named(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Truncate the file."""
        del self._copy(fd)[size:]

    def sync(self, fd: int) -> None:
        """Nothing: memory needs no sync."""

    def sync_directory(self, path: str) -> None:
        """Nothing: memory needs no sync."""

    def sync_all(self) -> bool:
        """Nothing: memory needs no sync."""
        return True

    def facts(self, path: str) -> Facts | None:
        """None if the file does not exist."""
        if path not in self._kept:
            return super().facts(path)
        kept = self._kept[path]
        return None if kept is None else Facts(len(kept), 0, 0)

    def rename(self, old: str, new: str) -> None:
        """Rename a file."""
        fd = self.open(old)
        self._kept[new] = self._copy(fd)
        self.close(fd)
        self._kept[old] = None

    def remove(self, path: str) -> None:
        """Remove a file; one that does not exist is not an error."""
        self._kept[path] = None

    def make_directory(self, path: str) -> bool:
        """Nothing: names alone define directories here."""
        return super().facts(path) is None

    def make_filled(self, path: str, contents: Mapping[str, bytes]) -> bool:
        """Create files in memory."""
        if not self.make_directory(path):
            return False
        for name, data in contents.items():
            self._kept[f"{path}/{name}"] = bytearray(data)
        return True

    def remove_directory(self, path: str) -> None:
        """Nothing: an empty directory is not listed."""

    def names(self, path: str) -> list[str]:
        """The entries of a directory."""
        names = dict.fromkeys(super().names(path))
        for name, below, data in self._kept_in(path):
            if data is not None:
                names[name] = None
            elif not below:
                names.pop(name, None)
        return list(names)

    def folders(self, path: str) -> list[str]:
        """The directories in a directory."""
        there = dict.fromkeys(super().folders(path))
        kept = self._kept_in(path)
        there |= {name: None for name, below, data in kept if below and data is not None}
        return list(there)

    def _kept_in(self, path: str) -> Iterator[tuple[str, str, bytearray | None]]:
        """The files written below a directory: the name there, the rest of the path, the bytes."""
        start = f"{path}/" if path else ""
        for kept, data in self._kept.items():
            if kept.startswith(start):
                name, _, below = kept[len(start) :].partition("/")
                yield name, below, data

    def lock(self, fd: int, *, shared: bool = False, wait: bool = True) -> bool:  # noqa: ARG002 - nobody else is here
        """True: files in memory are not shared."""
        return True

    def unlock(self, fd: int) -> None:
        """Nothing: no other process waits."""

    def share(self, fd: int, length: int) -> SharedBytes:
        """Memory that is not shared."""
        kept = self._copy(fd)
        kept.extend(bytes(max(length - len(kept), 0)))
        return kept
