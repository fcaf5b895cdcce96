"""Tools of the Chat Completions shape, both ways. Schemas stay the text that they came as."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw
from orjson import Fragment

from cannery.errors import DialectError
from cannery.families.openai.settings import SIBLINGS, legal_format
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import Request, Tool, new_tool
from cannery.messages.residue import Residue
from cannery.wire.bodies import Fields, Object, decode, kind_of
from cannery.wire.controls import distinct, put
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.places import Path
from cannery.wire.residues import nested, recall, set_again, take_usual
from cannery.wire.schemas import lists_properties, object_schema

_KEYS = ("tools", "functions")
_split_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_split_tool = msgspec.json.Decoder(dict[str, Raw]).decode
_KINDS = {b'"function"': "function", b'"custom"': "custom"}

# --- reading -----------------------------------------------------------------------------------


def take_tools(dialect: str, fields: Fields, places: list[Path]) -> tuple[Tool, ...]:
    """The tools of a request, legacy functions included; null is left to the residue."""
    tools: list[Tool] = []
    for key in _KEYS:
        field = fields.get(key)
        if field is None or bytes(field) in (b"null", b"[]"):
            continue
        del fields[key]
        for index, item in enumerate(_listed(dialect, key, field)):
            tools.append(_function(dialect, item) if key == "functions" else _tool(dialect, item))
            places.append((key, index))
    return tuple(tools)


def _listed(dialect: str, key: str, field: Raw) -> list[Fields]:
    try:
        return _split_tools(field)
    except msgspec.ValidationError:
        value = decode(field)
    if type(value) is not list:
        raise DialectError(dialect, key, f"expected a list, got {kind_of(value)}")
    index = next(index for index, item in enumerate(value) if type(item) is not dict)
    problem = f"expected an object, got {kind_of(value[index])}"
    raise DialectError(dialect, f"{key}[{index}]", problem)


def _tool(dialect: str, item: Fields) -> Tool:
    tag = item.get("type")
    kind = None if tag is None else _KINDS.get(bytes(tag))
    if kind is None or kind not in item:
        return _hosted(item)
    inner = item[kind]
    if bytes(inner)[:1] != b"{":
        return _hosted(item)
    function = _split_tool(inner)
    if bytes(function.get("name", b""))[:1] != b'"':
        return _hosted(item)
    del item["type"], item[kind]
    made, patch = _custom(function) if kind == "custom" else _named(function)
    if patch is None and not item:
        return new_tool(*made)  # type: ignore[no-any-return]
    left = {key: decode(field) for key, field in item.items()}
    part = nested(left, {kind: patch})
    residue = None if part is None else Residue(dialect, write_json(part))
    return new_tool(*made, residue=residue)  # type: ignore[no-any-return]


def _function(dialect: str, item: Fields) -> Tool:
    """A function of the older list."""
    if bytes(item.get("name", b""))[:1] != b'"':
        hosted = _hosted(item)
        return msgspec.structs.replace(hosted, residue=Residue(dialect, form="functions"))
    made, patch = _named(item)
    part = None if patch is None else write_json(patch)
    return new_tool(*made, residue=Residue(dialect, part, form="functions"))  # type: ignore[no-any-return]


def _hosted(item: Fields) -> Tool:
    """A tool that only its provider understands, kept to the letter."""
    value = {key: decode(field) for key, field in item.items()}
    tag = value.get("type")
    return new_tool(name=tag if type(tag) is str else "unknown", hosted=write_json(value))  # type: ignore[no-any-return]


def _named(function: Fields) -> tuple[tuple[Any, ...], Object | None]:
    """The fields of a function tool, and the patch of what is left."""
    name = decode(function.pop("name"))
    description: Any = absent
    schema: Any = absent
    strict: Any = absent
    left: Object = {}
    for key, field in function.items():
        if key == "parameters" and bytes(field)[:1] == b"{":
            schema = str(field, "utf-8")
            continue
        value = decode(field)
        if key == "description" and type(value) is str:
            description = value
        elif key == "strict" and type(value) is bool:
            strict = value
        else:
            left[key] = value
    return (name, description, schema, strict), set_again(left)


def _custom(custom: Fields) -> tuple[tuple[Any, ...], Object | None]:
    """The same for a custom tool, whose format may be a grammar."""
    left = {key: decode(field) for key, field in custom.items()}
    name = left.pop("name")
    description, grammar = left.get("description", absent), left.get("format")
    if type(description) is str:
        del left["description"]
    else:
        description = absent
    form: Any = absent
    patch: Object | None = None
    if type(grammar) is dict:
        form, patch = _read_grammar(grammar)
        if patch is not _SPELLED:
            del left["format"]
    return (name, description, absent, absent, True, form), nested(left, {"format": patch or None})


# The patch of a format that is kept to the letter, since it is not spelled in the usual way.
_SPELLED: Object = {}


def _read_grammar(grammar: Object) -> tuple[str, Object | None]:
    """The format of a custom tool without the level that only Chat Completions has, and the patch of that level."""
    inner = grammar.get("grammar")
    if type(inner) is not dict:
        # A flat grammar would be written with the level that it lacks.
        return write_json(grammar), _SPELLED if grammar.get("type") == "grammar" else None
    text = write_json({"type": "grammar", **inner})
    if "type" in inner:
        return text, _SPELLED
    dropped: list[str] = []
    take_usual(grammar, "type", "grammar", dropped)
    del grammar["grammar"]
    return text, nested(grammar, {}, dropped)


# --- writing -----------------------------------------------------------------------------------


def write_tools(dialect: str, request: Request, body: Object, report: Report) -> None:
    """Put the tools into a body; hosted tools of others are lost."""
    is_same = request.source == dialect
    for place, tool in distinct(request, dialect, report):
        residue = tool.residue
        if residue is not None and residue.dialect != dialect:
            report_residue(tool, report, place)
            residue = None
        form = None if residue is None else residue.form
        if tool.hosted is not absent and not is_same and request.source is not None:
            report.lose("TOOL_DROPPED", place, f"Chat has no hosted tool {tool.name!r}")
            continue
        written = _write_tool(tool, form)
        if residue is not None:
            written = recall(written, residue.part)
        elif not is_same and tool.hosted is absent:
            _make_legal(written[written["type"]], tool, request, report, place)
        body.setdefault("functions" if form == "functions" else "tools", []).append(written)


def _write_tool(tool: Tool, form: str | None) -> Any:
    if isinstance(tool.hosted, str):
        return decode_json(tool.hosted)
    inner: Object = {"name": tool.name}
    put(inner, "description", tool.description)
    if tool.is_freeform:
        if isinstance(tool.grammar, str):
            inner["format"] = _nested_grammar(decode_json(tool.grammar))
        return {"type": "custom", "custom": inner}
    if isinstance(tool.schema, str):
        inner["parameters"] = Fragment(tool.schema)
    put(inner, "strict", tool.strict)
    return inner if form == "functions" else {"type": "function", "function": inner}


def _make_legal(inner: Object, tool: Tool, request: Request, report: Report, place: str) -> None:
    """Change what a server would refuse of a tool that came from elsewhere."""
    if tool.is_freeform:
        flat = legal_format(tool, request, report, place)
        inner.pop("format", None)
        if flat is not absent:
            inner["format"] = _nested_grammar(flat)
        return
    schema = tool.schema
    is_open = isinstance(schema, str) and not lists_properties(schema)
    if is_open and request.source not in SIBLINGS:
        inner["parameters"] = object_schema(decode_json(str(schema)))


def _nested_grammar(value: Object) -> Object:
    if value.get("type") != "grammar":
        return value
    rest = {key: item for key, item in value.items() if key != "type"}
    return {"type": "grammar", "grammar": rest}
