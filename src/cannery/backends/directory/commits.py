"""Durable changes: the write path of section 6 of ``docs/storage-format.md``.

Two locks, always taken in the order commit, write; each is a mutex in this process and a flock between processes. The
holder of the commit lock syncs once for all journaled changes, and places all of their writes; so commits of many
threads and processes share syncs. Recovery, normal placement and another process's unfinished work use the same code.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from cannery.backends._contract import Damage, Durability
from cannery.backends._seals import next_position, unseal_copies
from cannery.backends.directory import feed
from cannery.backends.directory.files import Files, medium
from cannery.backends.directory.group_commit import Build, Gathering, Outcome, Ticket
from cannery.backends.directory.journal import (
    CAPACITY,
    REPLACE,
    START,
    WRITE,
    Draft,
    Journal,
    Operation,
    Progress,
    encode_record,
)
from cannery.backends.directory.layout import (
    CHANGES,
    CONTENT,
    CONVERSATIONS,
    LOCKS,
    number_of,
    pack_name,
)
from cannery.backends.directory.placement import Placement, Touched, touch
from cannery.errors import CanneryError, StorageError, StoreUnavailableError

T = TypeVar("T")

_BACKLOG = 1 << 20
_PLACING = 1
_TRIES = 3


class Tail(NamedTuple):
    """The end of a file once all journaled changes are placed.

    ``position`` is the next one of a log of lines, and the last checksum of a change log.
    """

    end: int
    position: int = 0


class _Lock:
    """A mutex between the threads of this process and a flock between processes."""

    __slots__ = ("_fd", "_files", "_mutex", "_process")

    def __init__(self, files: Files, name: str) -> None:
        self._files = files
        self._fd = files.open(f"{LOCKS}/{name}", create=True)
        self._mutex = threading.Lock()
        self._process = os.getpid()

    def __enter__(self) -> None:
        if os.getpid() != self._process:
            raise StorageError("the store was opened before a fork; open it again in this process")
        if self._fd < 0:
            raise StorageError("the store is closed")
        self._mutex.acquire()
        try:
            self._files.lock(self._fd)
        except BaseException:
            self._mutex.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self._files.unlock(self._fd)
        finally:
            self._mutex.release()

    def close(self) -> None:
        """Close the file."""
        self._files.close(self._fd)
        self._fd = -1


class _NeedsRecoveryError(Exception):
    """The state beside the journal is not reliable."""


class Commits:
    """The journal with its locks: journals changes, makes them durable, places them."""

    def __init__(
        self, files: Files, forget: Callable[[bool], None], learn: Callable[[Operation], None]
    ) -> None:
        self._files = files
        self._forget_above = forget
        self._learn = learn
        with contextlib.ExitStack() as undo:
            self._writing = _Lock(files, "write")
            undo.callback(self._writing.close)
            self._committing = _Lock(files, "commit")
            undo.callback(self._committing.close)
            self.journal = Journal(files)
            undo.pop_all()
        self._placement = Placement(files)
        self._placing_epoch = 0
        # This process's knowledge of the journal; guarded by the write lock.
        self._epoch = 0
        self._end = START
        self._pending = 0
        self._own: dict[tuple[int, int], tuple[int, Sequence[Operation]]] = {}
        # The epoch's journaled operations from ``_touched_from`` on, and up to where they are durable in their files.
        self._touched: Touched = {}
        self._touched_from = START
        self._durable_to = START
        # Builds record here what they do; ``metadata`` is also what they have read, None for no metadata.
        self.tails: dict[str, Tail] = {}
        self.metadata: dict[str, bytes | None] = {}
        self._gathering = Gathering(self._make)

    def close(self) -> None:
        """Close all files."""
        self._placement.forget()
        self.journal.close()
        self._writing.close()
        self._committing.close()

    # Journaling

    def submit(self, builds: Iterable[Build], durability: Durability) -> list[Outcome]:
        """Journal the changes that ``builds`` draft under the write lock; return when they are durable.

        One thread at a time works for all waiting ones: it journals their changes with one write and makes them durable
        with one sync.
        """
        return self._gathering.submit(builds, durability)

    def _make(self, outcomes: list[Outcome], is_lazy: bool) -> None:  # noqa: FBT001 - a callback
        try:
            rest = outcomes
            while rest:
                rest = self._record(rest, is_lazy=is_lazy)
            self._settle(outcomes, is_lazy=is_lazy)
            for outcome in outcomes:
                outcome.is_settled = True
        except CanneryError as error:
            for outcome in outcomes:
                outcome.error = outcome.error or error

    def _record(self, outcomes: list[Outcome], *, is_lazy: bool) -> list[Outcome]:
        """Journal as many changes as there is room for; returns the others."""
        try:
            with self._writing:
                self._follow()
                done = self._record_some(outcomes, is_lazy=is_lazy)
        except _NeedsRecoveryError:
            self.recover()
            return outcomes
        if done < len(outcomes):
            self.checkpoint()
        return outcomes[done:]

    def _record_some(self, outcomes: Sequence[Outcome], *, is_lazy: bool) -> int:
        draft = Draft()
        # The records of builds are true only when all is written; after an error everything is learned anew.
        epoch, self._epoch = self._epoch, 0
        done = 0
        for outcome in outcomes:
            if self._end + draft.size > CAPACITY:
                break
            done += 1
            try:
                outcome.value = outcome.build(draft)
            except CanneryError as error:
                outcome.error = error
            except OSError as error:
                outcome.error = StoreUnavailableError(f"{self._files.root}: {error}")
        operations = draft.operations()
        if operations:
            ticket = self._journal(epoch, operations, is_lazy=is_lazy)
            for outcome in outcomes[:done]:
                if outcome.error is None:
                    outcome.ticket = ticket
        self._epoch = epoch
        return done

    def _journal(self, epoch: int, operations: Sequence[Operation], *, is_lazy: bool) -> Ticket:
        start = self._end
        record = encode_record(epoch, start, operations)
        end = start + len(record)
        with medium("journal"):
            self.journal.write(record, start)
        self._own[epoch, start] = (end, operations)
        touch(self._touched, operations)
        self._end = end
        self._pending = end if is_lazy else self._pending
        self.journal.note_written(Progress(epoch, end, self._pending))
        return Ticket(epoch, end, self.journal.abandoned().pending)

    def _follow(self) -> None:
        """Learn what other processes have journaled."""
        written = self.journal.written()
        if written is None or written.epoch == 0:
            raise _NeedsRecoveryError
        if written.epoch != self._epoch:
            placed = self.journal.placed()
            known = placed is not None and placed.epoch == written.epoch
            self._adopt(written.epoch, placed.position if known and placed else START)
        if written.position > self._end:
            others = self._operations(self._end, written.position)
            touch(self._touched, others)
            for operation in others:
                self._note(operation)
                self._learn(operation)
        self._end = written.position
        self._pending = written.pending

    def _adopt(self, epoch: int, position: int, *, is_followed: bool = False) -> None:
        """Continue in an epoch; ``is_followed`` if all journaled changes of the one before were learned."""
        self._epoch = epoch
        self._end = position
        self._own.clear()
        self._touched.clear()
        self._touched_from = position
        self._durable_to = START
        self.tails.clear()
        self.metadata.clear()
        self._forget_above(is_followed)

    def _note(self, operation: Operation) -> None:
        if operation.kind == WRITE:
            position = 0
            if operation.name.startswith(CONVERSATIONS):
                position = next_position(operation.data)
            elif operation.name.startswith(CHANGES):
                position = feed.chain_at(operation.data) or 0
            end = operation.offset + len(operation.data)
            self.tails[operation.name] = Tail(end, position)
        elif operation.kind == REPLACE:
            self.metadata[operation.name] = unseal_copies(operation.data)

    # Making durable

    def _settle(self, outcomes: Sequence[Outcome], *, is_lazy: bool) -> None:
        """Make journaled changes durable, and determine which of them are."""
        tickets = {outcome.ticket for outcome in outcomes if outcome.ticket is not None}
        if not tickets:
            return
        if is_lazy:
            placed = self.journal.placed()
            if placed is not None and self._end - placed.position < _BACKLOG:
                return
        error: CanneryError | None = None
        try:
            placed = self.place()
        except CanneryError as problem:
            error = problem
            placed = self.journal.placed()
        lost = {ticket for ticket in tickets if not self._is_durable(ticket, placed)}
        for outcome in outcomes if lost else ():
            if outcome.ticket in lost:
                outcome.error = StoreUnavailableError(f"not made durable: {error}")
                outcome.error.__cause__ = error

    def _is_durable(self, ticket: Ticket, placed: Progress | None) -> bool:
        """Whether a change was placed; an epoch ends with everything placed, unless it was abandoned."""
        if placed is not None and placed.epoch == ticket.epoch:
            return ticket.end <= placed.position
        abandoned = self.journal.abandoned()
        if abandoned.pending == ticket.abandoned:
            return True
        is_last = abandoned.pending == ticket.abandoned + 1
        return is_last and (abandoned.epoch != ticket.epoch or ticket.end <= abandoned.position)

    def place_pending(self) -> None:
        """Place changes acknowledged at level ``os``, so that they can be read."""
        written = self.journal.written()
        if written is None or not written.pending:
            return
        placed = self.journal.placed()
        if placed is None or written.epoch != placed.epoch or written.pending > placed.position:
            self.place()

    def between(self, read: Callable[[], T]) -> T:
        """Read files while no process is placing: a change is seen whole or not at all."""
        for _ in range(_TRIES):
            before = self.journal.placed()
            value = read()
            if before is not None and not before.pending and self.journal.placed() == before:
                return value
        # Another process is placing continuously, or has died while placing.
        with contextlib.suppress(StoreUnavailableError):
            return self._between_turns(read)
        with self._committing:
            return read()

    def _between_turns(self, read: Callable[[], T]) -> T:
        """Read while the commit lock is held; the unfinished work of a dead process is placed first."""
        try:
            with self._committing:
                placed = self.journal.placed()
                if placed is None or placed.pending:
                    self._place_all()
                return read()
        except _NeedsRecoveryError:
            self.recover()
            with self._committing:
                return read()

    def place(self) -> Progress | None:
        """Sync and place everything that is journaled; returns how far that came."""
        try:
            with self._committing:
                return self._place_all()
        except _NeedsRecoveryError:
            self.recover()
            return self.journal.placed()

    def _place_all(self) -> Progress:
        written, placed = self._progress()
        if written.epoch != self._placing_epoch:
            self._placement.forget()
            self._placing_epoch = written.epoch
        if written.position == placed.position:
            return placed
        try:
            self.journal.sync()
            self.journal.note_placed(placed._replace(pending=_PLACING))
            self._placement.place(self._unplaced(placed, written.position))
        except OSError as error:
            with medium("journal"):
                self._abandon(placed)
            raise StoreUnavailableError(f"journal: {error}") from error
        placed = Progress(written.epoch, written.position)
        self.journal.note_placed(placed)
        return placed

    def _progress(self) -> tuple[Progress, Progress]:
        written, placed = self.journal.written(), self.journal.placed()
        if written is None or placed is None or written.epoch == 0:
            raise _NeedsRecoveryError
        if written.epoch != placed.epoch:
            raise _NeedsRecoveryError
        return written, placed

    def _operations(self, start: int, stop: int) -> list[Operation]:
        return [operation for _, operation in self.journal.operations(start, stop)]

    def _unplaced(self, placed: Progress, stop: int) -> Iterable[Operation]:
        """The journaled operations between two places: from memory as far as this process wrote them."""
        found: list[Operation] = []
        start = placed.position
        while start < stop:
            own = self._own.pop((placed.epoch, start), None)
            if own is None:
                return found + self._operations(start, stop)
            start = own[0]
            found += own[1]
        return found

    def _abandon(self, placed: Progress) -> None:
        """Abandon the journaled operations that are not placed; the commit lock is held."""
        with self._writing:
            written = self.journal.written()
            self.distrust()
            count = self.journal.abandoned().pending + 1
            self.journal.note_abandoned(placed._replace(pending=count))
            end = placed.position if written is None else max(written.position, placed.position)
            lost = self._operations(placed.position, end)
            self._placement.cut(lost)
            self._leave_pack(lost)
            # Something may have changed that the change log does not record.
            feed.begin(self._files)
            # Metadata may have been replaced already, and truncated lines must not come back.
            self._placement.sync(touch({}, self._operations(START, end)), is_partial=True)
            self._begin()

    def _leave_pack(self, lost: Iterable[Operation]) -> None:
        """Continue in a new pack, so that lost content that was already read is never overwritten."""
        packs = [name for _, name, _, _ in lost if name.startswith(CONTENT)]
        if packs:
            number = number_of(max(packs).rpartition("/")[2])
            self._files.close(self._files.open(pack_name((number or 0) + 1), create=True))

    # Checkpoint and recovery

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold both locks with an empty journal: every file is complete and durable, and nothing else writes."""
        with self._alone():
            yield

    @contextlib.contextmanager
    def _alone(self, *, shrink: bool = False) -> Iterator[None]:
        while True:
            try:
                self._sync_ahead()
                with self._committing, self._writing:
                    self._checkpoint(shrink=shrink)
                    yield
                    return
            except _NeedsRecoveryError:
                self.recover()

    def _sync_ahead(self) -> None:
        """Make durable most of what a checkpoint must, while others write: they wait only for the rest."""
        with self._committing:
            placed = self._place_all()
        with self._writing:
            self._follow()
            before = self._operations(self._durable_to, self._touched_from)
            touched = touch(dict(self._touched), before)
        if not touched or placed.epoch != self._epoch:
            return
        try:
            with medium("journal"):
                # Own descriptors: a placing thread may close those that are kept open.
                Placement(self._files).sync(touched, is_partial=True)
        except StoreUnavailableError:
            with self._committing, self._writing:
                self.distrust()
            raise
        with self._writing:
            self._follow()
            if placed.epoch == self._epoch:
                self._durable_to = self._touched_from = placed.position
                self._touched = touch({}, self._operations(placed.position, self._end))

    def checkpoint(self) -> None:
        """Make every file durable and empty the journal."""
        with self.alone():
            pass

    def purge(self) -> None:
        """Empty the journal and truncate it, so that none of the placed data is left in it."""
        with self._alone(shrink=True):
            pass

    def _checkpoint(self, *, shrink: bool = False) -> None:
        self._follow()
        placed = self._place_all()
        with medium("journal"):
            if placed.position > START:
                self._sync()
            if placed.position > START or (shrink and not self.journal.is_small()):
                self._begin(shrink=shrink, is_followed=True)

    def _sync(self) -> None:
        before = self._operations(self._durable_to, self._touched_from)
        try:
            self._placement.sync(touch(self._touched, before))
        except OSError:
            # After a failed sync the kernel may consider the pages clean: everything must be written again.
            self.distrust()
            raise

    def distrust(self) -> None:
        """Make every process recover before it writes again; both locks are held.

        A caller that changes files without the journal calls this first and ``begin_epoch`` last.
        """
        self.journal.note_written(Progress(0, 0))

    def begin_epoch(self) -> None:
        """Make every process forget its cached state of files; both locks are held and the journal is empty."""
        with medium("journal"):
            self._begin(is_followed=True)

    def _begin(self, *, shrink: bool = False, is_followed: bool = False) -> None:
        # A process that dies in between must not leave a state that points into the void epoch.
        self.journal.note_written(Progress(0, 0))
        self._publish(self.journal.begin(shrink=shrink), is_followed=is_followed)

    def _publish(self, epoch: int, *, is_followed: bool = False) -> None:
        if not self.journal.abandoned().epoch:
            self.journal.note_abandoned(Progress(epoch, START))
        self.journal.note_placed(Progress(epoch, START))
        self.journal.note_written(Progress(epoch, START))
        self._adopt(epoch, START, is_followed=is_followed)

    def recover(self, *, is_first: bool = False) -> list[Damage]:
        """Replay the journal from its start, even what was placed before, and begin a new epoch.

        If this process is the first and there was nothing to replay, the old epoch continues.
        """
        with (
            self._committing,
            self._writing,
            medium("journal"),
        ):
            return self._recover(is_first=is_first)

    def _recover(self, *, is_first: bool) -> list[Damage]:
        self._placement.forget()
        epoch = self.journal.epoch()
        damages = []
        end = START
        if epoch is not None:
            end = self.journal.valid_end(epoch)
            operations = self._operations(START, end)
            self._placement.place(operations)
            self._placement.sync(touch({}, operations))
            if self.journal.has_valid_behind(epoch, end):
                name = self.journal.keep_aside()
                problem = f"unreadable at {end}; what follows is kept in {name}, not applied"
                damages.append(Damage("journal", problem))
        elif not self.journal.is_blank():
            name = self.journal.keep_aside()
            damages.append(Damage("journal", f"damaged header; kept in {name}"))
        if epoch is None:
            self._files.sync_directory("")
        if epoch is None or end > START or damages or not is_first:
            self._begin()
        else:
            self._publish(epoch)
        return damages

    def retire(self) -> None:
        """Leave an empty journal behind; no other process uses the store."""
        with (
            contextlib.suppress(_NeedsRecoveryError),
            self._committing,
            self._writing,
        ):
            self._checkpoint(shrink=True)
