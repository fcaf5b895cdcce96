"""Admission of large request bodies: how many bytes of them may be under way at once.

A call holds its body until the upstream has answered, and what is recorded of it until that is filed. Before a large
body is read, its bytes are therefore counted together with those that wait for the store; one that does not fit waits
its turn, unread. Small bodies are neither counted nor held up. A body that is larger than the bound is let in when no
other large one is under way, so that a full recording queue never stops calls altogether.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf
from time import perf_counter

from cannery.gateway.calls import Call
from cannery.gateway.refusals import refuse
from cannery.gateway.settings import Limits

SMALL_BYTES = 256 << 10
# What waits for the store becomes less without a call that ends.
_LOOK_SECONDS = 0.2


class Admission:
    """The large bodies under way, and the calls that wait to have theirs read."""

    def __init__(self, limits: Limits, queued_bytes: Callable[[], int]) -> None:
        self.limits = limits
        self._queued_bytes = queued_bytes
        self._sizes: dict[Call, int] = {}
        self._waiting: deque[tuple[Call, int, asyncio.Future[None]]] = deque()
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def bytes_under_way(self) -> int:
        """The bytes of the large bodies that were let in."""
        return self._under_way

    @property
    def waiting(self) -> int:
        """How many calls wait to have their bodies read."""
        return len(self._waiting)

    async def enter(self, call: Call, size: int) -> None:
        """Wait until a body of so many bytes may be read; refuse it when that takes too long."""
        if size <= SMALL_BYTES:
            return
        if not self._waiting and self._has_room(size):
            self._count(call, size)
            return
        turn = asyncio.get_running_loop().create_future()
        place = (call, size, turn)
        self._waiting.append(place)
        self._look_later()
        # The client is not late with what nobody reads.
        call.reading_since = inf
        try:
            async with asyncio.timeout(self.limits.wait_seconds):
                await turn
        except TimeoutError:
            message = (
                f"the request waited {self.limits.wait_seconds:g} s for other large requests; "
                "try again later, or let the gateway hold more (limits.bytes_under_way)"
            )
            raise refuse(503, message, code="overloaded", headers=[("retry-after", "5")]) from None
        finally:
            call.reading_since = perf_counter()
            if place in self._waiting:
                self._waiting.remove(place)
                self._let_in()

    def correct(self, call: Call, size: int) -> None:
        """Take note of the size that a body turned out to have."""
        if call in self._sizes or size > SMALL_BYTES:
            self._count(call, size)
            self._let_in()

    def leave(self, call: Call) -> None:
        """Take note that a call is over."""
        if call in self._sizes:
            self._under_way -= self._sizes.pop(call)
            self._let_in()

    def _count(self, call: Call, size: int) -> None:
        self._under_way += size - self._sizes.get(call, 0)
        self._sizes[call] = size

    def _has_room(self, size: int) -> bool:
        held = self._under_way + self._queued_bytes()
        return not self._sizes or held + size <= self.limits.bytes_under_way

    def _let_in(self) -> None:
        """Let in those that fit, in the order in which they came."""
        while self._waiting and self._has_room(self._waiting[0][1]):
            call, size, turn = self._waiting.popleft()
            if not turn.done():
                self._count(call, size)
                turn.set_result(None)

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        self._let_in()
        if self._waiting:
            self._look_later()
