"""Everything in memory: for tests, and for programs that keep nothing.

All stores opened under one name in one process are the same; without a name each is its own.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakValueDictionary

from cannery.backends._contract import (
    Change,
    Collection,
    Cursor,
    Damage,
    Durability,
    Growth,
    Inspection,
    Needs,
    Progress,
    Reading,
    Receipt,
    check_identifier,
    referred,
)
from cannery.errors import CanneryError, ConflictError, ContentNotFoundError, DamageError

_open: WeakValueDictionary[str, MemoryBackend] = WeakValueDictionary()


class MemoryBackend:
    """Dictionaries behind one lock."""

    recovered: tuple[Damage, ...] = ()
    is_read_only = False
    index_path: str | None = None

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._metadata: dict[str, bytes] = {}
        self._logs: dict[str, list[bytes]] = {}
        self._contents: dict[bytes, bytes] = {}
        self._changes: list[str] = []

    def commit(self, change: Change, durability: Durability = "sync") -> Receipt:  # noqa: ARG002 - memory has one level
        """Do all of a change or nothing of it."""
        check_identifier(change.identifier)
        with self._lock:
            for identifier, expected in change.requires.items():
                if self._metadata.get(identifier) != expected:
                    raise ConflictError(f"conversation {identifier!r} has changed")
            log = self._logs.get(change.identifier, [])
            start = change.base + len(log)
            if change.expected is not None and change.expected != start:
                raise ConflictError(f"expected position {change.expected}, found {start}")
            for digest, data in change.contents.items():
                if data is None and digest not in self._contents:
                    raise ContentNotFoundError(f"sha256:{digest.hex()}")
            if change.metadata is not None:
                self._metadata[change.identifier] = change.metadata
            for digest, data in change.contents.items():
                if data is not None:
                    self._contents.setdefault(digest, data)
            self._logs[change.identifier] = [*log, *change.lines]
            self._changes.append(change.identifier)
            return Receipt(start, start + len(change.lines), Cursor(0, len(self._changes) - 1))

    def commit_each(
        self, changes: Iterable[Change], durability: Durability = "sync"
    ) -> list[Receipt | CanneryError]:
        """Make several changes, in order, each for itself all or nothing."""
        return [self._outcome(change, durability) for change in changes]

    def _outcome(self, change: Change, durability: Durability) -> Receipt | CanneryError:
        try:
            return self.commit(change, durability)
        except CanneryError as error:
            return error

    def metadata(self, identifier: str) -> bytes | None:
        """The metadata of a conversation, or None."""
        return self._metadata.get(check_identifier(identifier))

    def identifiers(self) -> Sequence[str]:
        """Every conversation."""
        with self._lock:
            return sorted(self._metadata)

    def end(self, identifier: str, base: int) -> int:
        """The position after the last line."""
        return base + len(self._logs.get(check_identifier(identifier), ()))

    def read(self, identifier: str, base: int, start: int, stop: int | None = None) -> Reading:
        """The lines from one position to before another."""
        log = self._logs.get(check_identifier(identifier), [])
        first = max(start - base, 0)
        return Reading(base + first, log[first : None if stop is None else max(stop - base, 0)])

    def has(self, digest: bytes) -> bool:
        """Whether content is stored."""
        return digest in self._contents

    def get(self, digest: bytes) -> bytes:
        """The content, verified."""
        data = self._contents.get(digest)
        if data is None:
            raise ContentNotFoundError(f"sha256:{digest.hex()}")
        if hashlib.sha256(data).digest() != digest:
            raise DamageError(f"sha256:{digest.hex()}", "the bytes do not match the id")
        return data

    def get_many(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Content by digest."""
        for digest in dict.fromkeys(digests):
            yield digest, self.get(digest)

    def changes(self, cursor: Cursor | None) -> Growth:
        """Which conversations changed since the cursor."""
        with self._lock:
            now = Cursor(0, len(self._changes))
            if cursor is None:
                return Growth(now, None)
            found: dict[str, list[Cursor]] = {}
            for offset in range(cursor.offset, len(self._changes)):
                found.setdefault(self._changes[offset], []).append(Cursor(0, offset))
            return Growth(now, found)

    def inspect(self, progress: Progress | None = None) -> Inspection:
        """Re-derive every hash."""
        with self._lock:
            contents = dict(self._contents)
        damages = []
        for done, (digest, data) in enumerate(contents.items(), 1):
            if hashlib.sha256(data).digest() != digest:
                damages.append(Damage(f"sha256:{digest.hex()}", "the bytes do not match the id"))
            if progress:
                progress(done, len(contents))
        return Inspection(len(contents), sum(map(len, contents.values())), tuple(damages))

    def collect(
        self,
        needs: Needs,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Collection:
        """Free what is left of deleted conversations, and the content that nothing else refers to."""
        with self._lock:
            needed = needs(self._metadata)
            dead = {identifier for identifier, count in needed.items() if count is None}
            kept = {
                identifier: log[: needed.get(identifier)]
                for identifier, log in self._logs.items()
                if identifier not in dead
            }
            reached: set[bytes] = set()
            for done, identifier in enumerate(self._logs, 1):
                reached |= referred(b"\n".join(kept.get(identifier, ())))
                if progress:
                    progress(done, len(self._logs))
            garbage = self._contents.keys() - reached
            freed = sum(len(self._contents[digest]) for digest in garbage)
            if not dry_run:
                for identifier in dead:
                    self._metadata.pop(identifier, None)
                self._logs = kept
                for digest in garbage:
                    del self._contents[digest]
            return Collection(tuple(sorted(dead)), len(garbage), freed, dry_run)

    def close(self) -> None:
        """Nothing to let go of."""


def open_backend(location: str) -> MemoryBackend:
    """The store of this name in this process, or a new one."""
    if not location:
        return MemoryBackend()
    backend = _open.get(location)
    if backend is None:
        backend = _open[location] = MemoryBackend()
    return backend
