"""A directory of human-readable files: the default backend.

``docs/storage-format.md`` specifies every byte. ``commits`` makes changes durable, ``packs`` stores content, ``lines``
verifies what is read, ``registry`` has keys and claims, ``catalogue`` follows the changes, ``exchanges`` stores usage
records, ``collection`` frees unreachable data, ``inspection`` re-derives every hash, and ``files`` is the only module
that calls the operating system; ``overlay`` reads a store that cannot be written.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from cannery.backends._contract import (
    GRACE,
    Backup,
    Change,
    Collection,
    Cursor,
    Damage,
    Describe,
    Durability,
    Expected,
    Growth,
    Inspection,
    Metadata,
    Progress,
    Reading,
    Receipt,
    Span,
    check_change,
    check_identifier,
    referred,
)
from cannery.backends._hashing import Hashing
from cannery.backends._seals import seal, seal_copies, unseal_copies
from cannery.backends._single import SingleCommits
from cannery.backends.directory.backup import Copier
from cannery.backends.directory.catalogue import DerivedCatalogue
from cannery.backends.directory.changes import ChangeLog
from cannery.backends.directory.collection import Collector
from cannery.backends.directory.commits import Commits, Tail
from cannery.backends.directory.contents import DirectoryContents, PackWriter
from cannery.backends.directory.exchanges import DirectoryExchanges
from cannery.backends.directory.files import Facts, Files, OperatingSystem, medium, read_whole
from cannery.backends.directory.group_commit import Build
from cannery.backends.directory.inspection import identifiers_of, inspect
from cannery.backends.directory.journal import Draft, Operation
from cannery.backends.directory.layout import (
    CONVERSATIONS,
    INDEX,
    MARKER,
    log_name,
    metadata_name,
)
from cannery.backends.directory.lines import Read, end_of_tail, find_end, read_range
from cannery.backends.directory.opening import Presence
from cannery.backends.directory.overlay import Overlay, is_read_only
from cannery.backends.directory.packs import Packs
from cannery.backends.directory.registry import Registry, claims_of
from cannery.backends.directory.watching import Watching
from cannery.errors import (
    CanneryError,
    ConflictError,
    DamageError,
    StorageError,
    StoreUnavailableError,
)

_KNOWN_METADATA = 4096
_SETTLED = 100_000_000


class _ClaimedError(ConflictError):
    """Another conversation holds, or is about to hold, the history that a change claims."""


class DirectoryBackend(SingleCommits):
    """One directory, any number of threads and processes."""

    encryption = None

    def __init__(
        self,
        files: Files,
        describe: Describe,
        hashing: Hashing | None = None,
        *,
        is_read_only: bool = False,
        has_index_file: bool = True,
    ) -> None:
        self._files = files
        self.is_read_only = is_read_only
        self._packs = Packs(files, hashing or Hashing())
        self._watching = Watching(self._scope_of)
        self._registry = Registry(files, self._end_of, self._abandoned)
        self._known_metadata: dict[str, tuple[Facts, bytes]] = {}
        self._known_lock = threading.Lock()
        self.recovered: tuple[Damage, ...] = ()
        with medium(files.root), contextlib.ExitStack() as undo:
            self._presence = Presence(files)
            undo.callback(self._presence.close)
            self._commits = Commits(files, self._forget, self._learn)
            undo.callback(self._commits.close)
            self.recovered = tuple(self._presence.enter(self._commits))
            undo.pop_all()
        self._change_log = ChangeLog(files, self._commits.tails)
        self._writer = PackWriter(files, self._commits.tails, self._packs)
        index = f"{files.root}/{INDEX}" if has_index_file and not is_read_only else None
        self.catalogue = DerivedCatalogue(index, self, describe)
        self.exchanges = DirectoryExchanges(files, self.catalogue.file, is_read_only=is_read_only)
        self._is_open = True

    def _forget(self, is_followed: bool) -> None:  # noqa: FBT001 - a callback
        self._packs.forget()
        self._registry.forget()
        if not is_followed:
            self._watching.lose()

    def _learn(self, operation: Operation) -> None:
        self._packs.learn(operation)
        self._registry.learn(operation)
        self._watching.learn(operation)

    def _scope_of(self, identifier: str) -> str | None:
        """The scope of a conversation; None if it cannot be read. The write lock is held."""
        try:
            raw = self._current_metadata(identifier)
            return None if raw is None else msgspec.json.decode(raw, type=Metadata).scope
        except (CanneryError, msgspec.MsgspecError):
            return None

    def _abandoned(self) -> int:
        """How often journaled changes have been abandoned."""
        return self._commits.journal.abandoned().pending

    def _end_of(self, name: str) -> int | None:
        tail = self._commits.tails.get(name)
        return None if tail is None else tail.end

    # Writing

    def commit_each(
        self, changes: Iterable[Change], durability: Durability = "sync"
    ) -> list[Receipt | CanneryError]:
        """Make several changes in order with one sync, each of them all or nothing."""
        if self.is_read_only:
            return [self._refusal() for _ in changes]
        wanted = list(changes)
        for change in wanted:
            check_change(change)
        with medium(self._files.root):
            outcomes = self._commits.submit(map(self._builder, wanted), durability)
        results: list[Receipt | CanneryError] = []
        for change, outcome in zip(wanted, outcomes, strict=True):
            failure = outcome.failure()
            if failure is None:
                self.catalogue.note(change, outcome.value)
            results.append(outcome.value if failure is None else failure)
        if any(isinstance(one, _ClaimedError) for one in results):
            # The claimant may be waiting for a sync; a caller that looks again then finds its change.
            self._commits.place()
        return results

    def _refusal(self) -> StoreUnavailableError:
        reason = "its medium is read-only, or its permissions forbid writing"
        return StoreUnavailableError(f"{self._files.root} can only be read: {reason}")

    def _builder(self, change: Change) -> Build:
        """The function that drafts a change under the write lock; everything possible is prepared before."""
        records = self._writer.encode(change.scope, change.contents)
        claims = claims_of(change)
        return lambda draft: self._build(change, records, claims, draft)

    def _build(
        self, change: Change, records: Mapping[bytes, bytes], claims: Sequence[str], draft: Draft
    ) -> Receipt:
        """Draft a change under the write lock. Every possible refusal comes before anything is recorded."""
        known = self._registry.receipt(change)
        if known is not None:
            return known
        self._check_requirements(change, claims)
        log = log_name(change.identifier)
        offset, start = self._log_end(change.identifier, log, change.base)
        if not offset:
            # Another caller may have requested the same id for another conversation, and was refused.
            start = change.base
        if change.expected is not None and change.expected != start:
            raise ConflictError(f"expected position {change.expected}, found {start}", start)
        self._watching.note(change)
        if change.contents:
            self._writer.draft(change.scope, change.contents, records, draft)
        stop = start + len(change.lines)
        # The last point at which the medium can refuse.
        sealed = [seal(line, position) for position, line in enumerate(change.lines, start)]
        last = sealed[-1] if sealed else None
        place = self._change_log.note(change.identifier, stop, last, draft)
        receipt = Receipt(start, stop, place)
        noted = self._registry.note(change, claims, receipt, draft)
        if noted is not None:
            self._commits.tails[noted[0]] = Tail(noted[1])
        if sealed:
            data = b"".join(sealed)
            draft.write(log, offset, data)
            self._commits.tails[log] = Tail(offset + len(data), stop)
        if change.metadata is not None:
            name, raw = metadata_name(change.identifier), change.metadata.encode()
            draft.replace(name, seal_copies(raw))
            self._commits.metadata[name] = raw
        return receipt

    def _check_requirements(self, change: Change, claims: Sequence[str]) -> None:
        if change.requires.get(change.identifier, b"") is None:
            self._look_for_none(change)
        for identifier, expected in change.requires.items():
            if self._current_metadata(check_identifier(identifier)) != expected:
                raise ConflictError(f"conversation {identifier!r} has changed")
        for identifier in self._registry.claimants(claims):
            try:
                raw = self._current_metadata(check_identifier(identifier))
            except DamageError:
                # It can be neither read nor appended to, so it holds no history.
                continue
            if raw is not None and msgspec.json.decode(raw, type=Metadata).deleted is None:
                raise _ClaimedError("another conversation holds this history already")

    def _look_for_none(self, change: Change) -> None:
        """Check with a single look, instead of one per file, that a conversation does not exist."""
        metadata, log = metadata_name(change.identifier), log_name(change.identifier)
        if metadata in self._commits.metadata or log in self._commits.tails:
            return
        if self._files.facts(f"{CONVERSATIONS}/{change.identifier}") is None:
            self._commits.metadata[metadata] = None
            self._commits.tails[log] = Tail(0, change.base)

    def _current_metadata(self, identifier: str) -> bytes | None:
        """Metadata after all pending changes are placed; within an epoch it changes only through the journal."""
        name = metadata_name(identifier)
        known = self._commits.metadata
        if name not in known:
            known[name] = self._placed_metadata(identifier)
        return known[name]

    def _log_end(self, identifier: str, name: str, base: int) -> Tail:
        """The end of a log, in bytes and in positions; a torn tail is terminated first."""
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
        """End the bytes after the last newline with another newline, so that nothing is appended to them."""
        end = start + end_of_tail(self._files.read(fd, size - start, start))
        self._files.write(fd, b"\n", end)
        self._files.truncate(fd, end + 1)
        self._files.sync(fd)
        problem = f"no newline after the last {end - start} bytes; it was written"
        self.recovered += (Damage(name, problem, is_lost=False),)
        return end + 1

    def _whole_lines(self, fd: int, size: int) -> int:
        """The offset of the newline that ends a log's last whole line."""
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
            return self._whole_metadata(identifier)

    def _whole_metadata(self, identifier: str) -> bytes | None:
        """The metadata of a conversation, which another process may be creating."""
        try:
            return self._placed_metadata(identifier)
        except DamageError:
            return self._commits.between(lambda: self._placed_metadata(identifier))

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
        found = unseal_copies(data)
        if found is None:
            raise DamageError(name, "the metadata is damaged")
        if time.time_ns() - facts.modified < _SETTLED:
            # Two files written within one clock tick can have the same timestamp.
            return found
        with self._known_lock:
            if len(self._known_metadata) >= _KNOWN_METADATA:
                self._known_metadata.clear()
            self._known_metadata[identifier] = (facts, found)
        return found

    def metadata_many(self, identifiers: Iterable[str]) -> dict[str, bytes]:
        """The metadata of the existing ones."""
        self._commits.place_pending()
        found = {name: self._whole_metadata(check_identifier(name)) for name in identifiers}
        return {name: raw for name, raw in found.items() if raw is not None}

    def identifiers(self, after: str = "") -> Iterator[str]:
        """Every conversation that has a folder, in order."""
        self._commits.place_pending()
        with medium(CONVERSATIONS):
            names = identifiers_of(self._files)[0]
        yield from (name for name in names if name > after)

    def end(self, identifier: str, base: int) -> int:
        """The position after the last line."""
        name = log_name(check_identifier(identifier))
        self._commits.place_pending()
        with medium(name):
            return self._commits.between(lambda: self._end(name, base))

    def final_end(self, identifier: str, base: int) -> int:
        """The end of a deleted conversation, after which no more lines will come."""
        name = log_name(check_identifier(identifier))
        with medium(name):
            return self._end(name, base)

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
            if stop is not None:
                found = self._read(name, base, start, stop)
                if len(found.lines) == stop - start and not found.damages:
                    # Present and sealed lines, up to the known end of a change.
                    return found
            return self._commits.between(lambda: self._read(name, base, start, stop))

    def read_many(self, spans: Sequence[Span]) -> list[Reading]:
        """The lines of several spans."""
        return [self.read(*span) for span in spans]

    def _read(self, name: str, base: int, start: int, stop: int | None) -> Reading:
        try:
            fd = self._files.open(name)
        except FileNotFoundError:
            return Reading(max(start, base), [])
        try:
            return read_range(self._reader(fd), self._files.size(fd), name, base, start, stop)
        finally:
            self._files.close(fd)

    def referred(self, identifier: str) -> set[bytes]:
        """The digests that a log may refer to, damaged lines included."""
        with medium(log_name(identifier)):
            return referred(read_whole(self._files, log_name(identifier)) or b"")

    def strange(self) -> Sequence[str]:
        """Entries that have the name of a conversation and are not folders."""
        with medium(CONVERSATIONS):
            return identifiers_of(self._files)[1]

    def contents(self, scope: str) -> DirectoryContents:
        """The content of a scope."""
        return DirectoryContents(
            self._files, self._commits, self._writer, self._registry, self._watching, scope
        )

    def changes(self, cursor: Cursor | None, limit: int = 1000) -> Growth:
        """The changes after a cursor."""
        self._commits.place_pending()
        with medium("changes"):
            return self._change_log.since(cursor, limit)

    # Maintenance

    def inspect(self, progress: Progress | None = None) -> Inspection:
        """Re-derive every hash."""
        self._commits.place()
        with medium("content"):
            found = inspect(self._files, self._packs, progress)
        with medium("changes"):
            damages = self._change_log.manifest()[1]
        with medium("registry"):
            damages += self._registry.damages()
        return msgspec.structs.replace(found, damages=(*found.damages, *damages))

    def manifest(self) -> Mapping[str, Expected]:
        """The state of each conversation according to the change log."""
        self._commits.place()
        with medium("changes"):
            return self._change_log.manifest()[0]

    def collect(
        self,
        *,
        grace: float = GRACE,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Collection:
        """Free deleted conversations except the parts that forks need, and unreferenced content."""
        if self.is_read_only and not dry_run:
            raise self._refusal()
        collector = Collector(
            self._files,
            self._commits,
            self._packs,
            self._change_log,
            self._registry,
            self.catalogue,
            self._watching,
        )
        collection = collector.run(grace=grace, dry_run=dry_run, progress=progress)
        # Even if nothing was freed: a deleted conversation had a title.
        if not dry_run and not self._purge(is_thorough=False):
            problem = "too large to be written anew by gc: titles that were freed may be in it until `cannery erase`"
            damage = Damage(INDEX, problem, is_lost=False)
            return msgspec.structs.replace(collection, damages=(*collection.damages, damage))
        return collection

    def purge(self) -> None:
        """Empty the journal, and remove freed data from the index file."""
        if not self._purge(is_thorough=True):
            raise StoreUnavailableError(f"{INDEX}: others read all the time")

    def _purge(self, *, is_thorough: bool) -> bool:
        self._commits.purge()
        return self.catalogue.purge(is_thorough=is_thorough)

    def backup(self, path: str, progress: Progress | None = None) -> Backup:
        """Copy a consistent snapshot to a new directory."""
        return Copier(self._files, path, self._commits, self._change_log).run(progress)

    def close(self) -> None:
        """Release all resources; the last process leaves an empty journal."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self.catalogue.close()
            self._presence.leave(self._commits)
        finally:
            self._commits.close()
            self._packs.close()


def open_backend(
    location: str, describe: Describe, hashing: Hashing, *, read_only: bool = False
) -> DirectoryBackend:
    """Open the store in a directory, or create one there; a store that cannot be written is opened read-only."""
    files = OperatingSystem(location)
    with medium(files.root):
        if read_only or is_read_only(files):
            if files.facts(MARKER) is None:
                raise StorageError(f"{files.root} is not a Cannery store: {MARKER} is missing")
            return DirectoryBackend(Overlay(location), describe, hashing, is_read_only=True)
        return DirectoryBackend(files, describe, hashing)
