"""Everything in a Responses request except its items: tools, tool choice and controls, both ways."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from orjson import Fragment

from cannery.families.openai.settings import (
    METADATA,
    SIBLINGS,
    UNSHOWN,
    legal_format,
    take_output,
    write_effort,
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
    new_tool,
    new_tool_choice,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object, decoded
from cannery.wire.controls import distinct, drop_choice, is_possible, put, sent_names
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.residues import keep_unusual, nested, recall, setting
from cannery.wire.schemas import lists_properties, object_schema
from cannery.wire.setting_reading import NOT_READ, Reading, Said, Spelled
from cannery.wire.settings import (
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    UNSAID,
    WHOLE,
    Form,
    Setting,
    SettingTable,
    Writing,
    fit_limit,
    within,
)
from cannery.wire.tools import NO_PARAMETERS, take_facts

NAME = "openai_responses"
_SUMMARIES = frozenset({"auto", "concise", "detailed"})
# The function fields that writing always gives.
_ALWAYS = ("parameters", "strict")
_CHOICES = frozenset({"auto", "none", "required"})
# Hosted tools that a choice can name only in a list of allowed tools.
_LISTED = frozenset({"web_search"})


# --- tools ---------------------------------------------------------------------------------------


def patch_of(left: Object, dropped: Sequence[str] = (), inner: Object | None = None) -> str | None:
    """The text of the patch that restores the rest of an object."""
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


def read_tool(item: Object) -> Tool:
    """A tool of a request, of a group, or of an item that adds tools."""
    kind, name = item.get("type"), item.get("name")
    if kind not in ("function", "custom") or type(name) is not str or not name:
        kind = kind if type(kind) is str and kind else "unknown"
        return new_tool(kind, hosted=write_json(open_fields(item)))  # type: ignore[no-any-return]
    del item["type"], item["name"]
    is_custom = kind == "custom"
    dropped = [] if is_custom else [key for key in _ALWAYS if key not in item]
    description, spelled, strict = take_facts(item, *(("format", "") if is_custom else ()))
    residue = Residue(NAME, patch_of(item, dropped)) if item or dropped else None
    facts = (absent, absent, True, spelled) if is_custom else (spelled, strict, False, absent)
    return new_tool(name, description, *facts, residue=residue)  # type: ignore[no-any-return]


def _write_tools(request: Request, body: Object, report: Report) -> None:
    is_same = request.source == NAME
    tools: list[Any] = []
    for place, tool in distinct(request, NAME, report):
        residue = tool.residue
        if residue is not None and residue.dialect != NAME:
            report_residue(tool, report, place)
            residue = None
        written = write_tool(tool)
        if residue is not None:
            written = recall(written, residue.part)
        elif tool.is_freeform and not is_same:
            written.pop("format", None)
            put(written, "format", legal_format(tool, report, place))
        elif tool.hosted is absent and request.source not in SIBLINGS:
            _make_legal(written, tool)
        tools.append(written)
    if tools:
        body["tools"] = tools


def write_tool(tool: Tool) -> Any:
    """A tool in the usual form; ``strict`` is always given, because only here it defaults to true."""
    if type(tool.hosted) is str:
        return Fragment(tool.hosted)
    written: Object = {"type": "custom" if tool.is_freeform else "function", "name": tool.name}
    if tool.description is not absent:
        written["description"] = tool.description
    if tool.is_freeform:
        if isinstance(tool.grammar, str):
            written["format"] = Fragment(tool.grammar)
        return written
    schema = tool.schema
    written["parameters"] = Fragment(schema) if type(schema) is str else NO_PARAMETERS
    written["strict"] = False if tool.strict is absent else tool.strict
    return written


def _make_legal(written: Object, tool: Tool) -> None:
    """Change the parts of another provider's function that the server would refuse: an object lists its properties."""
    if isinstance(tool.schema, str) and not lists_properties(tool.schema):
        written["parameters"] = object_schema(decode_json(tool.schema))


# --- the choice of tools -------------------------------------------------------------------------


def _read_choice(value: Any, reading: Reading) -> Said:
    if type(value) is str and value in _CHOICES:
        return new_tool_choice(value), None
    if type(value) is not dict:
        return NOT_READ
    # The set of custom tools decides how the choice of one is written.
    freeform = {tool.name for tool in reading.tools if tool.is_freeform}
    hosted = _hosted_names(reading.tools)
    if value.get("type") == "allowed_tools":
        return _read_allowed(value, freeform, hosted)
    name = _chosen(value, hosted)
    if name is None:
        return NOT_READ
    is_freeform = value["type"] == "custom"
    patch = _take_chosen(value, {*freeform, name} if is_freeform else freeform)
    return new_tool_choice("named", (name,), is_freeform=is_freeform), patch


def _hosted_names(tools: Sequence[Tool]) -> set[str]:
    """The names of hosted tools that no function has."""
    functions = {tool.name for tool in tools if tool.hosted is absent}
    return {tool.name for tool in tools} - functions


def _read_allowed(value: Object, freeform: set[str], hosted: set[str]) -> Said:
    tools, mode = value.get("tools"), value.get("mode")
    names = [_chosen(tool, hosted) for tool in tools] if type(tools) is list else []
    if None in names or not names:
        return NOT_READ
    must_call = mode == "required"
    del value["type"], value["tools"]
    written: Object = {}
    keep_unusual(value, "mode", "required" if must_call else "auto", written)
    patches = {str(index): _take_chosen(tool, freeform) for index, tool in enumerate(tools)}  # type: ignore[arg-type]
    left = {index: patch for index, patch in patches.items() if patch is not None}
    patch = setting(value, {"tools": {"i": left}} if left else {}, written)
    return new_tool_choice("allowed", tuple(names), must_call), patch


def _chosen(choice: Any, hosted: set[str]) -> str | None:
    """The name of a chosen tool; a hosted tool's is its type."""
    if type(choice) is not dict:
        return None
    if choice.get("type") not in ("function", "custom"):
        kind = choice.get("type")
        return kind if type(kind) is str and kind in hosted else None
    name = choice.get("name")
    return name if type(name) is str and name not in hosted else None


def _take_chosen(choice: Object, freeform: set[str]) -> Object | None:
    """Take the part of a tool choice that will be written, and give the patch of the rest."""
    if choice["type"] not in ("function", "custom"):
        del choice["type"]
        return setting(choice, {}, {})
    name = choice.pop("name")
    written: Object = {}
    keep_unusual(choice, "type", "custom" if name in freeform else "function", written)
    return setting(choice, {}, written)


def _fit_choice(choice: ToolChoice, to: Writing) -> Any:
    if choice.mode in ("auto", "none"):
        return choice
    if is_possible(choice, chain(sent_names(to.body), _hosted_names(to.request.tools))):
        return choice
    drop_choice(choice, to.report)
    return absent


def _write_choice(choice: ToolChoice, to: Writing) -> Any:
    if choice.mode not in ("named", "allowed"):
        return choice.mode
    hosted = _hosted_names(to.request.tools)
    freeform = {tool.name for tool in to.request.tools if tool.is_freeform}
    if choice.is_freeform:
        freeform.update(choice.names)
    named = [_named(name, freeform, hosted) for name in choice.names]
    is_listed = not to.is_same and choice.mode == "named" and choice.names[0] in _LISTED
    if choice.mode == "allowed" or is_listed:
        mode = "required" if choice.must_call or choice.mode == "named" else "auto"
        return {"type": "allowed_tools", "mode": mode, "tools": named}
    return named[0]


def _named(name: str, freeform: set[str], hosted: set[str]) -> Object:
    """A tool in the form of a tool choice."""
    if name in hosted:
        return {"type": name}
    return {"type": "custom" if name in freeform else "function", "name": name}


# --- controls ------------------------------------------------------------------------------------


def _read_summary(value: Any, _: Reading) -> Said:
    """Read how thoughts are shown; hidden thoughts are the default, which is not written."""
    if type(value) is not str:
        return NOT_READ
    return value, Spelled() if value in UNSHOWN else None


def _write_thinking(thinking: Thinking, to: Writing) -> Any:
    reasoning: Object = {}
    put(reasoning, "effort", write_effort(thinking, to))
    summary = thinking.summary
    if isinstance(summary, str) and summary not in UNSHOWN:
        reasoning["summary"] = summary if to.is_same or summary in _SUMMARIES else "auto"
    return reasoning or absent


_OUTPUT = Form(read=lambda value, _: take_output(value), write=lambda value, _: write_output(value))
# The server's error names it: "integer below minimum value. Expected a value >= 16" (2025).
_LEAST_LIMIT = 16
TABLE = SettingTable(
    NAME,
    (
        Setting("model", "model", TEXT),
        Setting("tool_choice", "tool_choice", Form((), _read_choice, _write_choice), _fit_choice),
        Setting("max_tokens", "max_output_tokens", WHOLE, fit_limit(_LEAST_LIMIT)),
        Setting("temperature", "temperature", NUMBER, within(0, 2)),
        Setting("top_p", "top_p", NUMBER, within(0, 1)),
        Setting("parallel_calls", "parallel_tool_calls", FLAG),
        Setting("output", "text.format", _OUTPUT),
        Setting("thinking", "reasoning", Form(write=_write_thinking)),
        Setting("effort", "reasoning.effort", TEXT),
        Setting("summary", "reasoning.summary", Form(read=_read_summary)),
        Setting("metadata", "metadata", OBJECT, METADATA),
        Setting("user", "user", TEXT),
        # Every response reports usage, so the request for it is not written.
        Setting("include_usage", "", UNSAID),
        Setting("stream", "stream", FLAG),
    ),
    {"finish": "status"},
    tools=_write_tools,
)
# The response fields that the model holds; a response repeats the settings.
MODELLED_ANSWER = TABLE.modelled | {
    *("tools", "instructions", "input", "text.format.type", "id", "object"),
    *("created_at", "completed_at", "status", "usage", "usage.total_tokens"),
    *("incomplete_details", "incomplete_details.reason"),
}


def write_settings(request: Request, report: Report) -> Object:
    """Every body field except the instructions and the items, in the usual form."""
    body = TABLE.write(request, report)
    if request.source != NAME and request.residue is not None:
        put_shared(report.taken, body)
    return body
