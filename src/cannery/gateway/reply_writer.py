"""Writes a streamed answer to a caller while the upstream sends it.

While the upstream is silent, the caller gets keep-alive bytes without a meaning, so that proxies do not close the
connection. The dialect defines these bytes; a dialect without any sends none.
"""

from __future__ import annotations

import asyncio
import contextlib

from cannery.gateway.relays import Relay, Translation
from cannery.gateway.rsgi import DirectTransport, ProtocolClosed, Transport
from cannery.gateway.upstream_client import Heard

# How often a long enough silence is checked: a timer for each chunk would cost more than the chunk.
_LOOKS = 3


class ReplyWriter:
    """Writes the caller's bytes for an upstream's, each read in one write."""

    def __init__(
        self,
        voice: Relay | Translation,
        transport: Transport,
        most: int,
        *,
        ping: bytes,
        ping_seconds: float,
        holds_end: bool,
    ) -> None:
        self._voice = voice
        self._transport = transport
        self._most = self._left = most
        self._ping = ping
        self._ping_seconds = ping_seconds
        self._holds_end = holds_end
        self.held = b""
        self._seen = most
        self._looks = 0
        self._timer: asyncio.TimerHandle | None = None

    async def say(self, opened: Heard) -> bool:
        """Write all of an answer; False if it is too large."""
        if isinstance(self._transport, DirectTransport):
            return await self._say_at_once(opened, self._transport)
        while (chunk := await self._next(opened)) is not None:
            said = self._said(chunk)
            if said:
                await self._transport.send_bytes(said)
            if not self._heard(chunk):
                return False
        return True

    def _said(self, chunk: bytes) -> bytes:
        """The bytes to send for some bytes; the end of an answer is held back while it waits for its record."""
        said = self._voice.feed(chunk)
        if not self._holds_end:
            return said
        self._voice.hear(chunk)
        if not self._voice.folder.is_complete:
            return said
        self.held += said
        return b""

    async def _next(self, opened: Heard) -> bytes | None:
        """The next bytes; the caller is pinged while there are none."""
        reading = asyncio.ensure_future(opened.read())
        try:
            while not (await asyncio.wait({reading}, timeout=self._ping_seconds or None))[0]:
                if self._voice.is_between_events:
                    await self._transport.send_bytes(self._ping)
            return await reading
        finally:
            reading.cancel()

    async def _say_at_once(self, opened: Heard, transport: DirectTransport) -> bool:
        if self._ping_seconds:
            self._look_later(transport)
        try:
            while (chunk := await opened.read()) is not None:
                said = self._said(chunk)
                if said and not transport.send_now(said):
                    # Reading continues only when the caller has taken the earlier bytes.
                    await transport.send_bytes(b"")
                if not self._heard(chunk):
                    return False
        finally:
            if self._timer is not None:
                self._timer.cancel()
        return True

    @property
    def heard_bytes(self) -> int:
        """The number of bytes received from the upstream."""
        return self._most - self._left

    def _look_later(self, transport: DirectTransport) -> None:
        wait = self._ping_seconds / _LOOKS
        self._timer = asyncio.get_running_loop().call_later(wait, self._look, transport)

    def _look(self, transport: DirectTransport) -> None:
        """Ping the caller after several checks without data."""
        self._looks = self._looks + 1 if self._left == self._seen else 0
        self._seen = self._left
        if self._looks >= _LOOKS and self._voice.is_between_events:
            self._looks = 0
            with contextlib.suppress(ProtocolClosed):
                transport.send_now(self._ping)
        self._look_later(transport)

    def _heard(self, chunk: bytes) -> bool:
        if not self._holds_end:
            self._voice.hear(chunk)
        self._left -= len(chunk)
        return self._left >= 0
