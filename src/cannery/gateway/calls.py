"""One call of a client: the request, and everything known about it while it is processed.

A call is created when its head has arrived and filled in by each component that it passes.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any

from cannery.gateway.envelopes import PackedTransport
from cannery.gateway.identifiers import new_request_id
from cannery.gateway.json_array_streams import ListTransport
from cannery.gateway.refusals import JSON, Header
from cannery.gateway.rsgi import HTTPProtocol, Scope, Transport
from cannery.messages import Response, Usage
from cannery.wire.framing import Packing
from cannery.wire.losses import Loss, Repair, real_losses

if TYPE_CHECKING:
    from cannery.gateway.keys import Key
    from cannery.gateway.prices import Cost
    from cannery.gateway.routing import Match, NoMatch
    from cannery.gateway.upstreams import Choice

_LONGEST_ID = 128
_LOOK_SECONDS = 0.2


class Call:
    """A request being processed."""

    __slots__ = (
        "answer_bytes",
        "answered",
        "attempt",
        "body",
        "body_bytes",
        "candidates",
        "conversation",
        "cost",
        "dialect",
        "endpoint",
        "failed_upstreams",
        "fingerprint",
        "first_byte",
        "has_body",
        "header",
        "is_cut",
        "is_gone",
        "is_late",
        "is_stateful",
        "key",
        "kind",
        "losses",
        "model",
        "more_headers",
        "proto",
        "query",
        "reading_since",
        "repairs",
        "request_id",
        "returned_headers",
        "scope",
        "secrets",
        "started",
        "status",
        "stream",
        "upstream",
        "upstream_id",
        "upstream_model",
        "usage",
        "variant",
    )

    def __init__(
        self, scope: Scope, proto: HTTPProtocol, match: Match | NoMatch, kind: str
    ) -> None:
        self.scope = scope
        self.proto = proto
        self.dialect = match.dialect
        self.variant = match.variant
        # The dialect with the headers and errors of the service that the caller expects.
        self.endpoint = match.endpoint
        self.kind = kind
        self.header = scope.headers.get
        self.query = scope.query_string
        self.started = self.reading_since = perf_counter()
        self.request_id = _request_id(self.header("x-request-id"))
        self.body = b""
        self.body_bytes = 0
        self.model: str | None = None
        self.stream = kind == "stream"
        self.conversation: str | None = None
        self.is_stateful = False
        self.has_body = False
        self.is_late = False
        self.is_gone = False
        self.is_cut = False
        self.key: Key | None = None
        self.secrets: tuple[str, ...] = ()
        self.upstream = "-"
        self.upstream_id: str | None = None
        self.upstream_model: str | None = None
        self.candidates: tuple[Choice, ...] = ()
        self.attempt = 0
        self.fingerprint = b""
        self.failed_upstreams: tuple[str, ...] = ()
        self.losses: tuple[Loss, ...] = ()
        self.repairs: tuple[Repair, ...] = ()
        self.status = 0
        self.first_byte = 0.0
        self.usage: Usage | None = None
        self.cost: Cost | None = None
        self.more_headers: list[Header] | None = None
        self.returned_headers: list[Header] = []
        self.answered: Response | bytes | None = None
        self.answer_bytes = 0

    def fall_back(self, body: bytes) -> None:
        """Switch to the next candidate, with a clean state."""
        self.attempt += 1
        self.body = body
        self.losses, self.repairs = (), ()
        self.upstream_id = None
        self.returned_headers = []

    def headers(self, content_type: str = JSON) -> list[Header]:
        """The headers of its reply."""
        identifier = self.upstream_id or self.request_id
        headers = [
            ("content-type", content_type),
            ("x-request-id", identifier),
            ("x-cannery-request-id", self.request_id),
            ("x-cannery-upstream", self.upstream),
        ]
        if self.endpoint.service.headers.request_id is not None:
            headers.append((self.endpoint.service.headers.request_id, identifier))
        if self.conversation is not None:
            headers.append(("x-cannery-conversation", self.conversation))
        lost = real_losses(self.losses)
        if lost:
            codes = ",".join(sorted({loss.code for loss in lost}))
            headers.append(("x-cannery-losses", f"{len(lost)}; codes={codes}"))
        headers += self.returned_headers
        if self.more_headers is not None:
            headers += self.more_headers
        return headers

    def reply(self, status: int, headers: list[Header], body: bytes) -> None:
        """Send a whole reply."""
        self.status = status
        self.first_byte = perf_counter()
        self.answer_bytes = len(body)
        self.proto.response_bytes(status, headers, body)

    def begin(self, status: int, headers: list[Header]) -> Transport:
        """Begin a streamed reply."""
        self.status = status
        self.first_byte = perf_counter()
        transport = self.proto.response_stream(status, headers)
        if self.packing is not None:
            return PackedTransport(transport, self.packing)
        return ListTransport(transport) if self.wants_list else transport

    async def end(self, transport: Transport) -> None:
        """End a streamed reply."""
        if isinstance(transport, ListTransport):
            await transport.close()

    @property
    def store_scope(self) -> str | None:
        """The scope that it records and reads: the name of its key; None if no keys are configured."""
        return None if self.key is None else self.key.name

    @property
    def tokens(self) -> tuple[int, int]:
        """Its input and output tokens."""
        return (0, 0) if self.usage is None else (self.usage.input, self.usage.output)

    @property
    def wants_list(self) -> bool:
        """Whether the caller wants a stream as a JSON list."""
        query = self.dialect.service.streams.query
        return self.kind == "stream" and bool(query) and query not in self.query

    @property
    def packing(self) -> Packing | None:
        """The packing of its stream's events, if any."""
        return None if self.variant is None else self.variant.packing

    @property
    def stream_type(self) -> str:
        """The media type of its stream."""
        if self.packing is not None:
            return self.packing.framing.media_type
        return JSON if self.wants_list else self.dialect.service.streams.framing.media_type


def _request_id(given: str | None) -> str:
    """The id that the client chose, if it is valid in a header and a log; otherwise a new one."""
    if given and len(given) <= _LONGEST_ID and given.isascii() and given.isprintable():
        return given
    return new_request_id()


class Sentry:
    """Ends calls whose body is late, and those whose client has disconnected.

    One timer checks all of them. Watching a connection costs more than a fast reply takes, so it begins only when a
    call has lasted for a moment.
    """

    def __init__(self, body_seconds: float) -> None:
        self.body_seconds = body_seconds
        self._calls: dict[Call, asyncio.Task[Any]] = {}
        self._watchers: dict[Call, asyncio.Task[None]] = {}
        self._is_running = False

    def enter(self, call: Call) -> None:
        """Start watching a call."""
        task = asyncio.current_task()
        if task is not None:
            self._calls[call] = task
        if not self._is_running:
            self._is_running = True
            asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def cut(self) -> None:
        """End all calls, because the gateway stops."""
        for call, task in self._calls.items():
            call.is_gone = call.is_cut = True
            task.cancel()

    def client_ports(self) -> set[int]:
        """The client ports of all active calls."""
        return {int(call.scope.client.rpartition(":")[2]) for call in self._calls}

    def leave(self, call: Call) -> None:
        """Stop watching over a call."""
        self._calls.pop(call, None)
        watcher = self._watchers.pop(call, None)
        if watcher is not None:
            watcher.cancel()

    def _look(self) -> None:
        now = perf_counter()
        loop = asyncio.get_running_loop()
        for call, task in list(self._calls.items()):
            if call in self._watchers:
                continue
            if not call.has_body:
                if now - call.reading_since > self.body_seconds:
                    call.is_late = True
                    task.cancel()
            elif now - call.started > _LOOK_SECONDS:
                self._watchers[call] = loop.create_task(self._watch(call, task))
        self._is_running = bool(self._calls)
        if self._is_running:
            loop.call_later(_LOOK_SECONDS, self._look)

    async def _watch(self, call: Call, task: asyncio.Task[Any]) -> None:
        await call.proto.client_disconnect()
        call.is_gone = True
        task.cancel()
