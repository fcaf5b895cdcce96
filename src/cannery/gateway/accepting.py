"""Accepts all waiting connections in each turn of the event loop.

uvloop accepts one connection per turn, and in a turn it answers every pending request. If many clients connect at once,
the last of them would wait until the others had been answered many times over.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

# After this many, connected clients are served before more are accepted.
_AT_ONCE = 64
_PAUSE_SECONDS = 0.5
# Without free descriptors a connection waits until another one closes.
_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Accepts the connections of a listening socket."""

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], asyncio.Protocol],
        complain: Callable[[OSError], object],
    ) -> None:
        self._socket = listening
        self._make = make
        self._complain = complain
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        # The loop itself holds only a weak reference to a task.
        self._arriving: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start or resume accepting."""
        self._pause = None
        self._socket.setblocking(False)  # noqa: FBT003 - so it is called
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def close(self) -> None:
        """Stop accepting."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                taken, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._complain(error)
                if error.errno in _FULL:
                    self._loop.remove_reader(self._socket.fileno())
                    self._pause = self._loop.call_later(_PAUSE_SECONDS, self.start)
                return
            task = self._loop.create_task(self._welcome(taken))
            self._arriving.add(task)
            task.add_done_callback(self._arriving.discard)

    async def _welcome(self, taken: socket.socket) -> None:
        try:
            taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(self._make, taken)
        except OSError:
            # The client has already disconnected.
            taken.close()
