"""ShareGPT records of common shape, many lines at once.

msgspec refuses anything but turns of text by the usual names; then ``reading`` takes the record from the start. A
record with fields of its own is taken when it comes alone, because what is lost differs from line to line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.dialects.sharegpt.fast import Gpt, Human, System, Turn
from cannery.dialects.sharegpt.tools import read_tools
from cannery.messages.absence import absent
from cannery.messages.requests import Tool
from cannery.messages.role import Role
from cannery.wire.contract import Notes
from cannery.wire.foreign import lost_field
from cannery.wire.lines import ODD, Answer, Calls, LineRequest
from cannery.wire.markers import read_error_flag


class SpelledTurn(
    Struct,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    tag_field="from",
    rename={"held": "value"},
):
    """What somebody says, as it is spelled."""

    held: Raw


class SpelledHuman(SpelledTurn, frozen=True, gc=False, tag="human"):
    """A turn of the user, its text as it is spelled."""

    role: ClassVar[Role] = Role.User


class SpelledGpt(SpelledTurn, frozen=True, gc=False, tag="gpt"):
    """A turn of the model, its text as it is spelled."""

    role: ClassVar[Role] = Role.Assistant


class SpelledSystem(SpelledTurn, frozen=True, gc=False, tag="system"):
    """Instructions, as they are spelled."""

    role: ClassVar[Role] = Role.Supervisor


class SpelledRecord(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A record of nothing but texts."""

    conversations: list[SpelledHuman | SpelledGpt | SpelledSystem]
    id: str | int | None = None


class FunctionCall(Turn, frozen=True, gc=False, tag="function_call"):
    """A turn of calls, in JSON."""

    role: ClassVar[Role] = Role.Invocation


class Observation(Turn, frozen=True, gc=False, tag="observation"):
    """What a tool answered."""

    role: ClassVar[Role] = Role.Result


class SpelledCall(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A call as a turn spells it."""

    name: str
    arguments: Raw | UnsetType = UNSET


class Record(
    LineRequest,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    kw_only=True,
    rename={"messages": "conversations"},
):
    """A record; its id means nothing elsewhere."""

    messages: list[Human | Gpt | System | FunctionCall | Observation]
    system: str = absent  # type: ignore[assignment]
    tools: str = absent  # type: ignore[assignment]
    id: str | int | None = None

    def exchanges(self) -> list[Any] | None:
        """The turns, each call answered at once, with the ids that reading gives them."""
        turns: list[Any] = []
        waiting: list[str] = []
        count = 0
        for turn in self.messages:
            if type(turn) is FunctionCall:
                calls = None if waiting else _read_calls(turn.held, count)
                if calls is None:
                    return None
                waiting = [identifier for identifier, _, _ in calls]
                count += len(calls)
                said = turns.pop().held if turns and type(turns[-1]) is Gpt else None
                if said == "":
                    return None
                turns.append(Calls(said, calls))
            elif type(turn) is Observation:
                if not waiting or read_error_flag(turn.held) is not None:
                    return None
                turns.append(Answer(waiting.pop(0), turn.held))
            elif waiting:
                return None
            else:
                turns.append(turn)
        return None if waiting else turns

    def offers(self) -> tuple[Tool, ...]:
        """The tools that the record offers."""
        return read_tools(self.tools)


_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_value = msgspec.json.Decoder().decode
_TURNS = attrgetter("conversations")
_FIELDS = frozenset({"conversations", "system", "tools", "id"})
_decode_spelled = msgspec.json.Decoder(SpelledRecord).decode
read_line = msgspec.json.Decoder(Record).decode
_decode_call = msgspec.json.Decoder(SpelledCall).decode
_decode_calls = msgspec.json.Decoder(list[SpelledCall]).decode


def _read_calls(value: str, count: int) -> list[tuple[str, str, str]] | None:
    """The calls of a turn, counted on; None for any that are spelled in another way."""
    try:
        found = _decode_calls(value) if value[:1] == "[" else [_decode_call(value)]
    except ODD:
        return None
    calls = []
    for index, call in enumerate(found, count):
        if call.arguments is UNSET or bytes(call.arguments)[:1] != b"{" or not call.name:
            return None
        calls.append((f"call_{index}", call.name, bytes(call.arguments).decode()))
    return calls or None


def read_spelled(lines: Iterable[bytes]) -> Iterator[list[Any]]:
    """The turns of each line of nothing but texts."""
    return map(_TURNS, map(_decode_spelled, lines))


def read_odd_line(line: bytes, notes: Notes) -> Any:
    """The record of a line with fields of its own, which are noted as lost; None for any other."""
    try:
        fields = _decode_fields(line)
        if "images" in fields:  # they stand between the words
            return None
        kept = b",".join(
            b'"%b":%b' % (key.encode(), fields.pop(key)) for key in _FIELDS & fields.keys()
        )
        for key, raw in fields.items():
            held = _decode_value(raw)
            lost = None if held is None else lost_field(f".{key}", held)
            if not key.isidentifier():
                return None
            if lost is not None:
                notes.append((lost[0], key, lost[1]))
        return read_line(b"{%b}" % kept)
    except ODD:
        return None
