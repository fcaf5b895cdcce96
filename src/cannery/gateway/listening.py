"""HTTP/1.1 from clients, on the event loop that answers them.

The bytes are parsed by llhttp (httptools) as they arrive, with no thread between the socket and the
gateway, since handing each request from one to the other costs more than most replies (see the
decision on listening). What the gateway sees is the interface in ``rsgi``. A connection that begins
with HTTP/2 is handed on to a tunnel.

One answer at a time: requests that come before their turn wait, and the client is not read from
until then. A body that nobody asked for is not kept; its connection ends with the answer.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import httptools

from cannery.gateway.accepting import Acceptor
from cannery.gateway.rsgi import HTTPProtocol, ProtocolClosed, Scope

Application = Callable[[Scope, HTTPProtocol], Any]
Handover = Callable[[asyncio.Transport, bytes], asyncio.Protocol]

_HIGH_WATER = 256 << 10
_MOST_HEADERS = 256
_LINGER_SECONDS = 2.0
_HTTP2 = b"PRI * HTTP/2.0"
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus
}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BODILESS = frozenset({204, 304})


class Head:
    """The head of a request; of several headers with one name, the first."""

    __slots__ = (
        "client",
        "header_bytes",
        "headers",
        "http_version",
        "method",
        "path",
        "query_string",
    )

    def __init__(self, client: str) -> None:
        self.client = client
        self.headers: dict[str, str] = {}
        self.header_bytes = 0
        self.method = ""
        self.path = ""
        self.query_string = ""
        self.http_version = ""

    def take_target(self, target: bytes) -> None:
        """Take the path and the query out of what was asked for."""
        if not target.startswith(b"/"):
            try:
                parsed = httptools.parse_url(target)
            except httptools.HttpParserInvalidURLError:
                return
            target = (parsed.path or b"") + (b"?" + parsed.query if parsed.query else b"")
        path, _, query = target.decode("latin-1").partition("#")[0].partition("?")
        self.path = unquote(path) if "%" in path else path
        self.query_string = query

    def framing(self) -> bytes:
        """The head of a request with nothing but the length of this one's body; nothing if it has none."""
        coding, length = self.headers.get("transfer-encoding"), self.headers.get("content-length")
        if coding is not None:
            return f"POST / HTTP/1.1\r\ntransfer-encoding: {coding}\r\n\r\n".encode("latin-1")
        if length is None or length == "0":
            return b""
        return f"POST / HTTP/1.1\r\ncontent-length: {length}\r\n\r\n".encode("latin-1")


class Exchange:
    """One request and its answer, as the gateway sees them."""

    __slots__ = (
        "_connection",
        "_failure",
        "_has_answered",
        "_is_chunked",
        "_is_streaming",
        "_pieces",
        "_size",
        "_waiter",
        "_wants_all",
        "expects_continue",
        "head",
        "is_complete",
        "keeps",
    )

    def __init__(self, connection: Connection, head: Head) -> None:
        self._connection = connection
        self.head = head
        self.keeps = True
        self.expects_continue = False
        self.is_complete = False
        self._pieces: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._wants_all = False
        self._has_answered = False
        self._failure = 0
        self._is_streaming = False
        self._is_chunked = False

    # --- the body of the request ---------------------------------------------------------------

    def add(self, data: bytes) -> bool:
        """Take some of the body; whether the client should wait until somebody wants it."""
        if self._has_answered:
            return False
        self._pieces.append(data)
        self._size += len(data)
        self.wake()
        return self._size > _HIGH_WATER and not self._wants_all

    def complete(self) -> None:
        """Take note that the whole request is there."""
        self.is_complete = True
        self.wake()

    def break_off(self, status: int) -> None:
        """Take note that no more of the request will come."""
        self.keeps = False
        if not self.is_complete:
            self._failure = status
            self.wake()

    def wake(self) -> None:
        """Let whoever waits for the body look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def __call__(self) -> bytes:
        """The whole body."""
        self._wants_all = True
        while not self.is_complete:
            await self._wait()
        pieces, self._pieces = self._pieces, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The body piece by piece."""
        while self._pieces or not self.is_complete:
            if not self._pieces:
                await self._wait()
                continue
            pieces, self._pieces, self._size = self._pieces, [], 0
            for piece in pieces:
                yield piece

    async def _wait(self) -> None:
        if self.expects_continue:
            self.expects_continue = False
            self._connection.write(_CONTINUE)
        self._connection.resume()
        if self._connection.is_gone or self._failure:
            raise ProtocolClosed
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def client_disconnect(self) -> None:
        """Return when the client has gone."""
        await self._connection.gone()

    # --- the answer ----------------------------------------------------------------------------

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """Respond whole."""
        length = "" if status in _BODILESS else f"content-length: {len(body)}\r\n"
        head = self._answer_head(status, headers, length)
        self._connection.write(head if self.head.method == "HEAD" else head + body)

    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> Exchange:
        """Begin a streamed response."""
        self._is_streaming = True
        self._is_chunked = self.head.http_version != "1.0"
        if not self._is_chunked:
            self.keeps = False
        length = "transfer-encoding: chunked\r\n" if self._is_chunked else ""
        self._connection.write(self._answer_head(status, headers, length))
        return self

    async def send_bytes(self, data: bytes) -> None:
        """Send some more."""
        if not self.send_now(data):
            await self._connection.drain()

    def send_now(self, data: bytes) -> bool:
        """Send some more at once; whether the client keeps up."""
        connection = self._connection
        if connection.is_gone:
            raise ProtocolClosed
        if data and self.head.method != "HEAD":
            connection.write(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)
        return not connection.is_full

    def _answer_head(self, status: int, headers: list[tuple[str, str]], length: str) -> bytes:
        self._has_answered = True
        self._pieces = []
        if not self.is_complete:
            # What is still to come of the body is not wanted.
            self.keeps = False
        lines = [f"{name}: {value}\r\n" for name, value in headers]
        if ("connection", "close") in headers:
            self.keeps = False
        elif not self.keeps:
            lines.append("connection: close\r\n")
        elif self.head.http_version == "1.0":
            lines.append("connection: keep-alive\r\n")
        text = "".join(lines)
        if text.count("\n") != len(lines) or text.count("\r") != len(lines):
            text = "".join([line for line in lines if line.count("\n") == line.count("\r") == 1])
        start = _STATUS_LINES.get(status) or f"HTTP/1.1 {status} \r\n"
        date = self._connection.listener.date()
        return f"{start}{text}{date}{length}\r\n".encode("latin-1", "replace")

    def finish(self) -> None:
        """Take note that the gateway is done with it."""
        if not self._has_answered:
            self.response_bytes(self._failure or 500, [], b"")
        if self._is_streaming and self._is_chunked and self.head.method != "HEAD":
            self._connection.write(b"0\r\n\r\n")


class _Rest:
    """Hears the body of a request whose head was read by another parser."""

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
        "_waiting",
        "client",
        "is_full",
        "is_gone",
        "listener",
        "waits_since",
    )

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self._parser = httptools.HttpRequestParser(self)
        self._transport: Any = None
        self._start: bytes | None = b""
        self._current: Exchange | None = None
        self._incoming: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._tasks: asyncio.Task[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._disconnect: asyncio.Future[None] | None = None
        self._refusal = 400
        self._is_paused = False
        self._is_deaf = False
        self.is_full = False
        self.is_gone = False
        self.client = ""
        self.waits_since = listener.loop.time()

    # --- the socket ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.client = f"{peer[0]}:{peer[1]}" if type(peer) is tuple else ""
        self.listener.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        """Tell everybody that the client has gone."""
        self.is_gone = True
        self.listener.connections.discard(self)
        for future in (self._drained, self._disconnect):
            if future is not None and not future.done():
                future.set_result(None)
        for exchange in (self._current, self._incoming):
            if exchange is not None:
                exchange.wake()

    def pause_writing(self) -> None:
        """Take note that the client does not keep up."""
        self.is_full = True

    def resume_writing(self) -> None:
        """Go on."""
        self.is_full = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        if self._is_deaf:
            return
        if self._start is not None:
            data = self._start + data
            if _HTTP2.startswith(data[: len(_HTTP2)]):
                self._hand_over(data)
                return
            self._start = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._refuse()

    def _decline(self, rest: bytes) -> None:
        """Go on in HTTP/1.1 with a client that would rather speak something else.

        The parser takes what follows the head for the other protocol; a second one reads it as the body that it is.
        Nothing else is heard on this connection.
        """
        exchange = self._incoming
        if exchange is None or exchange.is_complete:
            self._is_deaf = True
            return
        self._parser = httptools.HttpRequestParser(_Rest(self))
        self.data_received(exchange.head.framing() + rest)

    def _hand_over(self, data: bytes) -> None:
        """Wait until it is clear that this is HTTP/2, and let somebody else have it."""
        self._start = data
        if len(data) >= len(_HTTP2):
            self.listener.connections.discard(self)
            self._transport.set_protocol(self.listener.hand_over(self._transport, data))

    def _refuse(self) -> None:
        """Answer what is not HTTP, unless an answer is under way."""
        self._is_deaf = True
        self._waiting.clear()
        if self._current is not None:
            self._current.break_off(self._refusal)
            return
        start = _STATUS_LINES[self._refusal]
        self.write(f"{start}content-length: 0\r\nconnection: close\r\n\r\n".encode())
        self.hang_up()

    def write(self, data: bytes) -> None:
        """Send bytes, if anybody is there."""
        if not self.is_gone:
            self._transport.write(data)

    def hang_up(self) -> None:
        """Close once everything is sent; what the client still says is heard out for a moment.

        Closing while it sends would reset the connection, and the answer might never be read.
        """
        if self.is_gone:
            return
        self._is_deaf = True
        incoming = self._incoming
        if incoming is None or incoming.is_complete or not self._transport.can_write_eof():
            self._transport.close()
            return
        self.resume()
        self._transport.write_eof()
        self.listener.loop.call_later(_LINGER_SECONDS, self.abort)

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def resume(self) -> None:
        """Read again, if reading was put off."""
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
        """Return when the client has gone."""
        if not self.is_gone:
            if self._disconnect is None:
                self._disconnect = self.listener.loop.create_future()
            # Several may wait, and one that no longer does must not end it for the others.
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

    def on_url(self, target: bytes) -> None:
        """Take what is asked for, or some of it."""
        self._target += target
        self._count(len(target))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        head = self._head
        self._count(len(name) + len(value))
        headers = head.headers
        key = name.decode("latin-1").lower()
        if key not in headers:
            headers[key] = value.decode("latin-1")

    def _count(self, size: int) -> None:
        head = self._head
        head.header_bytes += size
        if head.header_bytes > self.listener.header_bytes or len(head.headers) > _MOST_HEADERS:
            self._refusal = 431
            raise ValueError("too large")

    def on_headers_complete(self) -> None:
        """Take the head, and let the gateway have it when it is its turn."""
        head, parser = self._head, self._parser
        head.method = parser.get_method().decode("latin-1")
        head.http_version = parser.get_http_version()
        # The line of the request is no header.
        head.header_bytes -= len(self._target)
        head.take_target(self._target)
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
        """Take some of a body."""
        if self._incoming is not None and self._incoming.add(data):
            self._pause()

    def on_message_complete(self) -> None:
        """Take note that a request is there."""
        exchange = self._incoming
        if exchange is not None and not (self._parser.should_upgrade() and exchange.head.framing()):
            exchange.complete()

    def end_body(self) -> None:
        """Take note that the body of a request that wanted something else is there."""
        self._is_deaf = True
        if self._incoming is not None:
            self._incoming.complete()

    # --- taking turns --------------------------------------------------------------------------

    def _begin(self, exchange: Exchange) -> None:
        self._current = exchange
        # The loop itself only refers to a task weakly.
        self._tasks = self.listener.loop.create_task(self._run(exchange))

    async def _run(self, exchange: Exchange) -> None:
        try:
            head: Any = exchange.head
            await self.listener.application(head, exchange)
        finally:
            self._current = None
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
            self.resume()


class Listener:
    """All connections to one port."""

    def __init__(
        self,
        application: Application,
        hand_over: Handover,
        *,
        header_bytes: int,
        header_seconds: float,
        complain: Callable[[OSError], object] = lambda error: None,  # noqa: ARG005 - who cares to know
    ) -> None:
        self.application = application
        self.hand_over = hand_over
        self.header_bytes = header_bytes
        self.loop = asyncio.get_running_loop()
        self.connections: set[Connection] = set()
        self.is_closing = False
        self._header_seconds = header_seconds
        self._complain = complain
        self._acceptor: Acceptor | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._date = ""
        self._date_until = 0.0

    def listen(self, sock: socket.socket, backlog: int) -> None:
        """Take connections."""
        sock.listen(backlog)
        self._acceptor = Acceptor(sock, lambda: Connection(self), self._complain)
        self._acceptor.start()
        self._look()

    def _look(self) -> None:
        """Close connections whose client takes too long over a head, or has nothing more to ask."""
        now = self.loop.time()
        for connection in list(self.connections):
            if connection.is_idle and now - connection.waits_since > self._header_seconds:
                connection.abort()
        self._timer = self.loop.call_later(min(self._header_seconds / 4, 1.0), self._look)

    def date(self) -> str:
        """The header that says what time it is."""
        now = self.loop.time()
        if now >= self._date_until:
            self._date = f"date: {formatdate(usegmt=True)}\r\n"
            self._date_until = now + 0.5
        return self._date

    async def close(self) -> None:
        """Take no more connections, and let go of those that are there."""
        self.is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in list(self.connections):
            connection.hang_up()
        await asyncio.sleep(0)
