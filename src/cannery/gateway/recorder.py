"""Recording: every exchange is filed in the background, in the conversation that its history belongs to.

A reply never waits for the store and never fails because of it, unless ``acknowledge`` is "durable": then its end waits
until it is recorded. Entries go through a queue, bounded in number and in bytes, to one thread, which files all waiting
ones together, in order, with one sync. An entry that does not fit or fails is counted and reported by readiness.
"""

from __future__ import annotations

import asyncio
import queue
import secrets
import sqlite3
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from cannery.backends import shown
from cannery.errors import CanneryError, StoreUnavailableError
from cannery.gateway.calls import Call
from cannery.gateway.clients import Identity
from cannery.gateway.delegations import Delegations
from cannery.gateway.entries import Entry, Named
from cannery.gateway.filing import Filer
from cannery.gateway.identifiers import alike
from cannery.gateway.ledger import Digest, Ledgers, Plan, Spot, named_space, space_of
from cannery.gateway.logs import Log
from cannery.gateway.metrics import Metrics
from cannery.gateway.replies import Replies, Reply
from cannery.gateway.settings import Recording, Settings, default_encryption_key, default_store
from cannery.gateway.thoughts import Pairs, Thoughts, paired_digests
from cannery.messages import Conversation, Tool
from cannery.storage import Recognised, Store, open_store
from cannery.storage.exchanges import ExchangeRecord, append_records, record_of_reply
from cannery.storage.history import SpokenChain
from cannery.storage.instructions import tools_at

T = TypeVar("T")

_GATHER_SECONDS = 0.02
_MOST_TOGETHER = 1000
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 2.0
_MOST_UNWRITTEN = 20_000
# The catalogue is updated after this idle time, or when it is this many exchanges behind: recent changes are applied
# from memory, at half the cost of reading them (``backends/directory/recent.py``).
_IDLE_SECONDS = 1.0
_MOST_BEHIND = 500


class Recorder:
    """Files exchanges; with ``location`` None it only caches the replies that callers may continue from."""

    def __init__(self, location: str | None, settings: Recording, log: Log) -> None:
        self.location = location
        # Distinguishes its own records from those of other gateways.
        self.name = secrets.token_hex(4)
        self.acknowledges = location is not None and settings.acknowledge == "durable"
        self.ledgers = Ledgers()
        self.replies = Replies()
        self.thoughts = Thoughts()
        self.delegations = Delegations()
        self.metrics: Metrics | None = None
        # Called once, on another thread than the loop's, before anything is recorded.
        self.when_open: Callable[[Store], object] = lambda _: None
        self._log = log
        self._capacity = settings.queue
        self._capacity_bytes = settings.queue_bytes
        self._durability = settings.durability
        self._encryption_key = settings.encryption_key or default_encryption_key()
        self._filer: Filer | None = None
        self._unwritten: list[ExchangeRecord] = []
        self._problem: str | None = None
        self._waiting = 0
        self._waiting_bytes = 0
        self._pending: dict[str, int] = {}
        # The number of exchanges filed since the last update of the catalogue.
        self._behind = 0
        self._is_closing = threading.Event()
        self._gathered: list[Entry] = []
        self._queue: queue.SimpleQueue[list[Entry] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lookups = ThreadPoolExecutor(1, thread_name_prefix="cannery-lookup")
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def of(cls, settings: Settings, log: Log) -> Recorder:
        """The recorder for the settings."""
        recording = settings.recording
        location = (recording.store or default_store()) if recording.enabled else None
        return cls(location, recording, log)

    @property
    def description(self) -> str:
        """A description of the destination, for people."""
        if self.location is None:
            return "off"
        if self._problem is not None:
            return f"not working yet, and tried again: {self._problem}"
        return f"every exchange, in {shown(self.location)}"

    @property
    def store(self) -> Store | None:
        """The store, if it is open."""
        return None if self._filer is None else self._filer.store

    # --- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store; a failure is recorded as a problem, and the gateway runs anyway."""
        self._loop = asyncio.get_running_loop()
        if self.location is None:
            return
        await self._loop.run_in_executor(self._lookups, self._open)
        self._thread = threading.Thread(target=self._work, name="cannery-recorder", daemon=True)
        self._thread.start()

    def _open(self) -> None:
        location = str(self.location)
        try:
            store = open_store(
                location,
                durability=self._durability,  # type: ignore[arg-type]
                encryption_key=self._encryption_key,
            )
            self.when_open(store)
        except (CanneryError, OSError) as error:
            self._problem = f"the store cannot be opened: {error}"
            self._log.write("error", "store_unavailable", problem=str(error))
            return
        self._filer = Filer(store)
        if self._problem is not None:
            self._log_later("info", "store_is_back")
        self._problem = None

    async def close(self) -> None:
        """File the waiting entries, and close the store; an unavailable store is not waited for."""
        self._is_closing.set()
        self._dispatch()
        self._queue.put(None)
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join)
        self._lookups.shutdown(wait=True)
        if self._filer is not None:
            self._filer.store.close()

    # --- on the loop ---------------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        """Whether exchanges are filed."""
        return self.location is not None

    @property
    def waiting(self) -> int:
        """The number of exchanges that wait to be filed."""
        return self._waiting

    @property
    def waiting_bytes(self) -> int:
        """How many bytes of requests and replies wait to be filed."""
        return self._waiting_bytes

    def problems(self) -> Iterator[str]:
        """The reasons why recording does not work, if it does not."""
        if self._problem is not None:
            yield self._problem
        if self.is_on and (
            self._waiting >= self._capacity or self._waiting_bytes >= self._capacity_bytes
        ):
            yield "the recording queue is full"

    def gauges(self) -> dict[str, tuple[str, float]]:
        """The gauges of the queue."""
        up = 1.0 if self.is_on and self._problem is None else 0.0
        return {
            "cannery_recording_queue": ("Exchanges waiting to be filed.", float(self._waiting)),
            "cannery_recording_queue_bytes": (
                "Bytes of the requests and replies waiting to be filed.",
                float(self._waiting_bytes),
            ),
            "cannery_store_up": ("Whether the last attempt to file succeeded.", up),
        }

    def look_up(
        self,
        history: Conversation,
        identity: Identity,
        scope: str | None,
        after: str | None,
    ) -> Future[Recognised | None] | asyncio.Future[Recognised | None] | None:
        """Look up a history in the store, once all entries that wait for the conversation ``after`` are filed."""
        if self._filer is None:
            return None

        def look(filer: Filer) -> Recognised:
            found = filer.look_up(history, identity.session, is_aside=identity.is_side)
            if found.match is not None:
                self._remember(filer, found.match.identifier, found.pairs, history, scope)
            return found

        if after in self._pending:
            return asyncio.ensure_future(self._look_after(after, look, scope))
        return self._look(look, scope)

    async def _look_after(
        self, identifier: str, ask: Callable[[Filer], T], scope: str | None
    ) -> T | None:
        await self._settle(identifier)
        return await asyncio.wrap_future(self._look(ask, scope))

    def _remember(
        self,
        filer: Filer,
        identifier: str,
        pairs: Pairs,
        history: Conversation,
        scope: str | None,
    ) -> None:
        """Cache the reasoning that clients omit from a conversation, by the digests of their history."""
        loaded = filer.load(identifier, None)
        if loaded is not None and self._loop is not None:
            said = loaded[0]
            digests = paired_digests(said, pairs, history)
            self._loop.call_soon_threadsafe(self.thoughts.remember, scope, said, digests)

    def look_in(
        self, name: str, digests: Sequence[Digest | None], scope: str | None
    ) -> Future[Named | None] | None:
        """Look up the conversation for a name in the store, and how much of a history it has."""
        if self._filer is None:
            return None
        return self._look(lambda filer: filer.look_in(name, digests), scope)

    def own_name(self, name: str, scope: str | None) -> str:
        """A name for a new conversation that no other scope has used, filed or not."""
        others = list(self.ledgers.others(scope))
        free = (one for one in alike(name, scope or "") if not any(it.holds(one) for it in others))
        return next(free, name)

    def _look(self, ask: Callable[[Filer], T], scope: str | None) -> Future[T | None]:
        def look() -> T | None:
            try:
                return None if self._filer is None else ask(self._filer.within(scope))
            except Exception as error:  # noqa: BLE001 - whatever it is, a reply does not fail for it
                self._log_later("warning", "lookup_failed", problem=str(error))
                return None

        return self._lookups.submit(look)

    def tell(self, entry: Entry, plan: Plan) -> None:
        """Log the reason for which a call was recognised."""
        if self._log.is_debug:
            identity = entry.identity
            self._log.write(
                "debug",
                "recognised",
                request_id=entry.request_id,
                conversation=plan.identifier,
                place=plan.kind,
                why=plan.why,
                client=identity.client,
                session=identity.session,
                kind=identity.kind,
            )

    def put(self, entry: Entry) -> None:
        """Queue an entry; several go to the thread together, because waking it costs more than an entry."""
        is_full = self._waiting >= self._capacity or self._waiting_bytes >= self._capacity_bytes
        if is_full or self._thread is None or self._loop is None:
            self.count("dropped")
            entry.retract()
            if entry.recorded is not None:
                entry.recorded.set_result(False)
            return
        self._waiting += 1
        self._waiting_bytes += entry.size
        if entry.plan is not None:
            name = entry.plan.identifier
            self._pending[name] = self._pending.get(name, 0) + 1
        if not self._gathered:
            self._loop.call_later(0 if self.acknowledges else _GATHER_SECONDS, self._dispatch)
        self._gathered.append(entry)

    def _dispatch(self) -> None:
        """Hand the gathered entries to the thread; to file none of them would tell nothing of the store."""
        if self._gathered:
            self._queue.put(self._gathered)
        self._gathered = []

    async def recall(
        self, identifier: str, scope: str | None
    ) -> tuple[Conversation, tuple[Tool, ...]] | None:
        """The history up to a reply of a scope, and the facts of its thread, from memory or from the store."""
        reply = self.replies.find(identifier) or await self._look_for_reply(identifier, scope)
        if reply is None or reply.scope != scope:
            return None
        if reply.history is not None:
            return reply.history, reply.tools
        if reply.conversation is None:
            return None
        history = await self.load(reply.conversation, scope, reply.position)
        return None if history is None else (history, reply.tools)

    async def _look_for_reply(self, identifier: str, scope: str | None) -> Reply | None:
        """A reply of another gateway, or of an earlier run of this one."""
        if self._filer is None:
            return None
        store = self._filer.within(scope).store

        def look() -> Reply | None:
            try:
                found = record_of_reply(store, identifier)
                if found is None or found.outcome != "complete":
                    return None
                tools = tools_at(store, found.conversation, found.position)
            except CanneryError as error:
                self._log_later("warning", "lookup_failed", problem=str(error))
                return None
            return Reply(found.conversation, found.position, None, tools, found.key)

        found = await asyncio.get_running_loop().run_in_executor(self._lookups, look)
        if found is not None:
            self.replies.put(identifier, found)
        return found

    async def load(
        self, identifier: str, scope: str | None, stop: int | None = None
    ) -> Conversation | None:
        """The first messages of a conversation of a scope, after all entries that wait for it are filed."""
        if self._filer is None:
            return None
        filer = self._filer.within(scope)
        await self._settle(identifier)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._lookups, filer.load, identifier, stop)
        if found is None:
            return None
        history, end, session = found
        self._learn(identifier, scope, session, history, end)
        return history

    async def use_store(self, work: Callable[[Store], T], identifier: str, scope: str | None) -> T:
        """Use the store of a scope, after all entries that wait for a conversation are filed."""
        if self._filer is None:
            raise StoreUnavailableError(self._problem or "the store is not open")
        filer = self._filer.within(scope)
        await self._settle(identifier)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._lookups, work, filer.store)

    def view(self, scope: str | None) -> Store:
        """The store as a scope sees it, for reading."""
        if self._filer is None:
            off = "recording is off: there is nothing to show"
            raise StoreUnavailableError(
                off if self.location is None else self._problem or "it is not open"
            )
        return self._filer.within(scope).store

    def continue_at(
        self, identifier: str, scope: str | None, position: int, history: Conversation
    ) -> None:
        """Tell the ledger that messages after a history go to a position of the conversation it came from.

        Its instructions may differ from the stored ones.
        """
        ledger, space = self.ledgers.of(scope), named_space(identifier)
        for digest in reversed(SpokenChain().extend(history)):
            if digest is not None:
                ledger.learn(space, digest, Spot(identifier, position), position)
                return

    def _learn(
        self, identifier: str, scope: str | None, session: str, history: Conversation, end: int
    ) -> None:
        """Tell the ledger the place of a history that came from the store, so that it need not be looked up again."""
        spot, ledger = Spot(identifier, len(history)), self.ledgers.of(scope)
        for digest in reversed(SpokenChain().extend(history)):
            if digest is not None:
                ledger.learn(space_of(session), digest, spot, end)
                ledger.learn(named_space(identifier), digest, spot, end)
                return

    async def _settle(self, identifier: str) -> None:
        """Wait until no entry waits for a conversation, with a short limit."""
        for _ in range(200):
            if identifier not in self._pending:
                return
            await asyncio.sleep(0.01)

    def open(self, call: Call) -> Entry | None:
        """An entry for a call, if its exchange is to be recorded."""
        return Entry(self, call) if self.is_on or call.is_stateful else None

    def count(self, outcome: str, times: int = 1) -> None:
        """Count the outcome of recordings."""
        if self.metrics is not None:
            self.metrics.recorded.add(outcome, by=times)

    def _finished(self, entries: list[Entry], outcomes: list[str], problem: str | None) -> None:
        self._waiting -= len(outcomes)
        for outcome, times in Counter(outcomes).items():
            self.count(outcome, times)
        for entry, outcome in zip(entries, outcomes, strict=True):
            self._waiting_bytes -= entry.size
            if entry.recorded is not None and not entry.recorded.done():
                entry.recorded.set_result(outcome != "failed")
            if entry.plan is not None:
                left = self._pending.pop(entry.plan.identifier) - 1
                if left:
                    self._pending[entry.plan.identifier] = left
            is_moved = entry.plan is not None and entry.filed not in {None, entry.plan.identifier}
            if is_moved:
                entry.forget()
            elif outcome == "failed":
                entry.retract()
        self._note_problem(problem)

    def _note_problem(self, problem: str | None) -> None:
        """Set whether recording works, and log changes."""
        if (problem is None) != (self._problem is None):
            level, event = (
                ("info", "store_is_back") if problem is None else ("error", "store_unavailable")
            )
            self._log.write(level, event, **({} if problem is None else {"problem": problem}))
        self._problem = problem

    # --- on the thread -------------------------------------------------------------------------

    def _work(self) -> None:
        while (entries := self._next()) is not None:
            while len(entries) < _MOST_TOGETHER and not self._queue.empty():
                more = self._queue.get()
                if more is None:
                    self._queue.put(None)
                    break
                entries += more
            self._file_all(entries)
            self._behind += len(entries)
            if self._behind >= _MOST_BEHIND:
                self._catch_up()

    def _next(self) -> list[Entry] | None:
        """The next entries; the catalogue is updated before a longer wait."""
        if self._behind:
            try:
                return self._queue.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                self._catch_up()
        return self._queue.get()

    def _catch_up(self) -> None:
        """Update the catalogue; if this fails, the next query updates it."""
        self._behind = 0
        if self._filer is not None:
            try:
                self._filer.store.catch_up()
            except (CanneryError, OSError, sqlite3.Error) as error:
                self._log_later("debug", "catalogue_behind", problem=str(error))

    def _file_all(self, entries: list[Entry]) -> None:
        outcomes: list[str] = []
        records: list[ExchangeRecord] = []
        problem: str | None = None
        when = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._file_together(entries)
        for entry in entries:
            outcome, failure = self._file(entry)
            outcomes.append(outcome)
            problem = failure or problem
            records.append(entry.record(outcome, when, self.name))
        problem = self._keep(records) or problem
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._finished, entries, outcomes, problem)

    def _keep(self, records: list[ExchangeRecord]) -> str | None:
        """Store usage records; those that the store refuses wait for the next time, and the problem is returned."""
        self._unwritten += records
        if self._filer is None:
            return None
        try:
            append_records(self._filer.store, self._unwritten)
        except (CanneryError, OSError, sqlite3.Error) as error:
            lost = self._unwritten[:-_MOST_UNWRITTEN]
            del self._unwritten[:-_MOST_UNWRITTEN]
            if lost:
                self._log_later("error", "costs_not_recorded", exchanges=len(lost))
            return f"costs cannot be recorded: {error}"
        self._unwritten.clear()
        return None

    def _file_together(self, entries: list[Entry]) -> None:
        """File as many as possible with one sync; the obstacles are handled when each of the others is filed alone."""
        if self._filer is None:
            return
        try:
            self._filer.file_many(entries)
        except Exception as error:  # noqa: BLE001 - the recorder's edge: entries must not end the thread
            self._log_later("debug", "not_filed_together", problem=str(error))
            _let_go(error)

    def _file(self, entry: Entry) -> tuple[str, str | None]:
        """File one entry; while the store is down, wait for it, as long as the gateway runs."""
        wait = _FIRST_WAIT
        while True:
            try:
                return self._try(entry), None
            except (StoreUnavailableError, OSError) as error:
                problem = self._describe(error)
                _let_go(error)
                if self._is_closing.is_set():
                    return self._give_up(entry, error)
            except (CanneryError, sqlite3.Error) as error:
                return self._give_up(entry, error)
            except Exception as error:  # noqa: BLE001 - the recorder's edge: one entry must not end the thread
                return self._give_up(entry, error)
            self._tell(problem)
            self._is_closing.wait(wait)
            wait = min(wait * 2, _LONGEST_WAIT)

    def _try(self, entry: Entry) -> str:
        if self._filer is None:
            self._open()
        if self._filer is None:
            raise StoreUnavailableError(self._problem or "it is not open")
        if entry.plan is None:
            return "aborted" if entry.is_aborted else "passed"
        filer = self._filer.within(entry.scope)
        if entry.filed is None:
            entry.filed = filer.file(entry, entry.plan)
        filer.link(entry, entry.plan, entry.filed)
        if not entry.is_aborted:
            return "complete"
        filer.mark_aborted(entry.filed)
        return "aborted"

    def _describe(self, error: Exception) -> str:
        place = Path(str(self.location)).expanduser()
        if self._filer is not None and "://" not in str(self.location) and not place.exists():
            return f"the store at {place} is missing: put it back, or restart the gateway to create a new one"
        return f"the store is down: {error}"

    def _give_up(self, entry: Entry, error: Exception) -> tuple[str, str]:
        self._log_later("error", "not_recorded", request_id=entry.request_id, problem=str(error))
        return "failed", f"the store refuses: {error}"

    def _tell(self, problem: str) -> None:
        """Report the problem to readiness at once."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._note_problem, problem)

    def on_loop(self, work: Callable[[T], object], value: T) -> None:
        """Run a function on the loop, from another thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(work, value)

    def _log_later(self, level: str, event: str, **facts: Any) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lambda: self._log.write(level, event, **facts))


def _let_go(error: BaseException | None) -> None:
    """Free the objects in the frames of an error: each failed attempt has encoded all waiting entries."""
    errors, seen = [error], set()
    while errors:
        error = errors.pop()
        if error is not None and id(error) not in seen:
            seen.add(id(error))
            traceback.clear_frames(error.__traceback__)
            error.__traceback__ = None
            errors += [error.__cause__, error.__context__]
