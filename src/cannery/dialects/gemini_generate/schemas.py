"""Gemini's own schemas (OpenAPI, type names in capitals, ``nullable``) as JSON Schema, and back.

Only keywords are touched, never the names of properties. Reading also tells whether the way back gives the same schema
again; the residue keeps one that it does not give.
"""

from __future__ import annotations

from typing import Any

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder

from cannery.dialects.gemini_generate.spelling import Object, both

_TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
_COUNTS = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}
)
_DIGITS = 19
_KEYWORDS = both(("anyOf", "propertyOrdering", "additionalProperties", *_COUNTS))
_MAPS = frozenset({"properties", "defs", "$defs"})
_LISTS = frozenset({"anyOf", "any_of", "allOf", "oneOf", "prefixItems"})
_NESTED = frozenset({"items", "additionalProperties", "additional_properties"})


class _Kind(Struct, gc=False):
    """What is looked at of a schema that passes as text."""

    type: Any = None


_decode_kind = Decoder(_Kind).decode


def names_object(schema: str) -> bool:
    """Whether the text of a JSON Schema says that it is about an object."""
    try:
        return bool(_decode_kind(schema).type == "object")
    except (MsgspecError, UnicodeError, RecursionError):
        return False


class StandardSchema:
    """A Gemini schema as JSON Schema: ``value``.

    ``is_capital`` tells that it names its types in capitals, ``is_exact`` that writing it so gives it back.
    """

    __slots__ = ("is_capital", "is_exact", "value")

    def __init__(self, schema: Object) -> None:
        kind = schema.get("type")
        self.is_capital = type(kind) is str and kind in _TYPES
        self.is_exact = True
        self.value = self._standard(schema)

    def _standard(self, schema: Any) -> Any:
        if type(schema) is not dict:
            return schema
        found: Object = {}
        for key, value in schema.items():
            word = str(_KEYWORDS.get(key, key))
            if word != key:
                if word in schema:
                    word = key
                else:
                    self.is_exact = False
            if key in _MAPS and type(value) is dict:
                found[word] = {name: self._standard(item) for name, item in value.items()}
            elif key in _LISTS and type(value) is list:
                found[word] = [self._standard(item) for item in value]
            elif key in _NESTED:
                found[word] = self._standard(value)
            elif word in _COUNTS and _is_quoted(value):
                found[word] = int(value)
                self.is_exact = False
            else:
                found[word] = value
        if "type" in found:
            self._lower(found)
        return found

    def _lower(self, found: Object) -> None:
        kind = found["type"]
        if type(kind) is str and kind in _TYPES:
            is_nullable = found.get("nullable") is True and kind != "NULL"
            found["type"] = [kind.lower(), "null"] if is_nullable else kind.lower()
            if is_nullable:
                del found["nullable"]
            if not self.is_capital:
                self.is_exact = False
        elif self.is_capital and _raised(kind) is not None:
            self.is_exact = False


def to_capitals(schema: Any) -> Any:
    """A JSON Schema in the way that Gemini's own schemas are usually spelled."""
    if type(schema) is not dict:
        return schema
    found: Object = {}
    for key, value in schema.items():
        if key in _MAPS and type(value) is dict:
            found[key] = {name: to_capitals(item) for name, item in value.items()}
        elif key in _LISTS and type(value) is list:
            found[key] = [to_capitals(item) for item in value]
        else:
            found[key] = to_capitals(value) if key in _NESTED else value
    raised = _raised(found.get("type"))
    if raised is not None:
        if type(found["type"]) is list:
            found["nullable"] = True
        found["type"] = raised
    return found


def _raised(kind: Any) -> str | None:
    """The capitals of a type, or of one that may be null; None for anything else."""
    if type(kind) is list and len(kind) == 2 and kind[1] == "null" and type(kind[0]) is str:
        return kind[0].upper()
    return kind.upper() if type(kind) is str and kind.upper() in _TYPES else None


def _is_quoted(value: Any) -> bool:
    """Whether this is a whole number of 64 bits in quotes, as the JSON of protobuf writes it."""
    return (
        type(value) is str
        and value.isdecimal()
        and value.isascii()
        and len(value) < _DIGITS
        and (value == "0" or value[0] != "0")
    )
