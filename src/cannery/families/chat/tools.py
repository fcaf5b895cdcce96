"""Tools of the Chat Completions shape, both ways. Schemas keep their text (``bodies.read_levels``)."""

from __future__ import annotations

from typing import Any

import msgspec
from orjson import Fragment

from cannery.families.openai.settings import SIBLINGS, legal_format
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import Request, Tool, new_tool
from cannery.messages.residue import Residue
from cannery.wire.bodies import Fields, Object, decoded
from cannery.wire.controls import distinct, field_of, put, take_listed
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.places import Path
from cannery.wire.residues import nested, recall, set_again, take_usual
from cannery.wire.schemas import lists_properties, object_schema
from cannery.wire.tools import NO_PARAMETERS, as_function, take_facts

_Item = dict[str, Any]
_decode = msgspec.json.Decoder().decode
# The paths of fields below a tool.
TOOL_PATHS = {"strict": ".function.strict", "format": ".custom.format"}
# --- reading -----------------------------------------------------------------------------------


def take_tools(dialect: str, body: Object, places: list[Path]) -> tuple[Tool, ...]:
    """Take the tools of a request, legacy functions included; null and an empty list stay in the residue."""
    tools = [_tool(dialect, item) for item in take_listed(dialect, body, "tools")]
    if "functions" in body:
        places += [("tools", index) for index in range(len(tools))]
        functions = take_listed(dialect, body, "functions")
        tools += [_function(dialect, item) for item in functions]
        places += [("functions", index) for index in range(len(functions))]
    return (*tools,)


def _tool(dialect: str, item: _Item) -> Tool:
    kind = item.get("type", "function")
    function: Any = item.get(kind) if kind == "function" or kind == "custom" else None  # noqa: PLR1714 - faster
    # The fields of a function are undecoded.
    name = _decode(function["name"]) if type(function) is dict and "name" in function else None
    if type(name) is not str:
        return _hosted(item)
    is_typed = item.pop("type", None)
    del item[kind], function["name"]
    if kind == "custom":
        facts, patch = _custom(function)
    else:
        facts, patch = take_facts(function), {"s": decoded(function)} if function else None
    if is_typed and patch is None and not item:
        return new_tool(name, *facts)  # type: ignore[no-any-return]
    part = nested(_plain(item), {kind: patch}, () if is_typed else ("type",))
    residue = None if part is None else Residue(dialect, write_json(part))
    return new_tool(name, *facts, residue=residue)  # type: ignore[no-any-return]


def _function(dialect: str, item: _Item) -> Tool:
    """A function of the older list."""
    if type(item.get("name")) is not str:
        hosted = _hosted(item)
        return msgspec.structs.replace(hosted, residue=Residue(dialect, form="functions"))
    left = _plain(item)
    name, facts = left.pop("name"), take_facts(left)
    part = None if not left else write_json(set_again(left))
    return new_tool(name, *facts, residue=Residue(dialect, part, form="functions"))  # type: ignore[no-any-return]


def _plain(item: _Item) -> Object:
    """An object with all fields decoded."""
    return {key: decoded(held) if type(held) is dict else held for key, held in item.items()}


def _hosted(item: _Item) -> Tool:
    """A tool that only its provider understands, kept exactly."""
    value = _plain(item)
    tag = value.get("type")
    return new_tool(name=tag if type(tag) is str else "unknown", hosted=write_json(value))  # type: ignore[no-any-return]


def _custom(custom: Fields) -> tuple[tuple[Any, ...], Object | None]:
    """The facts of a custom tool, whose format may be a grammar, and the patch of the rest."""
    left = decoded(custom)
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
    return (description, absent, absent, True, form), nested(left, {"format": patch or None})


# The patch of a format that is kept exactly, because its spelling is unusual.
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


def write_tools(
    dialect: str,
    request: Request,
    body: Object,
    report: Report,
    *,
    has_freeform: bool = True,
    unstrict: str = "",
) -> None:
    """Put the tools into a body.

    Without free text a custom tool becomes a function with one argument, and every function has parameters.
    ``unstrict`` is the loss detail if functions cannot be strict.
    """
    is_same = request.source == dialect
    for place, tool in distinct(request, dialect, report):
        residue = tool.residue
        if residue is not None and residue.dialect != dialect:
            report_residue(tool, report, place)
            residue = None
        form = None if residue is None else residue.form
        if tool.is_freeform and not (is_same or has_freeform):
            tool = as_function(tool, report, place)  # noqa: PLW2901 - what is sent
        written = _write_tool(tool, form)
        if residue is not None:
            written = recall(written, residue.part)
        elif not is_same and tool.hosted is absent:
            _make_legal(written[written["type"]], tool, request, report, place)
            if not has_freeform:
                written["function"].setdefault("parameters", NO_PARAMETERS)
                if tool.strict is None:
                    del written["function"]["strict"]
        if unstrict and not is_same and tool.hosted is absent:
            written["function"].pop("strict", None)
            if tool.strict is True:
                report.lose("FIELD_DROPPED", place, unstrict, field_of(tool, report, "strict"))
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
    """Change the parts of a foreign tool that a server would refuse."""
    if tool.is_freeform:
        flat = legal_format(tool, report, place)
        inner.pop("format", None)
        if flat is not absent:
            inner["format"] = _nested_grammar(flat)
        return
    schema = tool.schema
    if request.source in SIBLINGS or type(schema) is not str or lists_properties(schema):
        return
    inner["parameters"] = object_schema(decode_json(schema))


def _nested_grammar(value: Object) -> Object:
    if value.get("type") != "grammar":
        return value
    rest = {key: item for key, item in value.items() if key != "type"}
    return {"type": "grammar", "grammar": rest}
