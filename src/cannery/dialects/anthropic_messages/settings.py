"""Everything in a Messages request that is not a message: tools, tool choice and controls, both ways.

At home the usual form is only a base for the residue; abroad it is what the server accepts: a limit is always there,
the temperature ends at 1, thinking needs room below the limit and no forced tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cannery.dialects.anthropic_messages.blocks import NAME as NAME  # noqa: PLC0414 - named here
from cannery.dialects.anthropic_messages.models import samplers
from cannery.dialects.anthropic_messages.schemas import held_schema
from cannery.dialects.anthropic_messages.thinking import (
    DEFAULT_MAX_TOKENS as DEFAULT_MAX_TOKENS,  # noqa: PLC0414 - named here
)
from cannery.dialects.anthropic_messages.thinking import (
    make_room,
    read_thinking,
    write_own_thinking,
    write_thinking,
)
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    Controls,
    OutputFormat,
    Request,
    Thinking,
    Tool,
    ToolChoice,
    new_controls,
    new_output_format,
    new_tool,
    new_tool_choice,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.controls import (
    FORMAT_NAME,
    distinct,
    drop_controls,
    flag,
    integer,
    number,
    put,
    report_grammar,
    text,
)
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, patch_text, recall
from cannery.wire.schemas import is_strict

CACHE = {"5m": "short", "1h": "long"}
CONTROL_PATHS: dict[str, str | tuple[str, ...]] = {
    "stop": "stop_sequences",
    "parallel_calls": "tool_choice.disable_parallel_tool_use",
    "output": ("output_config.format", "output_format"),
    "thinking": ("thinking", "output_config.effort"),
    "switch": "thinking",
    "effort": "output_config.effort",
    "budget": "thinking.budget_tokens",
    "summary": "thinking.display",
    "user": "metadata.user_id",
    "finish": "stop_reason",
}
MODELLED = frozenset(
    {
        "model",
        "stream",
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "thinking",
        "output_config",
        "output_config.effort",
        "output_config.format",
        "output_format",
        "metadata",
        "metadata.user_id",
        "tools",
        "tool_choice",
        "tool_choice.disable_parallel_tool_use",
        # of a response
        "id",
        "type",
        "role",
        "stop_reason",
        "stop_sequence",
        "usage",
    }
)
_KNOWN = frozenset(Controls.__struct_fields__) - {
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "candidates",
    "metadata",
}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_CHOICE_WORDS = {mode: word for word, mode in _CHOICES.items()}
_NO_PARAMETERS = {"type": "object", "properties": {}}
_FREEFORM_PARAMETERS = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}

# --- reading -----------------------------------------------------------------------------------


def read_controls(body: Object) -> Controls:
    """The controls of a request; what has an unexpected type is left to the residue."""
    metadata, choice = body.get("metadata"), body.get("tool_choice")
    config = body.get("output_config")
    settings = config if type(config) is dict else {}
    is_single = flag(choice.get("disable_parallel_tool_use")) if type(choice) is dict else absent
    return new_controls(  # type: ignore[no-any-return]
        max_tokens=integer(body.get("max_tokens")),
        temperature=number(body.get("temperature")),
        top_p=number(body.get("top_p")),
        top_k=integer(body.get("top_k")),
        stop=_read_stop(body.get("stop_sequences")),
        parallel_calls=absent if is_single is absent else not is_single,
        output=_read_output(settings.get("format", body.get("output_format"))),
        thinking=read_thinking(body.get("thinking"), settings.get("effort")),
        user=text(metadata.get("user_id")) if type(metadata) is dict else absent,
    )


def _read_stop(value: Any) -> Any:
    if type(value) is list and value and all(type(item) is str for item in value):
        return tuple(value)
    return absent


def _read_output(value: Any) -> Any:
    if type(value) is not dict or value.get("type") != "json_schema":
        return absent
    schema = value.get("schema")
    if type(schema) is not dict:
        return absent
    return new_output_format("schema", write_json(schema), strict=is_strict(schema) or absent)


def read_tools(body: Object) -> tuple[Tool, ...]:
    """The tools of a request."""
    listed = body.get("tools")
    return tuple(map(_read_tool, listed)) if type(listed) is list else ()


def _read_tool(item: Any) -> Tool:
    mark = item.get("cache_control") if type(item) is dict else None
    cache = CACHE.get(str(mark.get("ttl")), "short") if type(mark) is dict else None
    tool = _plain_tool(item)
    if tool.hosted is not absent:
        return _with_residue(tool, Residue(NAME, form="hosted", cache=cache))
    part = patch_text(_write_tool(tool), item)
    if part is None:
        return tool
    return _with_residue(tool, Residue(NAME, part=part, cache=cache))


def _plain_tool(item: Any) -> Tool:
    if type(item) is not dict:
        return new_tool("unknown", hosted=write_json(item))  # type: ignore[no-any-return]
    tag, name, schema = item.get("type"), item.get("name"), item.get("input_schema")
    if tag in (None, "custom") and type(name) is str and type(schema) is dict:
        return new_tool(  # type: ignore[no-any-return]
            name, text(item.get("description")), write_json(schema), flag(item.get("strict"))
        )
    known = [word for word in (name, tag) if type(word) is str and word]
    return new_tool(known[0] if known else "unknown", hosted=write_json(item))  # type: ignore[no-any-return]


def _with_residue(tool: Tool, residue: Residue) -> Tool:
    fields = {name: getattr(tool, name) for name in Tool.__struct_fields__}
    return new_tool(**{**fields, "residue": residue})  # type: ignore[no-any-return]


def read_tool_choice(body: Object) -> Any:
    """The tool choice of a request, or absent."""
    given = body.get("tool_choice")
    choice: Object = given if type(given) is dict else {}
    kind = choice.get("type")
    if type(kind) is str and kind in _CHOICES:
        return new_tool_choice(_CHOICES[kind])
    if kind == "tool" and type(choice.get("name")) is str and choice["name"]:
        return new_tool_choice("named", (choice["name"],))
    return absent


# --- writing -----------------------------------------------------------------------------------


def write_settings(request: Request, report: Report, messages: Sequence[Any] = ()) -> Object:
    """Every field of the body but system and messages, which may leave no room for thinking."""
    at_home = request.source == NAME
    body: Object = {}
    put(body, "model", request.model)
    _write_tools(request, body, report, at_home=at_home)
    _write_choice(request, body, report, at_home=at_home)
    controls = request.controls
    # A limit that nobody gave is settled when thinking is known, and stands where any other would.
    put(
        body,
        "max_tokens",
        None if controls.max_tokens is absent and not at_home else controls.max_tokens,
    )
    _write_sampling(controls, body, report, at_home=at_home)
    _write_stop(controls, body, report, at_home=at_home)
    if isinstance(controls.output, OutputFormat):
        _write_output(controls.output, body, report, at_home=at_home)
    if isinstance(controls.thinking, Thinking):
        if at_home:
            write_own_thinking(controls.thinking, body)
        else:
            write_thinking(controls.thinking, body, report)
    if controls.user is not absent:
        body["metadata"] = {"user_id": controls.user}
    put(body, "stream", request.stream)
    if not at_home:
        make_room(body, messages, report)
        drop_controls(controls, _KNOWN, report)
    return body


def _write_sampling(controls: Controls, body: Object, report: Report, *, at_home: bool) -> None:
    if not at_home and not samplers(body.get("model")):
        for name in ("temperature", "top_p", "top_k"):
            if getattr(controls, name) is not absent:
                report.lose("CONTROL_DROPPED", f"@{name}", f"this model takes no {name}")
        return
    for name in ("temperature", "top_p"):
        value: Any = getattr(controls, name)
        if value is not absent and not at_home and not 0 <= value <= 1:
            value = min(max(value, 0), 1)
            report.lose("CONTROL_CHANGED", f"@{name}", f"{name} is within 0 and 1")
        put(body, name, value)
    put(body, "top_k", controls.top_k)


def _write_stop(controls: Controls, body: Object, report: Report, *, at_home: bool) -> None:
    if isinstance(controls.stop, tuple):
        stops = [stop for stop in controls.stop if at_home or stop.strip()]
        if len(stops) < len(controls.stop):
            report.lose("CONTROL_CHANGED", "@stop", "a stop sequence needs a visible character")
        if stops:
            body["stop_sequences"] = stops


def _write_output(output: OutputFormat, body: Object, report: Report, *, at_home: bool) -> None:
    if output.kind == "text":
        return
    if not isinstance(output.schema, str):
        report.lose("CONTROL_DROPPED", "@output", "Messages take no JSON format without a schema")
        return
    schema = decode_json(output.schema)
    if not at_home:
        schema, is_changed = held_schema(schema)
        if is_changed:
            detail = "objects are closed; what a format cannot hold stands in descriptions"
            report.lose("CONTROL_CHANGED", "@output", detail)
    body.setdefault("output_config", {})["format"] = {"type": "json_schema", "schema": schema}
    if output.name not in (absent, FORMAT_NAME):
        report.lose("FORMAT_NAME_DROPPED", "@output")
    if output.description is not absent or output.strict is False:
        detail = "the format has no description and is always strict"
        report.lose("CONTROL_CHANGED", "@output", detail)


# --- tools


def _write_tools(request: Request, body: Object, report: Report, *, at_home: bool) -> None:
    choice = request.tool_choice
    allowed: tuple[str, ...] | None = None
    if isinstance(choice, ToolChoice) and choice.mode == "allowed":
        allowed = choice.names
    for place, tool in distinct(request, NAME, report):
        if allowed is not None and tool.name not in allowed:
            report.lose("TOOL_DROPPED", place, f"{tool.name!r} is not among the allowed tools")
            continue
        residue = own_residue(tool, NAME)
        if residue is None:
            report_residue(tool, report, place)
            if tool.hosted is not absent and (request.source or NAME) != NAME:
                report.lose("TOOL_DROPPED", place, f"Messages have no tool {tool.name!r}")
                continue
        written = _write_tool(tool) if at_home else _legal_tool(tool, place, request, report)
        if residue is not None:
            written = recall(written, residue.part)
        body.setdefault("tools", []).append(written)


def _write_tool(tool: Tool) -> Any:
    if isinstance(tool.hosted, str):
        return decode_json(tool.hosted)
    written: Object = {"name": tool.name}
    put(written, "description", tool.description)
    if isinstance(tool.schema, str):
        written["input_schema"] = decode_json(tool.schema)
    put(written, "strict", tool.strict)
    return written


def _legal_tool(tool: Tool, place: str, request: Request, report: Report) -> Any:
    written = _write_tool(tool)
    if tool.hosted is not absent:
        return written
    if tool.is_freeform:
        report.lose("FREEFORM_WRAPPED", place)
        report.freeform.add(tool.name)
        written["input_schema"] = _FREEFORM_PARAMETERS
    report_grammar(tool, request.source, report, place)
    schema = written.setdefault("input_schema", _NO_PARAMETERS)
    if schema.get("type") != "object":
        written["input_schema"] = {**schema, "type": "object"}
    if tool.strict is None:
        del written["strict"]
    return written


def _write_choice(request: Request, body: Object, report: Report, *, at_home: bool) -> None:
    choice, parallel = request.tool_choice, request.controls.parallel_calls
    written: Object | None = None
    if isinstance(choice, ToolChoice):
        written = _chosen(choice, report)
    if not at_home:
        written = _legal_choice(written, body, report)
        if written is None and parallel is not absent and body.get("tools"):
            written = {"type": "auto"}
        if written is None and parallel is False:
            report.lose("CONTROL_DROPPED", "@parallel_calls", "without tools there are no calls")
    if written is None:
        return
    if parallel is not absent and written["type"] != "none":
        written["disable_parallel_tool_use"] = not parallel
    body["tool_choice"] = written


def _chosen(choice: ToolChoice, report: Report) -> Object:
    if choice.mode == "named":
        return {"type": "tool", "name": choice.names[0]}
    if choice.mode == "allowed":
        report.lose("CONTROL_CHANGED", "@tool_choice", "only the allowed tools were sent")
        return {"type": "any" if choice.must_call else "auto"}
    return {"type": _CHOICE_WORDS[choice.mode]}


def _legal_choice(written: Object | None, body: Object, report: Report) -> Object | None:
    """The choice, unless there is nothing to choose from; without tools, a free one says nothing."""
    if written is None:
        return None
    tools = body.get("tools", [])
    names = {tool.get("name") for tool in tools if type(tool) is dict}
    if tools and (written["type"] != "tool" or written["name"] in names):
        return written
    if written["type"] in ("auto", "none"):
        return None
    report.lose("CONTROL_DROPPED", "@tool_choice", "no such tool was sent")
    return None
