"""The part of the RSGI interface that the gateway uses, as types; ``listening`` and granian provide the values.

https://github.com/emmett-framework/granian/blob/master/docs/spec/RSGI.md
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol, runtime_checkable

from granian.rsgi import ProtocolClosed as _Closed  # type: ignore[attr-defined]

ProtocolClosed: type[Exception] = _Closed
"""Raised by sends to a disconnected client."""


class Headers(Protocol):
    """The headers of a request; a name may come several times."""

    def get(self, key: str, default: Any = None) -> Any:
        """The first value of a name."""

    def items(self) -> list[tuple[str, str]]:
        """All of them."""


class Scope(Protocol):
    """The head of a request."""

    method: str
    path: str
    query_string: str
    client: str
    http_version: str
    header_bytes: int
    is_truncated: bool
    """Whether a streamed response lacks its rest: the client must not take it for complete."""

    @property
    def host(self) -> str | None:
        """The host name that the client requested."""

    @property
    def headers(self) -> Headers:
        """Its headers."""


class Transport(Protocol):
    """A streamed response."""

    async def send_bytes(self, data: bytes) -> None:
        """Send a chunk."""


@runtime_checkable
class DirectTransport(Transport, Protocol):
    """A transport that can send without awaiting: ``listening`` has it, granian has not."""

    def send_now(self, data: bytes) -> bool:
        """Send a chunk at once; whether the client keeps up."""


class HTTPProtocol(Protocol):
    """The rest of a request, and its response."""

    async def __call__(self) -> bytes:
        """The whole body."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The body piece by piece."""

    async def client_disconnect(self) -> None:
        """Wait until the client has disconnected."""

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """Send a whole response."""

    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> Transport:
        """Begin a streamed response."""
