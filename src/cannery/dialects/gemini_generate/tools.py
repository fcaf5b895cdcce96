"""Tools of a generateContent request and the tool choice, both ways.

A schema is JSON Schema or Gemini's own kind (OpenAPI, type names in capitals, ``nullable``). Of the latter only
keywords are translated, never property names; the residue keeps a schema that the way back would not reproduce.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orjson import Fragment

from cannery.dialects.gemini_generate.forms import (
    NAME,
    NO_SHAPES,
    both,
    camel,
    expect,
    get,
    read_form,
    spelled,
    whole_value,
    write_form,
)
from cannery.families.gemini.enums import CALLING_MODES, SCHEMA_TYPES, named
from cannery.families.gemini.settings import UNSTRICT
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import Request, Tool, ToolChoice, new_tool, new_tool_choice
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.controls import (
    distinct,
    field_of,
    put,
)
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.patches import restore
from cannery.wire.places import Path, Places
from cannery.wire.residues import nested
from cannery.wire.schemas import of_object
from cannery.wire.tools import as_function

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_TYPES = frozenset(SCHEMA_TYPES.values())
_COUNTS = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}
)
_DIGITS = 19
_KEYWORDS = both(("anyOf", "propertyOrdering", "additionalProperties", *_COUNTS))
_MAPS = frozenset({"properties", "defs", "$defs"})
_LISTS = frozenset({"anyOf", "any_of", "allOf", "oneOf", "prefixItems"})
_NESTED = frozenset({"items", "additionalProperties", "additional_properties"})


# --- reading -----------------------------------------------------------------------------------


def take_tools(body: Object, places: Places, shapes: list[str]) -> tuple[Tool, ...]:
    """Take the tools: one for each declared function, and one for each tool that Google runs.

    Google's server accepts one object where a list is usual.
    """
    value = body["tools"]
    if value is None or value == []:
        return ()
    del body["tools"]
    tools: list[Tool] = []
    if type(value) is dict:
        shapes.append("tool")
        _read_group(value, ("tools",), tools, places.tools)
    else:
        for index, group in enumerate(expect(list, value, ("tools",))):
            _read_group(group, ("tools", index), tools, places.tools)
    return tuple(tools)


def _read_group(group: Any, path: Path, tools: list[Tool], paths: list[Path]) -> None:
    """Read one item of the tools; an item without named functions is a hosted tool, kept unchanged."""
    key = spelled(group, "functionDeclarations") if type(group) is dict else ""
    declared = group.get(key) if key else None
    is_single = type(declared) is dict
    if is_single:
        declared = [declared]
    if not group or not key or (declared is not None and not _are_named(declared)):
        tools.append(_hosted(group, ""))
        paths.append(path)
        return
    joined = ""
    # A function without a mark would be written into the group before it.
    place = "apart" if tools else ""
    for index, item in enumerate(declared or ()):
        shapes = [joined or place, key if key != "functionDeclarations" else ""]
        if is_single:
            shapes.append("single")
        tools.append(_read_declaration(item, shapes))
        paths.append((*path, key) if is_single else (*path, key, index))
        joined = "joined"
    for name, value in group.items():
        if name != key or declared is None:
            tools.append(_hosted({name: value}, joined))
            paths.append((*path, name))
            joined = "joined"


def _are_named(declared: Any) -> bool:
    return (
        type(declared) is list
        and bool(declared)
        and all(type(item) is dict and _is_name(item.get("name")) for item in declared)
    )


def _is_name(value: Any) -> bool:
    return type(value) is str and bool(value)


def _hosted(group: Any, joined: str) -> Tool:
    name = next(iter(group), "") if type(group) is dict else ""
    residue = Residue(NAME, None, None, write_form(["hosted", joined]))
    return new_tool(camel(name) or "unknown", hosted=write_json(group), residue=residue)  # type: ignore[no-any-return]


def _read_declaration(item: Object, shapes: list[str]) -> Tool:
    name = item.pop("name")
    description: Any = item.pop("description", absent)
    if type(description) is not str and description is not absent:
        item["description"] = description
        description = absent
    key = "parametersJsonSchema"
    if key not in item:
        key = "parameters_json_schema"
    schema: Any = absent
    renamed = None
    if type(item.get(key)) is dict:
        schema = write_json(item.pop(key))
        renamed = {"parametersJsonSchema": key} if key != "parametersJsonSchema" else None
    elif type(item.get("parameters")) is dict:
        standard = StandardSchema(whole_value(item["parameters"]))
        schema = write_json(standard.value)
        shapes += ["parameters", "capitals" if standard.is_capital else ""]
        if standard.is_exact:
            del item["parameters"]
    form = write_form(shapes)
    patch = nested(item, {}, (), renamed)
    residue = None
    if form is not None or patch is not None:
        residue = Residue(NAME, None if patch is None else write_json(patch), None, form)
    return new_tool(name, description, schema, residue=residue)  # type: ignore[no-any-return]


def read_choice(mode: Any, allowed: Any) -> Any:
    """The tool choice, or absent if it is unknown."""
    mode = named(mode, CALLING_MODES)
    if type(mode) is not str:
        return absent
    names: tuple[str, ...] = ()
    if type(allowed) is list and all(type(name) is str for name in allowed):
        names = tuple(allowed)
    match mode.upper():
        case "NONE":
            return new_tool_choice("none")
        case "ANY" if names:
            if len(names) == 1:
                return new_tool_choice("named", names)
            return new_tool_choice("allowed", names, must_call=True)
        case "ANY":
            return new_tool_choice("required")
        case "AUTO" | "VALIDATED":
            return new_tool_choice("allowed", names) if names else new_tool_choice("auto")
        case _:
            return absent


# --- writing -----------------------------------------------------------------------------------


def write_tools(request: Request, body: Object, report: Report) -> None:
    """Put the tools of a request into a body."""
    groups: list[Any] = []
    is_same = request.source == NAME
    for place, tool in distinct(request, NAME, report):
        residue, shapes = tool.residue, NO_SHAPES
        if residue is not None:
            if residue.dialect == NAME:
                shapes, _ = read_form(residue)
            else:
                report_residue(tool, report, place)
                residue = None
        if type(tool.hosted) is str:
            _add_hosted(groups, decode_json(tool.hosted), is_joined="joined" in shapes)
            continue
        function = as_function(tool, report, place) if tool.is_freeform else tool
        if not is_same and tool.strict is True:
            report.lose("FIELD_DROPPED", place, UNSTRICT, field_of(tool, report, "strict"))
        declaration = _write_declaration(function, shapes, is_same=is_same)
        if residue is not None:
            declaration = _restored(declaration, tool, residue.part, shapes)
        is_new = residue is not None and "joined" not in shapes
        _add_declaration(groups, declaration, shapes, is_new=is_new)
    if groups:
        body["tools"] = groups


def _restored(declaration: Object, tool: Tool, part: str | None, shapes: frozenset[str]) -> Object:
    """A declaration as it was read; an exactly kept schema is dropped if the tool now has another."""
    if part is None:
        return declaration
    patch = decode_json(part)
    kept = patch.get("s", {})
    own = kept.get("parameters") if "parameters" in shapes else None
    if type(own) is dict and StandardSchema(own).value != decode_json(str(tool.schema)):
        del kept["parameters"]
    return restore(declaration, patch)  # type: ignore[no-any-return]


def _add_hosted(groups: list[Any], entry: Any, *, is_joined: bool) -> None:
    if is_joined and groups and type(groups[-1]) is dict and type(entry) is dict:
        groups[-1].update(entry)
    else:
        groups.append(entry)


def _add_declaration(
    groups: list[Any], declaration: Object, shapes: frozenset[str], *, is_new: bool
) -> None:
    """Put a function into its own group, or into the last one with functions."""
    key = "function_declarations" if "function_declarations" in shapes else "functionDeclarations"
    if not is_new:
        for group in reversed(groups):
            declared = get(group, "functionDeclarations")
            if type(declared) is list:
                declared.append(declaration)
                return
    groups.append({key: declaration if "single" in shapes else [declaration]})


def _write_declaration(tool: Tool, shapes: frozenset[str], *, is_same: bool) -> Object:
    declaration: Object = {"name": tool.name}
    put(declaration, "description", tool.description)
    if isinstance(tool.schema, str):
        if "parameters" in shapes:
            schema = decode_json(tool.schema)
            declaration["parameters"] = to_capitals(schema) if "capitals" in shapes else schema
        else:
            written = Fragment(tool.schema) if is_same else of_object(tool.schema)
            declaration["parametersJsonSchema"] = written
    return declaration


def written_choice(choice: ToolChoice) -> Object:
    """The usual form of a tool choice."""
    config: Object = {"mode": _MODES.get(choice.mode, "ANY")}
    if choice.mode == "allowed" and not choice.must_call:
        config["mode"] = "VALIDATED"
    if choice.names and choice.mode in ("named", "allowed"):
        config["allowedFunctionNames"] = list(choice.names)
    return config


def declared_names(body: Object) -> Iterator[str]:
    """The names of the functions that a body declares."""
    groups = (group for group in body.get("tools", ()) if type(group) is dict)
    listed = (get(group, "functionDeclarations") for group in groups)
    return (str(item.get("name")) for items in listed for item in items or () if type(item) is dict)


# --- schemas -----------------------------------------------------------------------------------


class StandardSchema:
    """A Gemini schema as JSON Schema: ``value``.

    ``is_capital`` is true if it has type names in capitals, ``is_exact`` if writing it in that style restores it.
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
        given = found["type"]
        kind = named(given, SCHEMA_TYPES)
        if type(kind) is str and kind in _TYPES:
            is_nullable = found.get("nullable") is True and kind != "NULL"
            found["type"] = [kind.lower(), "null"] if is_nullable else kind.lower()
            if is_nullable:
                del found["nullable"]
            if not self.is_capital or kind is not given:
                self.is_exact = False
        elif self.is_capital and _raised(kind) is not None:
            self.is_exact = False


def to_capitals(schema: Any) -> Any:
    """A JSON Schema in the usual spelling of Gemini's own schemas."""
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
    """The capitals of a type, or of a nullable one; None for any other value."""
    if type(kind) is list and len(kind) == 2 and kind[1] == "null" and type(kind[0]) is str:
        return kind[0].upper()
    return kind.upper() if type(kind) is str and kind.upper() in _TYPES else None


def _is_quoted(value: Any) -> bool:
    """Whether a value is a quoted 64-bit integer, as the JSON of protobuf writes it."""
    return (
        type(value) is str
        and value.isdecimal()
        and value.isascii()
        and len(value) < _DIGITS
        and (value == "0" or value[0] != "0")
    )
