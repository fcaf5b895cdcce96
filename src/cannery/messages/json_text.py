"""JSON kept as its exact original text, with its value on demand.

Tool arguments, schemas, data and opaque blocks are held this way: the text is sent back on the wire, and the value is
parsed only when it is read.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any, NoReturn

import msgspec

from cannery.errors import MessageError
from cannery.messages.immutable import MAX_DEPTH, Dictionary, freeze, thaw

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode
# Compiled on first use, which is rare: importing stays cheap.
_BRACKETS = r'(?s:"(?:[^"\\]|\\.)*+"|[\[\]{}])'
_ESCAPES = (
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: one character
    r"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"  # half of one
    r"|\\."
)
_EXACT = 2**53


def utf8(text: str) -> bytes:
    """The text in UTF-8; half of a surrogate pair becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return whole.encode()


def write_json(value: Any, where: str = "value") -> str:
    """Compact JSON text of a value, keys in the order given."""
    try:
        try:
            return _encode(value).decode()
        except TypeError:
            # Only values of the model need to be thawed; decoded values are already plain.
            return _encode(thaw(value)).decode()
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise MessageError(where, f"not a JSON value: {error}") from None


def read_json(text: str) -> Any:
    """The frozen value of JSON text; ValueError if it is not JSON."""
    return freeze(decode_json(text))


def decode_json(text: str | bytes) -> Any:
    """The plain value of JSON text; ValueError if it is not JSON."""
    try:
        return _decode(text)
    except RecursionError:
        # The caller's stack limits the depth that can be read; our answer must not depend on it.
        if depth(text, MAX_DEPTH) <= MAX_DEPTH:
            raise
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        whole = _without_lone_surrogates(text)
        if whole is None:
            if "out of range" not in str(error):
                raise ValueError(str(error)) from None
            return decode_vast(text if isinstance(text, str) else text.decode())
    return decode_json(whole)


def decode_vast(text: str) -> Any:
    """The plain value of JSON text; a number that is too large to hold stays the ``Raw`` text of the number."""
    import json  # imported on first use, which is rare

    return json.loads(
        text, parse_constant=_refuse, parse_float=_spelled_float, parse_int=_spelled_integer
    )


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _spelled_float(text: str) -> float | msgspec.Raw:
    number = float(text)
    return number if isfinite(number) else msgspec.Raw(text.encode())


def _spelled_integer(text: str) -> int | msgspec.Raw:
    try:
        return int(text)
    except ValueError:  # The most digits that Python converts at once
        return msgspec.Raw(text.encode())


def _without_lone_surrogates(text: str | bytes) -> str | None:
    """The text with lone surrogates, escaped or not, as U+FFFD; None if it has none.

    The JSON grammar allows them, and models write them; Unicode text cannot contain them.
    """
    if not isinstance(text, str):
        return None
    changed = utf8(text).decode()
    if "\\u" in changed:
        changed = re.sub(_ESCAPES, lambda found: "\\ufffd" if found[1] else found[0], changed)
    return None if changed == text else changed


def find_lone_surrogate(text: str) -> int:
    """The position of an escape for half of a surrogate pair in JSON text; -1 if it has none."""
    if "\\u" not in text:
        return -1
    halves = (found.start() for found in re.finditer(_ESCAPES, text) if found[1])
    return next(halves, -1)


def is_blank(text: str) -> bool:
    """Whether the text is only JSON white space."""
    return not text or not text.strip(" \t\n\r")


def is_json(text: str) -> bool:
    """Whether the text is JSON; cheaper than reading it."""
    try:
        _decode_raw(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


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
    """The object in a text, or None; the empty text means the empty object."""
    if is_blank(text):
        return Dictionary()
    try:
        value = read_json(text)
    except ValueError:
        return None
    return value if isinstance(value, Dictionary) else None


def canonical(value: Any) -> str:
    """The single spelling of a JSON value that identity uses; ValueError beyond the depth limit.

    Keys sorted, no spaces, numbers by value: ``docs/identity.md`` has the rules.
    """
    return _encode(_canonical(value, MAX_DEPTH)).decode()


def canonical_text(text: str) -> str | None:
    """The canonical spelling of JSON text; None if it is not JSON or nested too deeply."""
    try:
        return canonical(decode_json(text))
    except ValueError:
        return None


def depth(text: str | bytes, most: int | None = None) -> int:
    """The nesting depth of the brackets in JSON text; scanning stops beyond ``most``."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    level = deepest = 0
    for found in re.finditer(_BRACKETS, text):
        bracket = found.group()
        if bracket in "[{":
            level += 1
            deepest = max(deepest, level)
            if most is not None and deepest > most:
                break
        elif bracket in "]}":
            level -= 1
    return deepest


def _canonical(value: Any, depth_left: int) -> Any:
    kind = type(value)
    if kind is float:
        return _canonical_float(value)
    if kind is dict:
        _check_depth(depth_left)
        return {key: _canonical(value[key], depth_left - 1) for key in sorted(value)}
    if kind is list:
        _check_depth(depth_left)
        return [_canonical(item, depth_left - 1) for item in value]
    if isinstance(value, (Dictionary, tuple)):
        return _canonical(thaw(value), depth_left)
    if kind is msgspec.Raw:
        raise ValueError("a number too large to be compared by its value")
    return value


def _check_depth(depth_left: int) -> None:
    if depth_left <= 0:
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep")


def _canonical_float(value: float) -> Any:
    """An integer if the value certainly is one, else the shortest digits and a power of ten: ``15e-1``."""
    if value.is_integer() and abs(value) < _EXACT:
        return int(value)
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("-0")
    shortest = digits.rstrip("0")
    power = int(exponent or 0) - len(fraction) + len(digits) - len(shortest)
    sign = "-" if value < 0 else ""
    return msgspec.Raw(f"{sign}{shortest}e{power}".encode())
