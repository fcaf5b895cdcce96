"""Returns free memory to the system while there are no calls.

The memory of a burst of calls is free when they are over, but it is fragmented between permanent objects, and the
allocator keeps such pages. glibc returns them on request (malloc_trim(3)). On other systems they are kept for the next
burst.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable
from pathlib import Path

_PERIOD = 2.0
# Less is not worth the milliseconds that it takes.
_WORTH = 16 << 20
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_LARGE = 512 << 10
_ARENAS = 2
_STATE = Path("/proc/self/statm")


class Housekeeper:
    """Checks periodically whether the gateway is idle and holds more memory than necessary."""

    def __init__(
        self,
        is_quiet: Callable[[], bool],
        *,
        waiting: Callable[[], int] = lambda: 0,
        resident: Callable[[], int] | None = None,
        trim: Callable[[], object] | None = None,
    ) -> None:
        self._is_quiet = is_quiet
        self._waiting = waiting
        self._waited = 0
        self._least = 0
        self._resident = resident or resident_bytes
        self._trim = trim or find_trim()
        self._needed = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start, if trimming is available."""
        if self._trim is not None and self._resident():
            self._needed = self._least = self._resident()
            self._later()

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()

    def _later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_PERIOD, self._go_round)

    def _go_round(self) -> None:
        self.look()
        self._later()

    def look(self) -> None:
        """Return free memory, if there may be much and no caller waits.

        That is the case when more is in use than after the last time, and when the recording queue is empty.
        """
        if self._trim is None or not self._is_quiet():
            return
        waited, self._waited = self._waited, self._waiting()
        least = self._least if waited > self._waited else self._needed
        if self._resident() - least >= _WORTH:
            self._trim()
            self._needed = self._resident()
            self._least = min(self._least, self._needed)


def resident_bytes() -> int:
    """The resident memory of this process; 0 if unknown."""
    try:
        return int(_STATE.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def settle_allocator() -> None:
    """Let what is large have pages of its own, which go back when it is freed, and threads share their arenas.

    glibc raises the limit for such pages to 32 MB when something large is freed, and gives each thread an arena: what
    large bodies leave free would then stay between what lasts, once a thread (mallopt(3)).
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    set_option(_M_MMAP_THRESHOLD, _LARGE)
    set_option(_M_ARENA_MAX, _ARENAS)


def find_trim() -> Callable[[], object] | None:
    """The function that returns free memory, if the C library has one."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return lambda: trim(0)
