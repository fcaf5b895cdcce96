"""Group commit: of the threads that wait for a disk one is the leader and works for all, the others sleep.

A thread that arrives when there is no leader becomes the leader; later ones wait in a queue. When the leader is done,
it wakes the threads that it worked for, and the first in the queue becomes the leader for all that have arrived. So all
changes that arrive during one sync share the next one.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from cannery.backends._contract import Durability
from cannery.backends.directory.journal import Draft
from cannery.errors import CanneryError, StorageError

Build: TypeAlias = Callable[[Draft], Any]
"""Adds a change to a draft and returns its value; or raises, and has added nothing."""

_LINGER = 0.001


class Ticket(NamedTuple):
    """A record of changes that wait to be durable."""

    epoch: int
    end: int
    abandoned: int


class Outcome:
    """A requested change, and its outcome."""

    __slots__ = ("build", "error", "is_settled", "ticket", "value")

    def __init__(self, build: Build) -> None:
        self.build = build
        self.is_settled = False
        self.ticket: Ticket | None = None
        self.value: Any = None
        self.error: CanneryError | None = None

    def failure(self) -> CanneryError | None:
        """The reason why the change was not made, or may not have been."""
        if self.error is None and not self.is_settled:
            return StorageError("the thread that made this change was interrupted")
        return self.error

    def result(self) -> Any:
        """The value of ``build``, once its change is durable."""
        error = self.failure()
        if error is not None:
            raise error
        return self.value


class _Bell:
    """Wakes threads with one call, during which others may run.

    One lock per thread would wake them one by one, each to find that the waking thread still holds the interpreter.
    """

    __slots__ = ("_number",)

    def __init__(self, number: int) -> None:
        self._number = number

    def __del__(self) -> None:
        os.close(self._number)

    def wait(self) -> None:
        """Sleep until the bell has a wake-up for this thread."""
        # Unlike eventfd_read this continues after a signal.
        os.read(self._number, 8)

    def ring(self, count: int) -> None:
        """Wake a number of threads."""
        os.write(self._number, count.to_bytes(8, sys.byteorder))


class _Order:
    """The requested changes of a thread, and its wake-up for their completion, or for its turn to lead."""

    __slots__ = ("bell", "durability", "is_done", "leads", "outcomes", "wake")

    def __init__(self, builds: Iterable[Build], durability: Durability) -> None:
        self.outcomes = [Outcome(build) for build in builds]
        self.durability = durability
        self.is_done = False
        self.leads = False
        self.wake: threading.Lock | None = None
        self.bell: _Bell | None = None

    def sleep(self) -> None:
        """Wait for the wake-up."""
        if self.bell is not None:
            self.bell.wait()
        elif self.wake is not None:
            self.wake.acquire()
        self.bell = self.wake = None


class Gathering:
    """The threads of this process; ``make`` makes the changes of several, lazily if all of them allow it.

    The first in the queue, which will lead, waits for a lock of its own; all others share a bell.
    """

    def __init__(self, make: Callable[[list[Outcome], bool], None]) -> None:
        self._make = make
        self._gate = threading.Lock()
        self._is_led = False
        self._queue: list[_Order] = []
        self._bell: _Bell | None = None

    def submit(self, builds: Iterable[Build], durability: Durability) -> list[Outcome]:
        """Request changes; return when they are made, by this thread or another."""
        order = _Order(builds, durability)
        try:
            while not self._may_lead(order):
                order.sleep()
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

    def _may_lead(self, order: _Order) -> bool:
        """Whether this thread leads; otherwise its order is now in the queue."""
        if order.leads:
            return True
        with self._gate:
            order.leads = not self._is_led
            self._is_led = True
            if not order.leads:
                self._put(order)
        return order.leads

    def _put(self, order: _Order) -> None:
        if self._queue and self._bell is None:
            # Without eventfd(2), or a spare descriptor, each waits for a lock of its own.
            with contextlib.suppress(AttributeError, OSError):
                self._bell = _Bell(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_SEMAPHORE))
        if self._queue and self._bell is not None:
            order.bell = self._bell
        else:
            order.wake = threading.Lock()
            order.wake.acquire()
        self._queue.append(order)

    def _gather(self, leading: _Order) -> list[_Order]:
        """The leader's own order and the waiting ones."""
        if not self._queue:
            return [leading]
        with self._gate:
            waiting = self._take()
        return waiting if leading in waiting[:1] else [leading, *waiting]

    def _take(self) -> list[_Order]:
        waiting, self._queue = self._queue, []
        self._bell = None
        return waiting

    def _work(self, batch: Sequence[_Order]) -> None:
        outcomes = batch[0].outcomes
        is_lazy = batch[0].durability == "os"
        if len(batch) > 1:
            outcomes = [outcome for order in batch for outcome in order.outcomes]
            is_lazy = all(order.durability == "os" for order in batch)
        self._make(outcomes, is_lazy)

    def _hand_over(self, batch: Sequence[_Order]) -> None:
        """Let the first that has arrived since lead the rest, and wake the finished ones."""
        for order in batch:
            order.is_done = True
        self._pass_on()
        _wake(batch)

    def _pass_on(self) -> None:
        stranded: list[_Order] = []
        with self._gate:
            first = self._queue[0] if self._queue else None
            self._is_led = first is not None and first.wake is not None
            if first is not None and first.wake is not None:
                first.leads = True
                first.wake.release()
            elif first is not None:
                stranded = self._take()
        # Their leader was interrupted; they queue again.
        _wake(stranded)

    def _resign(self, order: _Order) -> None:
        """Withdraw the order of a thread that was interrupted while it waited, if no work on it has begun."""
        with self._gate:
            if order in self._queue:
                self._queue.remove(order)
        if order.leads:
            self._pass_on()


def _wake(orders: Sequence[_Order]) -> None:
    """Wake threads; those with a bell all at once."""
    listening = 0
    for order in orders:
        if order.bell is not None:
            bell = order.bell
            listening += 1
        elif order.wake is not None:
            order.wake.release()
    if listening:
        bell.ring(listening)
