"""Streams of a dialect in chunks of an AWS event stream, as InvokeModelWithResponseStream sends them.

Each message holds one event of the dialect in base64. Taken out, the events are framed as the dialect frames them, so
that the reader of the stream sees no difference.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING

from cannery.errors import DialectError
from cannery.messages import Failure
from cannery.wire.bodies import read_object
from cannery.wire.contract import Dialect, StreamOptions
from cannery.wire.framing import AWS_EVENT_STREAM
from cannery.wire.sse import Frame

if TYPE_CHECKING:
    from cannery.gateway.sending import Opened

AWS_CHUNKS = "aws_chunks"


class Unpacked:
    """An answer that has begun, with its events taken out of their chunks."""

    def __init__(self, opened: Opened, dialect: Dialect) -> None:
        self._opened = opened
        self._dialect = dialect
        self._frames = AWS_EVENT_STREAM.reader()

    async def read(self) -> bytes | None:
        """The next bytes, or None at the end."""
        while (chunk := await self._opened.read()) is not None:
            try:
                events = b"".join(map(self._event, self._frames.feed(chunk)))
            except DialectError as error:
                return self._failure(str(error), "upstream_invalid")
            if events:
                return events
        return None

    def _event(self, frame: Frame) -> bytes:
        value = read_object(self._dialect.name, frame.data.encode())
        if frame.name.endswith("Exception"):
            return self._failure(str(value.get("message") or frame.name), frame.name)
        try:
            held = read_object(self._dialect.name, binascii.a2b_base64(str(value.get("bytes", ""))))
        except binascii.Error:
            raise DialectError(self._dialect.name, "bytes", "not base64") from None
        return self._dialect.service.streams.framing.write(str(held.get("type", "")), held)

    def _failure(self, message: str, kind: str) -> bytes:
        return self._dialect.stream_writer(StreamOptions()).write(Failure(message, kind))
