"""Gemini's streams without ``alt=sse``: the chunks are the elements of one JSON array."""

from __future__ import annotations

from cannery.gateway.rsgi import Transport
from cannery.wire.sse import FrameReader

EMPTY_LINE = b"\n"


class ListTransport:
    """Takes the bytes of server-sent events and sends a JSON list."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._frames = FrameReader()
        self._mark = "["

    async def send_bytes(self, data: bytes) -> None:
        """Send the elements completed by these bytes."""
        said = ""
        for frame in self._frames.feed(data):
            said += f"{self._mark}{frame.data}"
            self._mark = ",\r\n"
        if data == EMPTY_LINE:
            # White space between elements is insignificant.
            said = "\n"
        if said:
            await self._transport.send_bytes(said.encode())

    async def close(self) -> None:
        """End the list."""
        await self._transport.send_bytes(b"[]" if self._mark == "[" else b"]")
