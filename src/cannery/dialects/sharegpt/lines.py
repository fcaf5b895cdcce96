"""ShareGPT records of common shape, their texts left as they are spelled.

msgspec refuses anything but turns of text by the usual names; then ``reading`` takes the record from the start. A
record with fields of its own is taken when it comes alone, because what is lost differs from line to line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from cannery.dialects.sharegpt.tools import read_tools
from cannery.messages.absence import absent
from cannery.messages.requests import Tool
from cannery.wire.foreign import lost_field
from cannery.wire.line_calls import LineCall
from cannery.wire.line_states import Speaker
from cannery.wire.lines import LineTurn
from cannery.wire.losses import Notes
from cannery.wire.slices import ODD


class Turn(
    LineTurn,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    rename={"speaker": "from", "held": "value"},
):
    """What somebody says."""

    speaker: Speaker
    held: Raw


class Record(
    Struct,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    kw_only=True,
    rename={"turns": "conversations"},
):
    """A record; its id means nothing elsewhere."""

    turns: Annotated[list[Turn], Meta(min_length=1)]
    system: Raw = absent  # type: ignore[assignment]
    tools: Raw = absent  # type: ignore[assignment]
    id: str | int | None = None

    @staticmethod
    def read_calls(spelled: Raw) -> Any:
        """The call of a turn, or a list of them."""
        return _decode_calls(_decode_text(spelled))

    @staticmethod
    def read_tools(spelled: Raw) -> tuple[Tool, ...]:
        """The tools that a record offers."""
        return read_tools(_decode_text(spelled))


class AnyRecord(Record, frozen=True, gc=False, forbid_unknown_fields=False):
    """A record that may have fields of its own."""


_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_value = msgspec.json.Decoder().decode
_FIELDS = frozenset({"conversations", "system", "tools", "id"})
_decode_text = msgspec.json.Decoder(str).decode
_decode_calls = msgspec.json.Decoder(LineCall | list[LineCall]).decode
_decode = msgspec.json.Decoder(Record).decode
_decode_any = msgspec.json.Decoder(AnyRecord).decode


def read_lines(lines: Sequence[bytes]) -> list[Record]:
    """The record of each line."""
    return list(map(_decode, lines))


def read_line(line: bytes, notes: Notes) -> Record | None:
    """The record of a line, its own fields noted as lost; None for any that is not of common shape."""
    try:
        return _decode(line)
    except ODD:
        return _read_odd(line, notes)


def _read_odd(line: bytes, notes: Notes) -> Record | None:
    try:
        record = _decode_any(line)
        fields = _decode_fields(line)
        if "images" in fields:  # they stand between the words
            return None
        for key, raw in fields.items():
            if key in _FIELDS:
                continue
            held = _decode_value(raw)
            lost = None if held is None else lost_field(f".{key}", held)
            if not key.isidentifier():
                return None
            if lost is not None:
                notes.append((lost[0], key, lost[1]))
    except ODD:
        return None
    return record
