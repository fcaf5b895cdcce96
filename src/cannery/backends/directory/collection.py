"""gc: freeing what nothing reaches, beside writers, and killable at every step.

Section 7 of ``docs/storage-format.md``. The long work (marking, copying) runs without locks on packs that
nobody writes any more; the short end holds both locks and looks only at what was added meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from cannery.backends._contract import Collection, Cursor, Damage, Metadata, Progress, referred
from cannery.backends._seals import next_position, ordinal_of, unseal_copies
from cannery.backends.directory.changes import ChangeLog
from cannery.backends.directory.commits import Commits
from cannery.backends.directory.files import Files, medium, read_whole
from cannery.backends.directory.inspection import identifiers_of
from cannery.backends.directory.layout import (
    CONTENT,
    CONVERSATIONS,
    LOCKS,
    TRASH,
    grave_name,
    log_name,
    metadata_name,
    pack_index_name,
    pack_name,
)
from cannery.backends.directory.lines import offset_after
from cannery.backends.directory.opening import empty_trash
from cannery.backends.directory.packs import (
    HEADER,
    PACK_HEADER,
    SCOPED,
    Packs,
    Record,
    key_of,
    new_pack_header,
    scan,
)
from cannery.backends.directory.registry import Registry


@contextmanager
def by_turns(files: Files) -> Iterator[None]:
    """Hold the lock under which alone anything but the end of a file is ever taken away."""
    fd = files.open(f"{LOCKS}/collect", create=True)
    try:
        files.lock(fd)
        yield
    finally:
        files.close(fd)


class _Spent(Struct):
    """What can go of deleted conversations: some wholly, of others what lies behind a place in the log, if anything."""

    dead: set[str]
    cuts: dict[str, int | None]


class _Plan(Struct):
    """What becomes of one pack: which records go, and the copy without them."""

    number: int
    dropped: dict[bytes, Record]
    copied: int
    end: int = 0


class Collector:
    """One run of gc."""

    def __init__(
        self,
        files: Files,
        commits: Commits,
        packs: Packs,
        change_log: ChangeLog,
        registry: Registry,
    ) -> None:
        self._files = files
        self._commits = commits
        self._packs = packs
        self._change_log = change_log
        self._registry = registry
        self._progress: Progress | None = None
        self._scopes: dict[str, str] = {}
        self._positions: dict[str, int] = {}
        self._damages: list[Damage] = []
        # Whether something that refers to content does not say in which scope.
        self._has_unknown_scope = False

    def run(
        self, *, grace: float, dry_run: bool, progress: Progress | None
    ) -> tuple[Collection, list[str]]:
        """Free what nothing reaches, or say what would be freed; and the conversations that lost something."""
        self._progress = progress
        with medium(self._files.root), by_turns(self._files):
            if not dry_run:
                self._change_log.compact()
            cursor, active = self._stand_still(dry_run=dry_run)
            spent = self._spent(self._metadata())
            reached = self._mark(spent) | self._registry.staged(grace)
            numbers = [number for number in self._packs.numbers() if number < active]
            strange = identifiers_of(self._files)[1]
            if strange:
                problem = "no folder: what it refers to cannot be known, so all content is kept"
                self._damages += [Damage(f"{CONVERSATIONS}/{one}", problem) for one in strange]
                numbers = []
            plans = [plan for number in numbers if (plan := self._plan(number, reached))]
            freed = sum(self._bytes_of(name, spent) for name in (*spent.dead, *spent.cuts))
            if not dry_run:
                for plan in plans:
                    self._copy(plan)
                freed = self._finish(plans, spent, cursor)
                empty_trash(self._files)
        garbage = [record for plan in plans for record in plan.dropped.values()]
        freed += sum(HEADER.size + record.place.stored for record in garbage)
        changed = [*spent.dead, *(name for name, cut in spent.cuts.items() if cut is not None)]
        dead, damages = tuple(sorted(spent.dead)), tuple(dict.fromkeys(self._damages))
        return Collection(dead, len(garbage), freed, dry_run, damages), changed

    def _stand_still(self, *, dry_run: bool) -> tuple[Cursor, int]:
        """Start a new pack, so that no other is written any more."""
        with self._commits.alone():
            cursor = self._change_log.since(None).cursor
            active = max(self._packs.numbers(), default=0) + 1
            if not dry_run:
                self._files.close(self._files.open(pack_name(active), create=True))
                self._commits.begin_epoch()
            return cursor, active

    def _metadata(self) -> dict[str, Metadata] | None:
        """All metadata, or None if some is damaged that may say that a deleted conversation is needed."""
        found = {}
        is_whole = True
        for identifier in self._identifiers():
            metadata = self._read_metadata(identifier)
            if metadata is None:
                is_missing = self._files.facts(metadata_name(identifier)) is None
                is_whole &= is_missing or self._is_root(identifier)
                continue
            found[identifier] = metadata
            self._scopes[identifier] = metadata.scope
            self._positions[identifier] = metadata.position
        return found if is_whole else None

    def _read_metadata(self, identifier: str) -> Metadata | None:
        """What is known of a conversation; None if there is none, or if it is damaged."""
        raw = unseal_copies(read_whole(self._files, metadata_name(identifier)) or b"")
        with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            return None if raw is None else msgspec.json.decode(raw, type=Metadata)
        return None

    def _is_root(self, identifier: str) -> bool:
        """Whether a conversation whose metadata is damaged shows by its first line that it is no fork."""
        log = read_whole(self._files, log_name(identifier)) or b""
        if ordinal_of(log.partition(b"\n")[0]) == 0:
            return True
        problem = "damaged: deleted conversations are kept, because it may be a fork of one"
        self._damages.append(Damage(metadata_name(identifier), problem))
        return False

    def _identifiers(self) -> list[str]:
        return identifiers_of(self._files)[0]

    def _spent(self, metadata: dict[str, Metadata] | None) -> _Spent:
        spent = _Spent(set(), {})
        for identifier, count in ({} if metadata is None else still_needed(metadata)).items():
            if count is None:
                spent.dead.add(identifier)
                continue
            log = read_whole(self._files, log_name(identifier)) or b""
            spent.cuts[identifier] = offset_after(log, count)
        return spent

    def _mark(self, spent: _Spent) -> set[bytes]:
        living = [name for name in self._identifiers() if name not in spent.dead]
        reached: set[bytes] = set()
        for done, identifier in enumerate(living, 1):
            reached |= self._referred(identifier, spent)
            if self._progress:
                self._progress(done, len(living))
        return reached

    def _referred(self, identifier: str, spent: _Spent) -> set[bytes]:
        """The keys of the content that a conversation refers to."""
        data = read_whole(self._files, log_name(identifier)) or b""
        found = referred(data[: spent.cuts.get(identifier)])
        scope = self._scopes.get(identifier)
        if scope is None and found:
            self._has_unknown_scope = True
        return {key_of(scope, digest) for digest in found} if scope else found

    def _bytes_of(self, identifier: str, spent: _Spent) -> int:
        """How much of its files goes with a conversation."""
        names = (log_name(identifier), metadata_name(identifier))
        log, metadata = (facts.size if (facts := self._files.facts(name)) else 0 for name in names)
        if identifier in spent.dead:
            return log + metadata
        cut = spent.cuts.get(identifier)
        return 0 if cut is None else log - cut

    def _plan(self, number: int, reached: set[bytes]) -> _Plan | None:
        """What to drop from a pack; None to leave it alone, as everyone does with a damaged one."""
        with self._opened(pack_name(number)) as fd:
            records = list(scan(self._files, fd, number, PACK_HEADER))
        sound = [record for record in records if isinstance(record, Record)]
        dropped = {
            record.digest: record
            for record in sound
            if record.digest not in reached
            and not (self._has_unknown_scope and record.flags & SCOPED)
        }
        if len(sound) != len(records) or (sound and not dropped):
            return None
        return _Plan(number, dropped, len(sound) - len(dropped))

    def _copy(self, plan: _Plan) -> None:
        """Copy what stays, durably, to a file beside the pack."""
        name = pack_name(plan.number)
        with self._opened(name) as source, self._opened(name + ".new") as target:
            self._files.truncate(target, 0)
            self._files.write(target, new_pack_header(), 0)
            plan.end = PACK_HEADER
            for record in scan(self._files, source, plan.number, PACK_HEADER):
                if isinstance(record, Record) and record.digest not in plan.dropped:
                    self._copy_record(record, source, target, plan)
            self._files.sync(target)

    def _copy_record(self, record: Record, source: int, target: int, plan: _Plan) -> None:
        data = self._files.read(source, HEADER.size + record.place.stored, record.place.offset)
        self._files.write(target, data, plan.end)
        plan.end += len(data)

    def _finish(self, plans: list[_Plan], spent: _Spent, cursor: Cursor) -> int:
        """The end, while nobody writes: look at what was added, then put the copies in place; bytes of logs freed."""
        with self._commits.alone():
            noted = self._change_log.since(cursor).noted
            changed = None if noted is None else {one.identifier for one in noted}
            looked_at = set(self._identifiers()) if changed is None else changed
            self._spare(spent, looked_at)
            late: set[bytes] = set()
            for identifier in looked_at:
                if identifier not in spent.dead:
                    late |= self._referred(identifier, spent)
            for plan in plans:
                self._rescue(plan, late)
            freed = sum(self._bytes_of(name, spent) for name in (*spent.dead, *spent.cuts))
            self._commits.distrust()
            self._change_log.forget(spent.dead, self._shortened(spent.cuts))
            # The dead first: what is still there never misses its content.
            self._bury(spent.dead)
            self._shorten(spent.cuts)
            for plan in plans:
                self._put_in_place(plan)
            self._files.sync_directory(CONTENT)
            self._registry.prune()
            self._packs.forget()
            self._commits.begin_epoch()
        return freed

    def _spare(self, spent: _Spent, changed: Iterable[str]) -> None:
        """Leave alone what turns out to be needed by conversations that changed while everything was marked.

        What was deleted can be neither appended to nor forked; so only a fork that was made before, and seen by
        nobody, can need something of it.
        """
        for identifier in changed:
            metadata = self._read_metadata(identifier)
            if metadata is not None:
                self._scopes[identifier] = metadata.scope
            fork = None if metadata is None or metadata.deleted is not None else metadata
            seen: set[str] = set()
            while fork is not None and fork.id not in seen:
                seen.add(fork.id)
                spent.dead.discard(fork.id)
                if fork.id in spent.cuts:
                    spent.cuts[fork.id] = None
                fork = None if fork.parent is None else self._read_metadata(fork.parent)

    def _shortened(self, cuts: Mapping[str, int | None]) -> dict[str, tuple[int, bytes]]:
        """How many lines logs will have that are cut, and the last of them."""
        found = {}
        for identifier, cut in cuts.items():
            if cut is not None:
                log = read_whole(self._files, log_name(identifier)) or b""
                last = log[log.rfind(b"\n", 0, max(cut - 1, 0)) + 1 : cut]
                metadata = self._positions.get(identifier, 0)
                found[identifier] = (next_position(last) if last else metadata, last)
        return found

    def _shorten(self, cuts: Mapping[str, int | None]) -> None:
        """Cut the logs of deleted conversations behind the last line that a fork needs, durably.

        Those that are short enough are synced, too: the sync of an earlier cut may have failed.
        """
        for identifier, cut in cuts.items():
            with contextlib.suppress(FileNotFoundError), self._opened(log_name(identifier)) as fd:
                if cut is not None:
                    self._files.truncate(fd, cut)
                self._files.sync(fd)

    def _rescue(self, plan: _Plan, late: set[bytes]) -> None:
        """Keep what a line refers to that was written while we marked."""
        rescued = [plan.dropped.pop(digest) for digest in late & plan.dropped.keys()]
        if not rescued:
            return
        name = pack_name(plan.number)
        with self._opened(name) as source, self._opened(name + ".new") as target:
            for record in rescued:
                self._copy_record(record, source, target, plan)
            self._files.sync(target)
        plan.copied += len(rescued)

    def _put_in_place(self, plan: _Plan) -> None:
        name = pack_name(plan.number)
        self._files.remove(pack_index_name(plan.number))
        if plan.copied:
            self._files.rename(name + ".new", name)
        else:
            self._files.remove(name)
            self._files.remove(name + ".new")

    def _bury(self, dead: set[str]) -> None:
        for identifier in dead:
            self._files.rename(f"{CONVERSATIONS}/{identifier}", grave_name(identifier))
        if dead:
            self._files.sync_directory(TRASH)
            self._files.sync_directory(CONVERSATIONS)

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        fd = self._files.open(name, create=name.endswith(".new"))
        try:
            yield fd
        finally:
            self._files.close(fd)


def still_needed(everything: Mapping[str, Metadata]) -> dict[str, int | None]:
    """The deleted conversations, and how many of their own first lines forks need; None if there is no fork."""
    needed: dict[str, int] = {}
    for metadata in everything.values():
        fork = metadata
        if fork.deleted is not None:
            continue
        while fork.parent is not None and fork.position > needed.get(fork.parent, -1):
            needed[fork.parent] = fork.position
            above = everything.get(fork.parent)
            if above is None:
                break
            fork = above
    return {
        identifier: max(needed[identifier] - metadata.position, 0) if identifier in needed else None
        for identifier, metadata in everything.items()
        if metadata.deleted is not None
    }
