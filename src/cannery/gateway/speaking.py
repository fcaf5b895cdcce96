"""Saying an answer to a caller while an upstream gives it."""

from __future__ import annotations

from cannery.gateway.hearing import Relay, Translation
from cannery.gateway.rsgi import DirectTransport, Transport
from cannery.gateway.sending import Opened


class Speaker:
    """Takes an upstream's bytes and sends the caller's, each read in one write."""

    def __init__(self, voice: Relay | Translation, transport: Transport, most: int) -> None:
        self._voice = voice
        self._transport = transport
        self._left = most

    async def say(self, opened: Opened) -> bool:
        """Say all of an answer; False if it is too large."""
        if isinstance(self._transport, DirectTransport):
            return await self._say_at_once(opened, self._transport)
        while (chunk := await opened.read()) is not None:
            said = self._voice.feed(chunk)
            if said:
                await self._transport.send_bytes(said)
            if not self._heard(chunk):
                return False
        return True

    async def _say_at_once(self, opened: Opened, transport: DirectTransport) -> bool:
        def take(chunk: bytes) -> bool:
            said = self._voice.feed(chunk)
            keeps_up = transport.send_now(said) if said else True
            return self._heard(chunk) and keeps_up

        while not await opened.pour(take):
            if self._left < 0:
                return False
            # Nothing more is said until the caller has taken what was.
            await transport.send_bytes(b"")
        return self._left >= 0

    def _heard(self, chunk: bytes) -> bool:
        self._voice.hear(chunk)
        self._left -= len(chunk)
        return self._left >= 0
