"""Taking connections: all that wait, at each turn of the event loop.

uvloop takes one connection a turn, and in a turn it answers everybody who has asked. Where many clients come at once,
the last of them would wait until the others have been answered many times over.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

# Whoever is connected is heard in between.
_AT_ONCE = 64
_PAUSE_SECONDS = 0.5
# There is no room for one more; it waits until somebody leaves.
_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Takes the connections that come to a listening socket."""

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
        # The loop itself only refers to a task weakly.
        self._arriving: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin, or go on."""
        self._pause = None
        self._socket.setblocking(False)  # noqa: FBT003 - so it is called
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def close(self) -> None:
        """Take no more."""
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
            # Whoever came has left again.
            taken.close()
