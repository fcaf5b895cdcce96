"""Writing streams: events become bytes. Shared by the writers of all dialects.

A dialect writes the beginning and end of its response, and the opening, content and end of a part. Parts may start
side by side, which few wires allow: parts of one *lane* are written one after the other, in the order of their
starts, and events of a part before its turn wait. A part without a lane never waits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from cannery.messages.absence import absent
from cannery.messages.content import (
    Citation,
    DataContentClass,
    OpaqueContentClass,
    TextualContentClass,
)
from cannery.messages.events import (
    Delta,
    Event,
    Failure,
    Finish,
    PartEnd,
    PartStart,
    Start,
    Unknown,
    UsageReport,
)
from cannery.messages.json_text import decode_json
from cannery.messages.residue import Residue
from cannery.wire.answers import CallIds
from cannery.wire.bodies import Object
from cannery.wire.contract import StreamOptions
from cannery.wire.residues import own_residue, recall
from cannery.wire.streams import read_chunk, too_deep


class Thoughts:
    """Joins thoughts to one text as whole responses do: raw text continues, a summary follows a blank line."""

    def __init__(self) -> None:
        self._last: tuple[int, str, int] | None = None

    def joined(self, delta: Delta) -> str:
        """The text of a delta, with the separator from the text before."""
        place = (delta.index, delta.channel, delta.segment)
        last, self._last = self._last, place
        goes_on = last in (None, place) or (last[:2] == place[:2] and delta.channel == "text")
        return delta.text if goes_on else f"\n\n{delta.text}"


class WrittenPart:
    """A part being written: its content, whether its turn has come, and what is kept until it ends."""

    def __init__(self, start: PartStart) -> None:
        self.start = start
        self.kind = start.kind
        self.has_turn = False
        self.lane: deque[Any] | None = None
        self.waiting: list[Delta] = []
        self.end: PartEnd | None = None
        # Its number on the wire, once it is opened.
        self.number: int | None = None
        # Whether only its start has arrived.
        self.is_silent = True
        self.words: list[str] = []
        self.cited: list[Citation] = []

    @property
    def said(self) -> str:
        """The text that was kept."""
        return "".join(self.words)


def words_of(content: Any) -> str | None:
    """The text of a content that is text in every dialect."""
    if isinstance(content, TextualContentClass):
        return content.text
    return content.json if isinstance(content, DataContentClass) else None


P = TypeVar("P", bound=WrittenPart)


class EventWriter(ABC, Generic[P]):
    """Consumes events and gives the bytes of a stream, until an event ends the response."""

    dialect: str
    part: type[P]

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._start = Start()
        # Whether the stream is read from this dialect.
        self._is_same = False
        self._usage: UsageReport | None = None
        self._parts: dict[int, P] = {}
        self._lanes: dict[str, deque[P]] = {}
        self._thoughts = Thoughts()
        self._call_ids = CallIds()
        self._blank = ""
        self._has_calls = self._is_refused = False
        self._is_begun = self._is_over = False
        # The first part of the response, if it starts with one.
        self._first: PartStart | None = None

    def write(self, event: Event) -> bytes:
        """The bytes of one event; none after the end of the response."""
        if self._is_over:
            return b""
        try:
            match event:
                case Delta():
                    return self._delta(event)
                case PartStart():
                    return self._part_start(event)
                case PartEnd():
                    return self._part_end(event)
                case Start():
                    self._start, self._is_same = event, event.source == self.dialect
                    return self.start(event)
                case UsageReport():
                    self.count(event)
                    return b""
                case Finish():
                    ended = [self._part_end(PartEnd(index)) for index in [*self._parts]]
                    self._is_over = True
                    return b"".join([self._begin(), *ended, self.finish(event)])
                case Failure():
                    self._is_over = True
                    own = event.raw if event.dialect == self.dialect else None
                    return self.fail(event, None if own is None else self._read(own))
                case Unknown():
                    is_own = event.dialect == self.dialect
                    return self.unknown(event, self._read(event.json)) if is_own else b""
        except RecursionError:
            raise too_deep(self.dialect) from None

    def close(self) -> bytes:
        """The bytes that end the stream."""
        return b""

    # --- what a dialect says of its stream -----------------------------------------------------

    def start(self, event: Start) -> bytes:  # noqa: ARG002 - for those that override it
        """The source names its response; most wires write this with the first part."""
        return b""

    def begin(self) -> bytes:
        """The bytes before anything else."""
        return b""

    def lane(self, start: PartStart) -> str | None:  # noqa: ARG002 - for those that override it
        """The lane of a part: the parts among which it waits for its turn."""
        return ""

    def open(self, part: P) -> bytes:  # noqa: ARG002 - for those that override it
        """The turn of a part has come; many wires write this with its first content."""
        return b""

    @abstractmethod
    def more(self, part: P, event: Delta) -> bytes:
        """More content of a part whose turn it is."""

    def end(self, part: P, event: PartEnd) -> bytes:  # noqa: ARG002 - for those that override it
        """A part is complete; its kept content is written now."""
        return b""

    def count(self, event: UsageReport) -> None:
        """Keep the last token count."""
        self._usage = event

    @abstractmethod
    def finish(self, event: Finish) -> bytes:
        """The response is complete."""

    @abstractmethod
    def fail(self, event: Failure, own: Object | None) -> bytes:
        """The provider failed; ``own`` is the error in this dialect's form, if it came in it."""

    def unknown(self, event: Unknown, value: Object) -> bytes:  # noqa: ARG002 - for those that override it
        """An event that only this dialect understands, if its reader gives such events."""
        return b""

    # --- parts ---------------------------------------------------------------------------------

    def _begin(self, first: PartStart | None = None) -> bytes:
        if self._is_begun:
            return b""
        self._is_begun, self._first = True, first
        return self.begin()

    def _part_start(self, event: PartStart) -> bytes:
        if event.kind == "invocation" and event.identifier and not self._is_same:
            given = self._call_ids.distinct(event.identifier)
            if given != event.identifier:
                event = replace(event, identifier=given)
        begun = self._begin(event)
        self._has_calls = self._has_calls or event.kind == "invocation"
        self._is_refused = self._is_refused or event.kind == "refusal"
        part = self._parts[event.index] = self.part(event)
        name = self.lane(event)
        if name is not None:
            lane = part.lane = self._lanes.setdefault(name, deque())
            lane.append(part)
            if lane[0] is not part:
                return begun
        part.has_turn = True
        return begun + self.open(part)

    def _delta(self, event: Delta) -> bytes:
        part = self._parts.get(event.index)
        if part is None:
            return b""
        if part.has_turn:
            return self.more(part, event)
        part.waiting.append(event)
        return b""

    def _part_end(self, event: PartEnd) -> bytes:
        part = self._parts.pop(event.index, None)
        if part is None:
            return b""
        part.end = event
        if not part.has_turn:
            return b""
        written = self.end(part, event)
        return written if part.lane is None else written + self._advance(part.lane)

    def _advance(self, lane: deque[P]) -> bytes:
        """The first part of a lane has ended: write the parts that waited for it."""
        written: list[bytes] = []
        lane.popleft()
        while lane:
            part = lane[0]
            part.has_turn = True
            written.append(self.open(part))
            written += [self.more(part, event) for event in part.waiting]
            part.waiting = []
            if part.end is None:
                break
            written.append(self.end(part, part.end))
            lane.popleft()
        return b"".join(written)

    # --- what is known of the answer -----------------------------------------------------------

    def _identifier(self, made: str) -> str:
        """The id of the response."""
        return made if self._start.identifier is absent else self._start.identifier

    def _model(self) -> str:
        """The model that the caller named, or the source's."""
        named = self._start.model
        return self._options.model or ("" if named is absent else named)

    def _created(self) -> Any:
        """The time that the caller named, or the source's."""
        return self._options.created or self._start.created

    # --- what this dialect said itself ---------------------------------------------------------

    def _read(self, text: str) -> Object:
        return read_chunk(self.dialect, text)

    def _own(self, event: Any) -> Residue:
        """The residue of this dialect on an event, which may be empty."""
        return own_residue(event, self.dialect) or Residue(self.dialect)

    def _own_part(self, event: Any) -> Object:
        """The fields of this dialect beside an event's content."""
        part = self._own(event).part
        return {} if part is None else decode_json(part)

    def _own_envelope(self, event: Any) -> Object:
        """The fields of this dialect around an event's content."""
        envelope = self._own(event).envelope
        return {} if envelope is None else decode_json(envelope)

    def _recall(self, ours: Any, event: Any) -> Any:
        """Apply this dialect's residue to our value."""
        return recall(ours, self._own(event).part)

    def _is_own_thought(self, part: P) -> bool:
        """Whether a thought came from this dialect and is written unchanged."""
        origin = part.start.origin
        return origin is not None and origin.dialect == self.dialect

    def _thought(self, part: P, event: Delta) -> str:
        """The text of a thought; thoughts of other dialects are joined to one text."""
        return event.text if self._is_own_thought(part) else self._thoughts.joined(event)

    def _unblank(self, part: P, words: str) -> str:
        """The text to write now if no text may be blank: white space opens no part and waits for what follows."""
        is_open = self._is_same or part.number is not None
        if is_open and not self._blank:
            return words
        self._blank += words
        if words.isspace() and not is_open:
            return ""
        said, self._blank = self._blank, ""
        return said

    def _own_block(self, part: P) -> Object | None:
        """The block that only this dialect understands, if the part is one."""
        content = part.start.content
        is_own = isinstance(content, OpaqueContentClass) and content.dialect == self.dialect
        return decode_json(content.json) if is_own else None
