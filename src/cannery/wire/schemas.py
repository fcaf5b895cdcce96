"""JSON Schemas of tools and outputs: the checks that several servers make."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from orjson import Fragment

from cannery.messages.absence import Absential
from cannery.messages.json_text import decode_json
from cannery.wire.bodies import Object

# What OpenAI accepts in a strict schema (developers.openai.com/api/docs/guides/structured-outputs, read 2026-11-15).
_STRICT = frozenset(
    {
        "type",
        "enum",
        "const",
        "anyOf",
        "$ref",
        "$defs",
        "definitions",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "title",
        "description",
        "pattern",
        "format",
        "multipleOf",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minItems",
        "maxItems",
    }
)
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_MAPS = ("properties", "$defs", "definitions")
_KINDS = frozenset({"type", "anyOf", "$ref", "enum", "const"})


class _Parameters(Struct, frozen=True, gc=False):
    """The fields of tool parameters that are checked."""

    type: str | UnsetType = UNSET
    properties: Raw | UnsetType = UNSET


class _Kind(Struct, frozen=True, gc=False):
    """The fields of any schema that are checked."""

    type: Any = None


_decode = msgspec.json.Decoder(_Parameters).decode
_decode_kind = msgspec.json.Decoder(_Kind).decode
_OBJECT = '{"type":"object",'


def lists_properties(schema: Absential[str]) -> bool:
    """Whether a schema text describes an object with named properties."""
    try:
        found = _decode(str(schema))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return found.type == "object" and found.properties is not UNSET


def of_object(schema: str) -> Any:
    """A schema, ready to be encoded, that declares an object."""
    if schema.startswith(_OBJECT) or _names_object(schema):
        return Fragment(schema)
    return {**decode_json(schema), "type": "object"}


def _names_object(schema: str) -> bool:
    try:
        return bool(_decode_kind(schema).type == "object")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False


def object_schema(schema: Object) -> Object:
    """A schema in the form OpenAI accepts.

    "object schema missing properties" is an error otherwise (github/copilot-cli#2223).
    """
    if schema.get("type") == "object" and "properties" in schema:
        return schema
    return {**schema, "type": "object", "properties": schema.get("properties", {})}


def is_strict(schema: Any) -> bool:
    """Whether OpenAI would enforce a schema strictly: a closed object with every property required."""
    return type(schema) is dict and schema.get("type") == "object" and _is_held(schema)


def _is_held(schema: Any) -> bool:
    if type(schema) is not dict or not schema.keys() <= _STRICT or not schema.keys() & _KINDS:
        return False
    if schema.get("format", "date") not in _FORMATS:
        return False
    if _is_object(schema):
        properties, required = schema.get("properties"), schema.get("required", [])
        if schema.get("additionalProperties") is not False or type(properties) is not dict:
            return False
        if type(required) is not list or set(map(str, required)) != properties.keys():
            return False
    return all(map(_is_held, _inner(schema)))


def _is_object(schema: Object) -> bool:
    kind = schema.get("type")
    return kind == "object" or (type(kind) is list and "object" in kind)


def _inner(schema: Object) -> list[Any]:
    found: list[Any] = []
    for key in _MAPS:
        if key in schema:
            held = schema[key]
            found += held.values() if type(held) is dict else (None,)
    if "anyOf" in schema:
        held = schema["anyOf"]
        found += held if type(held) is list else (None,)
    if "items" in schema:
        found.append(schema["items"])
    return found
