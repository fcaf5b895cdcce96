"""Reading JSON bodies: bytes in, plain values out, every problem one DialectError with its path.

Lone surrogates and broken UTF-8 become U+FFFD here, before anything is hashed or sent on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import wraps
from math import isfinite
from typing import Any, NoReturn, TypeGuard, TypeVar

import msgspec
from msgspec import Raw
from orjson import Fragment, dumps

from cannery.errors import DialectError, MessageError
from cannery.messages.immutable import thaw
from cannery.messages.json_text import decode_vast, utf8
from cannery.messages.requests import Request, Response
from cannery.messages.residue import Residue
from cannery.wire.places import Path, Places, key_text, path_text

_decode = msgspec.json.Decoder().decode
_split = msgspec.json.Decoder(dict[str, Raw]).decode
_SURROGATES = "[\ud800-\udfff]"  # Compiled on first use, which is rare.
_MENDED = "\ufffd".encode()
_MISSING: Any = object()

Object = dict[str, Any]
# The undecoded fields of a body.
Fields = dict[str, Raw]
T = TypeVar("T", Request, Response)
# The reader of a decoded body, and that of its bytes; both note the places of what they read.
Read = Callable[[Any, Places], T]
BodyReader = Callable[[bytes, Places], T]


def encode(value: Any) -> bytes:
    """The JSON text of plain values; ``Raw`` and structs are allowed."""
    try:
        return dumps(value, _unknown)
    except TypeError:
        # orjson refuses structs, integers beyond 64 bits, and deep nesting.
        return _encode(value)


def _unknown(value: Any) -> Fragment:
    if type(value) is Raw:
        return Fragment(bytes(value))
    raise TypeError(type(value).__name__)


def _known(value: Any) -> Raw:
    """Convert a type that orjson supports and msgspec does not."""
    return Raw(dumps(value, _unknown))


_encode = msgspec.json.Encoder(enc_hook=_known).encode


def to_bytes(dialect: str, body: Any) -> bytes:
    """The bytes of a body that is given as bytes, text or plain JSON values."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    if isinstance(body, str):
        return utf8(body)
    if isinstance(body, (Mapping, list)):
        return _encode_values(dialect, body)
    raise DialectError(dialect, "$", f"expected a JSON body, got {type(body).__name__}")


def _encode_values(dialect: str, body: Any) -> bytes:
    try:
        plain = thaw(body)
        check_values(dialect, plain, "$")
        return encode(plain)
    except UnicodeEncodeError:
        import json

        # Escaped lone surrogates are decoded to the same characters.
        return json.dumps(plain).encode()
    except DialectError:
        raise
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DialectError(dialect, "$", f"not JSON values: {error}") from None


def is_named(value: Any) -> TypeGuard[str]:
    """Whether a value is non-blank text, and so may be a name, a URL or a file."""
    return type(value) is str and value != "" and not value.isspace()


def check_values(dialect: str, value: Any, path: str) -> None:
    """Refuse values that are not JSON but that encoders would convert: to null, base64 or text."""
    if type(value) is dict:
        for key, item in value.items():
            place = f"{path}{key_text(str(key))}".removeprefix("$").removeprefix(".")
            if not isinstance(key, str):
                raise DialectError(dialect, place, f"a key must be text, got {type(key).__name__}")
            check_values(dialect, item, place)
    elif type(value) is list:
        for index, item in enumerate(value):
            check_values(dialect, item, f"{path}[{index}]")
    elif isinstance(value, float):
        if not isfinite(value):
            raise DialectError(dialect, path, f"{value} is not a JSON number")
    elif value is not None and not isinstance(value, (str, int, Enum, Raw)):
        raise DialectError(dialect, path, f"{type(value).__name__} is not a JSON value")


def read_value(dialect: str, body: bytes) -> Any:
    """The plain JSON value of a body."""
    try:
        return _decode(body)
    except RecursionError:
        raise DialectError(dialect, "$", "nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeError):
        return _scrub(_read_tolerantly(dialect, body), [], [])


def decode(field: Raw) -> Any:
    """The plain value of a field; a number that is too large to hold stays the ``Raw`` text of the number."""
    try:
        return _decode(field)
    except msgspec.MsgspecError as error:
        if "out of range" not in str(error):
            raise
        return decode_vast(str(field, "utf-8"))


def plain(value: Any) -> Any:
    """A value that may still be undecoded, as ``decode`` gives it."""
    return decode(value) if type(value) is Raw else value


def decoded(fields: Object) -> Object:
    """The fields with all values decoded."""
    return {key: decode(field) if type(field) is Raw else field for key, field in fields.items()}


def spelled_text(field: Raw) -> str:
    """The JSON text of a field as the body has it; an invalid escape is an error, as in any text."""
    found = str(field, "utf-8")
    # Searching for one character is much faster than for two.
    if "\\" in found and "\\u" in found:
        _decode(field)
    return found


def is_text_part(value: Any) -> bool:
    """Whether a value is a part of a message with the type ``text``."""
    return type(value) is dict and value.get("type") == "text" and type(value.get("text")) is str


def opened(value: Any) -> Any:
    """A value that may still be undecoded, or have undecoded fields."""
    return decoded(value) if type(value) is dict else plain(value)


def spelled_object(fields: Object) -> str:
    """The JSON text of an object with undecoded fields; errors as in ``spelled_text``."""
    found = _encode(fields).decode()
    if "\\" in found and "\\u" in found:
        _decode(found)
    return found


def long_text(field: Any) -> Any:
    """The value of a field that is probably long text without escapes, such as base64."""
    if type(field) is not Raw:
        return field
    found = str(field, "utf-8")
    if found[0] == '"' and "\\" not in found and found.isascii():
        return found[1:-1]
    return decode(field)


def mend(dialect: str, body: bytes) -> tuple[Object, str | None]:
    """The object in a body with broken Unicode as U+FFFD, and the strings that were broken (``Residue.escapes``)."""
    value = _read_tolerantly(dialect, body)
    if type(value) is not dict:
        raise DialectError(dialect, "$", f"expected a JSON object, got {kind_of(value)}")
    broken: list[tuple[list[str | int], str]] = []
    mended = _scrub(value, [], broken)
    if not _is_text(body):
        broken.append(([], ""))
    import json

    return mended, json.dumps(broken) if broken else None


def read_object(dialect: str, body: bytes) -> Object:
    """The JSON object of a body."""
    value = read_value(dialect, body)
    if type(value) is not dict:
        raise DialectError(dialect, "$", f"expected a JSON object, got {kind_of(value)}")
    return value


def _is_text(body: bytes) -> bool:
    """Whether bytes are UTF-8, apart from encoded halves of surrogate pairs."""
    try:
        body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _read_tolerantly(dialect: str, body: bytes) -> Any:
    """Read a body with broken Unicode or too large numbers; any other fault is an error with its position."""
    import json

    text = body.decode("utf-8-sig", "surrogatepass" if _is_text(body) else "replace")
    try:
        value = decode_vast(text)
    except RecursionError:
        raise DialectError(dialect, "$", "nested too deeply") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        problem = error.msg.removesuffix(" at")
        raise DialectError(dialect, "$", f"not JSON: {problem} at {place}") from None
    except ValueError as error:
        raise DialectError(dialect, "$", f"not JSON: {error}") from None
    return value


def _scrub(value: Any, path: list[str | int], broken: list[tuple[list[str | int], str]]) -> Any:
    """A value without lone surrogates; the path of each string that had one is recorded."""
    if type(value) is str:
        whole = re.sub(_SURROGATES, "\ufffd", value)
        if whole != value:
            broken.append((path, value))
        return whole
    if type(value) is list:
        return [
            item if _is_whole(item) else _scrub(item, [*path, index], broken)
            for index, item in enumerate(value)
        ]
    if type(value) is dict:
        return {
            key if key.isascii() else _scrub(key, [*path, key], broken): (
                item if _is_whole(item) else _scrub(item, [*path, key], broken)
            )
            for key, item in value.items()
        }
    return value


def _is_whole(value: Any) -> bool:
    """Whether a cheap check shows that a value has no lone surrogates, which is the usual case."""
    kind = type(value)
    return value.isascii() if kind is str else kind is not dict and kind is not list


def with_escapes(encoded: bytes, escapes: str) -> bytes:
    """A body in which mended strings are spelled as they came, at their present place.

    A mended string contains U+FFFD, and our encoders spell a string in one way, so only strings with this character
    are examined, in their encoded form.
    """
    import json

    originals = {
        dumps(re.sub(_SURROGATES, "\ufffd", original)): json.dumps(original).encode()
        for _, original in json.loads(escapes)
    }
    spelled: list[bytes] = []
    done = 0
    while (at := encoded.find(_MENDED, done)) >= 0:
        start = encoded.rfind(b'"', done, at)
        while _is_escaped(encoded, start):
            start = encoded.rfind(b'"', done, start)
        end = encoded.find(b'"', at)
        while _is_escaped(encoded, end):
            end = encoded.find(b'"', end + 1)
        string = encoded[start : end + 1]
        spelled += encoded[done:start], originals.get(string, string)
        done = end + 1
    return b"".join((*spelled, encoded[done:]))


def _is_escaped(encoded: bytes, quote: int) -> bool:
    """Whether an odd number of backslashes precedes a quote."""
    first = quote
    while encoded[first - 1 : first] == b"\\":
        first -= 1
    return (quote - first) % 2 == 1


def escaped_paths(escapes: str) -> list[str]:
    """The paths of the mended strings; ``$`` if broken bytes belong to no string."""
    import json

    return [path_text(tuple(path)) or "$" for path, _ in json.loads(escapes)]


def kind_of(value: Any) -> str:
    """The JSON name of a value's type."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "an object" if type(value) is dict else "a list")


class Reader:
    """Typed reads of one body; every error names the dialect and the path, which is built only for an error."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect

    def fail(self, path: str | Path, problem: str) -> NoReturn:
        """Refuse the body."""
        place = path if isinstance(path, str) else path_text(path)
        raise DialectError(self.dialect, place, problem)

    def object(self, value: Any, path: str | Path) -> Object:
        """A JSON object."""
        if type(value) is not dict:
            self.fail(path, f"expected an object, got {kind_of(value)}")
        return value

    def list(self, value: Any, path: str | Path) -> list[Any]:
        """A JSON list."""
        if type(value) is not list:
            self.fail(path, f"expected a list, got {kind_of(value)}")
        return value

    def text(self, value: Any, path: str | Path) -> str:
        """A JSON string."""
        if type(value) is not str:
            self.fail(path, f"expected a string, got {kind_of(value)}")
        return value

    def field(self, value: Object, key: str, path: str) -> Any:
        """A required field."""
        found = value.get(key, _MISSING)
        if found is _MISSING:
            self.fail(f"{path}.{key}" if path else key, "is required")
        return found

    def text_field(self, value: Object, key: str, path: str) -> str:
        """A required string field."""
        return self.text(self.field(value, key, path), f"{path}.{key}" if path else key)


def fields_reader(dialect: str) -> Callable[[Read[T]], BodyReader[T]]:
    """A reader of top-level fields, which it decodes one at a time (``decode``), as the reader of a body."""
    return body_reader(dialect, _split, lambda value: _split(encode(value)))


_Scalar = bool | int | float | str | None
_Inner = _Scalar | list[Any] | dict[str, Raw]
_Item = _Scalar | list[Any] | dict[str, _Inner]
_decode_levels = msgspec.json.Decoder(dict[str, _Scalar | list[_Item] | dict[str, Any]]).decode


def listed_reader(dialect: str) -> Callable[[Read[T]], BodyReader[T]]:
    """A reader of a body that is decoded at once, except for objects nested in the objects of its lists.

    Those fields (``tools[0].function.parameters``) are ``Raw``: passed on as text or decoded one at a time
    (``decoded``).
    """
    return body_reader(dialect, _decode_levels, _undecoded)


def _undecoded(body: Object) -> Object:
    """A fully decoded body, with the levels below encoded again as ``Raw``."""
    return {
        key: [*map(_undecoded_item, value)] if type(value) is list else value
        for key, value in body.items()
    }


def _undecoded_item(item: Any) -> Any:
    if type(item) is not dict:
        return item
    return {
        key: {inner: Raw(encode(held)) for inner, held in value.items()}
        if type(value) is dict
        else value
        for key, value in item.items()
    }


def body_reader(
    dialect: str,
    decode_levels: Callable[[bytes], Any],
    prepare: Callable[[Object], Any] = lambda value: value,
) -> Callable[[Read[T]], BodyReader[T]]:
    """Make a reader of a decoded body the reader of its bytes; deeper levels than it examines are ``Raw``.

    A body that cannot be decoded is one DialectError. A body with broken Unicode or numbers that are too large is
    mended first, and the result keeps the spelling of the broken strings; of such a body every level is decoded
    unless ``prepare`` does otherwise.
    """

    def reader(read: Read[T]) -> BodyReader[T]:
        @wraps(read)
        def read_bytes(body: bytes, places: Places) -> T:
            try:
                return read(decode_levels(body), places)
            except RecursionError:
                raise DialectError(dialect, "$", "nested too deeply") from None
            except MessageError as error:
                raise DialectError(dialect, "$", str(error)) from None
            except (msgspec.MsgspecError, UnicodeError):
                places.clear()
            return _read_mended(dialect, body, places, read, prepare)

        return read_bytes

    return reader


def _read_mended(
    dialect: str,
    body: bytes,
    places: Places,
    read: Read[T],
    prepare: Callable[[Object], Any],
) -> T:
    """Read a body with broken Unicode or numbers that are too large."""
    mended, escapes = mend(dialect, body)
    found: T = guarded(dialect, lambda: read(prepare(mended), places))
    if escapes is None:
        return found
    residue = msgspec.structs.replace(found.residue or Residue(dialect), escapes=escapes)
    return msgspec.structs.replace(found, residue=residue)


def guarded(dialect: str, read: Callable[[], Any]) -> Any:
    """Run a read; input that no value can represent is refused like any other bad body."""
    try:
        return read()
    except RecursionError:
        raise DialectError(dialect, "$", "nested too deeply") from None
    except MessageError as error:
        raise DialectError(dialect, "$", str(error)) from None
