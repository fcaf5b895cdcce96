"""Gemini's own schemas (OpenAPI, type names in capitals, ``nullable``) as JSON Schema, and back.

Only keywords are touched, never the names of properties. What the way back does not give to the letter is left to the
residue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cannery.dialects.gemini_generate.spelling import Object, camel, get

_TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
_COUNTS = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}
)
_DIGITS = 19
_KEYWORDS = frozenset({"anyOf", "propertyOrdering", "additionalProperties"}) | _COUNTS
_MAPS = frozenset({"properties", "defs", "$defs"})
_LISTS = frozenset({"anyOf", "any_of", "allOf", "oneOf", "prefixItems"})
_NESTED = frozenset({"items", "additionalProperties", "additional_properties"})


def is_capital(schema: Any) -> bool:
    """Whether a schema names its types in capitals."""
    return type(get(schema, "type")) is str and schema["type"] in _TYPES


def to_json_schema(schema: Any) -> Any:
    """A Gemini schema as JSON Schema."""
    return _mapped(schema, to_json_schema, _standard)


def to_capitals(schema: Any) -> Any:
    """A JSON Schema in the way that Gemini's own schemas are usually spelled."""
    return _mapped(schema, to_capitals, _capital)


def _mapped(schema: Any, inner: Callable[[Any], Any], finish: Callable[[Object], Object]) -> Any:
    if type(schema) is not dict:
        return schema
    found: Object = {}
    for key, value in schema.items():
        if key in _MAPS and type(value) is dict:
            found[key] = {name: inner(item) for name, item in value.items()}
        elif key in _LISTS and type(value) is list:
            found[key] = [inner(item) for item in value]
        else:
            found[key] = inner(value) if key in _NESTED else value
    return finish(found)


def _standard(schema: Object) -> Object:
    found: Object = {}
    for key, value in schema.items():
        usual = camel(key)
        word = usual if usual in _KEYWORDS and usual not in schema else key
        found[word] = int(value) if word in _COUNTS and _is_quoted(value) else value
    kind = found.get("type")
    if type(kind) is str and kind in _TYPES:
        found["type"] = kind.lower()
        if found.get("nullable") is True and kind != "NULL":
            found["type"] = [kind.lower(), "null"]
            del found["nullable"]
    return found


def _is_quoted(value: Any) -> bool:
    """Whether this is a whole number of 64 bits in quotes, as the JSON of protobuf writes it."""
    return (
        type(value) is str
        and value.isdecimal()
        and value.isascii()
        and len(value) < _DIGITS
        and (value == "0" or value[0] != "0")
    )


def _capital(schema: Object) -> Object:
    found = dict(schema)
    kind = found.get("type")
    if type(kind) is list and len(kind) == 2 and kind[1] == "null" and type(kind[0]) is str:
        found["type"] = kind[0].upper()
        found["nullable"] = True
    elif type(kind) is str and kind.upper() in _TYPES:
        found["type"] = kind.upper()
    return found
