"""Tool arguments where a wire takes only objects: text that is no object is wrapped, reversibly.

An object passes through as the text it is, so that the spelling of its numbers survives.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cannery.messages.json_text import decode_json, is_json_object, write_json

RAW_ARGUMENTS = "_raw_arguments"
FREEFORM_INPUT = "input"


def object_input(text: str) -> Any:
    """The object that argument text spells, ready to be encoded; None if it spells none."""
    if not text or text.isspace():
        return {}
    if not is_json_object(text):
        return None
    if "\\u" in text:
        # An escaped half of a surrogate pair is JSON text, and yet no wire's JSON.
        try:
            return decode_json(text)
        except ValueError:
            return None
    return msgspec.Raw(text.encode())


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
