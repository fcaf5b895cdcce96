"""Closes idle connections of clients.

HTTP/1.1 connections are timed where they are read. The HTTP/2 server behind the tunnel has no time-out between
requests. So the kernel is asked periodically how long each connection has been idle (TCP_INFO), and connections
without a call under way are shut down. The kernel itself drops a client that does not read its answer
(TCP_USER_TIMEOUT).

This needs Linux. On other systems idle HTTP/2 connections and clients that do not read stay open.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import sys
import termios
from collections.abc import Callable, Collection, Iterator
from stat import S_ISSOCK

_DESCRIPTORS = "/proc/self/fd"
# struct tcp_info of linux/tcp.h: milliseconds since data was last sent (44) and received (52).
_INFO_BYTES = 104
_LAST_SENT, _LAST_HEARD = 44, 52
_LONGEST_PERIOD = 5.0


class IdleConnections:
    """Watches the connections to one port."""

    def __init__(
        self, port: int, *, silent_seconds: float, busy_ports: Callable[[], Collection[int]]
    ) -> None:
        self._port = port
        self._silent = silent_seconds * 1000
        self._period = min(silent_seconds / 4, _LONGEST_PERIOD)
        self._busy_ports = busy_ports
        self._timer: asyncio.TimerHandle | None = None

    def start(self, unread_seconds: float) -> None:
        """Start; a client that leaves data unread for longer than ``unread_seconds`` is disconnected."""
        if sys.platform != "linux":
            return
        for connection in self._connections():
            # Accepted connections inherit it from the listening socket.
            milliseconds = int(unread_seconds * 1000)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        self._look()

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        busy = self._busy_ports()
        for connection in self._connections():
            with contextlib.suppress(OSError):
                if self._is_silent(connection) and connection.getpeername()[1] not in busy:
                    connection.shutdown(socket.SHUT_RDWR)
        self._timer = asyncio.get_running_loop().call_later(self._period, self._look)

    def _is_silent(self, connection: socket.socket) -> bool:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        (sent,) = struct.unpack_from("=I", info, _LAST_SENT)
        (heard,) = struct.unpack_from("=I", info, _LAST_HEARD)
        if min(sent, heard) < self._silent:
            return False
        waiting = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0" * 4)
        return waiting == b"\0" * 4

    def _connections(self) -> Iterator[socket.socket]:
        """The sockets of this process that belong to the port, borrowed from their owners."""
        for name in os.listdir(_DESCRIPTORS):  # noqa: PTH208 - strings are enough
            descriptor = int(name)
            try:
                if not S_ISSOCK(os.fstat(descriptor).st_mode):
                    continue
                borrowed = socket.socket(fileno=descriptor)
            except OSError:
                continue
            try:
                if borrowed.getsockname()[1] == self._port:
                    yield borrowed
            except (OSError, IndexError):
                continue
            finally:
                borrowed.detach()
