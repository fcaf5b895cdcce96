"""Everything in a Responses request that is not an item: tools, tool choice and controls, both ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orjson import Fragment

from cannery.errors import DialectError
from cannery.families.openai.settings import (
    SIBLINGS,
    UNSHOWN,
    legal_format,
    take_output,
    write_effort,
    write_metadata,
    write_output,
)
from cannery.families.openai.shared import put_shared
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    Request,
    Thinking,
    Tool,
    ToolChoice,
    new_thinking,
    new_tool,
    new_tool_choice,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object, decoded, kind_of, spelled_object
from cannery.wire.controls import (
    distinct,
    drop_choice,
    drop_control,
    given_controls,
    is_possible,
    put,
    text,
)
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.residues import keep_unusual, nested, own_residue, recall, set_again, setting
from cannery.wire.schemas import lists_properties, object_schema

NAME = "openai_responses"
CONTROL_PATHS = {
    "max_tokens": "max_output_tokens",
    "parallel_calls": "parallel_tool_calls",
    "output": "text.format",
    "thinking": "reasoning",
    "effort": "reasoning.effort",
    "summary": "reasoning.summary",
    "finish": "status",
}
MODELLED = frozenset(
    {
        "model",
        "stream",
        "max_output_tokens",
        "temperature",
        "top_p",
        "parallel_tool_calls",
        "metadata",
        "user",
        "tools",
        "tool_choice",
        "instructions",
        "input",
        "text.format",
        "text.format.type",
        "reasoning.effort",
        "reasoning.summary",
        # of a response
        "id",
        "object",
        "created_at",
        "completed_at",
        "status",
        "usage",
        "usage.total_tokens",
        "incomplete_details",
        "incomplete_details.reason",
    }
)
_SUMMARIES = frozenset({"auto", "concise", "detailed"})
# The fields of a function that writing always gives.
_ALWAYS = ("parameters", "strict")
_NO_PARAMETERS = {"type": "object", "properties": {}}
_THINKING = ("effort", "summary")
_CHOICES = frozenset({"auto", "none", "required"})
# Hosted tools that a choice names only in a list of those that are allowed.
_LISTED = frozenset({"web_search"})


# The settings that are one value: their names in the model, and the types that are read.
_SCALARS: dict[str, tuple[str, tuple[type, ...]]] = {
    "model": ("model", (str,)),
    "stream": ("stream", (bool,)),
    "max_output_tokens": ("max_tokens", (int,)),
    "temperature": ("temperature", (int, float)),
    "top_p": ("top_p", (int, float)),
    "parallel_tool_calls": ("parallel_calls", (bool,)),
    "user": ("user", (str,)),
}
_KEYS = {name: key for key, (name, _) in _SCALARS.items()}
# Of an object from which nothing was taken: all of it stays where it is.
_UNTAKEN: Object = {}


def read_settings(fields: Object) -> tuple[Object, Object]:
    """The settings by their names in the model, and the patches of objects of which a part was taken.

    They are taken from the fields of a request; what is not understood stays there.
    """
    values: Object = {}
    patches: Object = {}
    for key in [*fields]:
        if key in _SCALARS:
            name, types = _SCALARS[key]
            value = fields[key]
            if type(value) in types:
                values[name] = value
                del fields[key]
        elif key in _OBJECTS:
            _take(key, fields, values, patches)
        elif key == "tools":
            values[key] = _take_tools(fields)
    if "tool_choice" in fields:
        # Only now, since which tools are custom ones decides how the choice of one is written.
        _take("tool_choice", fields, values, patches)
    return values, patches


def _take(key: str, fields: Object, values: Object, patches: Object) -> None:
    """Take what is understood of a setting that is an object, and keep the patch of the rest."""
    patch = _OBJECTS.get(key, _take_choice)(fields[key], values)
    if patch is not _UNTAKEN:
        del fields[key]
        if patch is not None:
            patches[key] = patch


def _take_metadata(value: Any, values: Object) -> Object | None:
    if type(value) is not dict or not value:
        return _UNTAKEN
    values["metadata"] = write_json(value)
    return None


def _take_thinking(value: Any, values: Object) -> Object | None:
    """Take the effort and the summary of reasoning; thoughts that are not shown are the default, which is not said."""
    effort, summary = map(text, map(value.get, _THINKING)) if type(value) is dict else (absent,) * 2
    if effort is absent and summary is absent:
        return _UNTAKEN
    values["thinking"] = new_thinking(effort=effort, summary=summary)
    is_shown = summary is not absent and summary not in UNSHOWN
    if effort is absent and not is_shown:
        return _UNTAKEN
    if effort is not absent:
        del value["effort"]
    if is_shown:
        del value["summary"]
    return set_again(value)


def _take_text(value: Any, values: Object) -> Object | None:
    """Take the output format."""
    output, patch = take_output(value.get("format")) if type(value) is dict else (absent, None)
    if output is absent:
        return _UNTAKEN
    values["output"] = output
    del value["format"]
    return nested(value, {"format": patch})


_OBJECTS = {"metadata": _take_metadata, "reasoning": _take_thinking, "text": _take_text}


def _take_choice(value: Any, values: Object) -> Object | None:
    if type(value) is str and value in _CHOICES:
        values["tool_choice"] = new_tool_choice(value)
        return None
    if type(value) is not dict:
        return _UNTAKEN
    tools = values.get("tools", ())
    freeform = {tool.name for tool in tools if tool.is_freeform}
    hosted = _hosted_names(tools)
    if value.get("type") == "allowed_tools":
        return _take_allowed(value, values, freeform, hosted)
    name = _chosen(value, hosted)
    if name is None:
        return _UNTAKEN
    is_freeform = value["type"] == "custom"
    values["tool_choice"] = new_tool_choice("named", (name,), is_freeform=is_freeform)
    return _take_chosen(value, {*freeform, name} if is_freeform else freeform)


def _hosted_names(tools: Sequence[Tool]) -> set[str]:
    """The names of hosted tools that no function has."""
    functions = {tool.name for tool in tools if tool.hosted is absent}
    return {tool.name for tool in tools} - functions


def _take_allowed(
    value: Object, values: Object, freeform: set[str], hosted: set[str]
) -> Object | None:
    tools, mode = value.get("tools"), value.get("mode")
    names = [_chosen(tool, hosted) for tool in tools] if type(tools) is list else []
    if None in names or not names:
        return _UNTAKEN
    must_call = mode == "required"
    values["tool_choice"] = new_tool_choice("allowed", tuple(names), must_call)
    del value["type"], value["tools"]
    written: Object = {}
    keep_unusual(value, "mode", "required" if must_call else "auto", written)
    patches = {str(index): _take_chosen(tool, freeform) for index, tool in enumerate(tools)}  # type: ignore[arg-type]
    left = {index: patch for index, patch in patches.items() if patch is not None}
    return setting(value, {"tools": {"i": left}} if left else {}, written)


def _chosen(choice: Any, hosted: set[str]) -> str | None:
    """The name of a chosen tool; that of a hosted tool is its type."""
    if type(choice) is not dict:
        return None
    if choice.get("type") not in ("function", "custom"):
        kind = choice.get("type")
        return kind if type(kind) is str and kind in hosted else None
    name = choice.get("name")
    return name if type(name) is str and name not in hosted else None


def _take_chosen(choice: Object, freeform: set[str]) -> Object | None:
    """Take what will be written of a chosen tool, and give the patch of the rest."""
    if choice["type"] not in ("function", "custom"):
        del choice["type"]
        return setting(choice, {}, {})
    name = choice.pop("name")
    written: Object = {}
    keep_unusual(choice, "type", "custom" if name in freeform else "function", written)
    return setting(choice, {}, written)


def _take_tools(fields: Object) -> tuple[Tool, ...]:
    """Take the tools; what they take as parameters is not decoded."""
    tools = fields["tools"]
    if not tools and type(tools) in (list, type(None)):
        return ()
    _check_tools(tools)
    del fields["tools"]
    return tuple(map(read_tool, tools))


def patch_of(left: Object, dropped: Sequence[str] = (), inner: Object | None = None) -> str | None:
    """The text of the patch that gives back what was left of an object."""
    open_fields(left)
    if inner or dropped:
        patch = nested(left, inner or {}, dropped)
        return None if patch is None else write_json(patch)
    return write_json({"s": left}) if left else None


def open_fields(fields: Object) -> Object:
    """Decode the fields of objects among some fields."""
    for key, value in fields.items():
        if type(value) is dict:
            fields[key] = decoded(value)
    return fields


def _check_tools(value: Any) -> None:
    """Refuse tools that are no list of objects."""
    if type(value) is not list:
        raise DialectError(NAME, "tools", f"expected a list, got {kind_of(value)}")
    for index, tool in enumerate(value):
        if type(tool) is not dict:
            raise DialectError(NAME, f"tools[{index}]", f"expected an object, got {kind_of(tool)}")


def read_tool(item: Object) -> Tool:
    """A tool of a request, of a group, or of an item that adds tools."""
    kind, name = item.get("type"), item.get("name")
    if kind not in ("function", "custom") or type(name) is not str or not name:
        kind = kind if type(kind) is str and kind else "unknown"
        return new_tool(kind, hosted=write_json(open_fields(item)))  # type: ignore[no-any-return]
    del item["type"], item["name"]
    description: Any = _take_typed(item, "description", str)
    schema = strict = grammar = absent
    dropped: list[str] = []
    if kind == "custom":
        grammar = _take_object(item, "format")
    else:
        dropped = [key for key in _ALWAYS if key not in item]
        schema, strict = _take_object(item, "parameters"), _take_typed(item, "strict", bool)
    residue = None
    if item or dropped:
        residue = Residue(NAME, patch_of(item, dropped))
    own = (kind == "custom", grammar, absent, residue)
    return new_tool(name, description, schema, strict, *own)  # type: ignore[no-any-return]


def _take_typed(item: Object, key: str, kind: type) -> Any:
    """Take a value of a type, or absent for anything else."""
    value = item.get(key, absent)
    if type(value) is not kind:
        return absent
    del item[key]
    return value


def _take_object(item: Object, key: str) -> Any:
    """Take the text of an object, or absent for anything else."""
    if type(item.get(key)) is not dict:
        return absent
    return spelled_object(item.pop(key))


def write_settings(request: Request, report: Report) -> Object:
    """Every field of the body but the instructions and the items, in the usual form."""
    body: Object = {}
    is_same = request.source == NAME
    put(body, "model", request.model)
    if request.tools:
        _write_tools(request, body, report)
    if isinstance(request.tool_choice, ToolChoice):
        _write_choice(request, request.tool_choice, body, report)
    for name, value in given_controls(request.controls):
        key = _KEYS.get(name)
        if key is not None:
            body[key] = value
        elif name == "output":
            body["text"] = {"format": write_output(value)}
        elif name == "thinking":
            _write_thinking(value, body, report, is_same=is_same)
        elif name == "metadata":
            write_metadata(request.controls, body, report, is_same=is_same)
        elif name != "include_usage":
            # Usage comes with every answer, so asking for it needs no words.
            drop_control(name, value, report)
    put(body, "stream", request.stream)
    if not is_same and request.residue is not None:
        put_shared(report.taken, body)
    return body


def _write_thinking(thinking: Thinking, body: Object, report: Report, *, is_same: bool) -> None:
    reasoning: Object = {}
    effort = write_effort(thinking, report, is_same=is_same)
    if effort is not None:
        reasoning["effort"] = effort
    summary = thinking.summary
    if isinstance(summary, str) and summary not in UNSHOWN:
        reasoning["summary"] = summary if is_same or summary in _SUMMARIES else "auto"
    if reasoning:
        body["reasoning"] = reasoning


def _write_tools(request: Request, body: Object, report: Report) -> None:
    is_same = request.source == NAME
    for place, tool in distinct(request, NAME, report):
        residue = own_residue(tool, NAME)
        if residue is None:
            report_residue(tool, report, place)
        written = write_tool(tool)
        if residue is not None:
            written = recall(written, residue.part)
        elif tool.is_freeform and not is_same:
            written.pop("format", None)
            put(written, "format", legal_format(tool, report, place))
        elif tool.hosted is absent and request.source not in SIBLINGS:
            _make_legal(written, tool)
        body.setdefault("tools", []).append(written)


def write_tool(tool: Tool) -> Any:
    """A tool in the usual form; ``strict`` is always said, since it defaults to true here only."""
    if isinstance(tool.hosted, str):
        return Fragment(tool.hosted)
    written: Object = {"type": "custom" if tool.is_freeform else "function", "name": tool.name}
    put(written, "description", tool.description)
    if tool.is_freeform:
        if isinstance(tool.grammar, str):
            written["format"] = Fragment(tool.grammar)
        return written
    has_schema = isinstance(tool.schema, str)
    written["parameters"] = Fragment(str(tool.schema)) if has_schema else _NO_PARAMETERS
    written["strict"] = False if tool.strict is absent else tool.strict
    return written


def _make_legal(written: Object, tool: Tool) -> None:
    """Change what the server would refuse of a function of another provider: an object lists its properties."""
    if isinstance(tool.schema, str) and not lists_properties(tool.schema):
        written["parameters"] = object_schema(decode_json(tool.schema))


def _write_choice(request: Request, choice: ToolChoice, body: Object, report: Report) -> None:
    hosted = _hosted_names(request.tools)
    sent = [str(tool.get("name")) for tool in body.get("tools", ()) if isinstance(tool, dict)]
    sent += hosted
    is_free = choice.mode in ("auto", "none")
    if request.source != NAME and not (is_free or is_possible(choice, sent)):
        drop_choice(choice, report)
        return
    freeform = {tool.name for tool in request.tools if tool.is_freeform}
    if choice.is_freeform:
        freeform.update(choice.names)
    named = [_named(name, freeform, hosted) for name in choice.names]
    is_forced = choice.must_call or choice.mode == "named"
    is_listed = request.source != NAME and choice.mode == "named" and choice.names[0] in _LISTED
    if choice.mode == "allowed" or is_listed:
        mode = "required" if is_forced else "auto"
        body["tool_choice"] = {"type": "allowed_tools", "mode": mode, "tools": named}
    else:
        body["tool_choice"] = named[0] if choice.mode == "named" else choice.mode


def _named(name: str, freeform: set[str], hosted: set[str]) -> Object:
    """A tool as a choice names it."""
    if name in hosted:
        return {"type": name}
    return {"type": "custom" if name in freeform else "function", "name": name}
