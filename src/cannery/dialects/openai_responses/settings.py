"""Everything in a Responses request that is not an item: tools, tool choice and controls, both ways."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cannery.families.openai.settings import (
    UNSHOWN,
    legal_format,
    make_legal,
    read_output,
    write_effort,
    write_metadata,
    write_output,
)
from cannery.families.openai.shared import put_shared, shared_settings
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
    new_thinking,
    new_tool,
    new_tool_choice,
)
from cannery.wire.bodies import Object
from cannery.wire.controls import (
    distinct,
    drop_choice,
    drop_controls,
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
        output=read_output(formatted.get("format")) if type(formatted) is dict else absent,
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
    schema, grammar = item.get("parameters"), item.get("format")
    if kind == "custom":
        form = write_json(grammar) if type(grammar) is dict else absent
        return new_tool(  # type: ignore[no-any-return]
            item["name"], text(item.get("description")), is_freeform=True, grammar=form
        )
    return new_tool(  # type: ignore[no-any-return]
        item["name"],
        text(item.get("description")),
        write_json(schema) if type(schema) is dict else absent,
        flag(item.get("strict")),
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
    if request.source != NAME:
        put_shared(request, NAME, body)
    return body


def takes_over(request: Request) -> Collection[str]:
    """The settings that are taken from the residue of the sibling."""
    return shared_settings(request, NAME).places


def _write_controls(controls: Controls, body: Object, report: Report, *, at_home: bool) -> None:
    put(body, "max_output_tokens", controls.max_tokens)
    put(body, "temperature", controls.temperature)
    put(body, "top_p", controls.top_p)
    put(body, "parallel_tool_calls", controls.parallel_calls)
    if isinstance(controls.output, OutputFormat):
        body["text"] = {"format": write_output(controls.output)}
    if isinstance(controls.thinking, Thinking):
        body |= _write_thinking(controls.thinking, report, at_home=at_home)
    write_metadata(controls, body, report, at_home=at_home)
    put(body, "user", controls.user)
    drop_controls(controls, _KNOWN, report)


def _write_thinking(thinking: Thinking, report: Report, *, at_home: bool) -> Object:
    reasoning: Object = {}
    effort = write_effort(thinking, report, at_home=at_home)
    if effort is not None:
        reasoning["effort"] = effort
    summary = thinking.summary
    if isinstance(summary, str) and summary not in UNSHOWN:
        reasoning["summary"] = summary if at_home or summary in _SUMMARIES else "auto"
    return {"reasoning": reasoning} if reasoning else {}


def _write_tools(request: Request, body: Object, report: Report) -> None:
    at_home = request.source == NAME
    for place, tool in distinct(request, NAME, report):
        residue = own_residue(tool, NAME)
        if residue is None:
            report_residue(tool, report, place)
        if tool.hosted is not absent and (request.source or NAME) != NAME:
            report.lose("TOOL_DROPPED", place, f"Responses has no hosted tool {tool.name!r}")
            continue
        written = write_tool(tool)
        if residue is not None:
            written = recall(written, residue.part)
        elif tool.is_freeform and not at_home:
            written.pop("format", None)
            put(written, "format", legal_format(tool, request, report, place))
        elif tool.hosted is absent and not at_home:
            make_legal(written, request)
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
