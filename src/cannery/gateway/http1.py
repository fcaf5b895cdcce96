"""One request in HTTP/1.1 and its response, with the interface of ``rsgi``.

The body of a request is buffered until it is read, and reading from the client pauses while much of it is buffered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httptools

from cannery.gateway.rsgi import ProtocolClosed

if TYPE_CHECKING:
    from cannery.gateway.listening import Connection

_HIGH_WATER = 64 << 10
STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus
}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BODILESS = frozenset({204, 304})
_VERSIONS = frozenset({"1.0", "1.1"})


class Head:
    """The head of a request; of several headers with one name, the first. ``refusal`` is the reason for refusing it."""

    __slots__ = (
        "client",
        "header_bytes",
        "headers",
        "http_version",
        "is_truncated",
        "is_whole",
        "method",
        "path",
        "query_string",
        "refusal",
    )

    def __init__(self, client: str) -> None:
        self.client = client
        self.headers: dict[str, str] = {}
        self.header_bytes = 0
        self.is_whole = False
        self.method = ""
        self.path = ""
        self.query_string = ""
        self.http_version = ""
        self.refusal: tuple[int, str] | None = None
        self.is_truncated = False

    @property
    def host(self) -> str | None:
        """The host name that the client requested."""
        return self.headers.get("host")

    def add(self, name: str, value: str) -> None:
        """Add a header; duplicate headers that are ambiguous make the request invalid.

        Trailer fields are ignored (RFC 9110, section 6.5.1).
        """
        if self.is_whole:
            return
        headers = self.headers
        if name not in headers:
            headers[name] = value
        elif name == "host":
            self.refusal = (400, "there are several Host headers")
        elif name == "transfer-encoding":
            headers[name] += f", {value}"

    def check(self) -> None:
        """Refuse what RFC 9112 requires to refuse: no Host (section 3.2), an unknown coding (6.1).

        HTTP/2 does not have this form, so its number here is no version that the server speaks (RFC 9110, 15.6.6).
        """
        self.is_whole = True
        headers = self.headers
        if self.http_version not in _VERSIONS:
            self.refusal = (505, f"HTTP/{self.http_version} is not spoken in this form")
            return
        if "host" not in headers and self.http_version == "1.1":
            self.refusal = (400, "there is no Host header")
        coding = headers.get("transfer-encoding")
        if coding is not None and coding.strip().lower() != "chunked":
            self.refusal = (501, f"transfer-encoding {coding[:50]!r} is not supported")

    def take_target(self, target: bytes) -> None:
        """Set the path and the query from the request target.

        The host in an absolute URL replaces the Host header (RFC 9112, section 3.2.2).
        """
        if not target.startswith(b"/"):
            try:
                # Its types do not show that parts may be missing.
                parsed: Any = httptools.parse_url(target)
            except httptools.HttpParserInvalidURLError:
                return
            if parsed.host is not None and "host" in self.headers:
                name = parsed.host.decode("latin-1")
                name = f"[{name}]" if ":" in name else name
                self.headers["host"] = name if parsed.port is None else f"{name}:{parsed.port}"
            target = (parsed.path or b"") + (b"?" + parsed.query if parsed.query else b"")
        path, _, query = target.decode("latin-1").partition("#")[0].partition("?")
        self.path = unquote(path) if "%" in path else path
        self.query_string = query

    def framing(self) -> bytes:
        """A minimal request head with the length of this one's body; empty if it has none."""
        coding, length = self.headers.get("transfer-encoding"), self.headers.get("content-length")
        if coding is not None:
            return f"POST / HTTP/1.1\r\ntransfer-encoding: {coding}\r\n\r\n".encode("latin-1")
        if length is None or length == "0":
            return b""
        return f"POST / HTTP/1.1\r\ncontent-length: {length}\r\n\r\n".encode("latin-1")


class Exchange:
    """One request and its response, as the gateway uses them."""

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
        """Add a part of the body; whether reading from the client should pause until the body is read."""
        if self._has_answered:
            return False
        self._pieces.append(data)
        self._size += len(data)
        self.wake()
        return self._size > _HIGH_WATER and not self._wants_all

    def complete(self) -> None:
        """The whole request has arrived."""
        self.is_complete = True
        self.wake()

    def break_off(self, status: int) -> None:
        """No more of the request will arrive."""
        self.keeps = False
        if not self.is_complete:
            self._failure = status
            self.wake()

    def wake(self) -> None:
        """Wake the readers of the body."""
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
        """Wait until the client has disconnected."""
        await self._connection.gone()

    # --- the answer ----------------------------------------------------------------------------

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """Send a whole response."""
        length = "" if status in _BODILESS else f"content-length: {len(body)}\r\n"
        head = self._answer_head(status, headers, length)
        self._connection.write(head if self.head.method == "HEAD" else head + body)

    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> Exchange:
        """Begin a streamed response."""
        self._is_streaming = status not in _BODILESS
        self._is_chunked = self._is_streaming and self.head.http_version != "1.0"
        if self._is_streaming and not self._is_chunked:
            self.keeps = False
        length = "transfer-encoding: chunked\r\n" if self._is_chunked else ""
        self._connection.write(self._answer_head(status, headers, length))
        return self

    async def send_bytes(self, data: bytes) -> None:
        """Send a chunk."""
        if not self.send_now(data):
            await self._connection.drain()

    def send_now(self, data: bytes) -> bool:
        """Send a chunk at once; whether the client keeps up."""
        connection = self._connection
        if connection.is_gone:
            raise ProtocolClosed
        if data and self._is_streaming and self.head.method != "HEAD":
            connection.write(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)
        return not connection.is_full

    def _answer_head(self, status: int, headers: list[tuple[str, str]], length: str) -> bytes:
        self._has_answered = True
        self._pieces = []
        if not self.is_complete:
            # The rest of the body is not needed.
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
        start = STATUS_LINES.get(status) or f"HTTP/1.1 {status} \r\n"
        date = self._connection.listener.date()
        return f"{start}{text}{date}{length}\r\n".encode("latin-1", "replace")

    def finish(self) -> None:
        """The gateway is done with it."""
        if not self._has_answered and self._failure:
            self._connection.refuse(self)
        elif not self._has_answered:
            self.response_bytes(500, [], b"")
        if self._is_streaming and self.head.is_truncated:
            self._leave_incomplete()
        elif self._is_chunked and self.head.method != "HEAD":
            self._connection.write(b"0\r\n\r\n")

    def _leave_incomplete(self) -> None:
        """Close without the last chunk; a client of HTTP/1.0 takes only a reset for an error."""
        self.keeps = False
        if not self._is_chunked:
            self._connection.reset()
