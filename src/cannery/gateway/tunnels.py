"""HTTP/2 without TLS: a connection that begins with it goes on, byte for byte, to a server that speaks it.

Few clients do, so the other server (granian) is started when the first one comes. It listens on a
port of its own on this machine and calls the same gateway; a call keeps the client's own address.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

from cannery.gateway.rsgi import HTTPProtocol, Scope

_HOST = "127.0.0.1"
_PATIENCE = 500
_WAIT_SECONDS = 0.01
_FAREWELL_SECONDS = 2.0


class Relayed:
    """The head of a request that came through a tunnel."""

    __slots__ = (
        "client",
        "header_bytes",
        "headers",
        "http_version",
        "method",
        "path",
        "query_string",
    )

    def __init__(self, scope: Any, client: str) -> None:
        self.client = client
        self.headers = scope.headers
        self.header_bytes = sum(len(name) + len(value) for name, value in self.headers.items())
        self.http_version: str = scope.http_version
        self.method: str = scope.method
        self.path: str = scope.path
        self.query_string: str = scope.query_string


class _End(asyncio.Protocol):
    """One end of a tunnel: what comes in goes out at the other."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.other: _End | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = transport

    def join(self, other: _End) -> None:
        """Let everything through, also what came before."""
        self.other = other
        for data in self._early:
            other.transport.write(data)
        self._early = []

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        if self.other is None:
            self._early.append(data)
        else:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        """Do not read more than the other end takes."""
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Read again."""
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        """Close the other end."""
        if self.other is not None:
            self.other.transport.close()


class Tunnels:
    """All of them, and the server behind."""

    def __init__(self, application: Any, *, header_bytes: int) -> None:
        self._application = application
        self._header_bytes = header_bytes
        self._clients: dict[int, str] = {}
        self._server: Any = None
        self._serving: asyncio.Task[Any] | None = None
        self._port: asyncio.Task[int] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def hand_over(self, transport: asyncio.Transport, data: bytes) -> asyncio.Protocol:
        """Take over a connection of which some bytes have come."""
        end = _End()
        end.connection_made(transport)
        end.data_received(data)
        task = asyncio.get_running_loop().create_task(self._connect(end))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return end

    async def _connect(self, end: _End) -> None:
        loop = asyncio.get_running_loop()
        if self._port is None:
            self._port = loop.create_task(self._start())
        peer = end.transport.get_extra_info("peername")
        try:
            port = await asyncio.shield(self._port)
            inner, other = await loop.create_connection(_End, _HOST, port)
        except OSError:
            end.transport.close()
            return
        own = int(inner.get_extra_info("sockname")[1])
        self._clients[own] = f"{peer[0]}:{peer[1]}"
        other.join(end)
        end.join(other)

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
            log_enabled=False,
            # Beyond this the server refuses on its own; up to it the refusal is in the caller's dialect.
            http2_settings=HTTP2Settings(max_headers_size=self._header_bytes),
        )
        self._serving = loop.create_task(self._server.serve())
        for _ in range(_PATIENCE):
            try:
                transport, _protocol = await loop.create_connection(asyncio.Protocol, _HOST, port)
            except OSError:
                await asyncio.sleep(_WAIT_SECONDS)
                continue
            transport.close()
            return port
        raise ConnectionError("HTTP/2 is not there")

    async def __rsgi__(self, scope: Any, proto: HTTPProtocol) -> None:
        """Let the gateway answer, with the address of the client instead of the tunnel's."""
        client = self._clients.get(int(scope.client.rpartition(":")[2]), "")
        relayed: Scope = Relayed(scope, client)
        await self._application(relayed, proto)

    async def close(self) -> None:
        """Stop the server behind."""
        if self._server is None or self._serving is None:
            return
        self._server.stop()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._serving, _FAREWELL_SECONDS)
