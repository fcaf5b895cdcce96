"""HTTP/2 without TLS: such a connection is forwarded, byte for byte, to an internal server that supports it.

Few clients use it, so the internal server (granian) is started with the first one. It listens on a port of its own on
this machine and calls the same gateway; a call keeps the client's own address.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any

from cannery.gateway.rsgi import HTTPProtocol, Scope

_HOST = "127.0.0.1"
_PATIENCE = 500
_WAIT_SECONDS = 0.01
_FAREWELL_SECONDS = 2.0
# granian accepts no more connections at once than this; the gateway itself limits the calls.
_MOST_CONNECTIONS = 16_384


class Relayed:
    """The head of a request that came through a tunnel."""

    __slots__ = (
        "client",
        "header_bytes",
        "headers",
        "host",
        "http_version",
        "is_truncated",
        "method",
        "path",
        "query_string",
    )

    def __init__(self, scope: Any, client: str) -> None:
        self.client = client
        self.headers = scope.headers
        self.host: str | None = scope.authority or self.headers.get("host")
        self.header_bytes = sum(len(name) + len(value) for name, value in self.headers.items())
        self.http_version: str = scope.http_version
        self.method: str = scope.method
        self.path: str = scope.path
        self.query_string: str = scope.query_string
        self.is_truncated = False


class _End(asyncio.Protocol):
    """One end of a tunnel: its input is the other end's output."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.other: _End | None = None
        self.is_gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        if self.other is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        """Pause reading while the other end is full."""
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Read again."""
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        """Close the other end."""
        self.is_gone = True
        if self.other is not None:
            self.other.transport.close()


class _InnerEnd(_End):
    """The end at the internal server; it makes room for another client when it closes."""

    def __init__(self, other: _End, ends: dict[int, _InnerEnd], client: str) -> None:
        super().__init__()
        # From the start: a transport reads as soon as it is made, and the server sends first.
        self.other = other
        self.client = client
        self._ends = ends
        self._port = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport, and record that the calls of its port come through it."""
        super().connection_made(transport)
        self._port = int(transport.get_extra_info("sockname")[1])
        self._ends[self._port] = self

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the client."""
        super().connection_lost(error)
        self._ends.pop(self._port, None)


class Tunnels:
    """All tunnels, and the internal server, which is restarted if it is not running."""

    def __init__(
        self,
        application: Any,
        *,
        header_bytes: int,
        complain: Callable[[Exception], object] = lambda error: None,  # noqa: ARG005 - who cares to know
    ) -> None:
        self._application = application
        self._header_bytes = header_bytes
        self._complain = complain
        self._ends: dict[int, _InnerEnd] = {}
        self._server: Any = None
        self._serving: asyncio.Task[Any] | None = None
        self._port: asyncio.Task[int] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def hand_over(self, transport: asyncio.Transport, data: bytes) -> asyncio.Protocol:
        """Take over a connection with the bytes received so far."""
        end = _End()
        end.connection_made(transport)
        transport.pause_reading()
        task = asyncio.get_running_loop().create_task(self._connect(end, data))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return end

    async def _connect(self, end: _End, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        peer = end.transport.get_extra_info("peername")
        client = f"{peer[0]}:{peer[1]}" if type(peer) is tuple else ""
        try:
            port = await asyncio.shield(self._find_port())
            _, other = await loop.create_connection(
                lambda: _InnerEnd(end, self._ends, client), _HOST, port
            )
        except OSError as error:
            self._complain(error)
            end.transport.close()
            return
        if end.is_gone:
            other.transport.close()
            return
        other.transport.write(data)
        end.other = other
        end.transport.resume_reading()

    def _find_port(self) -> asyncio.Task[int]:
        """The port of the internal server; one that did not start, or has ended, is restarted."""
        found = self._port
        has_failed = found is not None and found.done() and found.exception() is not None
        has_ended = self._serving is not None and self._serving.done()
        if found is None or has_failed or (found.done() and has_ended):
            found = self._port = asyncio.get_running_loop().create_task(self._start())
        return found

    async def _start(self) -> int:
        from granian.constants import HTTPModes, Interfaces
        from granian.http import HTTP2Settings
        from granian.server.embed import Server

        loop = asyncio.get_running_loop()
        with socket.socket() as probe:
            probe.bind((_HOST, 0))
            port = int(probe.getsockname()[1])
        self._server = Server(
            self,
            address=_HOST,
            port=port,
            interface=Interfaces.RSGI,
            http=HTTPModes.http2,
            websockets=False,
            backlog=_MOST_CONNECTIONS,
            backpressure=_MOST_CONNECTIONS,
            log_enabled=False,
            # A longer head is refused by the server itself; up to this size the refusal is in the caller's dialect.
            http2_settings=HTTP2Settings(max_headers_size=self._header_bytes),
        )
        self._serving = loop.create_task(self._serve(self._server))
        for _ in range(_PATIENCE):
            try:
                transport, _protocol = await loop.create_connection(asyncio.Protocol, _HOST, port)
            except OSError:
                if self._serving.done():
                    break
                await asyncio.sleep(_WAIT_SECONDS)
                continue
            transport.close()
            return port
        raise ConnectionError("the server for HTTP/2 did not start")

    async def _serve(self, server: Any) -> None:
        """Run the internal server; the reason for its end is logged, and the next client restarts it."""
        try:
            await server.serve()
        except (OSError, RuntimeError, ValueError) as error:
            self._complain(error)

    async def __rsgi__(self, scope: Any, proto: HTTPProtocol) -> None:
        """Let the gateway answer, with the address of the client instead of the tunnel's."""
        end = self._ends.get(int(scope.client.rpartition(":")[2]))
        relayed: Scope = Relayed(scope, "" if end is None else end.client)
        await self._application(relayed, proto)
        if relayed.is_truncated and end is not None and end.other is not None:
            # The internal server would end the stream as if the response were complete.
            end.other.transport.abort()

    async def close(self) -> None:
        """Stop the internal server."""
        if self._server is None or self._serving is None:
            return
        self._server.stop()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._serving, _FAREWELL_SECONDS)
