"""What streams share: chunks in and out, one JSON object a frame, and errors that name the dialect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
)
from typing import TYPE_CHECKING, Any, overload

import msgspec

from cannery.errors import DialectError, InputError
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
    check_event,
    check_events,
)
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.residue import Residue
from cannery.wire.bodies import read_value
from cannery.wire.residues import own_residue, recall

if TYPE_CHECKING:
    from cannery.wire.contract import StreamReader, StreamWriter

_decode = msgspec.json.Decoder().decode


def read_chunk(dialect: str, data: str) -> dict[str, Any]:
    """The JSON object of one frame."""
    try:
        value = _decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = read_value(dialect, data.encode("utf-8", "replace"))
    if type(value) is not dict:
        raise DialectError(dialect, "$", "expected a JSON object in a stream event")
    return value


class EventWriter(ABC):
    """Gives each event to the method for its kind, until one ends the answer: what all stream writers share."""

    dialect: str
    is_over = False

    def write(self, event: Event) -> bytes:
        """The bytes of one event; none behind the end of the answer."""
        if self.is_over:
            return b""
        try:
            match event:
                case Delta():
                    return self.delta(event)
                case PartStart():
                    return self.part_start(event)
                case PartEnd():
                    return self.part_end(event)
                case Start():
                    return self.start(event)
                case UsageReport():
                    self.count(event)
                    return b""
                case Finish():
                    return self.finish(event)
                case Failure():
                    return self.fail(event)
                case Unknown():
                    return self.unknown(event) if event.dialect == self.dialect else b""
        except RecursionError:
            raise too_deep(self.dialect) from None

    def close(self) -> bytes:
        """The bytes that end the stream."""
        return b""

    @abstractmethod
    def start(self, event: Start) -> bytes:
        """The answer begins."""

    @abstractmethod
    def part_start(self, event: PartStart) -> bytes:
        """A part begins."""

    @abstractmethod
    def delta(self, event: Delta) -> bytes:
        """More of a part."""

    @abstractmethod
    def part_end(self, event: PartEnd) -> bytes:
        """A part is complete."""

    @abstractmethod
    def count(self, event: UsageReport) -> None:
        """Tokens were counted."""

    @abstractmethod
    def finish(self, event: Finish) -> bytes:
        """The answer is complete."""

    @abstractmethod
    def fail(self, event: Failure) -> bytes:
        """The provider gave up."""

    @abstractmethod
    def unknown(self, event: Unknown) -> bytes:
        """An event that only this dialect understands."""


class Thoughts:
    """Joins thoughts to one text as whole answers do: raw words go on, a summary follows a blank line."""

    def __init__(self) -> None:
        self._last: tuple[int, str, int] | None = None

    def joined(self, delta: Delta) -> str:
        """The words of a delta, with what parts them from the words before."""
        place = (delta.index, delta.channel, delta.segment)
        last, self._last = self._last, place
        goes_on = last in (None, place) or (last[:2] == place[:2] and delta.channel == "text")
        return delta.text if goes_on else f"\n\n{delta.text}"


def too_deep(dialect: str) -> DialectError:
    """The error of a reader or writer that what it was given is nested deeper than it can go."""
    return DialectError(dialect, "$", "nested too deeply")


def beside(
    dialect: str, value: dict[str, Any], modelled: Collection[str], word: str | None = None
) -> Residue | None:
    """What an object says of an answer beyond the fields that events have, and a word of its own for the same thing."""
    rest = {key: item for key, item in value.items() if key not in modelled}
    if not rest and word is None:
        return None
    return Residue(dialect, envelope=write_json(rest) if rest else None, form=word)


def own_fields(value: Any, dialect: str) -> dict[str, Any]:
    """The fields beside an answer that an event carries, if they are this dialect's."""
    residue = own_residue(value, dialect)
    if residue is None or residue.envelope is None:
        return {}
    return decode_json(residue.envelope)  # type: ignore[no-any-return]


def own_word(value: Any, dialect: str) -> str | None:
    """The word of its own that an event carries, if it is this dialect's."""
    residue = own_residue(value, dialect)
    return None if residue is None else residue.form


def own_count(value: Any, dialect: str, ours: dict[str, Any]) -> dict[str, Any]:
    """A count of tokens as it was made, if it is this dialect's."""
    residue = own_residue(value, dialect)
    return ours if residue is None else recall(ours, residue.part)


def own_failure(event: Failure, dialect: str) -> dict[str, Any] | None:
    """What a failure was in a dialect, if it comes from there."""
    if event.dialect != dialect or event.raw is None:
        return None
    return read_chunk(dialect, event.raw)


@overload
def read_stream(chunks: AsyncIterable[Any], reader: StreamReader) -> AsyncIterator[Event]: ...
@overload
def read_stream(chunks: Iterable[Any], reader: StreamReader) -> Iterator[Event]: ...
def read_stream(chunks: Any, reader: StreamReader) -> Any:
    """The events of chunks, which may split the bytes anywhere; asynchronous where the chunks are."""
    if isinstance(chunks, (bytes, str)) or not isinstance(chunks, (Iterable, AsyncIterable)):
        kind = type(chunks).__name__
        raise InputError(f"expected chunks of bytes one after another, got {kind}")

    def feed(chunk: Any) -> Iterable[Event]:
        if not isinstance(chunk, (bytes, bytearray, memoryview)):
            raise InputError(f"expected chunks of bytes, got {type(chunk).__name__} among them")
        return reader.feed(bytes(chunk))

    return _driven(chunks, feed, reader.close)


@overload
def write_stream(events: AsyncIterable[Event], writer: StreamWriter) -> AsyncIterator[bytes]: ...
@overload
def write_stream(events: Iterable[Event], writer: StreamWriter) -> Iterator[bytes]: ...
def write_stream(events: Any, writer: StreamWriter) -> Any:
    """The bytes of events, asynchronous where the events are; events without output are skipped."""
    check_events(events)

    def feed(event: Event) -> Iterable[bytes]:
        chunk = writer.write(check_event(event))
        return (chunk,) if chunk else ()

    def close() -> Iterable[bytes]:
        chunk = writer.close()
        return (chunk,) if chunk else ()

    return _driven(events, feed, close)


def _driven(
    items: Any, feed: Callable[[Any], Iterable[Any]], close: Callable[[], Iterable[Any]]
) -> Any:
    """What comes of items one after another, and of their end, as soon as it does."""
    run = _run_async if isinstance(items, AsyncIterable) else _run
    return run(items, feed, close)


def _run(
    items: Iterable[Any],
    feed: Callable[[Any], Iterable[Any]],
    close: Callable[[], Iterable[Any]],
) -> Iterator[Any]:
    for item in items:
        yield from feed(item)
    yield from close()


async def _run_async(
    items: AsyncIterable[Any],
    feed: Callable[[Any], Iterable[Any]],
    close: Callable[[], Iterable[Any]],
) -> AsyncIterator[Any]:
    async for item in items:
        for made in feed(item):
            yield made
    for made in close():
        yield made
