"""The store for asynchronous programs: the same operations on threads, so that the loop never waits for a disk.

The threads share syncs like any others; a thread pool of their own keeps a slow disk from starving the rest of the
program. Appends of tasks are gathered and made by one thread at a time.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import islice
from typing import Any, ParamSpec, Self, TypeVar

from cannery.backends import GRACE, Collection, Durability, Progress, Summary
from cannery.errors import CanneryError
from cannery.messages import AnyCanister, Conversation
from cannery.storage.conversation import StoredConversation
from cannery.storage.filing import Filed, Filing
from cannery.storage.group_appends import GatheredAppends
from cannery.storage.retention import Expired, KeepDays
from cannery.storage.searching import Hit
from cannery.storage.store import Store
from cannery.storage.verification import Report

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 16
# How many canisters are read at a time while iterating.
_PAGE = 256


class AsyncStore:
    """A store whose operations are awaited."""

    def __init__(self, store: Store, threads: int = _THREADS) -> None:
        self.store = store
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="cannery-store")
        # The queue of the loop that appended last, and the queues that are not closed.
        self._latest: GatheredAppends | None = None
        self._appends: dict[asyncio.AbstractEventLoop, GatheredAppends] = {}
        self._appends_lock = threading.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish pending work and close the store."""
        await self.appends.finish()
        await self.run(self.store.close)
        self._pool.shutdown()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function with the store on one of its threads."""
        call = functools.partial(work, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    @property
    def appends(self) -> GatheredAppends:
        """The pending appends of the running loop."""
        loop = asyncio.get_running_loop()
        found = self._latest
        if found is None or found.loop is not loop:
            with self._appends_lock:
                for closed in [each for each in self._appends if each.is_closed()]:
                    del self._appends[closed]
                found = self._appends.get(loop) or GatheredAppends(self.store, self._pool)
                self._latest = self._appends[loop] = found
        return found

    async def create(self, **facts: Any) -> AsyncConversation:
        """A new, empty conversation."""
        return AsyncConversation(self, await self.run(self.store.create, **facts))

    async def get(self, identifier: str) -> AsyncConversation:
        """The conversation with an id."""
        return AsyncConversation(self, await self.run(self.store.get, identifier))

    async def list(self, **chosen: Any) -> tuple[Summary, ...]:
        """The conversations."""
        return await self.run(self.store.list, **chosen)

    async def search(self, text: str, **chosen: Any) -> tuple[Hit, ...]:
        """The messages that contain all of the words."""
        return await self.run(self.store.search, text, **chosen)

    async def file(self, canisters: Iterable[AnyCanister], **facts: Any) -> Filed:
        """File a history in the conversation that it belongs to."""
        return await self.run(self.store.file, canisters, **facts)

    async def file_many(
        self, filings: Iterable[Filing | Iterable[AnyCanister]]
    ) -> tuple[Filed | CanneryError, ...]:
        """File several histories in their conversations, with one sync for most of them."""
        return await self.run(self.store.file_many, filings)

    async def delete(self, identifier: str) -> None:
        """Delete a conversation."""
        await self.run(self.store.delete, identifier)

    async def verify(self, progress: Progress | None = None) -> Report:
        """Derive every hash again."""
        return await self.run(self.store.verify, progress)

    async def expire(
        self,
        keep: KeepDays | float,
        *,
        now: datetime | None = None,
        dry_run: bool = False,
    ) -> tuple[Expired, ...]:
        """Delete conversations that are unchanged for longer than their scope keeps them."""
        return await self.run(self.store.expire, keep, now=now, dry_run=dry_run)

    async def collect_garbage(
        self, *, grace: float = GRACE, dry_run: bool = False, progress: Progress | None = None
    ) -> Collection:
        """Free everything that is unreachable."""
        return await self.run(
            self.store.collect_garbage, grace=grace, dry_run=dry_run, progress=progress
        )


class AsyncConversation:
    """A conversation whose operations are awaited."""

    def __init__(self, store: AsyncStore, conversation: StoredConversation) -> None:
        self._store = store
        self.conversation = conversation
        self.identifier = conversation.identifier

    async def append(
        self,
        *canisters: AnyCanister | Iterable[AnyCanister],
        revision: str | None = None,
        durability: Durability | None = None,
    ) -> str:
        """Add canisters at the end; simultaneous appends of several tasks share one sync."""
        if durability is None:
            return await self._store.appends.append(self.conversation, canisters, revision)
        return await self._store.run(
            self.conversation.append, *canisters, revision=revision, durability=durability
        )

    async def load(
        self, start: int = 0, stop: int | None = None, *, hydrate: bool = False
    ) -> Conversation:
        """Its canisters; without ``hydrate`` their content is read on the thread that accesses it."""
        return await self._store.run(self.conversation.load, start, stop, hydrate=hydrate)

    async def __aiter__(self) -> AsyncIterator[AnyCanister]:
        """Its canisters in order, read a page at a time."""
        canisters = iter(self.conversation)
        while page := await self._store.run(list, islice(canisters, _PAGE)):
            for canister in page:
                yield canister

    async def fork(self, at: int | None = None, **facts: Any) -> AsyncConversation:
        """A new conversation that shares the first canisters."""
        fork = await self._store.run(self.conversation.fork, at, **facts)
        return AsyncConversation(self._store, fork)

    async def edit(self, position: int, canister: AnyCanister) -> AsyncConversation:
        """A fork in which one canister is another."""
        return AsyncConversation(
            self._store, await self._store.run(self.conversation.edit, position, canister)
        )

    async def save(self, record: Mapping[str, Any]) -> str:
        """Add one record of a chat."""
        return await self._store.run(self.conversation.save, record)

    async def records(self) -> list[dict[str, Any]]:
        """The chat records."""
        return await self._store.run(self.conversation.records)


async def open_async_store(location: str, **settings: Any) -> AsyncStore:
    """Open a store without blocking the loop."""
    from cannery.storage.store import open_store

    store = await asyncio.get_running_loop().run_in_executor(
        None, functools.partial(open_store, location, **settings)
    )
    return AsyncStore(store)
