"""Everything in a Chat Completions request that is not a message: tools, tool choice and controls, both ways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    Controls,
    OutputFormat,
    Request,
    Thinking,
    ToolChoice,
    new_controls,
    new_output_format,
    new_thinking,
    new_tool_choice,
)
from cannery.wire.bodies import Object
from cannery.wire.chat_tools import write_tools
from cannery.wire.controls import (
    EFFORTS,
    drop_choice,
    drop_controls,
    effort_of,
    flag,
    integer,
    is_possible,
    number,
    put,
    text,
)
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue

NAME = "openai_chat"
CONTROL_PATHS = {
    "max_tokens": "max_completion_tokens",
    "candidates": "n",
    "parallel_calls": "parallel_tool_calls",
    "output": "response_format",
    "thinking": "reasoning_effort",
    "include_usage": "stream_options.include_usage",
}
MODELLED = frozenset(
    {
        "model",
        "stream",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "n",
        "parallel_tool_calls",
        "response_format",
        "reasoning_effort",
        "metadata",
        "user",
        "tools",
        "functions",
        "tool_choice",
        "function_call",
        # of a response
        "id",
        "object",
        "created",
        "choices[0].finish_reason",
        "usage.total_tokens",
    }
)
_KNOWN = frozenset(Controls.__struct_fields__) - {"top_k"}

# --- reading -----------------------------------------------------------------------------------


def read_controls(body: Object) -> Controls:
    """The controls of a request; what has an unexpected type is left to the residue."""
    limit = integer(body.get("max_completion_tokens"))
    stop = body.get("stop")
    metadata = body.get("metadata")
    options = body.get("stream_options")
    effort = text(body.get("reasoning_effort"))
    return new_controls(  # type: ignore[no-any-return]
        max_tokens=integer(body.get("max_tokens")) if limit is absent else limit,
        temperature=number(body.get("temperature")),
        top_p=number(body.get("top_p")),
        stop=_read_stop(stop),
        seed=integer(body.get("seed")),
        presence_penalty=number(body.get("presence_penalty")),
        frequency_penalty=number(body.get("frequency_penalty")),
        candidates=integer(body.get("n")),
        parallel_calls=flag(body.get("parallel_tool_calls")),
        output=_read_output(body.get("response_format")),
        thinking=absent if effort is absent else new_thinking(effort=effort),
        metadata=write_json(metadata) if type(metadata) is dict and metadata else absent,
        user=text(body.get("user")),
        include_usage=flag(options.get("include_usage")) if type(options) is dict else absent,
    )


def _read_stop(value: Any) -> Any:
    if type(value) is str:
        return (value,)
    if type(value) is list and value and all(type(item) is str for item in value):
        return tuple(value)
    return absent


def _read_output(value: Any) -> Any:
    if type(value) is not dict:
        return absent
    kind = value.get("type")
    if kind == "text":
        return new_output_format("text")
    if kind == "json_object":
        return new_output_format("json")
    schema = value.get("json_schema")
    if kind != "json_schema" or type(schema) is not dict:
        return absent
    return new_output_format(
        "schema",
        write_json(schema["schema"]) if type(schema.get("schema")) is dict else absent,
        text(schema.get("name")),
        text(schema.get("description")),
        flag(schema.get("strict")),
    )


def read_tool_choice(body: Object) -> Any:
    """The tool choice of a request, or absent."""
    choice = body.get("tool_choice", body.get("function_call"))
    if choice in ("auto", "none", "required"):
        return new_tool_choice(choice)
    if type(choice) is not dict:
        return absent
    if choice.get("type") == "allowed_tools" and type(choice.get("allowed_tools")) is dict:
        return _read_allowed(choice["allowed_tools"])
    name, is_freeform = _chosen(choice)
    return absent if name is None else new_tool_choice("named", (name,), is_freeform=is_freeform)


def _chosen(choice: Object) -> tuple[str | None, bool]:
    kind = choice.get("type", "function")
    inner = choice.get(kind, choice) if type(kind) is str else choice
    name = inner.get("name") if type(inner) is dict else None
    return (name if type(name) is str else None), kind == "custom"


def _read_allowed(allowed: Object) -> Any:
    tools = allowed.get("tools")
    if type(tools) is not list:
        return absent
    names = [_chosen(tool)[0] for tool in tools if type(tool) is dict]
    if None in names or not names:
        return absent
    return new_tool_choice("allowed", tuple(map(str, names)), allowed.get("mode") == "required")


# --- writing -----------------------------------------------------------------------------------


def write_settings(request: Request, report: Report) -> Object:
    """Every field of the body but the messages, in the usual form."""
    body: Object = {}
    put(body, "model", request.model)
    write_tools(NAME, request, body, report)
    at_home = request.source == NAME
    _write_choice(request, body, report, at_home=at_home)
    residue = own_residue(request, NAME)
    old_limit = residue is not None and residue.form == "max_tokens"
    limit_key = "max_tokens" if old_limit else "max_completion_tokens"
    put(body, limit_key, request.controls.max_tokens)
    controls = request.controls
    if not (at_home or body.get("tools")) and controls.parallel_calls is not absent:
        if controls.parallel_calls is False:
            report.lose("CONTROL_DROPPED", "@parallel_calls", "without tools there are no calls")
        controls = controls.replace(parallel_calls=absent)
    _write_controls(controls, body, report, at_home=at_home)
    put(body, "stream", request.stream)
    return body


def _write_controls(controls: Controls, body: Object, report: Report, *, at_home: bool) -> None:
    put(body, "temperature", controls.temperature)
    put(body, "top_p", controls.top_p)
    if isinstance(controls.stop, tuple):
        body["stop"] = list(controls.stop[:4])
        if len(controls.stop) > 4:
            report.lose("CONTROL_CHANGED", "@stop", "Chat takes four stop sequences")
    put(body, "seed", controls.seed)
    put(body, "presence_penalty", controls.presence_penalty)
    put(body, "frequency_penalty", controls.frequency_penalty)
    put(body, "n", controls.candidates)
    put(body, "parallel_tool_calls", controls.parallel_calls)
    if isinstance(controls.output, OutputFormat):
        body["response_format"] = _write_output(controls.output)
    if isinstance(controls.thinking, Thinking):
        _write_thinking(controls.thinking, body, report, at_home=at_home)
    if isinstance(controls.metadata, str):
        body["metadata"] = decode_json(controls.metadata)
    put(body, "user", controls.user)
    if controls.include_usage is not absent:
        body["stream_options"] = {"include_usage": controls.include_usage}
    drop_controls(controls, _KNOWN, report)


def _write_output(output: OutputFormat) -> Object:
    if output.kind == "text":
        return {"type": "text"}
    if output.kind == "json":
        return {"type": "json_object"}
    schema: Object = {"name": "output" if output.name is absent else output.name}
    put(schema, "description", output.description)
    if isinstance(output.schema, str):
        schema["schema"] = decode_json(output.schema)
    put(schema, "strict", output.strict)
    return {"type": "json_schema", "json_schema": schema}


def _write_thinking(thinking: Thinking, body: Object, report: Report, *, at_home: bool) -> None:
    if thinking.effort is not absent:
        is_known = at_home or thinking.effort in EFFORTS
        body["reasoning_effort"] = thinking.effort if is_known else "medium"
        if not is_known:
            report.lose("CONTROL_CHANGED", "@thinking", f"no effort {thinking.effort!r} here")
    elif isinstance(thinking.budget, int):
        body["reasoning_effort"] = effort_of(thinking.budget)
        report.lose("CONTROL_CHANGED", "@thinking", "a token budget became an effort")
    elif thinking.enabled is False:
        body["reasoning_effort"] = "none"
    elif thinking.enabled is True:
        report.lose("CONTROL_DROPPED", "@thinking", "Chat has no switch for thinking")
    if thinking.summary is not absent:
        report.lose("CONTROL_DROPPED", "@thinking", "Chat cannot show thoughts")


def _write_choice(request: Request, body: Object, report: Report, *, at_home: bool) -> None:
    choice = request.tool_choice
    if not isinstance(choice, ToolChoice):
        return
    if not (at_home or is_possible(choice, _names(body.get("tools", ())))):
        drop_choice(choice, report)
        return
    if choice.mode == "allowed":
        named = [{"type": "function", "function": {"name": name}} for name in choice.names]
        mode = "required" if choice.must_call else "auto"
        allowed = {"mode": mode, "tools": named}
        body["tool_choice"] = {"type": "allowed_tools", "allowed_tools": allowed}
    elif choice.mode == "named":
        freeform = {tool.name for tool in request.tools if tool.is_freeform}
        is_custom = choice.is_freeform or choice.names[0] in freeform
        kind = "custom" if is_custom else "function"
        body["tool_choice"] = {"type": kind, kind: {"name": choice.names[0]}}
    else:
        body["tool_choice"] = choice.mode


def _names(tools: Iterable[Object]) -> list[str]:
    """The names of the tools of a body."""
    return [str(_chosen(tool)[0]) for tool in tools]
