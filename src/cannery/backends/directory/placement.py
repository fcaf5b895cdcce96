"""Carries out journaled operations on their files; repeating it has the same outcome.

Content goes first, then lines, then metadata, then the change log: a reader that sees a line finds its content, and one
that sees an entry in the change log finds the change.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from cannery.backends.directory.files import Files
from cannery.backends.directory.journal import REPLACE, WRITE, Operation
from cannery.backends.directory.layout import CHANGES, CONTENT, CONVERSATIONS, LOG, parent

_OPEN_FILES = 128
# From this number of files on the whole file system is synced: one wait for the disk per file takes longer.
_MANY = 8
_Writes: TypeAlias = dict[str, list[tuple[int, bytes]]]
Touched: TypeAlias = dict[str, bool]
"""Written files, each with whether its name was changed too."""


class Placement:
    """Writes to files by name, keeping some of them open."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._open: OrderedDict[str, int] = OrderedDict()
        # Conversations that were created while it is not certain that all is placed.
        self._made: list[str] = []

    def place(self, operations: Iterable[Operation]) -> None:
        """Carry out operations."""
        packs: _Writes = {}
        logs: _Writes = {}
        changes: _Writes = {}
        replaced: dict[str, bytes] = {}
        for kind, name, offset, data in operations:
            if kind == REPLACE:
                replaced[name] = data
                continue
            room = logs if name.startswith(CONVERSATIONS) else changes
            room = packs if name.startswith(CONTENT) else room
            room.setdefault(name, []).append((offset, data))
        self._made.clear()
        self._write(packs)
        self._make_new(logs, replaced)
        self._write(logs)
        if replaced:
            self._replace(replaced)
        for name in changes:
            self._drop_if_gone(name)
        self._write(changes)
        self._made.clear()

    def _make_new(self, logs: _Writes, replaced: dict[str, bytes]) -> None:
        """Create new conversations, each in one step, and remove them from the pending writes.

        A reader that finds one before its metadata is complete reads it again when no process is placing
        (``Commits.between``).
        """
        for name in [name for name in replaced if name.startswith(CONVERSATIONS)]:
            folder = parent(name)
            log = f"{folder}/{LOG}"
            writes = logs.get(log)
            if writes is not None and writes[0][0]:
                continue
            contents = {name.rpartition("/")[2]: replaced[name]}
            if writes is not None:
                contents = {LOG: b"".join(data for _, data in writes), **contents}
            self._made.append(name)
            if self._files.make_filled(folder, contents):
                logs.pop(log, None)
                del replaced[name]
            else:
                self._made.pop()

    def _drop_if_gone(self, name: str) -> None:
        """Close a file that was removed meanwhile, as derived files may be: new data must be found under its name."""
        fd = self._open.get(name)
        if fd is not None and not self._files.is_named(fd):
            del self._open[name]
            self._files.close(fd)

    def _write(self, files: _Writes) -> None:
        for name, writes in files.items():
            fd = self._descriptor(name)
            for offset, data in writes if len(writes) == 1 else _runs(writes):
                self._files.write(fd, data, offset)

    def _replace(self, replaced: dict[str, bytes]) -> None:
        """Write new files beside the old ones first: a lack of space shows before anything is visible."""
        for name, data in replaced.items():
            fd = self._make(name + ".new")
            try:
                # Truncating an empty file is not free: ext4 writes a truncated file immediately when it is closed.
                if self._files.size(fd):
                    self._files.truncate(fd, 0)
                self._files.write(fd, data, 0)
            finally:
                self._files.close(fd)
        for name in replaced:
            self._files.rename(name + ".new", name)

    def cut(self, operations: Iterable[Operation]) -> None:
        """Undo partial writes: truncate each file where the first of them starts."""
        for name in self._made:
            self._files.remove(name)
        starts: dict[str, int] = {}
        for kind, name, offset, _ in operations:
            if kind == WRITE:
                starts[name] = min(offset, starts.get(name, offset))
        for name, start in starts.items():
            facts = self._files.facts(name)
            if facts is not None and facts.size > start:
                self._files.truncate(self._descriptor(name), start)

    def sync(self, touched: Touched, *, is_partial: bool = False) -> None:
        """Make all written files durable; ``is_partial``: as far as they exist."""
        if len(touched) > _MANY and self._files.sync_all():
            return
        folders = {parent(name) for name, is_named in touched.items() if is_named}
        directories = folders | set(map(parent, folders))
        for name in touched:
            with _forgiving(name, is_partial=is_partial):
                self._sync_file(name)
        for folder in sorted(directories, reverse=True):
            with _forgiving(folder, is_partial=is_partial):
                self._files.sync_directory(folder)

    def _sync_file(self, name: str) -> None:
        fd = self._open.get(name)
        if fd is not None:
            self._files.sync(fd)
            return
        fd = self._files.open(name)
        try:
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def forget(self) -> None:
        """Close all files: their names may lead to other files now."""
        while self._open:
            self._files.close(self._open.popitem()[1])

    def _descriptor(self, name: str) -> int:
        fd = self._open.get(name)
        if fd is not None:
            self._open.move_to_end(name)
            return fd
        fd = self._open[name] = self._make(name)
        if len(self._open) > _OPEN_FILES:
            self._files.close(self._open.popitem(last=False)[1])
        return fd

    def _make(self, name: str) -> int:
        try:
            return self._files.open(name, create=True)
        except FileNotFoundError:
            self._files.make_directory(parent(name))
            return self._files.open(name, create=True)


def _forgiving(name: str, *, is_partial: bool) -> contextlib.AbstractContextManager[None]:
    """A file that may be missing, because it is derived or was never created, need not be synced."""
    is_derived = name.startswith(CHANGES)
    return contextlib.suppress(*((FileNotFoundError,) if is_partial or is_derived else ()))


def touch(touched: Touched, operations: Iterable[Operation]) -> Touched:
    """Add the files of operations to the written files."""
    for kind, name, offset, _ in operations:
        if kind == REPLACE or offset == 0:
            touched[name] = True
        elif name not in touched:
            touched[name] = False
    return touched


def _runs(writes: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Adjacent writes as one."""
    start = end = -1
    pieces: list[bytes] = []
    for offset, data in writes:
        if offset != end:
            if pieces:
                yield start, b"".join(pieces)
            start, pieces = offset, []
        pieces.append(data)
        end = offset + len(data)
    yield start, b"".join(pieces)
