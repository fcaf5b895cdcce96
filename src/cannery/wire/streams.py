"""What streams share: chunks in and out, one JSON object a frame, and errors that name the dialect."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from cannery.errors import DialectError, InputError
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.residue import Residue
from cannery.wire.bodies import read_value
from cannery.wire.residues import own_residue, recall

if TYPE_CHECKING:
    from cannery.messages.events import Delta, Event, Failure
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
    """The error of a writer that what it was given is nested deeper than anything can be written."""
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


def check_chunks(chunks: Any) -> None:
    """Refuse what is not bytes one after another."""
    if isinstance(chunks, (bytes, str)) or not isinstance(chunks, Iterable):
        kind = type(chunks).__name__
        raise InputError(f"expected chunks of bytes one after another, got {kind}")


def read_stream(chunks: Iterable[Any], reader: StreamReader) -> Iterator[Event]:
    """The events of chunks, which may split the bytes anywhere."""
    for chunk in chunks:
        if not isinstance(chunk, (bytes, bytearray, memoryview)):
            raise InputError(f"expected chunks of bytes, got {type(chunk).__name__} among them")
        yield from reader.feed(bytes(chunk))
    yield from reader.close()


def write_stream(events: Iterable[Event], writer: StreamWriter) -> Iterator[bytes]:
    """The bytes of events; events without output are skipped."""
    from cannery.messages.events import checked_events  # not every program reads streams

    for event in checked_events(events):
        chunk = writer.write(event)
        if chunk:
            yield chunk
    chunk = writer.close()
    if chunk:
        yield chunk
