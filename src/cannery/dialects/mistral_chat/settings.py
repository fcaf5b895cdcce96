"""Everything in a Mistral request that is not a message, both ways."""

from __future__ import annotations

from typing import Any

from cannery.families.chat.settings import (
    FLAG,
    NUMBER,
    WHOLE,
    SettingTable,
    Unread,
    read_effort,
    read_format,
    read_metadata,
    read_stop,
    take_choice,
    tool_names,
)
from cannery.families.chat.tools import write_tools
from cannery.families.openai.settings import write_effort, write_output
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json
from cannery.messages.requests import Request, Thinking, ToolChoice
from cannery.wire.bodies import Object
from cannery.wire.controls import drop_choice, drop_control, given_controls, is_possible, put
from cannery.wire.losses import Report

NAME = "mistral_chat"
CONTROL_PATHS: dict[str, str | tuple[str, ...]] = {
    "seed": "random_seed",
    "candidates": "n",
    "finish": "choices[0].finish_reason",
    "parallel_calls": "parallel_tool_calls",
    "output": "response_format",
    "thinking": "reasoning_effort",
    "effort": "reasoning_effort",
}
_PLAIN: dict[str, tuple[str, tuple[type, ...]]] = {
    "max_tokens": ("max_tokens", WHOLE),
    "temperature": ("temperature", NUMBER),
    "top_p": ("top_p", NUMBER),
    "top_k": ("top_k", WHOLE),
    "random_seed": ("seed", WHOLE),
    "presence_penalty": ("presence_penalty", NUMBER),
    "frequency_penalty": ("frequency_penalty", NUMBER),
    "n": ("candidates", WHOLE),
    "parallel_tool_calls": ("parallel_calls", FLAG),
}
_OTHERS = {
    "stop": ("stop", read_stop),
    "reasoning_effort": ("thinking", read_effort),
    "metadata": ("metadata", read_metadata),
    "response_format": ("output", read_format),
}
MODELLED = frozenset(
    {
        *("model", "stream", "tools", "tool_choice", *_PLAIN, *_OTHERS),
        # of a response
        *("id", "object", "created", "choices[0].finish_reason"),
        *("usage.prompt_tokens", "usage.completion_tokens", "usage.total_tokens"),
        "usage.num_cached_tokens",
    }
)
# ``any`` and ``required`` mean the same; the first is the older word, which every model's server knows.
_CHOICES = {"auto": "auto", "none": "none", "any": "required", "required": "required"}
_WORDS = {mode: word for word, mode in reversed(_CHOICES.items())}
_CLOSER = ("parallel_calls", "temperature")
_KEYS = {control: key for key, (control, _) in _PLAIN.items() if control not in _CLOSER}
_HOTTEST = 1.5


def _read_first(unread: Unread) -> None:
    if "tool_choice" in unread.left:
        found, patch = take_choice(unread.left["tool_choice"], _CHOICES)
        unread.found.tool_choice = found
        unread.take("tool_choice", found, patch)


TABLE = SettingTable(NAME, _PLAIN, _OTHERS, _read_first)


def write_settings(request: Request, report: Report) -> Object:
    """Every field of the body but the messages, in the usual form."""
    body: Object = {}
    put(body, "model", request.model)
    is_same = request.source == NAME
    if request.tools:
        write_tools(NAME, request, body, report, has_freeform=False)
    if isinstance(request.tool_choice, ToolChoice):
        _write_choice(request.tool_choice, request, body, report)
    for name, value in given_controls(request.controls):
        key = _KEYS.get(name)
        if key is not None:
            body[key] = value
        else:
            _write_control(name, value, body, report, is_same=is_same)
    put(body, "stream", request.stream)
    return body


def _write_control(name: str, value: Any, body: Object, report: Report, *, is_same: bool) -> None:
    match name:
        case "temperature":
            body["temperature"] = value if is_same else min(value, _HOTTEST)
            if value > _HOTTEST and not is_same:
                report.lose("CONTROL_CHANGED", "@temperature", f"Mistral goes up to {_HOTTEST}")
        case "stop":
            body["stop"] = list(value)
        case "parallel_calls":
            body["parallel_tool_calls"] = value
        case "output":
            body["response_format"] = write_output(value, "json_schema")
            if not is_same and value.kind == "schema":
                body["response_format"]["json_schema"].setdefault("schema", {})
        case "metadata":
            body["metadata"] = decode_json(value)
        case "thinking":
            _write_thinking(value, body, report, is_same=is_same)
        case _:
            drop_control(name, value, report)


def _write_thinking(thinking: Thinking, body: Object, report: Report, *, is_same: bool) -> None:
    effort = write_effort(thinking, report, is_same=is_same)
    if effort is not None:
        body["reasoning_effort"] = effort
    if thinking.summary is not absent:
        report.lose("CONTROL_DROPPED", "@summary", "Mistral always shows thoughts")


def _write_choice(choice: ToolChoice, request: Request, body: Object, report: Report) -> None:
    if request.source != NAME and not is_possible(choice, tool_names(body.get("tools", ()))):
        drop_choice(choice, report)
    elif choice.mode == "named":
        body["tool_choice"] = {"type": "function", "function": {"name": choice.names[0]}}
    elif choice.mode == "allowed":
        report.lose("CONTROL_CHANGED", "@tool_choice", "Mistral cannot choose among some tools")
        body["tool_choice"] = _WORDS["required" if choice.must_call else "auto"]
    else:
        body["tool_choice"] = _WORDS[choice.mode]
