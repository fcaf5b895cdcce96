"""Everything in a Responses request that is not an item: tools, tool choice and controls, both ways."""

from __future__ import annotations

import re
from typing import Any

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
    new_thinking,
    new_tool,
    new_tool_choice,
)
from cannery.wire.bodies import Object
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
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, patch_text, recall, remember

NAME = "openai_responses"
CONTROL_PATHS = {
    "max_tokens": "max_output_tokens",
    "parallel_calls": "parallel_tool_calls",
    "output": "text.format",
    "thinking": "reasoning",
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
# Usage comes with every answer, so asking for it needs no words.
_KNOWN = frozenset(Controls.__struct_fields__) - {
    "top_k",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "candidates",
}
_SUMMARIES = frozenset({"auto", "concise", "detailed"})
_UNSHOWN = frozenset({"omitted", "none"})
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_NO_PARAMETERS = {"type": "object", "properties": {}}

# --- reading -----------------------------------------------------------------------------------


def read_controls(body: Object) -> Controls:
    """The controls of a request; what has an unexpected type is left to the residue."""
    metadata = body.get("metadata")
    formatted = body.get("text")
    return new_controls(  # type: ignore[no-any-return]
        max_tokens=integer(body.get("max_output_tokens")),
        temperature=number(body.get("temperature")),
        top_p=number(body.get("top_p")),
        parallel_calls=flag(body.get("parallel_tool_calls")),
        output=_read_output(formatted.get("format")) if type(formatted) is dict else absent,
        thinking=_read_thinking(body.get("reasoning")),
        metadata=write_json(metadata) if type(metadata) is dict and metadata else absent,
        user=text(body.get("user")),
    )


def _read_thinking(value: Any) -> Any:
    if type(value) is not dict:
        return absent
    effort, summary = text(value.get("effort")), text(value.get("summary"))
    if effort is absent and summary is absent:
        return absent
    return new_thinking(effort=effort, summary=summary)


def _read_output(value: Any) -> Any:
    if type(value) is not dict:
        return absent
    kind = value.get("type")
    if kind == "text":
        return new_output_format("text")
    if kind == "json_object":
        return new_output_format("json")
    if kind != "json_schema":
        return absent
    return new_output_format(
        "schema",
        write_json(value["schema"]) if type(value.get("schema")) is dict else absent,
        text(value.get("name")),
        text(value.get("description")),
        flag(value.get("strict")),
    )


def read_tools(body: Object) -> tuple[Tool, ...]:
    """The tools of a request."""
    listed = body.get("tools")
    return tuple(map(_read_tool, listed)) if type(listed) is list else ()


def _read_tool(item: Any) -> Tool:
    tool = _plain_tool(item)
    remember(tool, dialect=NAME, part=patch_text(write_tool(tool), item))  # type: ignore[arg-type]
    return tool


def _plain_tool(item: Any) -> Tool:
    kind = item.get("type") if type(item) is dict else None
    if kind not in ("function", "custom") or type(item.get("name")) is not str or not item["name"]:
        name = kind if type(kind) is str and kind else "unknown"
        return new_tool(name=name, hosted=write_json(item))  # type: ignore[no-any-return]
    schema, grammar, strict = item.get("parameters"), item.get("format"), item.get("strict", absent)
    return new_tool(  # type: ignore[no-any-return]
        item["name"],
        text(item.get("description")),
        write_json(schema) if type(schema) is dict else absent,
        strict if type(strict) is bool else absent,
        kind == "custom",
        write_json(grammar) if type(grammar) is dict else absent,
    )


def read_tool_choice(body: Object) -> Any:
    """The tool choice of a request, or absent."""
    choice = body.get("tool_choice")
    if type(choice) is str and choice in ("auto", "none", "required"):
        return new_tool_choice(choice)
    if type(choice) is not dict:
        return absent
    if choice.get("type") == "allowed_tools":
        return _read_allowed(choice)
    name = _chosen(choice)
    if name is None:
        return absent
    return new_tool_choice("named", (name,), is_freeform=choice["type"] == "custom")


def _chosen(choice: Any) -> str | None:
    if type(choice) is not dict or choice.get("type") not in ("function", "custom"):
        return None
    name = choice.get("name")
    return name if type(name) is str else None


def _read_allowed(choice: Object) -> Any:
    tools = choice.get("tools")
    names = [_chosen(tool) for tool in tools] if type(tools) is list else []
    if None in names or not names:
        return absent
    return new_tool_choice("allowed", tuple(map(str, names)), choice.get("mode") == "required")


# --- writing -----------------------------------------------------------------------------------


def write_settings(request: Request, report: Report) -> Object:
    """Every field of the body but the instructions and the items, in the usual form."""
    body: Object = {}
    put(body, "model", request.model)
    _write_tools(request, body, report)
    _write_choice(request, body, report)
    _write_controls(request.controls, body, report, at_home=request.source == NAME)
    put(body, "stream", request.stream)
    return body


def _write_controls(controls: Controls, body: Object, report: Report, *, at_home: bool) -> None:
    put(body, "max_output_tokens", controls.max_tokens)
    put(body, "temperature", controls.temperature)
    put(body, "top_p", controls.top_p)
    put(body, "parallel_tool_calls", controls.parallel_calls)
    if isinstance(controls.output, OutputFormat):
        body["text"] = {"format": _write_output(controls.output)}
    if isinstance(controls.thinking, Thinking):
        body |= _write_thinking(controls.thinking, report, at_home=at_home)
    if isinstance(controls.metadata, str):
        metadata = decode_json(controls.metadata)
        body["metadata"] = metadata if at_home else _write_metadata(metadata, report)
    put(body, "user", controls.user)
    known = _KNOWN | {"candidates"} if controls.candidates == 1 else _KNOWN
    drop_controls(controls, known, report)


def _write_metadata(metadata: Any, report: Report) -> Any:
    """Metadata as this dialect takes it: every value a string."""
    if type(metadata) is not dict or all(type(value) is str for value in metadata.values()):
        return metadata
    report.lose("CONTROL_CHANGED", "@metadata", "values became strings")
    return {
        key: value if type(value) is str else write_json(value) for key, value in metadata.items()
    }


def _write_output(output: OutputFormat) -> Object:
    if output.kind == "text":
        return {"type": "text"}
    if output.kind == "json":
        return {"type": "json_object"}
    name = "output" if output.name is absent else _NOT_IN_NAMES.sub("_", output.name)[:64]
    schema: Object = {"type": "json_schema", "name": name or "output"}
    put(schema, "description", output.description)
    schema["schema"] = decode_json(output.schema) if isinstance(output.schema, str) else {}
    put(schema, "strict", output.strict)
    return schema


def _write_thinking(thinking: Thinking, report: Report, *, at_home: bool) -> Object:
    reasoning: Object = {}
    if isinstance(thinking.effort, str):
        is_known = at_home or thinking.effort in EFFORTS
        reasoning["effort"] = thinking.effort if is_known else "medium"
        if not is_known:
            report.lose("CONTROL_CHANGED", "@thinking", f"no effort {thinking.effort!r} here")
    elif isinstance(thinking.budget, int):
        reasoning["effort"] = effort_of(thinking.budget)
        report.lose("CONTROL_CHANGED", "@thinking", "a token budget became an effort")
    elif thinking.enabled is False:
        reasoning["effort"] = "none"
    elif thinking.enabled is True or thinking.adaptive:
        report.lose("CONTROL_DROPPED", "@thinking", "Responses has no switch for thinking")
    summary = thinking.summary
    if isinstance(summary, str) and summary not in _UNSHOWN:
        reasoning["summary"] = summary if at_home or summary in _SUMMARIES else "auto"
    return {"reasoning": reasoning} if reasoning else {}


def _write_tools(request: Request, body: Object, report: Report) -> None:
    for index, tool in enumerate(request.tools):
        place = f"tools[{index}]"
        residue = own_residue(tool, NAME)
        if residue is None:
            report_residue(tool, report, place)
            if tool.residue is not None and tool.residue.cache:
                report.lose("CACHE_MARK_DROPPED", place)
        if tool.hosted is not absent and (request.source or NAME) != NAME:
            report.lose("TOOL_DROPPED", place, f"Responses has no hosted tool {tool.name!r}")
            continue
        written = write_tool(tool)
        if residue is not None:
            written = recall(written, residue.part)
        body.setdefault("tools", []).append(written)


def write_tool(tool: Tool) -> Any:
    """A tool in the usual form; ``strict`` is always said, since it defaults to true here only."""
    if isinstance(tool.hosted, str):
        return decode_json(tool.hosted)
    written: Object = {"type": "custom" if tool.is_freeform else "function", "name": tool.name}
    put(written, "description", tool.description)
    if tool.is_freeform:
        if isinstance(tool.grammar, str):
            written["format"] = decode_json(tool.grammar)
        return written
    has_schema = isinstance(tool.schema, str)
    written["parameters"] = decode_json(str(tool.schema)) if has_schema else dict(_NO_PARAMETERS)
    written["strict"] = False if tool.strict is absent else tool.strict
    return written


def _write_choice(request: Request, body: Object, report: Report) -> None:
    choice = request.tool_choice
    if not isinstance(choice, ToolChoice):
        return
    sent = [str(tool.get("name")) for tool in body.get("tools", ()) if isinstance(tool, dict)]
    is_free = choice.mode in ("auto", "none")
    if request.source != NAME and not (is_free or is_possible(choice, sent)):
        drop_choice(choice, report)
        return
    freeform = {tool.name for tool in request.tools if tool.is_freeform}
    if choice.is_freeform:
        freeform.update(choice.names)
    named = [
        {"type": "custom" if name in freeform else "function", "name": name}
        for name in choice.names
    ]
    if choice.mode == "allowed":
        mode = "required" if choice.must_call else "auto"
        body["tool_choice"] = {"type": "allowed_tools", "mode": mode, "tools": named}
    else:
        body["tool_choice"] = named[0] if choice.mode == "named" else choice.mode
