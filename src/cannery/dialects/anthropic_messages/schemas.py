"""JSON Schemas for structured output: the subset that the server accepts.

Every object is closed, and limits of numbers, strings and lists are refused
(https://platform.claude.com/docs/en/build-with-claude/structured-outputs, read 2026-11-15). A refused keyword is moved
into the description, where the model still reads it, as anthropic 2.8.0 does (``transform_schema``).
"""

from __future__ import annotations

from typing import Any

from cannery.messages.json_text import write_json
from cannery.wire.bodies import Object

_KEYWORDS = frozenset(
    {
        "type",
        "enum",
        "const",
        "anyOf",
        "allOf",
        "$ref",
        "$defs",
        "definitions",
        "default",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "title",
        "description",
        "pattern",
    }
)
_FORMATS = frozenset(
    {
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "uri",
        "ipv4",
        "ipv6",
        "uuid",
    }
)
# Keywords that do not constrain a value.
_REMARKS = frozenset({"$schema", "$id", "$comment", "propertyOrdering"})
_MAPS = ("properties", "$defs", "definitions")
_LISTS = ("anyOf", "allOf")


def held_schema(schema: Any) -> tuple[Any, bool]:
    """A schema in the form that the server accepts, and whether it is looser or stricter than the original."""
    if type(schema) is not dict:
        return schema, False
    found: Object = {}
    refused: Object = {}
    for key, value in schema.items():
        word = "anyOf" if key == "oneOf" and "anyOf" not in schema else key
        if word in _KEYWORDS or _is_taken(word, value):
            found[word] = value
        elif word not in _REMARKS:
            refused[word] = value
    is_changed = bool(refused)
    for key, value in found.items():
        found[key], is_other = _inner(key, value)
        is_changed |= is_other
    kind = found.get("type")
    if kind == "object" or (type(kind) is list and "object" in kind):
        is_changed |= found.get("additionalProperties", False) is not False
        found["additionalProperties"] = False
    if refused:
        said = ", ".join(f"{key}: {write_json(value)}" for key, value in refused.items())
        described = found.get("description")
        before = f"{described}\n\n" if type(described) is str and described else ""
        found["description"] = f"{before}{{{said}}}"
    return found, is_changed


def _is_taken(key: str, value: Any) -> bool:
    if key == "format":
        return type(value) is str and value in _FORMATS
    return key == "minItems" and value in (0, 1)


def _inner(key: str, value: Any) -> tuple[Any, bool]:
    if key in _MAPS and type(value) is dict:
        pairs = {name: held_schema(item) for name, item in value.items()}
        held = {name: item for name, (item, _) in pairs.items()}
        return held, any(is_changed for _, is_changed in pairs.values())
    if key in _LISTS and type(value) is list:
        items = [held_schema(item) for item in value]
        return [item for item, _ in items], any(is_changed for _, is_changed in items)
    return held_schema(value) if key == "items" else (value, False)
