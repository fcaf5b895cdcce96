"""HTTP/1.1 connections to one upstream: kept open, reused, and dropped as soon as anything is wrong with them.

The bytes are parsed by llhttp (httptools) as they arrive on the event loop, with no thread and no
task between the socket and whoever reads, since that would cost most of a pass-through (see the
decision on the gateway's stack). Whatever goes wrong is a NoAnswerError that says how.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import httptools

from cannery.gateway.refusals import NoAnswerError
from cannery.gateway.settings import Timeouts

Take: TypeAlias = Callable[[bytes], bool]
"""Takes bytes of a body, and says whether it can take more."""

_HIGH_WATER = 256 << 10
_MOST_HEADER_BYTES = 256 << 10
_IDLE_SECONDS = 50.0
_MOST_IDLE = 512
# What one read may grow to when it is unpacked; beyond it somebody means harm.
_MOST_UNPACKED = 16 << 20


class Origin(NamedTuple):
    """Where an upstream listens."""

    host: str
    port: int
    is_tls: bool
    name: str

    @classmethod
    def of(cls, url: str) -> Origin:
        """The origin of a URL."""
        parts = urlsplit(url)
        is_tls = parts.scheme == "https"
        port = parts.port or (443 if is_tls else 80)
        name = parts.netloc.rpartition("@")[2]
        return cls(parts.hostname or "", port, is_tls, name)


class Connection(asyncio.Protocol):
    """One connection; it carries one exchange at a time."""

    def __init__(self, upstream: str, loop: asyncio.AbstractEventLoop) -> None:
        self._upstream = upstream
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._take: Take | None = None
        self._trouble: BaseException | None = None
        self._error: NoAnswerError | None = None
        self._limit = 0.0
        self._deadline = 0.0
        self._touched = 0.0
        self._is_resting = False
        self.idle_since = 0.0
        self.is_reused = False
        self._reset()

    def _reset(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._header_bytes = 0
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._is_paused = False
        self._has_head = False
        self._is_over = False
        self._ends_with_connection = False
        self._keeps = False
        self._inflate: Any = None

    # --- what the reader does ------------------------------------------------------------------

    def start(self, request: bytes, timeouts: Timeouts) -> None:
        """Send a request."""
        self._reset()
        self._limit = timeouts.read
        self._touched = self._loop.time()
        self._is_resting = False
        if timeouts.total:
            self._deadline = self._touched + timeouts.total
            self._disarm()
        else:
            self._deadline = 0.0
        if self._timer is None:
            self._arm()
        if self._transport is None or self._transport.is_closing():
            self._fail(self._broken())
            return
        self._transport.write(request)

    async def head(self) -> int:
        """The status of the response, once its head has come."""
        while not self._has_head:
            await self._wait()
        return self.status

    async def read(self) -> bytes | None:
        """The next bytes of the body, or None at its end."""
        while not self._chunks:
            if self._is_over:
                return None
            await self._wait()
        return self._drawn()

    def _drawn(self) -> bytes:
        """What has come, which makes room for more."""
        if len(self._chunks) == 1:
            chunk = self._chunks.popleft()
        else:
            chunk = b"".join(self._chunks)
            self._chunks.clear()
        self._size = 0
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return chunk

    async def pour(self, take: Take) -> bool:
        """Give the body to somebody as it comes, all that one read brings at once; True at its end.

        It is handed over where it is read: to wake a task for every chunk of a stream costs more than to say it.
        False if he has enough for now; what comes meanwhile is kept.
        """
        while self._chunks or not self._is_over:
            if self._chunks:
                if not take(self._drawn()):
                    return False
                continue
            self._take = take
            try:
                await self._wait()
            finally:
                is_refused, self._take = self._take is None, None
            if self._trouble is not None:
                trouble, self._trouble = self._trouble, None
                raise trouble
            if is_refused:
                return False
        return True

    def _hand_over(self, take: Take) -> None:
        try:
            if take(self._drawn()):
                return
        except Exception as error:  # noqa: BLE001 - it is raised where it belongs, by whoever waits
            self._trouble = error
        self._take = None
        self._wake()

    async def rest(self, limit: int) -> bytes:
        """All that is still to come of the body."""
        pieces: list[bytes] = []
        size = 0
        while (chunk := await self.read()) is not None:
            pieces.append(chunk)
            size += len(chunk)
            if size > limit:
                problem = f"answered with more than {limit} bytes"
                raise NoAnswerError(self._upstream, problem, "upstream_too_large")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _wait(self) -> None:
        self._raise()
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        if not self._chunks:
            self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error.again()

    @property
    def is_reusable(self) -> bool:
        """Whether another request can be sent on it."""
        if self._transport is None or self._error is not None:
            return False
        return self._is_over and self._keeps and not self._transport.is_closing()

    @property
    def is_untouched(self) -> bool:
        """Whether nothing of a response has come."""
        return not self._has_head and not self._header_bytes

    def rest_now(self) -> None:
        """Be idle; the timer finds that out by itself, since stopping it costs more than letting it run."""
        self._is_resting = True
        self.is_reused = True
        self.idle_since = monotonic()

    def drop(self) -> None:
        """Hang up at once."""
        self._disarm()
        if self._transport is not None:
            self._transport.abort()

    # --- time ----------------------------------------------------------------------------------

    def _arm(self) -> None:
        """One timer for all exchanges in a row, put off as long as something comes."""
        wait = self._limit
        if self._deadline:
            wait = min(wait, self._deadline - self._loop.time())
        self._timer = self._loop.call_later(max(wait, 0.001), self._check)

    def _check(self) -> None:
        if self._is_resting:
            self._timer = None
            return
        now = self._loop.time()
        is_late = bool(self._deadline) and now >= self._deadline
        if is_late or now - self._touched >= self._limit:
            problem = "did not answer in time"
            self._fail(NoAnswerError(self._upstream, problem, "upstream_timeout", 504))
            self.drop()
            return
        wait = self._limit - (now - self._touched)
        if self._deadline:
            wait = min(wait, self._deadline - now)
        self._timer = self._loop.call_later(max(wait, 0.001), self._check)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- what the socket does ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        self._touched = self._loop.time()
        try:
            self._parser.feed_data(data)
            if self._take is not None and self._chunks:
                self._hand_over(self._take)
        except httptools.HttpParserError:
            problem = "answered with something that is not HTTP"
            self._fail(NoAnswerError(self._upstream, problem, "upstream_invalid"))
            self.drop()
        except zlib.error:
            problem = "answered with a body that cannot be decompressed"
            self._fail(NoAnswerError(self._upstream, problem, "upstream_invalid"))
            self.drop()

    def connection_lost(self, error: Exception | None) -> None:
        """Take note that it is gone."""
        if self._has_head and self._ends_with_connection and error is None:
            self.on_message_complete()
        elif not self._is_over:
            self._fail(self._broken())
        self._keeps = False
        self._disarm()

    def _broken(self) -> NoAnswerError:
        return NoAnswerError(self._upstream, "broke off its answer", "upstream_broken")

    def _fail(self, error: NoAnswerError) -> None:
        if self._error is None and not self._is_over:
            self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- what the parser says ------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; of several with one name, the first."""
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > _MOST_HEADER_BYTES:
            problem = "answered with too many headers"
            self._fail(NoAnswerError(self._upstream, problem, "upstream_invalid"))
            self.drop()
        self.headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        """Take the head; one that only says "go on" is not an answer."""
        status = self._parser.get_status_code()
        if status < 200:
            self.headers = {}
            return
        self.status = status
        headers = self.headers
        self._keeps = self._parser.should_keep_alive()
        has_length = "content-length" in headers or "transfer-encoding" in headers
        self._ends_with_connection = not has_length and status not in (204, 304)
        if headers.get("content-encoding", "identity").lower() in ("gzip", "deflate", "x-gzip"):
            self._inflate = zlib.decompressobj(47)
        self._has_head = True
        self._wake()

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body; a reader that does not keep up slows the upstream down."""
        if self._inflate is not None:
            data = self._inflate.decompress(data, _MOST_UNPACKED)
            if self._inflate.unconsumed_tail:
                problem = "answered with a body that grows out of proportion when it is unpacked"
                self._fail(NoAnswerError(self._upstream, problem, "upstream_too_large"))
                self.drop()
                return
        self._chunks.append(data)
        self._size += len(data)
        if self._size > _HIGH_WATER and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        if self._take is None:
            self._wake()

    def on_message_complete(self) -> None:
        """Take note that everything has come."""
        if self._has_head:
            self._is_over = True
            self._wake()


class Wires:
    """The connections to one upstream."""

    def __init__(self, upstream: str, url: str, timeouts: Timeouts) -> None:
        self._upstream = upstream
        self.origin = Origin.of(url)
        self._timeouts = timeouts
        self._idle: deque[Connection] = deque()
        self._is_closed = False
        self._context = ssl.create_default_context() if self.origin.is_tls else None

    async def take(self, *, is_fresh: bool = False) -> Connection:
        """A connection that nobody uses; a new one if there is none, or if it must be fresh."""
        while self._idle and not is_fresh:
            connection = self._idle.pop()
            if connection.is_reusable and monotonic() - connection.idle_since < _IDLE_SECONDS:
                return connection
            connection.drop()
        return await self._connect()

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        origin = self.origin
        try:
            async with asyncio.timeout(self._timeouts.connect):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._upstream, loop),
                    origin.host,
                    origin.port,
                    ssl=self._context,
                    server_hostname=origin.host if origin.is_tls else None,
                )
        except TimeoutError:
            problem = f"did not accept a connection within {self._timeouts.connect:g} s"
            raise NoAnswerError(self._upstream, problem, "upstream_timeout", 504) from None
        except OSError:
            raise NoAnswerError(
                self._upstream, "cannot be reached", "upstream_unreachable"
            ) from None
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next request, if it can carry one."""
        is_wanted = not self._is_closed and len(self._idle) < _MOST_IDLE
        if is_wanted and connection.is_reusable:
            connection.rest_now()
            self._idle.append(connection)
        else:
            connection.drop()

    def close(self) -> None:
        """Hang up on all idle connections, and on those in use once they are given back."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().drop()
