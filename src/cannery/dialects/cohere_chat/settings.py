"""Everything in a Cohere request that is not a message or a document, both ways."""

from __future__ import annotations

from typing import Any

from cannery.families.chat.settings import (
    NUMBER,
    WHOLE,
    Read,
    SettingTable,
    Unread,
    take_choice,
    tool_names,
)
from cannery.families.chat.tools import write_tools
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    OutputFormat,
    Request,
    Thinking,
    Tool,
    ToolChoice,
    new_output_format,
    new_thinking,
)
from cannery.wire.bodies import Object
from cannery.wire.controls import (
    BUDGETS,
    budget_of,
    drop_choice,
    drop_control,
    field_of,
    given_controls,
    is_possible,
    put,
)
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, set_again

NAME = "cohere_chat"
CONTROL_PATHS: dict[str, str | tuple[str, ...]] = {
    "top_p": "p",
    "top_k": "k",
    "stop": "stop_sequences",
    "output": "response_format",
    "switch": "thinking.type",
    "budget": "thinking.token_budget",
    "finish": "finish_reason",
    "citations": "message.citations",
}
_PLAIN: dict[str, tuple[str, tuple[type, ...]]] = {
    "max_tokens": ("max_tokens", WHOLE),
    "temperature": ("temperature", NUMBER),
    "p": ("top_p", NUMBER),
    "k": ("top_k", WHOLE),
    "seed": ("seed", WHOLE),
    "frequency_penalty": ("frequency_penalty", NUMBER),
    "presence_penalty": ("presence_penalty", NUMBER),
}
_KEYS = {control: key for key, (control, _) in _PLAIN.items()}
# What the server takes of a setting (cohere 7.3.1, the documentation of ``V2Client.chat``).
_LIMITS = {
    "p": (0.01, 0.99),
    "k": (0, 500),
    "frequency_penalty": (0, 1),
    "presence_penalty": (0, 1),
}
_MOST_STOPS = 5
_CHOICES = {"REQUIRED": "required", "NONE": "none"}
_WORDS = {mode: word for word, mode in _CHOICES.items()}
# The form of a request that asks for all tools at once to be followed strictly.
STRICT = "strict_tools"


def _read_stop(value: Any) -> Read:
    is_list = type(value) is list and value and all(type(item) is str for item in value)
    return (tuple(value) if is_list else absent), None


def _read_format(value: Any) -> Read:
    kind = value.get("type") if type(value) is dict else None
    if kind == "text":
        del value["type"]
        return new_output_format("text"), set_again(value)
    if kind != "json_object":
        return absent, None
    del value["type"]
    if type(value.get("json_schema")) is not dict:
        return new_output_format("json"), set_again(value)
    return new_output_format("schema", write_json(value.pop("json_schema"))), set_again(value)


def _read_thinking(value: Any) -> Read:
    kind = value.get("type") if type(value) is dict else None
    if kind not in ("enabled", "disabled"):
        return absent, None
    del value["type"]
    budget: Any = absent
    if kind == "enabled" and type(value.get("token_budget")) is int and value["token_budget"] > 0:
        budget = value.pop("token_budget")
    return new_thinking(enabled=kind == "enabled", budget=budget), set_again(value)


_OTHERS = {
    "stop_sequences": ("stop", _read_stop),
    "response_format": ("output", _read_format),
    "thinking": ("thinking", _read_thinking),
}
MODELLED = frozenset({"model", "stream", "tools", "tool_choice", STRICT, *_PLAIN, *_OTHERS})
# The same of an answer.
MODELLED_ANSWER = frozenset(
    {
        "id",
        "finish_reason",
        "message.citations",
        "message.role",
        "usage.tokens",
        "usage.cached_tokens",
    }
    | {"usage.billed_units.input_tokens", "usage.billed_units.output_tokens"}
)


def _read_first(unread: Unread) -> None:
    left = unread.left
    if type(left.get("tool_choice")) is str:
        found, patch = take_choice(left["tool_choice"], _CHOICES)
        unread.found.tool_choice = found
        unread.take("tool_choice", found, patch)


TABLE = SettingTable(NAME, _PLAIN, _OTHERS, _read_first)


# --- writing -----------------------------------------------------------------------------------


def write_settings(request: Request, report: Report) -> Object:
    """Every field of the body but the messages and documents, in the usual form."""
    body: Object = {}
    put(body, "model", request.model)
    is_same = request.source == NAME
    if request.tools:
        write_tools(NAME, request, body, report, has_freeform=False)
        _write_strict(request, body, report)
    if isinstance(request.tool_choice, ToolChoice):
        _write_choice(request.tool_choice, body, report, is_same=is_same)
    for name, value in given_controls(request.controls):
        key = _KEYS.get(name)
        if key is None:
            _write_control(name, value, body, request, report)
        else:
            body[key] = value if is_same else _within(key, name, value, report)
    put(body, "stream", request.stream)
    return body


def _within(key: str, name: str, value: Any, report: Report) -> Any:
    """A value that the server takes."""
    least, most = _LIMITS.get(key, (0, value))
    legal = min(max(value, least), most)
    if legal != value:
        report.lose("CONTROL_CHANGED", f"@{name}", f"Cohere takes {least} to {most}")
    return legal


def _write_strict(request: Request, body: Object, report: Report) -> None:
    """Say once for all tools that they are to be followed strictly; one alone cannot be."""
    residue = own_residue(request, NAME)
    is_same = request.source == NAME
    if is_same and STRICT not in ((None if residue is None else residue.form) or "").split():
        return
    tools = [tool for tool in request.tools if tool.hosted is absent]
    if tools and all(tool.strict is True for tool in tools):
        body[STRICT] = True
    elif not is_same:
        _report_strict(tools, request, report)
    for tool in body.get("tools", ()):
        tool.get("function", {}).pop("strict", None)


def _report_strict(tools: list[Tool], request: Request, report: Report) -> None:
    for tool in tools:
        if tool.strict is True:
            place = report.tool_place(request.tools.index(tool))
            detail = "Cohere follows all tools strictly or none"
            report.lose("FIELD_DROPPED", place, detail, field_of(tool, report, "strict"))


def _write_choice(choice: ToolChoice, body: Object, report: Report, *, is_same: bool) -> None:
    names = tool_names(body.get("tools", ()))
    if choice.mode == "auto":
        return
    if not (is_same or is_possible(choice, names)):
        drop_choice(choice, report)
        return
    if choice.names and [*choice.names] != names:
        detail = "Cohere can make the model call some tool, or none, but not this one"
        report.lose("CONTROL_CHANGED", "@tool_choice", detail)
    if choice.mode != "allowed" or choice.must_call:
        body["tool_choice"] = _WORDS.get(choice.mode, "REQUIRED")


def _write_control(name: str, value: Any, body: Object, request: Request, report: Report) -> None:
    is_same = request.source == NAME
    match name:
        case "stop":
            body["stop_sequences"] = list(value if is_same else value[:_MOST_STOPS])
            if len(value) > _MOST_STOPS and not is_same:
                report.lose("CONTROL_CHANGED", "@stop", "Cohere takes five stop sequences")
        case "output":
            _write_format(value, body, report, is_same=is_same)
        case "thinking":
            body["thinking"] = _write_thinking(value, request, report)
        case "include_usage":
            # Every answer counts its tokens.
            pass
        case "parallel_calls" if value:
            pass
        case _:
            drop_control(name, value, report)


def _write_format(output: OutputFormat, body: Object, report: Report, *, is_same: bool) -> None:
    if "tools" in body and not is_same:
        if output.kind != "text":
            report.lose("CONTROL_DROPPED", "@output", "Cohere takes no format beside tools")
        return
    body["response_format"] = {"type": "text" if output.kind == "text" else "json_object"}
    if isinstance(output.schema, str):
        body["response_format"]["json_schema"] = decode_json(output.schema)
    if output.name is not absent:
        report.lose("FORMAT_NAME_DROPPED", "@output")


def _write_thinking(thinking: Thinking, request: Request, report: Report) -> Object:
    if thinking.summary is not absent:
        report.lose("CONTROL_DROPPED", "@summary", "Cohere always shows thoughts")
    if thinking.enabled is False or thinking.budget == 0 or thinking.effort == "none":
        return {"type": "disabled"}
    budget = thinking.budget
    if isinstance(thinking.effort, str):
        detail = f"no effort {thinking.effort!r} here; Cohere has a token budget"
        report.lose("CONTROL_CHANGED", "@effort", detail)
        if budget is absent:
            effort = thinking.effort if thinking.effort in BUDGETS else "medium"
            budget = budget_of(effort, request.controls.max_tokens)
    is_limited = isinstance(budget, int) and budget > 0
    return {"type": "enabled", "token_budget": budget} if is_limited else {"type": "enabled"}
