"""What streams share: chunks in and out, one JSON object per frame, and errors that name the dialect."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, overload

import msgspec

from cannery.errors import DialectError, InputError
from cannery.messages.events import Event, check_event, check_events
from cannery.wire.bodies import read_value

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


def too_deep(dialect: str) -> DialectError:
    """The error for input that is nested too deeply for a reader or writer."""
    return DialectError(dialect, "$", "nested too deeply")


@overload
def read_stream(chunks: AsyncIterable[Any], reader: StreamReader) -> AsyncIterator[Event]: ...
@overload
def read_stream(chunks: Iterable[Any], reader: StreamReader) -> Iterator[Event]: ...
def read_stream(chunks: Any, reader: StreamReader) -> Any:
    """The events of chunks, which may split the bytes anywhere; asynchronous if the chunks are."""
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
    """The bytes of events, asynchronous if the events are; events without output are skipped."""
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
    """The output of each item, and of the end of the items, as soon as it is available."""
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
