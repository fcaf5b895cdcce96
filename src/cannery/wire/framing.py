"""Stream framing: server-sent events, one JSON object per line, or AWS event stream messages.

A framing is one value; a dialect names it as a field. Its reader takes bytes in any split and gives ``Frame`` values,
so that a dialect reads events without knowing the framing. A packing puts events into another framing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from msgspec import Struct

from cannery.errors import DialectError
from cannery.messages.events import Failure
from cannery.wire.sse import Frame, FrameReader, is_cut, named_frame, one_line

_PRELUDE, _CHECKSUM = 12, 4
# AWS allows 24 MB per message; a longer one means another framing.
_LONGEST_MESSAGE = 24 << 20
_STRING = 7
_EXCEPTION = "Exception"
# The byte length of a header value, by its type; two types carry their own length.
_HEADER_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_LONG_HEADERS = frozenset({6, _STRING})


class Reader(Protocol):
    """Consumes bytes and gives the frames that they complete."""

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete."""

    def close(self) -> Iterator[Frame]:
        """The frames that the end of the stream completes."""


class LineReader:
    """Reads one JSON value per line."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """The lines completed by these bytes; empty lines are skipped."""
        first, *lines = chunk.split(b"\n")
        self._pieces.append(first)
        if not lines:
            return
        lines.insert(0, b"".join(self._pieces))
        self._pieces = [lines.pop()]
        for line in lines:
            text = line.decode("utf-8", "replace").strip()
            if text:
                yield Frame("", text)

    def close(self) -> Iterator[Frame]:
        """The last line, if it is complete without a line end."""
        text = b"".join(self._pieces).decode("utf-8", "replace").strip()
        self._pieces = []
        if text and not is_cut(text):
            yield Frame("", text)


class MessageReader:
    """Reads AWS event stream messages: lengths, their checksum, headers, payload, checksum of the message.

    https://smithy.io/2.0/aws/amazon-eventstream.html (2026-11-15)
    """

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """The messages completed by these bytes, named by their event or exception."""
        self._held += chunk
        while len(self._held) >= _PRELUDE:
            total = int.from_bytes(self._held[:4])
            head = int.from_bytes(self._held[4:8])
            told = int.from_bytes(self._held[8:_PRELUDE])
            shortest = _PRELUDE + head + _CHECKSUM
            if zlib.crc32(self._held[:8]) != told or not shortest <= total <= _LONGEST_MESSAGE:
                raise _broken("the beginning of a message is damaged")
            if len(self._held) < total:
                return
            message = bytes(self._held[:total])
            del self._held[:total]
            if zlib.crc32(message[:-_CHECKSUM]) != int.from_bytes(message[-_CHECKSUM:]):
                raise _broken("the checksum of a message is wrong")
            headers = _read_headers(message[_PRELUDE : _PRELUDE + head])
            payload = message[_PRELUDE + head : -_CHECKSUM]
            yield _frame(headers, payload)

    def close(self) -> Iterator[Frame]:
        """Nothing: a truncated message completes nothing."""
        return iter(())


def _frame(headers: dict[str, str], payload: bytes) -> Frame:
    """A message named by its event or exception; an error without a body is described by its headers."""
    name = headers.get(":event-type") or headers.get(":exception-type") or ""
    if headers.get(":message-type") != "error":
        return Frame(name, payload.decode("utf-8", "replace"))
    code = headers.get(":error-code", "InternalError").removesuffix(_EXCEPTION) + _EXCEPTION
    told = {"message": headers.get(":error-message", code)}
    return Frame(code, one_line(told).decode())


def _read_headers(data: bytes) -> dict[str, str]:
    """The headers that hold text; headers of other types are skipped."""
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            start = at + 1
            at = start + data[at]
            name = data[start:at].decode("utf-8", "replace")
            kind = data[at]
            at += 1
            if kind in _LONG_HEADERS:
                size = int.from_bytes(data[at : at + 2])
                at += 2
            else:
                size = _HEADER_SIZES[kind]
            if kind == _STRING:
                found[name] = data[at : at + size].decode("utf-8", "replace")
            at += size
    except (IndexError, KeyError):
        raise _broken("the headers of a message are damaged") from None
    return found


def _broken(problem: str) -> DialectError:
    return DialectError("aws_event_stream", "$", problem)


def write_line(name: str, value: Any) -> bytes:  # noqa: ARG001 - a line has no name
    """A value as a line of JSON."""
    return one_line(value) + b"\n"


def write_message(name: str, value: Any) -> bytes:
    """A value as an AWS event stream message: an event, or an exception if the name is that of one."""
    kind = "exception" if name.endswith(_EXCEPTION) else "event"
    told = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    headers = b"".join(_write_header(key, text) for key, text in told.items())
    payload = one_line(value)
    total = _PRELUDE + len(headers) + len(payload) + _CHECKSUM
    prelude = total.to_bytes(4) + len(headers).to_bytes(4)
    message = prelude + zlib.crc32(prelude).to_bytes(4) + headers + payload
    return message + zlib.crc32(message).to_bytes(4)


def _write_header(name: str, text: str) -> bytes:
    key, value = name.encode(), text.encode()
    return bytes([len(key)]) + key + bytes([_STRING]) + len(value).to_bytes(2) + value


class Framing(Struct, frozen=True, gc=False):
    """One way to delimit events.

    ``boundaries`` are the byte sequences after which another event may start; empty if bytes alone do not show it.
    ``ping`` is ignored by clients; empty if the framing has no such frame.
    """

    name: str
    media_type: str
    reader: Callable[[], Reader]
    write: Callable[[str, Any], bytes]
    boundaries: tuple[bytes, ...] = ()
    ping: bytes = b""


class Packing(Struct, frozen=True, gc=False):
    """Events of a dialect inside the messages of another framing.

    ``pack`` takes an event in the dialect's framing and gives a message, or nothing if the event has no meaning
    there. ``unpack`` takes a message and gives the event, or the failure that it reports.
    """

    framing: Framing
    pack: Callable[[Frame], bytes]
    unpack: Callable[[Frame], dict[str, Any] | Failure]


SSE = Framing(
    "sse",
    "text/event-stream",
    FrameReader,
    named_frame,
    (b"\n\n", b"\r\n\r\n", b"\r\r"),
    b": ping\n\n",
)
NDJSON = Framing("ndjson", "application/x-ndjson", LineReader, write_line, (b"\n",))
AWS_EVENT_STREAM = Framing(
    "aws_event_stream", "application/vnd.amazon.eventstream", MessageReader, write_message
)
