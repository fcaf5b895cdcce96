"""Asking upstreams over HTTP: one client a row, time-outs and retries as the row says, every failure named.

Nothing is retried once the first byte of an answer has come. Redirects are not followed: a row's
URL is the only address that is ever asked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import NamedTuple

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import (
    ConnectError,
    ConnectTimeoutError,
    PyreqwestError,
    RequestTimeoutError,
)
from pyreqwest.http import HeaderMap
from pyreqwest.request import RequestBuilder
from pyreqwest.response import Response

from cannery.gateway.refusals import NoAnswerError
from cannery.gateway.settings import Row, Timeouts

_TRANSIENT = frozenset({429, 500, 502, 503, 504, 529})
_LONGEST_WAIT = 10.0
_BASE_WAIT = 0.25


class Answer(NamedTuple):
    """What an upstream answered, whole."""

    status: int
    headers: HeaderMap
    body: bytes
    attempts: int


class Opened(NamedTuple):
    """An answer that has begun."""

    status: int
    headers: HeaderMap
    response: Response
    attempts: int

    async def read(self) -> bytes | None:
        """The next bytes, or None at the end."""
        chunk = await self.response.body_reader.read_chunk()
        return None if chunk is None else bytes(chunk)

    async def rest(self) -> bytes:
        """Everything that is still to come."""
        return bytes(await self.response.body_reader.bytes())


class Sender:
    """Asks one upstream."""

    def __init__(self, row: Row) -> None:
        self._row = row
        self._total = timedelta(seconds=row.timeouts.total) if row.timeouts.total else None
        self._client = _build(row.timeouts)

    async def close(self) -> None:
        """Let go of all connections."""
        await self._client.close()

    async def get(self, url: str, headers: dict[str, str]) -> Answer:
        """Ask for something that needs no body."""
        return await self._whole(self._prepared(self._client.get(url), headers, None), 1)

    async def send(self, url: str, headers: dict[str, str], body: bytes) -> Answer:
        """Send a body and take the whole answer."""
        attempt = 1
        while True:
            builder = self._prepared(self._client.post(url), headers, body)
            try:
                answer = await self._whole(builder, attempt)
            except NoAnswerError as failure:
                if attempt > self._row.retries or failure.code != "upstream_unreachable":
                    raise
                await asyncio.sleep(_wait(None, attempt))
            else:
                if attempt > self._row.retries or answer.status not in _TRANSIENT:
                    return answer
                await asyncio.sleep(_wait(answer.headers.get("retry-after"), attempt))
            attempt += 1

    async def _whole(self, builder: RequestBuilder, attempt: int) -> Answer:
        try:
            response = await builder.build().send()
            body = bytes(await response.bytes())
        except PyreqwestError as error:
            raise self._failure(error) from None
        return Answer(response.status, response.headers, body, attempt)

    @contextlib.asynccontextmanager
    async def open(self, url: str, headers: dict[str, str], body: bytes) -> AsyncIterator[Opened]:
        """Send a body and take the answer as it comes."""
        attempt = 1
        while True:
            streamed = self._prepared(self._client.post(url), headers, body).build_streamed()
            try:
                response = await streamed.__aenter__()
            except PyreqwestError as error:
                failure = self._failure(error)
                if attempt > self._row.retries or failure.code != "upstream_unreachable":
                    raise failure from None
                await asyncio.sleep(_wait(None, attempt))
            else:
                try:
                    if attempt > self._row.retries or response.status not in _TRANSIENT:
                        yield Opened(response.status, response.headers, response, attempt)
                        return
                    wait = _wait(response.headers.get("retry-after"), attempt)
                finally:
                    await streamed.__aexit__(None, None, None)
                await asyncio.sleep(wait)
            attempt += 1

    def failure(self, error: PyreqwestError) -> NoAnswerError:
        """A failure in mid-stream."""
        return self._failure(error)

    def _prepared(
        self, builder: RequestBuilder, headers: dict[str, str], body: bytes | None
    ) -> RequestBuilder:
        builder = builder.headers(headers)
        if body is not None:
            builder = builder.body_bytes(body)
        return builder if self._total is None else builder.timeout(self._total)

    def _failure(self, error: PyreqwestError) -> NoAnswerError:
        name = self._row.name
        if isinstance(error, ConnectTimeoutError):
            limit = self._row.timeouts.connect
            problem = f"did not accept a connection within {limit:g} s"
            return NoAnswerError(name, problem, "upstream_timeout", 504)
        if isinstance(error, RequestTimeoutError):
            return NoAnswerError(name, "did not answer in time", "upstream_timeout", 504)
        if isinstance(error, ConnectError):
            return NoAnswerError(name, "cannot be reached", "upstream_unreachable")
        return NoAnswerError(name, "broke off its answer", "upstream_broken")


def _build(timeouts: Timeouts) -> Client:
    return (
        ClientBuilder()
        .connect_timeout(timedelta(seconds=timeouts.connect))
        .read_timeout(timedelta(seconds=timeouts.read))
        .follow_redirects(False)  # noqa: FBT003 - the builder takes it by position
        .user_agent("cannery")
        .build()
    )


def _wait(asked: str | None, attempt: int) -> float:
    """How long to wait before the next attempt: what the upstream asks for, within reason."""
    wait = _BASE_WAIT * 2.0 ** (attempt - 1)
    if asked is not None:
        with contextlib.suppress(ValueError):
            wait = float(asked)
    return min(wait, _LONGEST_WAIT)
