"""Plain messages: an array of ``{role, content}``, one message per line, or arrays of such arrays.

An array is a conversation; the messages of a file of lines are one conversation. The dialect is that of the messages:
those of Anthropic's API in ``api_conversation_history.json`` of Cline, Roo Code and Kilo Code, OpenAI's, or Gemini's.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from cannery.importers.api_messages import dialect_of, is_message, read_messages
from cannery.importers.contract import Detection, Format, Found, Imported, Sample
from cannery.importers.sources import Source
from cannery.importers.trees import linear
from cannery.importers.values import Record

NAME = "bare_messages"


def detect(sample: Sample) -> Detection | None:
    """Only messages, or lists of them."""
    found: list[Any] = []
    for record in sample.records:
        messages = record if isinstance(record, list) else [record]
        if not messages or not all(map(is_message, messages)):
            return None
        found += messages
    if not found:
        return None
    roles = sorted({message["role"] for message in found})[:6]
    return Detection(0.65, f"it is a list of messages by {', '.join(roles)} ({dialect_of(found)})")


def read(source: Source) -> Iterator[Found]:
    """One conversation per array, or for all lines."""
    for place, messages in _lists(source):
        spoken = read_messages(messages, NAME, place)
        yield from spoken.unknown
        yield Imported(place, linear(spoken.turns), model=spoken.model)


def _lists(source: Source) -> Iterator[tuple[str, list[Any]]]:
    """Every list of messages with its place."""

    def which(found: tuple[Record, Any]) -> tuple[str, int]:
        record, value = found
        if isinstance(value, list):
            return source.place_of(record), 0
        return ("", record.group + 1) if record.is_item else ("", 0)

    for (place, group), found in groupby(source.values(), which):
        values = [value for _, value in found]
        name = place or (f"{source.name}#{group}" if group > 1 else source.name)
        yield name, values[0] if place else values


FORMAT = Format(NAME, "bare messages", detect, read, keys=("role", "content"))
