"""Threads that wait for the same disk: one of them works for all, the others sleep.

Who comes while nobody works takes the lead; who comes later waits in the queue. When the leader is done, it wakes
those it worked for, and the first in the queue takes the lead for all who have come meanwhile. So as many changes as
arrive during one sync share the next one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from cannery.backends._contract import Durability
from cannery.backends.directory.journal import Draft
from cannery.errors import CanneryError, StorageError

Build: TypeAlias = Callable[[Draft], Any]
"""Puts a change into a draft and gives its value; or raises, and has put nothing there."""

_LINGER = 0.001


class Ticket(NamedTuple):
    """A record of changes that wait to be durable."""

    epoch: int
    end: int
    abandoned: int


class Outcome:
    """A change that somebody wants made, and what became of it."""

    __slots__ = ("build", "error", "is_settled", "ticket", "value")

    def __init__(self, build: Build) -> None:
        self.build = build
        self.is_settled = False
        self.ticket: Ticket | None = None
        self.value: Any = None
        self.error: CanneryError | None = None

    def failure(self) -> CanneryError | None:
        """Why the change was not made, or may not have been."""
        if self.error is None and not self.is_settled:
            return StorageError("the thread that made this change was interrupted")
        return self.error

    def result(self) -> Any:
        """What ``build`` gave, once its change is durable."""
        error = self.failure()
        if error is not None:
            raise error
        return self.value


class _Order:
    """Changes that a thread wants made, and what wakes it when they are, or when it is to lead."""

    __slots__ = ("durability", "is_done", "leads", "outcomes", "wake")

    def __init__(self, builds: Iterable[Build], durability: Durability) -> None:
        self.outcomes = [Outcome(build) for build in builds]
        self.durability = durability
        self.is_done = False
        self.leads = False
        self.wake: threading.Lock | None = None


class Gathering:
    """The threads of this process; ``make`` does what several have ordered, lazily if all of them are content."""

    def __init__(self, make: Callable[[list[Outcome], bool], None]) -> None:
        self._make = make
        self._gate = threading.Lock()
        self._is_led = False
        self._queue: list[_Order] = []

    def submit(self, builds: Iterable[Build], durability: Durability) -> list[Outcome]:
        """Have changes made; return when they are, by this thread or another."""
        order = _Order(builds, durability)
        with self._gate:
            if self._is_led:
                order.wake = threading.Lock()
                order.wake.acquire()
                self._queue.append(order)
            else:
                self._is_led = order.leads = True
        try:
            if order.wake is not None:
                order.wake.acquire()
                if order.is_done:
                    return order.outcomes
            if durability == "group":
                time.sleep(_LINGER)
            batch = self._gather(order)
        except BaseException:
            self._resign(order)
            raise
        try:
            self._work(batch)
        finally:
            self._hand_over(batch)
        return order.outcomes

    def _gather(self, leading: _Order) -> list[_Order]:
        """The leader's own order and those that wait."""
        if not self._queue:
            return [leading]
        with self._gate:
            waiting, self._queue = self._queue, []
        return waiting if leading.wake is not None else [leading, *waiting]

    def _work(self, batch: Sequence[_Order]) -> None:
        outcomes = batch[0].outcomes
        is_lazy = batch[0].durability == "os"
        if len(batch) > 1:
            outcomes = [outcome for order in batch for outcome in order.outcomes]
            is_lazy = all(order.durability == "os" for order in batch)
        self._make(outcomes, is_lazy)

    def _hand_over(self, batch: Sequence[_Order]) -> None:
        """Let the first who has come since work for the rest, and wake those who are done."""
        with self._gate:
            self._pass_on()
        for order in batch:
            order.is_done = True
            if order.wake is not None:
                order.wake.release()

    def _pass_on(self) -> None:
        self._is_led = bool(self._queue)
        if self._queue:
            first = self._queue[0]
            first.leads = True
            if first.wake is not None:
                first.wake.release()

    def _resign(self, order: _Order) -> None:
        """Take back the order of a thread that was interrupted while it waited, if nobody has begun with it."""
        with self._gate:
            if order in self._queue:
                self._queue.remove(order)
            if order.leads:
                self._pass_on()
