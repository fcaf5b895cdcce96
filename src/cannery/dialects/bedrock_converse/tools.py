"""The tools of a Converse request and the tool choice, both ways, and cache points.

A cache point after a tool is its mark. Whenever the history has calls or results, the server requires tools; unknown
ones are sent as stubs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw
from orjson import Fragment

from cannery.messages.absence import absent
from cannery.messages.canisters import InvocationCanisterClass
from cannery.messages.json_text import is_json_object, write_json
from cannery.messages.requests import Request, Tool, ToolChoice, new_tool, new_tool_choice
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object, Reader, decode, decoded, encode, opened, plain, spelled_text
from cannery.wire.controls import (
    drop_choice,
    is_possible,
)
from cannery.wire.losses import Report
from cannery.wire.residues import nested, set_again
from cannery.wire.schemas import of_object
from cannery.wire.setting_reading import NOT_READ, Reading, Said
from cannery.wire.tools import NO_PARAMETERS, take_facts, written_tools

NAME = "bedrock_converse"
# The lifetime of a cache point, in terms that every dialect understands.
_TTL = {None: "short", "5m": "short", "1h": "long"}
# A cache point that states the default lifetime.
EXPLICIT = "5m"

_Value = bool | int | float | str | None | list[Any]
_decode_tools = msgspec.json.Decoder(list[_Value | dict[str, _Value | dict[str, Raw]]]).decode

# --- reading ---------------------------------------------------------------------------------


def read_mark(block: Any) -> tuple[str, str] | None:
    """The mark of a cache point and its form if unusual; None for any other block."""
    if type(block) is not dict or block.keys() != {"cachePoint"}:
        return None
    point = block["cachePoint"]
    point = decoded(point) if type(point) is dict else None
    if point is None or point.get("type") != "default" or not point.keys() <= {"type", "ttl"}:
        return None
    ttl = point.get("ttl")
    if type(ttl) not in (str, type(None)) or ttl not in _TTL or ("ttl" in point and ttl is None):
        return None
    return _TTL[ttl], EXPLICIT if ttl == EXPLICIT else ""


def write_mark(cache: str, form: str | None) -> Object:
    """The block of a cache point."""
    point = {"type": "default"}
    if cache == "long":
        point["ttl"] = "1h"
    elif EXPLICIT in (form or "").split():
        point["ttl"] = EXPLICIT
    return {"cachePoint": point}


def open_settings(body: Object) -> None:
    """Decode the objects among the fields of a request, except the schemas of tools."""
    for key, value in body.items():
        if type(value) is dict:
            body[key] = {
                inner: _tool_list(held) if inner == "tools" else plain(held)
                for inner, held in value.items()
            }


def _tool_list(value: Any) -> Any:
    if type(value) is not Raw:
        return value
    try:
        return _decode_tools(value)
    except msgspec.MsgspecError:
        return decode(value)


def read_choice(choice: Any, _: Reading) -> Said:
    """The tool choice, and the rest of it."""
    found = (
        [key for key in ("auto", "any", "tool") if key in choice] if type(choice) is dict else []
    )
    if len(found) != 1 or type(choice[found[0]]) is not dict:
        return NOT_READ
    key, rest = found[0], {**choice[found[0]]}
    others = {name: value for name, value in choice.items() if name != key}
    if key == "tool":
        name = rest.pop("name", None)
        if type(name) is not str or not name:
            return NOT_READ
        mode = new_tool_choice("named", (name,))
    else:
        mode = new_tool_choice("auto" if key == "auto" else "required")
    return mode, nested(others, {key: set_again(rest)})


def read_tools(value: Any, reading: Reading) -> Said:
    """The tools; a cache point after a tool is its mark."""
    if not value:
        return NOT_READ
    reader, places = Reader(NAME), reading.places
    tools: list[Tool] = []
    for index, item in enumerate(reader.list(value, "toolConfig.tools")):
        mark = read_mark(item)
        if (
            mark is not None
            and tools
            and (tools[-1].residue is None or not tools[-1].residue.cache)
        ):
            held = tools[-1].residue or Residue(NAME)
            residue = msgspec.structs.replace(held, cache=mark[0], form=mark[1] or held.form)
            tools[-1] = msgspec.structs.replace(tools[-1], residue=residue)
            continue
        tools.append(_read_tool(reader.object(item, f"toolConfig.tools[{index}]")))
        places.tools.append(("toolConfig", "tools", index))
    return tuple(tools), None


def _read_tool(item: Object) -> Tool:
    spec = item.get("toolSpec")
    fields = {**spec} if type(spec) is dict else {}
    name, schema = plain(fields.get("name")), _plain_schema(fields.get("inputSchema"))
    if type(name) is not str or not name or schema is None:
        return _hosted(item)
    beside, parameters = schema
    fields = {key: plain(value) for key, value in fields.items() if key != "inputSchema"}
    del fields["name"]
    description, _, strict = take_facts(fields, "")
    around = {key: opened(value) for key, value in item.items() if key != "toolSpec"}
    inside = nested(fields, {"inputSchema": set_again(beside)})
    patch = nested(around, {"toolSpec": inside})
    residue = None if patch is None else Residue(NAME, encode(patch).decode())
    return new_tool(name, description, parameters, strict, residue=residue)  # type: ignore[no-any-return]


def _plain_schema(value: Any) -> tuple[Object, str] | None:
    """The fields beside a JSON schema, and the schema's text; None if it is not an object."""
    if type(value) is Raw:
        try:
            value = msgspec.json.decode(value, type=dict[str, Raw])
        except msgspec.MsgspecError:
            return None
    if type(value) is not dict or "json" not in value:
        return None
    schema = value["json"]
    spelled = spelled_text(schema) if type(schema) is Raw else write_json(schema)
    if not is_json_object(spelled):
        return None
    return {key: plain(item) for key, item in value.items() if key != "json"}, spelled


def _hosted(item: Object) -> Tool:
    """A tool of the server, or an entry among the tools that is not a tool."""
    found = {key: opened(value) for key, value in item.items()}
    name = next(iter(found), "unknown")
    held = found.get(name)
    if type(held) is dict and type(held.get("name")) is str and held["name"]:
        name = held["name"]
    own = Residue(NAME, None, None, "hosted")
    return new_tool(name or "unknown", hosted=write_json(found), residue=own)  # type: ignore[no-any-return]


# --- writing ---------------------------------------------------------------------------------


def write_tools(request: Request, messages: list[Any], report: Report, *, is_same: bool) -> Object:
    """The tool configuration; {} if empty."""
    choice = request.tool_choice if isinstance(request.tool_choice, ToolChoice) else None
    used = [] if is_same else [*_used(request, messages, report)]
    if choice is not None and choice.mode == "none" and not is_same:
        if not used:
            if request.tools:
                detail = "no tools were sent, since there is no choice of none"
                report.lose("CONTROL_CHANGED", "@tool_choice", detail)
            return {}
        report.lose("CONTROL_DROPPED", "@tool_choice", "tools that were used have to be sent")
        choice = None
    tools, names = _listed_tools(request, choice, report)
    if used and not tools:
        tools = [_stub(name) for name in used]
        detail = (
            f"toolConfig is required beside calls and results; stubs were sent: {', '.join(used)}"
        )
        report.lose("CONTROL_DEFAULTED", None, detail)
    config: Object = {"tools": tools} if tools else {}
    if choice is not None:
        if is_same or is_possible(choice, names):
            config["toolChoice"] = _chosen(choice, report)
        else:
            drop_choice(choice, report)
    if not is_same and request.controls.parallel_calls is False and tools:
        report.lose("CONTROL_DROPPED", "@parallel_calls")
    return config


def _used(request: Request, messages: list[Any], report: Report) -> Iterable[str]:
    """The names of the tools that the history calls, as they are sent; a result without a call needs only some name."""
    names: list[str] = []
    has_results = False
    for message in messages:
        for block in message["content"]:
            if type(block) is not dict:
                continue
            if "toolUse" in block:
                names.append(block["toolUse"]["name"])
            elif "toolResult" in block:
                has_results = True
    found = dict.fromkeys(names)
    calls = [each for each in request.conversation if type(each) is InvocationCanisterClass]
    if len(calls) > len(names):
        # The part of a growing conversation that was written before is not among the messages.
        aliases = {original: alias for alias, original in report.names.items()}
        found |= dict.fromkeys(aliases.get(call.name, call.name) for call in calls)
    return found if found or not has_results else ("tool",)


def _stub(name: str) -> Object:
    return {"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}}


def _listed_tools(
    request: Request, choice: ToolChoice | None, report: Report
) -> tuple[list[Any], set[str]]:
    """The tools as they are sent, and their names."""
    allowed = choice.names if choice is not None and choice.mode == "allowed" else None
    written: list[Any] = []
    names: set[str] = set()
    tools = written_tools(NAME, request, report, _specification, allowed=allowed)
    for tool, residue, ours in tools:
        written.append(ours)
        names.add(tool.name)
        if residue is not None and residue.cache:
            written.append(write_mark(residue.cache, residue.form))
    return written, names


def _specification(tool: Tool, is_same: bool) -> Object:  # noqa: FBT001 - as written_tools says it
    spec: Object = {"name": tool.name}
    if tool.description is not absent and (tool.description or is_same):
        spec["description"] = tool.description
    schema: Any = NO_PARAMETERS
    if isinstance(tool.schema, str):
        schema = Fragment(tool.schema) if is_same else of_object(tool.schema)
    spec["inputSchema"] = {"json": schema}
    if isinstance(tool.strict, bool):
        spec["strict"] = tool.strict
    return {"toolSpec": spec}


def _chosen(choice: ToolChoice, report: Report) -> Object:
    if choice.mode == "named":
        return {"tool": {"name": choice.names[0]}}
    if choice.mode == "allowed":
        report.lose("CONTROL_CHANGED", "@tool_choice", "only the allowed tools were sent")
        return {"any": {}} if choice.must_call else {"auto": {}}
    return {"any": {}} if choice.mode == "required" else {"auto": {}}
