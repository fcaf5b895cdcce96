"""Arguments and identifiers of calls, checked without being taken apart.

Where a wire takes only objects, text that spells none is wrapped in one, reversibly; an object passes through as the
text it is, so that the spelling of its numbers survives.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw
from orjson import Fragment

from cannery.messages.json_text import decode_json, is_json_object, write_json

RAW_ARGUMENTS = "_raw_arguments"
FREEFORM_INPUT = "input"
_EMPTY = Raw(b"{}")
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,40}", re.ASCII).fullmatch
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}", re.ASCII).fullmatch
# The slice of a JSON text; one of msgspec's errors if it is none.
read_slice = msgspec.json.Decoder(Raw).decode


def argument_text(value: Any) -> str:
    """The text of a call's arguments, however they are spelled."""
    if value is None:
        return ""
    return value if type(value) is str else write_json(value)


def object_slice(text: str) -> Raw | None:
    """The JSON object that an argument text spells, ready for msgspec to be written; None if it spells none.

    The empty text spells the empty object.
    """
    if text[:1] != "{":
        return _EMPTY if not text else None
    try:
        return read_slice(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def object_text(text: str) -> Fragment | None:
    """The same for orjson."""
    return None if object_slice(text) is None else Fragment(text or "{}")


def is_plain_identifier(text: str) -> bool:
    """Whether every provider takes this as the id of a call: at most 40 letters, digits, underscores and dashes."""
    if text.isidentifier() and text.isascii() and len(text) <= 40:
        return True
    return _PLAIN_ID(text) is not None


@lru_cache(maxsize=1024)
def is_plain_name(text: str) -> bool:
    """Whether every provider takes this as the name of a function: like an id, with a letter or underscore first."""
    return _PLAIN_NAME(text) is not None


def _is_plain_run(text: str) -> bool:
    """Whether this is nothing but letters and digits of ASCII, underscores and dashes, with one of the former."""
    return text.isascii() and text.encode().translate(None, b"_-").isalnum()


def are_plain_calls(identifiers: list[str], names: set[str]) -> bool:
    """Whether every provider takes these ids and names as they are, and no id comes twice."""
    if not identifiers:
        return True
    distinct = set(identifiers)
    return (
        len(distinct) == len(identifiers)
        and "" not in distinct
        and max(map(len, identifiers)) <= 40
        and _is_plain_run("".join(identifiers))
        and all(map(is_plain_name, names))
    )


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
