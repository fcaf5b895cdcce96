"""JSON kept as the exact text that somebody wrote, with its value on demand.

Tool arguments, schemas, data and opaque blocks are held this way: the text is what goes back on the wire, the value
is parsed only when it is looked at.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cannery.errors import MessageError
from cannery.messages.immutable import Dictionary, freeze, thaw

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def write_json(value: Any, where: str = "value") -> str:
    """Compact JSON text of a value, keys in the order given."""
    try:
        return _encode(thaw(value)).decode()
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise MessageError(where, f"not a JSON value: {error}") from None


def read_json(text: str) -> Any:
    """The frozen value of JSON text; ValueError if it is none."""
    return freeze(decode_json(text))


def decode_json(text: str | bytes) -> Any:
    """The plain value of JSON text; ValueError if it is none."""
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def is_json_object(text: str) -> bool:
    """Whether the text is one JSON object; cheaper than reading it."""
    if not text.lstrip(" \t\n\r").startswith("{"):
        return False
    try:
        _decode_object(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


def read_object(text: str) -> Dictionary | None:
    """The object that the text spells, or None; the empty text means the empty object."""
    if not text or text.isspace():
        return Dictionary()
    try:
        value = read_json(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Dictionary) else None


def canonical(value: Any) -> str:
    """The one spelling of a JSON value that identity uses: keys sorted, no spaces, integral numbers as integers."""
    return _encode(_canonical(value)).decode()


def _canonical(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, (dict, Dictionary)):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    return value
