"""Streams whose blocks come one after the other: a part that starts while another is open waits for its turn."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import Generic, TypeVar

from cannery.messages.events import Delta, PartEnd, PartStart
from cannery.wire.streams import EventWriter, Thoughts


class Part:
    """A part that waits for its turn, or is being written."""

    def __init__(self, start: PartStart) -> None:
        self.start = start
        self.waiting: list[Delta] = []
        self.is_ended = False
        self.is_written = False
        self.thoughts = Thoughts()
        self.arguments: list[str] = []


P = TypeVar("P", bound=Part)


class BlockWriter(EventWriter, Generic[P]):
    """Opens, writes and closes parts in the order of their starts."""

    def __init__(self, make: type[P]) -> None:
        self._make = make
        self._parts: dict[int, P] = {}
        self._queue: deque[P] = deque()
        self._has_calls = False
        self._is_refused = False

    @abstractmethod
    def _begin(self) -> bytes:
        """Begin the answer, if it has not begun."""

    @abstractmethod
    def _open(self, part: P) -> bytes:
        """The part's turn has come."""

    @abstractmethod
    def _write_delta(self, part: P, event: Delta) -> bytes:
        """More of the part whose turn it is."""

    @abstractmethod
    def _close(self, part: P) -> bytes:
        """The part is complete."""

    def part_start(self, event: PartStart) -> bytes:
        """Begin a part when its turn comes, and the answer if it has not begun."""
        begun = self._begin()
        part = self._parts[event.index] = self._make(event)
        self._queue.append(part)
        self._has_calls = self._has_calls or event.kind == "invocation"
        self._is_refused = self._is_refused or event.kind == "refusal"
        return begun + self._open(part) if self._queue[0] is part else begun

    def delta(self, event: Delta) -> bytes:
        """More of a part; it waits until the parts before it have ended."""
        part = self._parts.get(event.index)
        if part is None or part.is_ended:
            return b""
        if self._queue[0] is part:
            return self._write_delta(part, event)
        part.waiting.append(event)
        return b""

    def part_end(self, event: PartEnd) -> bytes:
        """End a part when its turn comes."""
        part = self._parts.get(event.index)
        if part is None or part.is_ended:
            return b""
        part.is_ended = True
        return self._advance()

    def _advance(self) -> bytes:
        """Close what has ended and open what waits, in the order of the starts."""
        written: list[bytes] = []
        while self._queue and self._queue[0].is_ended:
            written.append(self._close(self._queue.popleft()))
            if self._queue:
                following = self._queue[0]
                written.append(self._open(following))
                written += [self._write_delta(following, delta) for delta in following.waiting]
                following.waiting = []
        return b"".join(written)
