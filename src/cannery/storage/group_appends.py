"""Group commit for tasks: one thread makes all waiting appends, with one sync.

A thread per append would have to be woken for every message, which takes longer than writing it. Appends that arrive
while the disk is busy wait for the next round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from cannery.backends import Change, Receipt
from cannery.errors import CanneryError, ConflictError
from cannery.messages import AnyCanister
from cannery.storage.conversation import StoredConversation, flatten

if TYPE_CHECKING:
    from cannery.storage.store import Store


class _Append:
    """A task's append, and its outcome."""

    __slots__ = ("added", "change", "conversation", "done", "outcome", "revision")

    def __init__(
        self,
        conversation: StoredConversation,
        added: list[AnyCanister],
        revision: str | None,
        done: asyncio.Future[str],
    ) -> None:
        self.conversation = conversation
        self.added = added
        self.revision = revision
        self.done = done
        self.change: Change | None = None
        self.outcome: str | BaseException | None = None

    def plan(self) -> None:
        """Prepare the change; one that cannot be combined with others is made alone."""
        try:
            self.change = self.conversation.append_change(self.added, self.revision)
        except CanneryError as error:
            self.outcome = error

    def make_alone(self) -> None:
        """Make it as a single append."""
        try:
            self.outcome = self.conversation.append(self.added, revision=self.revision)
        except CanneryError as error:
            self.outcome = error

    def settle(self, broken: BaseException | None) -> None:
        """Notify the task, if it still waits."""
        outcome = broken or self.outcome
        if self.done.done():
            return
        if isinstance(outcome, str):
            self.done.set_result(outcome)
        else:
            self.done.set_exception(outcome or asyncio.InvalidStateError("not made"))


class GatheredAppends:
    """The pending appends of one event loop's tasks."""

    def __init__(self, store: Store, pool: Executor) -> None:
        self._store = store
        self._pool = pool
        self.loop = asyncio.get_running_loop()
        self._waiting: list[_Append] = []
        self._round: asyncio.Future[None] | None = None

    async def append(
        self,
        conversation: StoredConversation,
        canisters: Iterable[Any],
        revision: str | None,
    ) -> str:
        """Add canisters at the end of a conversation; returns the new revision."""
        added = list(flatten(canisters))
        wanted = _Append(conversation, added, revision, self.loop.create_future())
        self._waiting.append(wanted)
        if self._round is None:
            self._round = self.loop.create_future()
            # Appends of this turn of the loop join this round.
            self.loop.call_soon(self._begin)
        return await wanted.done

    async def finish(self) -> None:
        """Wait until all requested appends are made."""
        while self._round is not None:
            await self._round

    def _begin(self) -> None:
        # A cancelled task no longer waits for its append.
        batch = [wanted for wanted in self._waiting if not wanted.done.done()]
        self._waiting = []
        working = self.loop.run_in_executor(self._pool, make_together, self._store, batch)
        working.add_done_callback(lambda made: self._end(batch, made))

    def _end(self, batch: Sequence[_Append], made: asyncio.Future[None]) -> None:
        broken = asyncio.CancelledError() if made.cancelled() else made.exception()
        for wanted in batch:
            wanted.settle(broken)
        # Tasks that continue now may append again, and take precedence.
        self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._waiting:
            self._begin()
        elif self._round is not None:
            self._round.set_result(None)
            self._round = None


def make_together(store: Store, batch: Sequence[_Append]) -> None:
    """Make changes; those that can be combined share one sync."""
    if len(batch) > 1:
        for wanted in batch:
            wanted.plan()
        planned = [(wanted, wanted.change) for wanted in batch if wanted.change is not None]
        receipts = store.commit_each([change for _, change in planned]) if planned else ()
        for (wanted, _), receipt in zip(planned, receipts, strict=True):
            if isinstance(receipt, Receipt):
                wanted.outcome = str(receipt.stop)
            elif not isinstance(receipt, ConflictError):
                wanted.outcome = receipt
    for wanted in batch:
        if wanted.outcome is None:
            wanted.make_alone()
