"""Arguments of calls, checked without being decoded.

Where a wire takes only objects, text that spells none is wrapped in one, reversibly; an object passes through as the
text it is, so that the spelling of its numbers survives.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw
from orjson import Fragment

from cannery.messages.json_text import decode_json, is_json_object, write_json

RAW_ARGUMENTS = "_raw_arguments"
FREEFORM_INPUT = "input"
_check = msgspec.json.Decoder(Raw).decode


def argument_text(value: Any) -> str:
    """The text of a call's arguments, however they are spelled."""
    if value is None:
        return ""
    return value if type(value) is str else write_json(value)


def object_text(text: str) -> Fragment | None:
    """The JSON object that an argument text spells, for orjson to write; None if it spells none.

    The empty text spells the empty object.
    """
    if text[:1] != "{":
        return None if text else Fragment("{}")
    try:
        _check(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return Fragment(text)


def object_input(text: str) -> Any:
    """The object that any argument text spells, ready to be encoded; None if it spells none."""
    if not text or text.isspace():
        return {}
    if is_json_object(text):
        return Raw(text.encode())
    if "\\u" not in text:
        return None
    # An escaped half of a surrogate pair is JSON by its grammar, and yet no decoder takes it.
    try:
        value = decode_json(text)
    except (ValueError, RecursionError):
        return None
    return value if type(value) is dict else None


def wrapped_input(text: str) -> dict[str, str]:
    """The object that holds argument text which is no object itself."""
    return {RAW_ARGUMENTS: text}


def input_text(value: Any) -> str:
    """The argument text of an input: what was wrapped, or the JSON text of the value."""
    if type(value) is dict and len(value) == 1:
        raw = value.get(RAW_ARGUMENTS)
        if type(raw) is str and object_input(raw) is None:
            return raw
    return write_json(value)


def unwrapped_input(text: str) -> str:
    """The argument text of an input that a body spells; what was wrapped is told as it was."""
    if RAW_ARGUMENTS not in text:
        return text
    found = input_text(decode_json(text))
    return found if object_input(found) is None else text


def call_input(text: str, *, is_freeform: bool) -> Any:
    """The object that holds the arguments of any call, ready to be encoded."""
    if is_freeform:
        return {FREEFORM_INPUT: text}
    found = object_input(text)
    return wrapped_input(text) if found is None else found
