"""Wraps and unwraps bodies and streams of a variant, for callers and upstreams.

A client's body is unwrapped before it is read, and its stream is wrapped last; for upstreams it is the reverse. All
code in between sees plain bodies of the dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from cannery.errors import DialectError
from cannery.messages import Failure
from cannery.wire.bodies import encode, read_object
from cannery.wire.contract import Dialect, StreamOptions, Variant
from cannery.wire.framing import Packing
from cannery.wire.sse import Frame, FrameReader

if TYPE_CHECKING:
    from cannery.gateway.calls import Call
    from cannery.gateway.rsgi import Transport
    from cannery.gateway.upstream_client import Opened

_split = msgspec.json.Decoder(dict[str, Raw]).decode
_MODEL = "{model}"


def open_body(call: Call, body: bytes) -> bytes:
    """A plain body of the dialect, with the facts from the path of the call."""
    variant = call.variant
    if variant is None or not (variant.fields or call.dialect.names_model):
        return body
    value = read_object(call.dialect.name, body)
    for name in variant.fields:
        if type(value.pop(name, None)) is not str:
            raise DialectError(call.dialect.name, name, "is required")
    told = {
        header: _words(value.pop(name))
        for name, header in variant.header_fields.items()
        if name in value
    }
    if told:
        call.header = _Told(told, call.header).get
    if call.model is not None:
        value["model"] = call.model
    if call.kind == "stream":
        value["stream"] = True
    elif "stream" in variant.without_fields:
        value.pop("stream", None)
    return encode(value)


class _Told:
    """The headers of a call, some of them replaced by body fields."""

    def __init__(self, told: Mapping[str, str], outer: Callable[..., Any]) -> None:
        self._told = told
        self._outer = outer

    def get(self, key: str, default: Any = None) -> Any:
        """The first value of a name."""
        return self._told.get(key) or self._outer(key, default)


def _words(value: Any) -> str:
    """A list of words in header form."""
    words = value if type(value) is list else [value]
    return ",".join(word for word in words if type(word) is str)


def close_body(variant: Variant, path: str, body: bytes, headers: dict[str, str]) -> bytes:
    """A body in the form that an upstream of a variant expects; headers that it expects in the body are taken."""
    without = {*variant.without_fields, *(("model",) if _MODEL in path else ())}
    told = {
        name: headers.pop(header).split(",")
        for name, header in variant.header_fields.items()
        if header in headers
    }
    return with_fields(body, without, {**variant.fields, **told})


def with_fields(body: bytes, without: set[str], fields: Mapping[str, Any]) -> bytes:
    """A body with some fields removed, and others added."""
    if not without and not fields:
        return body
    kept = {name: value for name, value in _split(body).items() if name not in without}
    return encode({**kept, **fields})


class Unpacked:
    """An upstream's open stream, with its events taken out of their messages."""

    def __init__(self, opened: Opened, dialect: Dialect, packing: Packing) -> None:
        self._opened = opened
        self._dialect = dialect
        self._packing = packing
        self._frames = packing.framing.reader()

    async def read(self) -> bytes | None:
        """The next bytes, or None at the end."""
        while (chunk := await self._opened.read()) is not None:
            try:
                events = b"".join(map(self._event, self._frames.feed(chunk)))
            except DialectError as error:
                return self._failure(Failure(str(error), "upstream_invalid"))
            if events:
                return events
        return None

    def _event(self, frame: Frame) -> bytes:
        event = self._packing.unpack(frame)
        if isinstance(event, Failure):
            return self._failure(event)
        return self._dialect.service.streams.framing.write(str(event.get("type", "")), event)

    def _failure(self, failure: Failure) -> bytes:
        return self._dialect.stream_writer(StreamOptions()).write(failure)


class PackedTransport:
    """Takes the bytes of a dialect's stream and sends its events in messages of another framing."""

    def __init__(self, transport: Transport, packing: Packing) -> None:
        self._transport = transport
        self._packing = packing
        self._frames = FrameReader()

    async def send_bytes(self, data: bytes) -> None:
        """Send the events completed by these bytes."""
        said = b"".join(map(self._packing.pack, self._frames.feed(data)))
        if said:
            await self._transport.send_bytes(said)
