"""One call of a client: what it asked for, and what is known of it on the way.

A call is made when its head has come and filled in by each room that it goes through.
"""

from __future__ import annotations

import asyncio
from time import perf_counter

from cannery.gateway.identifiers import new_request_id
from cannery.gateway.refusals import JSON, Header
from cannery.gateway.rsgi import HTTPProtocol, Scope, Transport
from cannery.wire.contract import Dialect
from cannery.wire.losses import Loss, Repair

_LONGEST_ID = 128
_GRACE_SECONDS = 0.25


class Call:
    """A request on its way through."""

    __slots__ = (
        "body",
        "conversation",
        "dialect",
        "first_byte",
        "header",
        "is_stateful",
        "kind",
        "losses",
        "model",
        "proto",
        "query",
        "repairs",
        "request_id",
        "scope",
        "started",
        "status",
        "stream",
        "tokens",
        "upstream",
        "upstream_id",
    )

    def __init__(self, scope: Scope, proto: HTTPProtocol, dialect: Dialect, kind: str) -> None:
        self.scope = scope
        self.proto = proto
        self.dialect = dialect
        self.kind = kind
        self.header = scope.headers.get
        self.query = scope.query_string
        self.started = perf_counter()
        self.request_id = _request_id(self.header("x-request-id"))
        self.body = b""
        self.model: str | None = None
        self.stream = kind == "stream"
        self.conversation: str | None = None
        self.is_stateful = False
        self.upstream = "-"
        self.upstream_id: str | None = None
        self.losses: tuple[Loss, ...] = ()
        self.repairs: tuple[Repair, ...] = ()
        self.status = 0
        self.first_byte = 0.0
        self.tokens = (0, 0)

    def headers(self, content_type: str = JSON) -> list[Header]:
        """The headers of its reply."""
        identifier = self.upstream_id or self.request_id
        headers = [
            ("content-type", content_type),
            ("x-request-id", identifier),
            ("x-cannery-request-id", self.request_id),
            ("x-cannery-upstream", self.upstream),
        ]
        if self.dialect.name == "anthropic_messages":
            headers.append(("request-id", identifier))
        if self.conversation is not None:
            headers.append(("x-cannery-conversation", self.conversation))
        if self.losses:
            codes = ",".join(sorted({loss.code for loss in self.losses}))
            headers.append(("x-cannery-losses", f"{len(self.losses)}; codes={codes}"))
        return headers

    def reply(self, status: int, headers: list[Header], body: bytes) -> None:
        """Answer whole."""
        self.status = status
        self.first_byte = perf_counter()
        self.proto.response_bytes(status, headers, body)

    def begin(self, status: int, headers: list[Header]) -> Transport:
        """Begin a streamed answer."""
        self.status = status
        self.first_byte = perf_counter()
        return self.proto.response_stream(status, headers)


def _request_id(given: str | None) -> str:
    """The id that the client chose, if it is one that can stand in a header and a log; else a new one."""
    if given and len(given) <= _LONGEST_ID and given.isascii() and given.isprintable():
        return given
    return new_request_id()


class HangUp:
    """Cancels the work for a call whose client has gone.

    Watching costs more than a fast reply, so it begins only after a moment.
    """

    __slots__ = ("_handle", "_proto", "_task", "_watcher", "is_gone")

    def __init__(self, proto: HTTPProtocol) -> None:
        self._proto = proto
        self._task = asyncio.current_task()
        self._watcher: asyncio.Task[None] | None = None
        self.is_gone = False
        self._handle = asyncio.get_running_loop().call_later(_GRACE_SECONDS, self._begin)

    def _begin(self) -> None:
        self._watcher = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        await self._proto.client_disconnect()
        self.is_gone = True
        if self._task is not None:
            self._task.cancel()

    def close(self) -> None:
        """Stop watching."""
        self._handle.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
