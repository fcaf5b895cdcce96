"""HTTP/1.1 from clients, on the event loop that answers them.

The bytes are parsed by llhttp (httptools) as they arrive, with no thread between the socket and the gateway, because
handing each request from one to the other costs more than most replies (see the decision on listening). The gateway
uses the interface in ``rsgi``. A connection that begins with HTTP/2 is handed to a tunnel.

One response at a time: pipelined requests wait, and reading from the client pauses until then. An unread body is
discarded; its connection ends with the response.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import httptools

from cannery.gateway.accepting import Acceptor
from cannery.gateway.http1 import Exchange, Head
from cannery.gateway.rsgi import HTTPProtocol, ProtocolClosed, Scope

Application = Callable[[Scope, HTTPProtocol], Any]
Handover = Callable[[asyncio.Transport, bytes], asyncio.Protocol]
Describe = Callable[[Any, int, str], tuple[list[tuple[str, str]], bytes]]
"""The headers and the body of a refusal."""

_MOST_HEADERS = 256
_LINGER_SECONDS = 2.0
_HTTP2 = b"PRI * HTTP/2.0"
_TOO_LARGE = (431, "the headers are too large or too many")


class _Rest:
    """Parses the body of a request whose head was parsed by another parser."""

    __slots__ = ("on_body", "on_message_complete")

    def __init__(self, connection: Connection) -> None:
        self.on_body = connection.on_body
        self.on_message_complete = connection.end_body


class Connection(asyncio.Protocol):
    """One connection of a client."""

    __slots__ = (
        "_current",
        "_disconnect",
        "_drained",
        "_head",
        "_incoming",
        "_is_deaf",
        "_is_paused",
        "_parser",
        "_refusal",
        "_start",
        "_target",
        "_tasks",
        "_transport",
        "_unheard",
        "_waiting",
        "client",
        "is_full",
        "is_gone",
        "is_kept",
        "listener",
        "waits_since",
    )

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: Any = None
        self._start: bytes | None = b""
        self._current: Exchange | None = None
        self._incoming: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._tasks: asyncio.Task[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._disconnect: asyncio.Future[None] | None = None
        self._head = Head("")
        self._target = b""
        self._refusal = (400, "the request is not valid HTTP")
        self._is_paused = False
        self._is_deaf = False
        # Bytes that the parser has not reported yet: it keeps a header until it is complete.
        self._unheard = 0
        self.is_full = False
        self.is_gone = False
        self.client = ""
        # Whether it was answered, and no further request has begun.
        self.is_kept = False
        self.waits_since = listener.loop.time()

    # --- the socket ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.client = f"{peer[0]}:{peer[1]}" if type(peer) is tuple else ""
        self.listener.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        """Notify all waiters that the client has disconnected."""
        self.is_gone = True
        self.listener.connections.discard(self)
        for future in (self._drained, self._disconnect):
            if future is not None and not future.done():
                future.set_result(None)
        for exchange in (self._current, self._incoming):
            if exchange is not None:
                exchange.wake()
        # These refer to the connection, which otherwise only the cycle collector could free.
        self._parser = self._incoming = self._transport = None
        self._waiting.clear()

    def pause_writing(self) -> None:
        """The client does not keep up."""
        self.is_full = True

    def resume_writing(self) -> None:
        """The client keeps up again."""
        self.is_full = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes."""
        if self._is_deaf:
            return
        if self._start is not None:
            data = self._start + data
            if _HTTP2.startswith(data[: len(_HTTP2)]):
                self._hand_over(data)
                return
            self._start = None
        self._unheard += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._refuse()
        else:
            if self._unheard > self.listener.header_bytes:
                self._refusal = _TOO_LARGE
                self._refuse()

    def _decline(self, rest: bytes) -> None:
        """Continue in HTTP/1.1 with a client that requested an upgrade.

        The parser treats the bytes after the head as the other protocol; a second parser reads them as the body. No
        further request is read on this connection.
        """
        exchange = self._incoming
        if exchange is None or exchange.is_complete:
            self._is_deaf = True
            return
        self._parser = httptools.HttpRequestParser(_Rest(self))
        self.data_received(exchange.head.framing() + rest)

    def _hand_over(self, data: bytes) -> None:
        """Wait until this is certainly HTTP/2, and hand the connection over."""
        self._start = data
        if len(data) >= len(_HTTP2):
            self.listener.connections.discard(self)
            self._transport.set_protocol(self.listener.hand_over(self._transport, data))

    def _refuse(self) -> None:
        """Refuse bytes that are not HTTP, unless a response is being sent."""
        self._is_deaf = True
        self._waiting.clear()
        if self._current is not None:
            self._current.break_off(self._refusal[0])
            return
        head = self._head
        head.take_target(self._target)
        self._answer(Exchange(self, head), self._refusal)
        # More of the unreadable bytes will probably follow.
        self._linger()

    def _answer(self, exchange: Exchange, refusal: tuple[int, str]) -> None:
        """Refuse a request without calling the gateway, and read no other on this connection."""
        status, problem = refusal
        exchange.keeps = False
        headers, body = self.listener.describe(exchange.head, status, problem)
        exchange.response_bytes(status, headers, body)

    def refuse(self, exchange: Exchange) -> None:
        """Refuse a request whose body is not valid HTTP."""
        self._answer(exchange, self._refusal)

    def write(self, data: bytes) -> None:
        """Write bytes, if still connected."""
        if not self.is_gone:
            self._transport.write(data)

    def hang_up(self) -> None:
        """Close once everything is sent; further bytes of the client are read and discarded for a moment.

        Closing while the client sends would reset the connection, and the response might never be read.
        """
        if self.is_gone:
            return
        self._is_deaf = True
        incoming = self._incoming
        if incoming is None or incoming.is_complete:
            self._transport.close()
        else:
            self._linger()

    def _linger(self) -> None:
        """Send nothing more, and close after the client has had a moment to read the response."""
        if not self._transport.can_write_eof():
            self._transport.close()
            return
        self.resume()
        self._transport.write_eof()
        self.listener.loop.call_later(_LINGER_SECONDS, self.abort)

    def reset(self) -> None:
        """Close at once, as an error for the client."""
        if not self.is_gone:
            linger = struct.pack("ii", 1, 0)
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, linger
            )
            self._transport.abort()

    def abort(self) -> None:
        """Close at once."""
        if not self.is_gone:
            self._transport.abort()

    def resume(self) -> None:
        """Resume reading, if it was paused."""
        if self._is_paused and not self.is_gone:
            self._is_paused = False
            self._transport.resume_reading()

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    async def drain(self) -> None:
        """Wait until the client keeps up."""
        if self.is_full and not self.is_gone:
            self._drained = self.listener.loop.create_future()
            try:
                await self._drained
            finally:
                self._drained = None
        if self.is_gone:
            raise ProtocolClosed

    async def gone(self) -> None:
        """Wait until the client has disconnected."""
        if not self.is_gone:
            if self._disconnect is None:
                self._disconnect = self.listener.loop.create_future()
            # Several may wait, and one that is cancelled must not end the wait of the others.
            await asyncio.shield(self._disconnect)

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request, or for the rest of a head."""
        return self._current is None

    # --- the parser ----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._head = Head(self.client)
        self._target = b""
        if self.is_kept:
            self.is_kept = False
            self.waits_since = self.listener.loop.time()

    def on_url(self, target: bytes) -> None:
        """Add to the request target."""
        self._target += target
        self._count(len(target))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        self._count(len(name) + len(value))
        self._head.add(name.decode("latin-1").lower(), value.decode("latin-1"))

    def _count(self, size: int) -> None:
        self._unheard = 0
        head = self._head
        head.header_bytes += size
        if head.header_bytes > self.listener.header_bytes or len(head.headers) > _MOST_HEADERS:
            self._refusal = _TOO_LARGE
            raise ValueError(self._refusal[1])

    def on_headers_complete(self) -> None:
        """The head is complete; pass it to the gateway when it is its turn."""
        head, parser = self._head, self._parser
        head.method = parser.get_method().decode("latin-1")
        head.http_version = parser.get_http_version()
        # The request line is not a header.
        head.header_bytes -= len(self._target)
        head.take_target(self._target)
        head.check()
        exchange = self._incoming = Exchange(self, head)
        exchange.keeps = parser.should_keep_alive() and not parser.should_upgrade()
        if "expect" in head.headers:
            exchange.expects_continue = head.headers["expect"].lower() == "100-continue"
        if self._current is None:
            self._begin(exchange)
        else:
            self._waiting.append(exchange)
            self._pause()

    def on_body(self, data: bytes) -> None:
        """Add to the body."""
        self._unheard = 0
        if self._incoming is not None and self._incoming.add(data):
            self._pause()

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._unheard = 0
        exchange = self._incoming
        if exchange is not None and not (self._parser.should_upgrade() and exchange.head.framing()):
            exchange.complete()

    def end_body(self) -> None:
        """The body of a request for an upgrade is complete."""
        self._is_deaf = True
        if self._incoming is not None:
            self._incoming.complete()

    # --- taking turns --------------------------------------------------------------------------

    def _begin(self, exchange: Exchange) -> None:
        self._current = exchange
        # The loop itself holds only a weak reference to a task.
        self._tasks = self.listener.loop.create_task(self._run(exchange))

    async def _run(self, exchange: Exchange) -> None:
        try:
            head: Any = exchange.head
            if head.refusal is None:
                await self.listener.application(head, exchange)
            else:
                self._answer(exchange, head.refusal)
        finally:
            self._current = self._tasks = None
            if not self.is_gone:
                exchange.finish()
                self._go_on(exchange)

    def _go_on(self, exchange: Exchange) -> None:
        if not exchange.keeps or self.listener.is_closing:
            self.hang_up()
        elif self._waiting:
            self._begin(self._waiting.popleft())
        else:
            self.waits_since = self.listener.loop.time()
            self.is_kept = True
            self.resume()


def _describe(head: Head, status: int, problem: str) -> tuple[list[tuple[str, str]], bytes]:
    """A refusal in plain text."""
    del head, status
    return [("content-type", "text/plain")], problem.encode()


class Listener:
    """All connections to one port."""

    def __init__(
        self,
        application: Application,
        hand_over: Handover,
        *,
        header_bytes: int,
        header_seconds: float,
        idle_seconds: float,
        describe: Describe | None = None,
        complain: Callable[[OSError], object] = lambda error: None,  # noqa: ARG005 - who cares to know
    ) -> None:
        self.application = application
        self.hand_over = hand_over
        self.describe = describe or _describe
        self.header_bytes = header_bytes
        self.loop = asyncio.get_running_loop()
        self.connections: set[Connection] = set()
        self.is_closing = False
        self._header_seconds = header_seconds
        self._idle_seconds = idle_seconds
        self._complain = complain
        self._acceptor: Acceptor | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._date = ""
        self._date_until = 0.0

    def listen(self, sock: socket.socket, backlog: int) -> None:
        """Accept connections."""
        sock.listen(backlog)
        self._acceptor = Acceptor(sock, lambda: Connection(self), self._complain)
        self._acceptor.start()
        self._look()

    def _look(self) -> None:
        """Close connections whose client is too slow with a head, or is idle for too long."""
        now = self.loop.time()
        for connection in list(self.connections):
            if connection.is_idle:
                most = self._idle_seconds if connection.is_kept else self._header_seconds
                if now - connection.waits_since > most:
                    connection.abort()
        shortest = min(self._header_seconds, self._idle_seconds)
        self._timer = self.loop.call_later(min(shortest / 4, 1.0), self._look)

    def date(self) -> str:
        """The ``date`` header."""
        now = self.loop.time()
        if now >= self._date_until:
            self._date = f"date: {formatdate(usegmt=True)}\r\n"
            self._date_until = now + 0.5
        return self._date

    async def close(self) -> None:
        """Stop accepting, and close the existing connections."""
        self.is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in list(self.connections):
            connection.hang_up()
        await asyncio.sleep(0)
