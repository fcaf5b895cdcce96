"""gc: frees what is unreachable, beside writers, and can be killed at every step.

Section 7 of ``docs/storage-format.md``. The index knows which conversations are deleted, which ones share lines with
them and which content is unused, so that the work is proportional to the deleted data and not to the kept data. Folders
of conversations are removed under the write lock, a few at a time; content records are freed by ordinary changes of the
journal. Both check whether a conversation was forked, or content referred to, meanwhile (``Watch``): the index may know
that a conversation was deleted before it knows that it was forked earlier.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec
from msgspec import Struct

from cannery.backends._catalogue import writing
from cannery.backends._catalogue.schema import Row, row_of
from cannery.backends._contract import Collection, Damage, Metadata, Progress, referred
from cannery.backends._seals import ordinal_of, unseal_copies
from cannery.backends.directory import references
from cannery.backends.directory.catalogue import DerivedCatalogue
from cannery.backends.directory.changes import ChangeLog
from cannery.backends.directory.commits import Commits
from cannery.backends.directory.compaction import Compaction
from cannery.backends.directory.files import Files, medium, read_whole
from cannery.backends.directory.journal import Draft
from cannery.backends.directory.layout import (
    CONTENT,
    CONVERSATIONS,
    LOCKS,
    TRASH,
    grave_name,
    log_name,
    metadata_name,
    pack_name,
)
from cannery.backends.directory.lines import judge, offset_after
from cannery.backends.directory.opening import empty_trash
from cannery.backends.directory.pack_index import Place
from cannery.backends.directory.packs import HEADER, SCOPED, Packs, freed_record
from cannery.backends.directory.registry import Registry
from cannery.backends.directory.watching import Watch, Watching
from cannery.errors import ConflictError

# How many conversations are removed while writers wait, and how many records and bytes one change frees.
_FOLDERS = 32
_RECORDS = 256
_BYTES = 1 << 20
# For how many seconds gc tries again if others ended an epoch before it freed the unused content.
_PATIENCE = 10.0


@contextmanager
def by_turns(files: Files) -> Iterator[None]:
    """Hold the lock without which nothing but the end of a file is ever removed."""
    fd = files.open(f"{LOCKS}/collect", create=True)
    try:
        files.lock(fd)
        yield
    finally:
        files.close(fd)


class _Spent(NamedTuple):
    """A deleted conversation, and the position up to which forks need it; None if none does."""

    row: Row
    needed: int | None

    @property
    def start(self) -> int:
        """The position of the first line to free."""
        return self.row.position if self.needed is None else max(self.needed, self.row.position)


class _Doubts(Struct):
    """Data that must stay because something cannot be read."""

    keeps_conversations: bool = False
    keeps_contents: bool = False
    keeps_scoped: bool = False
    digests: set[bytes] = set()


class _Freed(NamedTuple):
    """A freed record; the place is None if the content is no longer stored."""

    key: bytes
    place: Place | None


class _OvertakenError(ConflictError):
    """References made meanwhile are no longer known: look again."""


class Collector:
    """One run of gc."""

    def __init__(
        self,
        files: Files,
        commits: Commits,
        packs: Packs,
        change_log: ChangeLog,
        registry: Registry,
        catalogue: DerivedCatalogue,
        watching: Watching,
    ) -> None:
        self._files = files
        self._commits = commits
        self._packs = packs
        self._change_log = change_log
        self._registry = registry
        self._catalogue = catalogue
        self._watching = watching
        self._compaction = Compaction(files, commits, packs, catalogue)
        self._progress: Progress | None = None
        self._damages: list[Damage] = []
        self._freed_bytes = 0
        self._dead: list[str] = []
        self._settled: set[str] = set()
        self._late: set[bytes] = set()

    def run(self, *, grace: float, dry_run: bool, progress: Progress | None) -> Collection:
        """Free unreachable data, or list what would be freed."""
        self._progress = progress
        with medium(self._files.root), by_turns(self._files), contextlib.ExitStack() as undo:
            undo.callback(self._watching.end)
            # Beside many writers each update of the index takes longer than the last. This is the only one, unless an
            # epoch ends: from here on the watch knows what the tables lack.
            watch = None if dry_run else self._watching.begin(self._commits)
            self._catalogue.ask(lambda _: None)
            if watch is not None:
                self._change_log.compact()
                self._settle()
            self._compaction.sweep(is_rehearsal=dry_run)
            staged = self._staged(grace)
            doubts = self._doubts()
            if watch is None:
                contents = self._rehearse(doubts, staged)
            else:
                watch = self._free_spent(watch, doubts)
                contents = self._free_contents(watch, doubts, staged)
                self._name_kept(self._compaction.run(), "what was freed in it stays")
                self._registry.prune()
        damages = tuple(dict.fromkeys(self._damages))
        dead = tuple(sorted(self._dead))
        return Collection(dead, contents, self._freed_bytes, dry_run, damages)

    def _name_kept(self, packs: Sequence[str], problem: str) -> None:
        self._damages += [Damage(pack, f"damaged: {problem}") for pack in packs]

    def _watch_again(self, until: float) -> Watch | None:
        """A new watch, after others ended an epoch and some of it was not learned; None if it is too late."""
        if time.monotonic() > until:
            problem = (
                "others write faster than gc can follow: what nothing uses stays until the next gc"
            )
            self._damages.append(Damage(CONTENT, problem))
            return None
        watch = self._watching.begin(self._commits)
        self._catalogue.ask(lambda _: None)
        return watch

    def _staged(self, grace: float) -> set[bytes]:
        """Record content that was stored before a change refers to it, and content that must still wait for one."""
        (outcome,) = self._commits.submit((lambda _: self._registry.staged(grace),), "sync")
        waiting, late = outcome.result()
        self._late = set(late)
        self._catalogue.tell(lambda connection: references.suspect(connection, late))
        return set(waiting)

    # Unreadable data

    def _doubts(self) -> _Doubts:
        doubts = _Doubts()
        names = self._catalogue.known(references.doubtful)
        if names:
            # They may have been repaired meanwhile.
            self._catalogue.look_again(names)
        for name in self._catalogue.known(references.doubtful) if names else ():
            self._doubt(name, doubts)
        return doubts

    def _doubt(self, identifier: str, doubts: _Doubts) -> None:
        folder = f"{CONVERSATIONS}/{identifier}"
        try:
            log = read_whole(self._files, log_name(identifier)) or b""
        except OSError:
            problem = "no folder: what it refers to cannot be known, so all content is kept"
            self._damages.append(Damage(folder, problem))
            doubts.keeps_contents = doubts.keeps_conversations = True
            return
        if self._files.facts(metadata_name(identifier)) is not None and not _is_root(log):
            problem = "damaged: deleted conversations are kept, because it may be a fork of one"
            self._damages.append(Damage(metadata_name(identifier), problem))
            doubts.keeps_conversations = True
        found = referred(log)
        doubts.digests |= found
        doubts.keeps_scoped |= bool(found)

    # Conversations

    def _free_spent(self, watch: Watch, doubts: _Doubts) -> Watch:
        """Free the parts of deleted conversations that no fork needs; returns the watch to use from here on."""
        until = time.monotonic() + _PATIENCE
        while not doubts.keeps_conversations:
            try:
                self._free_conversations(self._catalogue.known(_spent), watch)
                break
            except _OvertakenError:
                following = self._watch_again(until)
                if following is None:
                    break
                watch = following
        return watch

    def _free_conversations(self, spent: Sequence[_Spent], watch: Watch) -> None:
        above = {one.row.id: one.row.parent for one in spent}
        for start in range(0, len(spent), _FOLDERS):
            batch = _unforked(spent[start : start + _FOLDERS], above, watch)
            for one in batch:
                self._catalogue.forget_words(one.row, one.start)
            names = [one.row.id for one in batch]
            self._catalogue.tell(lambda one, names=names: references.unsettle(one, names))  # type: ignore[misc]
            try:
                self._take_out(batch, above, watch)
            finally:
                left = [one for one in batch if one.row.id not in self._settled]
                self._catalogue.tell(lambda connection, left=left: _say_again(connection, left))  # type: ignore[misc]
            self._catalogue.look_again(names)
            self._catalogue.tell(references.settle)
            empty_trash(self._files)
            if self._progress:
                self._progress(start + len(batch), len(spent))

    def _settle(self) -> None:
        """Sync the removals of an earlier run whose syncs failed, before the content they referred to is freed."""
        names = self._catalogue.known(references.unsettled)
        if not names:
            return
        with self._commits.alone():
            self._shorten(names, {})
            self._files.sync_directory(TRASH)
            self._files.sync_directory(CONVERSATIONS)
        self._catalogue.look_again(names)
        self._catalogue.tell(references.settle)

    def _take_out(
        self, batch: Sequence[_Spent], above: Mapping[str, str | None], watch: Watch
    ) -> None:
        """Remove some conversations, and shorten others, under the write lock; not those that were forked meanwhile."""
        self._settled = set()
        with self._commits.alone():
            # Their metadata has the scope of the content that they refer to.
            watch.keys()
            if watch.is_lost:
                raise _OvertakenError("others were faster")
            batch = _unforked(batch, above, watch)
            self._settled = {one.row.id for one in batch}
            dead = [one.row.id for one in batch if one.needed is None and self._is_deleted(one.row)]
            cuts = {
                one.row.id: cut
                for one in batch
                if one.needed is not None and (cut := self._cut_of(one)) is not None
            }
            self._freed_bytes += sum(map(self._size_of, dead))
            self._freed_bytes += sum(self._log_size(name) - cut for name, cut in cuts.items())
            self._commits.distrust()
            starts = {one.row.id: one.start for one in batch}
            self._change_log.forget(dead, self._shortened(cuts, starts))
            self._bury(dead)
            self._shorten(cuts, cuts)
            self._commits.begin_epoch()
        self._dead += dead

    def _is_deleted(self, row: Row) -> bool:
        """Whether the files, too, say that it is deleted."""
        raw = unseal_copies(read_whole(self._files, metadata_name(row.id)) or b"")
        with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            return raw is not None and msgspec.json.decode(raw, type=Metadata).deleted is not None
        return False

    def _cut_of(self, spent: _Spent) -> int | None:
        """Where the log of a conversation is cut; None if it cannot be shortened, or is damaged."""
        if spent.row.length <= spent.start or not self._is_deleted(spent.row):
            return None
        name = log_name(spent.row.id)
        log = read_whole(self._files, name) or b""
        cut = offset_after(log, spent.row.position, spent.start)
        kept = judge(log[:cut], name, spent.row.position, spent.row.position)
        if kept.start + len(kept.lines) > spent.start or (kept.lines and kept.lines[-1] is None):
            problem = "damaged: which of its lines a fork needs cannot be known, so all may be kept"
            self._damages.append(Damage(name, problem))
        return cut

    def _size_of(self, identifier: str) -> int:
        facts = self._files.facts(metadata_name(identifier))
        return self._log_size(identifier) + (0 if facts is None else facts.size)

    def _log_size(self, identifier: str) -> int:
        facts = self._files.facts(log_name(identifier))
        return 0 if facts is None else facts.size

    def _shortened(
        self, cuts: Mapping[str, int], starts: Mapping[str, int]
    ) -> dict[str, tuple[int, bytes]]:
        """The ends of shortened logs, and their last lines if these are sealed."""
        found = {}
        for identifier, cut in cuts.items():
            log = read_whole(self._files, log_name(identifier)) or b""
            last = log[log.rfind(b"\n", 0, max(cut - 1, 0)) + 1 : cut]
            is_sealed = ordinal_of(last[:-1]) == starts[identifier] - 1
            found[identifier] = (starts[identifier], last if is_sealed else b"")
        return found

    def _shorten(self, identifiers: Iterable[str], cuts: Mapping[str, int]) -> None:
        """Cut the logs of deleted conversations after the last line that a fork needs, durably."""
        for identifier in identifiers:
            try:
                fd = self._files.open(log_name(identifier))
            except FileNotFoundError:
                continue
            try:
                if identifier in cuts:
                    self._files.truncate(fd, cuts[identifier])
                self._files.sync(fd)
            finally:
                self._files.close(fd)

    def _bury(self, dead: Sequence[str]) -> None:
        for identifier in dead:
            self._files.rename(f"{CONVERSATIONS}/{identifier}", grave_name(identifier))
        if dead:
            self._files.sync_directory(TRASH)
            self._files.sync_directory(CONVERSATIONS)

    # Content

    def _free_contents(self, watch: Watch, doubts: _Doubts, staged: set[bytes]) -> int:
        """Free the records of unreferenced content; returns the number of contents."""
        after, count, until = b"", 0, time.monotonic() + _PATIENCE
        lost = False
        while not doubts.keeps_contents:
            try:
                looked_at, freed = self._free_some(watch, after, doubts, staged)
            except _OvertakenError:
                following = self._watch_again(until)
                if following is None:
                    break
                watch = following
                continue
            if not looked_at:
                break
            after = looked_at
            lost |= any(one.place is None and one.key not in self._late for one in freed)
            places = {one.place: one.key for one in freed if one.place is not None}
            count += len(set(places.values()))
            self._freed_bytes += sum(HEADER.size + place.stored for place in places)
            self._catalogue.tell(lambda connection, freed=freed: _note_freed(connection, freed))  # type: ignore[misc]
        if lost:
            problem = "content that nothing refers to may be in it, and is not found"
            self._name_kept(self._compaction.damaged(), problem)
        return count

    def _free_some(
        self, watch: Watch, after: bytes, doubts: _Doubts, staged: set[bytes]
    ) -> tuple[bytes, list[_Freed]]:
        """Free some content after a key; returns the last examined key, and what was freed."""
        keys = self._catalogue.known(lambda one: references.unused(one, after, _RECORDS))
        kept = staged | doubts.digests
        wanted = [key for key in keys if key not in kept]

        def build(draft: Draft) -> tuple[bytes, list[_Freed]]:
            if watch.is_lost:
                raise _OvertakenError("others were faster")
            taken = watch.keys()
            freed: list[_Freed] = []
            for key in wanted:
                if draft.size > _BYTES:
                    return freed[-1].key, freed
                if key not in taken:
                    freed += self._free(key, draft, keeps_scoped=doubts.keeps_scoped)
            return keys[-1], freed

        if not keys:
            return b"", []
        (outcome,) = self._commits.submit((build,), "sync")
        result: tuple[bytes, list[_Freed]] = outcome.result()
        return result

    def _free(self, key: bytes, draft: Draft, *, keeps_scoped: bool) -> Iterator[_Freed]:
        places = self._packs.locate_all(key)
        if not places:
            yield _Freed(key, None)
        for place in places:
            if keeps_scoped and self._packs.flags_at(place) & SCOPED:
                continue
            data = freed_record(place.stored)
            # A record that is too long for the journal is removed when its pack is rewritten.
            if place.stored <= _BYTES:
                data += bytes(place.stored)
            draft.overwrite(pack_name(place.number), place.offset, data)
            self._packs.drop(place)
            yield _Freed(key, place)

    # Dry run

    def _rehearse(self, doubts: _Doubts, staged: set[bytes]) -> int:
        """Count what would be freed."""
        spent = [] if doubts.keeps_conversations else self._catalogue.known(_spent)
        self._dead = [one.row.id for one in spent if one.needed is None]
        for done, one in enumerate(spent, 1):
            cut = None if one.needed is None else self._cut_of(one)
            if one.needed is None:
                self._freed_bytes += self._size_of(one.row.id)
            elif cut is not None:
                self._freed_bytes += self._log_size(one.row.id) - cut
            if self._progress:
                self._progress(done, len(spent))
        if doubts.keeps_contents:
            return 0
        losing = {one.row.id: self._kept_by(one) for one in spent}
        keys = self._catalogue.ask(lambda connection: _garbage(connection, losing))
        keys -= staged | doubts.digests
        count = 0
        for key in keys:
            places = self._packs.locate_all(key)
            if doubts.keeps_scoped:
                places = [one for one in places if not self._packs.flags_at(one) & SCOPED]
            count += bool(places)
            self._freed_bytes += sum(HEADER.size + place.stored for place in places)
        return count

    def _kept_by(self, spent: _Spent) -> Callable[[set[bytes]], set[bytes]]:
        """Which of its content keys a conversation keeps using."""
        cut = None if spent.needed is None else self._cut_of(spent)
        if spent.needed is None:
            return lambda _: set()
        if cut is None:
            return lambda keys: keys
        log = read_whole(self._files, log_name(spent.row.id)) or b""
        left = self._packs.keys_of(spent.row.scope, referred(log[:cut]))
        return lambda keys: keys & left


def _is_root(log: bytes) -> bool:
    """Whether a conversation with damaged metadata is not a fork, according to its first line."""
    return ordinal_of(log.partition(b"\n")[0]) == 0


def _note_freed(connection: sqlite3.Connection, freed: Sequence[_Freed]) -> None:
    references.drop(connection, [one.key for one in freed])
    for _, place in freed:
        if place is None:
            continue
        # A record that was too long to be zeroed makes its pack due at once.
        weight = 1 if place.stored <= _BYTES else 1 << 10
        references.add_freed(connection, place.number, (HEADER.size + place.stored) * weight)


def _garbage(
    connection: sqlite3.Connection, losing: Mapping[str, Callable[[set[bytes]], set[bytes]]]
) -> set[bytes]:
    """The content that would become unreferenced if some conversations lost their freed parts."""
    found = set(references.unused(connection, b"", -1))
    left: dict[bytes, int] = {}
    for identifier, kept_of in losing.items():
        keys = references.uses_of(connection, identifier)
        for key in keys - kept_of(keys):
            left[key] = left.get(key, references.users_of(connection, key)) - 1
    return found | {key for key, users in left.items() if not users}


def _spent(connection: sqlite3.Connection) -> list[_Spent]:
    """The deleted conversations of which something can be freed."""
    found: list[_Spent] = []
    needed: dict[str, int | None] = {}
    for row in list(references.tombstones(connection)):
        if not references.is_all_shared(connection, row):
            _look_at_forks(connection, row, needed)
            spent = _Spent(row, needed[row.id])
            if spent.needed is None or row.length > spent.start:
                found.append(spent)
    return found


def _unforked(
    spent: Sequence[_Spent], above: Mapping[str, str | None], watch: Watch
) -> list[_Spent]:
    """Those that were not forked since gc began to watch, nor a deleted fork of theirs; ``above`` has the parents."""
    forked: set[str] = set()
    for parent in watch.parents:
        name: str | None = parent
        while name is not None and name not in forked:
            forked.add(name)
            name = above.get(name)
    return [one for one in spent if one.row.id not in forked]


def _say_again(connection: sqlite3.Connection, left: Sequence[_Spent]) -> None:
    """Index the words again of conversations that were removed from the index but not from the store."""
    for one in left:
        row = row_of(connection, one.row.id)
        if row is not None and row.searched > one.start:
            writing.put(connection, row._replace(searched=one.start))


def _look_at_forks(connection: sqlite3.Connection, row: Row, needed: dict[str, int | None]) -> None:
    """Determine up to where forks need a deleted conversation and its deleted forks."""
    waiting = [row]
    begun: set[str] = set()
    while waiting:
        top = waiting[-1]
        if top.id in needed:
            waiting.pop()
            continue
        forks = references.forks_of(connection, top.id)
        below = [one for one in forks if one.deleted and one.id not in needed]
        if below and top.id not in begun:
            begun.add(top.id)
            waiting += [one for one in below if one.id not in begun]
            continue
        living = [one for one in forks if not one.deleted or needed.get(one.id) is not None]
        needed[top.id] = max((one.position for one in living), default=None)
        waiting.pop()
