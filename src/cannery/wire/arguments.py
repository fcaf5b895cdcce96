"""Arguments of calls, checked without being decoded.

On a wire that accepts only objects, any other text is wrapped in an object, reversibly. An object passes through as
text, so that its numbers keep their spelling.
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
    """The text of a call's arguments, whatever form they have."""
    if value is None:
        return ""
    return value if type(value) is str else write_json(value)


def object_text(text: str) -> Fragment | None:
    """The JSON object in an argument text, for orjson to write; None if the text is not an object.

    The empty text stands for the empty object.
    """
    if text[:1] != "{":
        return None if text else Fragment("{}")
    try:
        _check(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return Fragment(text)


def object_input(text: str) -> Any:
    """The object in an argument text, ready to be encoded; None if the text is not an object."""
    if not text or text.isspace():
        return {}
    if is_json_object(text):
        return Raw(text.encode())
    if "\\u" not in text:
        return None
    # The JSON grammar allows an escaped half of a surrogate pair, but decoders refuse it.
    try:
        value = decode_json(text)
    except (ValueError, RecursionError):
        return None
    return value if type(value) is dict else None


def wrapped_input(text: str) -> dict[str, str]:
    """An object that wraps argument text which is not an object itself."""
    return {RAW_ARGUMENTS: text}


def input_text(value: Any) -> str:
    """The argument text of an input: the text that was wrapped, or the JSON text of the value."""
    if type(value) is dict and len(value) == 1:
        raw = value.get(RAW_ARGUMENTS)
        if type(raw) is str and object_input(raw) is None:
            return raw
    return write_json(value)


def unwrapped_input(text: str) -> str:
    """The argument text of an input in a body; wrapped text is returned as it was."""
    if RAW_ARGUMENTS not in text:
        return text
    found = input_text(decode_json(text))
    return found if object_input(found) is None else text


def call_input(text: str, *, is_freeform: bool) -> Any:
    """The arguments of any call as an object, ready to be encoded."""
    if is_freeform:
        return {FREEFORM_INPUT: text}
    found = object_input(text)
    return wrapped_input(text) if found is None else found
