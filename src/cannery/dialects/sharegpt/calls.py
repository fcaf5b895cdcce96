"""Calls of ShareGPT: the JSON text in a ``function_call`` turn, both ways.

Arguments are taken out of the text and put back as the exact text they were. How a value was spelled beyond that is
kept as a patch to our own spelling, which is the one of Python's ``json.dumps``.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from cannery.messages.json_text import decode_json, is_json_object, write_json
from cannery.wire.residues import patch_text, recall

# The name of a call whose turn says none, and the form of such a value: it is the argument text itself.
NAMELESS = "function_call"
BARE = "bare"
# The form of a call that shares its turn with the one before.
MORE = "more"

_read_one = msgspec.json.Decoder(dict[str, Raw]).decode
_read_many = msgspec.json.Decoder(list[dict[str, Raw]]).decode
UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


class Call(Struct, frozen=True):
    """One call: its name, its exact argument text, and the other keys that it had."""

    name: str
    arguments: str
    others: dict[str, Any] = {}


def read_calls(value: str) -> list[Call] | None:
    """The calls that a value spells; None if it spells none."""
    try:
        found = _read_many(value) if value.lstrip()[:1] == "[" else [_read_one(value)]
        calls = [_read_call(fields) for fields in found]
    except (*UNREADABLE, ValueError):
        return None
    return None if None in calls or not calls else calls  # type: ignore[return-value]


def _read_call(fields: dict[str, Raw]) -> Call | None:
    name = decode_json(bytes(fields["name"])) if "name" in fields else None
    if type(name) is not str or not name:
        return None
    others = {
        key: decode_json(bytes(item))
        for key, item in fields.items()
        if key not in ("name", "arguments")
    }
    return Call(name, _argument_text(fields.get("arguments")), others)


def _argument_text(raw: Raw | None) -> str:
    text = "" if raw is None else bytes(raw).decode()
    if text.startswith('"'):
        return str(decode_json(text))
    return "" if text == "null" else text


def write_call(name: str, arguments: str) -> str:
    """The usual spelling of a call; arguments that are no object are a string."""
    if not arguments.strip():
        arguments = "{}"
    elif not is_json_object(arguments):
        arguments = write_json(arguments)
    return f'{{"name": {write_json(name)}, "arguments": {arguments}}}'


def write_calls(calls: list[str]) -> str:
    """The usual spelling of the calls of one turn."""
    return calls[0] if len(calls) == 1 else f"[{', '.join(calls)}]"


def spelling(calls: list[str], value: str) -> str | None:
    """What is kept of how a value was spelled; None if it is the usual way."""
    patch = patch_text(write_calls(calls), value)
    return None if patch is None else f"{len(calls)} {patch}"


def respell(calls: list[str], form: str | None) -> str:
    """The value of a turn as it was spelled, if it still has as many calls."""
    usual = write_calls(calls)
    count, _, patch = (form or "").partition(" ")
    return str(recall(usual, patch)) if patch and count == str(len(calls)) else usual
