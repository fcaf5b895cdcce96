"""Reads a stream up to its first event with content, while another upstream may still be tried.

Providers answer 200 and then fail: the first event is an error, or the stream ends before any content. Nothing has been
sent to the caller by then, so that the next upstream is tried, as for any other failure. The wait is limited: if the
upstream thinks for long, the caller gets keep-alive bytes, and from then on no other upstream is tried.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from cannery.errors import CanneryError
from cannery.gateway.refusals import NoAnswerError, UpstreamRefusalError
from cannery.gateway.upstream_client import Heard
from cannery.messages import Event, Failure, Start, Unknown, UsageReport
from cannery.wire.contract import Dialect, WireError

_SAYS_NOTHING = (Start, UsageReport, Unknown)
# The error that readers report for a stream that ends early.
_INCOMPLETE = "incomplete"


class BegunStream:
    """A stream that was partly read; it is read again from its beginning."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._held: deque[bytes | None] = deque()
        self._reading: asyncio.Task[bytes | None] | None = None

    async def read(self) -> bytes | None:
        """The next bytes, or None at the end."""
        if self._held:
            return self._held.popleft()
        reading, self._reading = self._reading, None
        return await (self._heard.read() if reading is None else reading)

    def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()

    async def wait_for_event(self, upstream: str, dialect: Dialect, seconds: float) -> None:
        """Wait for an event with content, for at most ``seconds`` (0: no limit); raise if the stream fails."""
        reader = dialect.stream_reader()
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            self._reading = reading = loop.create_task(_read(self._heard))
            left = max(0.0, until - loop.time()) if seconds else None
            if not (await asyncio.wait({reading}, timeout=left))[0]:
                return
            self._reading = None
            chunk = reading.result()
            self._held.append(chunk)
            try:
                events = reader.close() if chunk is None else reader.feed(chunk)
                is_said = _says_something(events, upstream)
            except (NoAnswerError, UpstreamRefusalError):
                raise
            except CanneryError:
                problem = "began a stream that cannot be read"
                raise NoAnswerError(upstream, problem, "upstream_invalid") from None
            if is_said or chunk is None:
                return


async def _read(heard: Heard) -> bytes | None:
    return await heard.read()


def _says_something(events: Iterable[Event], upstream: str) -> bool:
    """Whether the events contain any of an answer; the error if they begin with a failure."""
    for event in events:
        if type(event) is Failure:
            raise _error(event, upstream)
        if type(event) not in _SAYS_NOTHING:
            return True
    return False


def _error(failure: Failure, upstream: str) -> CanneryError:
    if failure.kind == _INCOMPLETE:
        return NoAnswerError(upstream, "broke off its answer", "upstream_broken")
    return UpstreamRefusalError(WireError(failure.status or 502, failure.message, failure.kind))
