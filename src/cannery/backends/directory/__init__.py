"""A directory of files that a person can read: the default backend.

``docs/storage-format.md`` specifies every byte. ``commits`` makes changes durable, ``packs`` keeps content,
``lines`` judges what is read, ``collection`` frees what nothing reaches, ``inspection`` re-derives every hash,
and ``files`` is the only module that touches the operating system; with ``overlay`` a store that cannot be written
is read.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

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
)
from cannery.backends.directory.changes import ChangeLog
from cannery.backends.directory.collection import Collector
from cannery.backends.directory.commits import Commits, Tail
from cannery.backends.directory.files import Facts, Files, OperatingSystem, medium, read_whole
from cannery.backends.directory.gathering import Build
from cannery.backends.directory.inspection import identifiers_of, inspect
from cannery.backends.directory.journal import Draft
from cannery.backends.directory.layout import (
    CONVERSATIONS,
    INDEX,
    log_name,
    metadata_name,
    pack_name,
)
from cannery.backends.directory.lines import Read, end_of_tail, find_end, read_range, seal, unseal
from cannery.backends.directory.opening import Presence
from cannery.backends.directory.overlay import Overlay, is_read_only
from cannery.backends.directory.packs import (
    FULL,
    PACK_HEADER,
    Packs,
    encode_record,
    new_pack_header,
)
from cannery.errors import (
    CanneryError,
    ConflictError,
    ContentNotFoundError,
    DamageError,
    StoreUnavailableError,
)

_KNOWN_METADATA = 4096
_SETTLED = 100_000_000


class DirectoryBackend:
    """One directory, any number of threads and processes."""

    def __init__(self, files: Files, *, is_read_only: bool = False) -> None:
        self._files = files
        self.is_read_only = is_read_only
        self._packs = Packs(files)
        self._known_metadata: dict[str, tuple[Facts, bytes]] = {}
        self._known_lock = threading.Lock()
        self.index_path: str | None = None if is_read_only else f"{files.root}/{INDEX}"
        self.recovered: tuple[Damage, ...] = ()
        with medium(files.root), contextlib.ExitStack() as undo:
            self._presence = Presence(files)
            undo.callback(self._presence.close)
            self._commits = Commits(files, self._packs.forget, self._packs.learn)
            undo.callback(self._commits.close)
            self.recovered = tuple(self._presence.enter(self._commits))
            undo.pop_all()
        self._change_log = ChangeLog(files, self._commits.tails)
        self._is_open = True

    # Writing

    def commit(self, change: Change, durability: Durability = "sync") -> Receipt:
        """Do all of a change or nothing of it."""
        if self.is_read_only:
            raise self._refusal()
        with medium(self._files.root):
            (outcome,) = self._commits.submit((self._builder(change),), durability)
        receipt: Receipt = outcome.result()
        return receipt

    def commit_each(
        self, changes: Iterable[Change], durability: Durability = "sync"
    ) -> list[Receipt | CanneryError]:
        """Make several changes with one sync, in order, each for itself all or nothing."""
        if self.is_read_only:
            return [self._refusal() for _ in changes]
        with medium(self._files.root):
            outcomes = self._commits.submit(map(self._builder, changes), durability)
        return [outcome.failure() or outcome.value for outcome in outcomes]

    def _refusal(self) -> StoreUnavailableError:
        reason = "its medium is read-only, or its permissions forbid writing"
        return StoreUnavailableError(f"{self._files.root} can only be read: {reason}")

    def _builder(self, change: Change) -> Build:
        """What is to be done for a change when nobody else writes; what can be done before is done."""
        check_identifier(change.identifier)
        records = {
            digest: encode_record(digest, data)
            for digest, data in change.contents.items()
            if data is not None and self._packs.find(digest) is None
        }
        return lambda draft: self._build(change, records, draft)

    def _build(self, change: Change, records: Mapping[bytes, bytes], draft: Draft) -> Receipt:
        """Draft a change, while nobody else writes. What can be refused is refused before anything is noted."""
        if change.requires.get(change.identifier, b"") is None:
            self._look_for_none(change)
        for identifier, expected in change.requires.items():
            if self._current_metadata(check_identifier(identifier)) != expected:
                raise ConflictError(f"conversation {identifier!r} has changed")
        log = log_name(change.identifier)
        offset, start = self._log_end(change.identifier, log, change.base)
        if not offset:
            # Somebody may have wanted the same id for another conversation, and was refused.
            start = change.base
        if change.expected is not None and change.expected != start:
            raise ConflictError(f"expected position {change.expected}, found {start}")
        if change.contents:
            self._draft_contents(change.contents, records, draft)
        stop = start + len(change.lines)
        # The last thing that the medium can refuse.
        place = self._change_log.note(change.identifier, stop, draft)
        if change.lines:
            sealed = [seal(line, position) for position, line in enumerate(change.lines, start)]
            data = b"".join(sealed)
            draft.write(log, offset, data)
            self._commits.tails[log] = Tail(offset + len(data), stop)
        if change.metadata is not None:
            name = metadata_name(change.identifier)
            draft.replace(name, seal(change.metadata, 0))
            self._commits.metadata[name] = change.metadata
        return Receipt(start, stop, place)

    def _draft_contents(
        self,
        contents: Mapping[bytes, bytes | None],
        records: Mapping[bytes, bytes],
        draft: Draft,
    ) -> None:
        found: dict[bytes, bytes] = {}
        for digest, data in contents.items():
            if self._packs.find(digest) is None:
                if data is None:
                    raise ContentNotFoundError(f"sha256:{digest.hex()}")
                found[digest] = records.get(digest) or encode_record(digest, data)
        if not found:
            return
        number, offset = self._pack_end()
        written = (
            b"".join(found.values()) if offset else b"".join((new_pack_header(), *found.values()))
        )
        name = pack_name(number)
        self._packs.note(number, offset, written)
        self._commits.tails[name] = Tail(offset + len(written))
        draft.write(name, offset, written)

    def _pack_end(self) -> tuple[int, int]:
        number = max(self._packs.active, 1)
        name = pack_name(number)
        tail = self._commits.tails.get(name)
        facts = self._files.facts(name) if tail is None else None
        size = tail.end if tail is not None else facts.size if facts is not None else 0
        is_cut = tail is None and (self._packs.is_torn or 0 < size < PACK_HEADER)
        return (number + 1, 0) if is_cut or size >= FULL else (number, size)

    def _look_for_none(self, change: Change) -> None:
        """Find out with one look, rather than one at each of its files, that there is no such conversation."""
        metadata, log = metadata_name(change.identifier), log_name(change.identifier)
        if metadata in self._commits.metadata or log in self._commits.tails:
            return
        if self._files.facts(f"{CONVERSATIONS}/{change.identifier}") is None:
            self._commits.metadata[metadata] = None
            self._commits.tails[log] = Tail(0, change.base)

    def _current_metadata(self, identifier: str) -> bytes | None:
        """Metadata as it will be when all is placed; within an epoch it changes by the journal only."""
        name = metadata_name(identifier)
        known = self._commits.metadata
        if name not in known:
            known[name] = self._placed_metadata(identifier)
        return known[name]

    def _log_end(self, identifier: str, name: str, base: int) -> Tail:
        """Where a log ends, in bytes and in positions; a tail is ended first."""
        tail = self._commits.tails.get(name)
        if tail is None:
            with medium(name):
                tail = self._look_at_end(identifier, base)
            self._commits.tails[name] = tail
        return tail

    def _look_at_end(self, identifier: str, base: int) -> Tail:
        name = log_name(identifier)
        try:
            fd = self._files.open(name)
        except FileNotFoundError:
            return Tail(0, base)
        try:
            size = self._files.size(fd)
            whole = self._whole_lines(fd, size)
            if whole < size:
                size = self._end_tail(fd, name, whole, size)
            return Tail(size, find_end(self._reader(fd), size, name, base))
        finally:
            self._files.close(fd)

    def _end_tail(self, fd: int, name: str, start: int, size: int) -> int:
        """End what follows the last newline with another, so that nothing is written onto it; the new size."""
        end = start + end_of_tail(self._files.read(fd, size - start, start))
        self._files.write(fd, b"\n", end)
        self._files.truncate(fd, end + 1)
        self._files.sync(fd)
        problem = f"no newline after the last {end - start} bytes; it was written"
        self.recovered += (Damage(name, problem, is_lost=False),)
        return end + 1

    def _whole_lines(self, fd: int, size: int) -> int:
        """Where the last newline of a log ends its last whole line."""
        end = size
        while end:
            length = min(end, 1 << 16)
            at = self._files.read(fd, length, end - length).rfind(b"\n")
            if at >= 0:
                return end - length + at + 1
            end -= length
        return 0

    def _reader(self, fd: int) -> Read:
        return lambda length, offset: self._files.read(fd, length, offset)

    # Reading

    def metadata(self, identifier: str) -> bytes | None:
        """The metadata of a conversation, or None."""
        check_identifier(identifier)
        with medium(metadata_name(identifier)):
            self._commits.place_pending()
            return self._placed_metadata(identifier)

    def _placed_metadata(self, identifier: str) -> bytes | None:
        name = metadata_name(identifier)
        facts = self._files.facts(name)
        if facts is None:
            return None
        known = self._known_metadata.get(identifier)
        if known is not None and known[0] == facts:
            return known[1]
        data = read_whole(self._files, name)
        if data is None:
            return None
        found = unseal(data)
        if found is None:
            raise DamageError(name, "the metadata is damaged")
        if time.time_ns() - facts.modified < _SETTLED:
            # Two files written within one tick of the clock can look the same.
            return found
        with self._known_lock:
            if len(self._known_metadata) >= _KNOWN_METADATA:
                self._known_metadata.clear()
            self._known_metadata[identifier] = (facts, found)
        return found

    def identifiers(self) -> Sequence[str]:
        """Every conversation that has metadata."""
        self._commits.place_pending()
        with medium(CONVERSATIONS):
            return identifiers_of(self._files)[0]

    def end(self, identifier: str, base: int) -> int:
        """The position after the last line."""
        name = log_name(check_identifier(identifier))
        self._commits.place_pending()
        with medium(name):
            return self._commits.between(lambda: self._end(name, base))

    def _end(self, name: str, base: int) -> int:
        try:
            fd = self._files.open(name)
        except FileNotFoundError:
            return base
        try:
            return find_end(self._reader(fd), self._files.size(fd), name, base)
        finally:
            self._files.close(fd)

    def read(self, identifier: str, base: int, start: int, stop: int | None = None) -> Reading:
        """The lines from one position to before another."""
        name = log_name(check_identifier(identifier))
        self._commits.place_pending()
        with medium(name):
            return self._commits.between(lambda: self._read(name, base, start, stop))

    def _read(self, name: str, base: int, start: int, stop: int | None) -> Reading:
        try:
            fd = self._files.open(name)
        except FileNotFoundError:
            return Reading(max(start, base), [])
        try:
            return read_range(self._reader(fd), self._files.size(fd), name, base, start, stop)
        finally:
            self._files.close(fd)

    def has(self, digest: bytes) -> bool:
        """Whether content is stored."""
        with medium("content"):
            if self._packs.find(digest) is not None:
                return True
            self._commits.place_pending()
            self._packs.refresh()
            return self._packs.find(digest) is not None

    def get(self, digest: bytes) -> bytes:
        """The content, verified."""
        self._commits.place_pending()
        with medium("content"):
            return self._packs.get(digest)

    def get_many(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Contents in the order in which they lie."""
        self._commits.place_pending()
        with medium("content"):
            yield from self._packs.get_many(digests)

    def changes(self, cursor: Cursor | None) -> Growth:
        """Which conversations changed since the cursor."""
        self._commits.place_pending()
        with medium("changes"):
            return self._change_log.since(cursor)

    # Keeping

    def inspect(self, progress: Progress | None = None) -> Inspection:
        """Re-derive every hash."""
        self._commits.place()
        with medium("content"):
            return inspect(self._files, self._packs, progress)

    def collect(
        self,
        needs: Needs,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Collection:
        """Free what is left of deleted conversations, and the content that nothing else refers to."""
        if self.is_read_only and not dry_run:
            raise self._refusal()
        collector = Collector(self._files, self._commits, self._packs, self._change_log, needs)
        return collector.run(dry_run=dry_run, progress=progress)

    def close(self) -> None:
        """Let go of everything; the last process leaves an empty journal."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._presence.leave(self._commits)
        finally:
            self._commits.close()
            self._packs.close()


def open_backend(location: str) -> DirectoryBackend:
    """Open the store in a directory, or make one there; one that can only be read is opened for that."""
    files = OperatingSystem(location)
    with medium(files.root):
        if is_read_only(files):
            return DirectoryBackend(Overlay(location), is_read_only=True)
        return DirectoryBackend(files)
