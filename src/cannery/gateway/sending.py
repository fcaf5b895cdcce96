"""Asking upstreams over HTTP: time-outs and retries as the row says, every failure named.

Nothing is retried once the first byte of an answer has come. Redirects are not followed: a row's
URL is the only address that is ever asked. A kept connection that turns out to be closed before a
byte has come is replaced once; the upstream has not seen the request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from cannery.gateway.refusals import NoAnswerError
from cannery.gateway.settings import Row
from cannery.gateway.wires import Connection, Take, Wires

_TRANSIENT = frozenset({429, 500, 502, 503, 504, 529})
_LONGEST_WAIT = 10.0
_BASE_WAIT = 0.25
_MOST_LINES = 256


class Answer(NamedTuple):
    """What an upstream answered, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    attempts: int


class Opened(NamedTuple):
    """An answer that has begun."""

    status: int
    headers: Mapping[str, str]
    connection: Connection
    attempts: int
    limit: int
    wires: Wires

    def close(self) -> None:
        """Let go of the connection; another call may use it, if everything was read."""
        self.wires.give_back(self.connection)

    async def read(self) -> bytes | None:
        """The next bytes, or None at the end."""
        return await self.connection.read()

    async def pour(self, take: Take) -> bool:
        """Give what comes to somebody on the spot; True at the end, False when he has enough for now."""
        return await self.connection.pour(take)

    async def rest(self) -> bytes:
        """Everything that is still to come."""
        return await self.connection.rest(self.limit)


class Sender:
    """Asks one upstream."""

    def __init__(self, row: Row, reply_bytes: int) -> None:
        self._row = row
        self._limit = reply_bytes
        self._wires = Wires(row.name, row.url, row.timeouts)
        self._heads: dict[str, bytes] = {}
        self._lines: dict[tuple[tuple[str, str], ...], bytes] = {}

    def close(self) -> None:
        """Let go of all connections."""
        self._wires.close()

    def request(self, url: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """The bytes that ask for something.

        They are held as long as the upstream thinks, so they are put together once, in no more memory than they need:
        what an encoder gives may take eight times its size.
        """
        start = self._heads.get(url)
        if start is None:
            start = self._head(url, "POST")
            if len(self._heads) < 1024:
                self._heads[url] = start
        told = tuple(headers.items())
        lines = self._lines.get(told)
        if lines is None:
            lines = _lines(headers)
            if len(self._lines) >= _MOST_LINES:
                self._lines.clear()
            self._lines[told] = lines
        return b"".join((start, lines, b"content-length: %d\r\n\r\n" % len(body), body))

    async def send(self, request: bytes) -> Answer:
        """Send a request and take the whole answer."""
        opened = await self.open(request)
        try:
            body = await opened.rest()
        finally:
            opened.close()
        return Answer(opened.status, opened.headers, body, opened.attempts)

    async def fetch(self, url: str, headers: Mapping[str, str]) -> Answer:
        """Get what lies at an address, in one attempt."""
        connection = await self._ask(self._head(url, "GET") + _lines(headers) + b"\r\n")
        try:
            said = await connection.rest(self._limit)
        finally:
            self._wires.give_back(connection)
        return Answer(connection.status, connection.headers, said, 1)

    async def open(self, request: bytes) -> Opened:
        """Send a request and take the answer as it comes; it must be closed."""
        attempt = 1
        while True:
            try:
                connection = await self._ask(request)
            except NoAnswerError as failure:
                if attempt > self._row.retries or failure.code != "upstream_unreachable":
                    raise
                wait = _wait(None, attempt)
            else:
                status, found = connection.status, connection.headers
                if attempt > self._row.retries or status not in _TRANSIENT:
                    return Opened(status, found, connection, attempt, self._limit, self._wires)
                self._wires.give_back(connection)
                wait = _wait(found.get("retry-after"), attempt)
            await asyncio.sleep(wait)
            attempt += 1

    async def _ask(self, request: bytes) -> Connection:
        """Send a request and wait for the head of its answer."""
        connection = await self._wires.take()
        try:
            connection.start(request, self._row.timeouts)
            try:
                await connection.head()
            except NoAnswerError as failure:
                if (
                    not connection.is_reused
                    or not connection.is_untouched
                    or failure.status_hint == 504
                ):
                    raise
                connection.drop()
                connection = await self._wires.take(is_fresh=True)
                connection.start(request, self._row.timeouts)
                await connection.head()
        except BaseException:
            # A caller that hangs up ends up here too: the upstream is told by hanging up on it.
            connection.drop()
            raise
        return connection

    def _head(self, url: str, method: str) -> bytes:
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        return (
            f"{method} {target} HTTP/1.1\r\nhost: {self._wires.origin.name}\r\n"
            "user-agent: cannery\r\naccept-encoding: identity\r\n"
        ).encode()


def _lines(headers: Mapping[str, str]) -> bytes:
    return "".join([f"{name}: {value}\r\n" for name, value in headers.items()]).encode()


def _wait(asked: str | None, attempt: int) -> float:
    """How long to wait before the next attempt: what the upstream asks for, within reason."""
    wait = _BASE_WAIT * 2.0 ** (attempt - 1)
    if asked is not None:
        with contextlib.suppress(ValueError):
            wait = float(asked)
    return min(wait, _LONGEST_WAIT)
