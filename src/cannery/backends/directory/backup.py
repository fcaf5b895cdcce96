"""A consistent copy of a store in use, made while others write.

Section 11 of ``docs/storage-format.md``. While gc waits, logs, packs and change logs only grow. They are copied without
locks first, then everything that changed meanwhile according to the change log, and the rest in one short moment in
which no process writes: the copy is the store at that moment. The marker is copied last, so that an interrupted copy is
not a store.
"""

from __future__ import annotations

from collections.abc import Iterable

from cannery.backends._contract import Backup, Cursor, Progress
from cannery.backends.directory.changes import ChangeLog
from cannery.backends.directory.collection import by_turns
from cannery.backends.directory.commits import Commits
from cannery.backends.directory.files import Files, OperatingSystem, medium, read_whole, write_whole
from cannery.backends.directory.inspection import identifiers_of
from cannery.backends.directory.layout import (
    CHANGES,
    CONTENT,
    CONVERSATIONS,
    DIRECTORIES,
    EXCHANGES,
    MARKER,
    OLD_EXCHANGES,
    REGISTRY,
    is_numbered,
    log_name,
    metadata_name,
    parent,
)
from cannery.errors import StorageError

_PIECE = 1 << 20
# If at most this many conversations changed during a round, the rest is copied under the write lock.
_FEW = 32
_ROUNDS = 10


class Copier:
    """One backup, to a new directory."""

    def __init__(self, files: Files, target: str, commits: Commits, change_log: ChangeLog) -> None:
        self._files = files
        self._target = OperatingSystem(target)
        self._commits = commits
        self._change_log = change_log
        self._copied: dict[str, int] = {}
        self._conversations: set[str] = set()

    def run(self, progress: Progress | None) -> Backup:
        """Copy everything."""
        with medium(self._target.root):
            self._target.make_root()
            names = self._target.names("")
            if names:
                raise StorageError(f"{self._target.root} is not empty: it holds {names[0]!r}")
            for name in DIRECTORIES:
                self._target.make_directory(name)
        with medium(self._files.root), by_turns(self._files):
            cursor = self._begin()
            self._copy_all(progress)
            cursor = self._catch_up(cursor)
            with self._commits.alone():
                self._follow(cursor)
                self._copy_grown()
        self._finish()
        return Backup(len(self._conversations), sum(self._copied.values()))

    def _begin(self) -> Cursor:
        """Record the position in the change feed before copying starts."""
        self._commits.place()
        self._copied.clear()
        self._conversations.clear()
        return self._change_log.since(None).cursor

    def _copy_all(self, progress: Progress | None) -> None:
        self._copy_grown()
        everything = identifiers_of(self._files)[0]
        for done, identifier in enumerate(everything, 1):
            self._copy_conversation(identifier)
            if progress:
                progress(done, len(everything))

    def _catch_up(self, cursor: Cursor) -> Cursor:
        """Copy the changes, until few are made during a round."""
        for _ in range(_ROUNDS):
            growth = self._change_log.since(cursor)
            if growth.noted is None:
                cursor = self._begin()
                self._copy_all(None)
                continue
            changed = {one.identifier for one in growth.noted}
            self._copy_grown()
            self._copy_conversations(changed)
            cursor = growth.cursor
            if len(changed) <= _FEW:
                break
        return cursor

    def _follow(self, cursor: Cursor) -> None:
        """Copy the last changes; the write lock is held."""
        noted = self._change_log.since(cursor).noted
        if noted is None:
            self._begin()
            self._copy_all(None)
        else:
            self._copy_conversations({one.identifier for one in noted})

    def _copy_conversations(self, identifiers: Iterable[str]) -> None:
        for identifier in identifiers:
            self._copy_conversation(identifier)

    def _copy_conversation(self, identifier: str) -> None:
        metadata = read_whole(self._files, metadata_name(identifier))
        if metadata is None:
            # Left over from a failed creation of a conversation.
            return
        if identifier not in self._conversations:
            self._target.make_directory(f"{CONVERSATIONS}/{identifier}")
            self._conversations.add(identifier)
        # The log first: lines are then there when metadata that was changed with them is seen.
        self._grow(log_name(identifier))
        write_whole(self._target, metadata_name(identifier), metadata, durable=False)

    def _copy_grown(self) -> None:
        """Copy additions to packs and to the logs beside the conversations."""
        for folder in (CONTENT, REGISTRY, CHANGES):
            for name in sorted(filter(is_numbered, self._files.names(folder))):
                self._grow(f"{folder}/{name}")
        for name in (OLD_EXCHANGES, EXCHANGES):
            if self._files.facts(name) is not None:
                self._target.make_directory(parent(name))
                self._grow(name)

    def _grow(self, name: str) -> None:
        """Copy the bytes added to a file since the last copy."""
        try:
            source = self._files.open(name)
        except FileNotFoundError:
            return
        try:
            at, size = self._copied.get(name, 0), self._files.size(source)
            if name in self._copied and at == size:
                return
            target = self._target.open(name, create=True)
            try:
                if not at:
                    self._target.truncate(target, 0)
                while at < size:
                    data = self._files.read(source, min(_PIECE, size - at), at)
                    self._target.write(target, data, at)
                    at += len(data)
            finally:
                self._target.close(target)
            self._copied[name] = at
        finally:
            self._files.close(source)

    def _finish(self) -> None:
        """Make the copy durable, and then a store."""
        marker = read_whole(self._files, MARKER)
        with medium(self._target.root):
            self._sync()
            write_whole(self._target, MARKER, marker or b"", durable=True)
            self._target.sync_directory("")

    def _sync(self) -> None:
        if self._target.sync_all():
            return
        names = [*self._copied, *map(metadata_name, self._conversations)]
        for name in names:
            fd = self._target.open(name)
            try:
                self._target.sync(fd)
            finally:
                self._target.close(fd)
        for folder in (*(f"{CONVERSATIONS}/{one}" for one in self._conversations), *DIRECTORIES):
            self._target.sync_directory(folder)
