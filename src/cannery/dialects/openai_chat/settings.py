"""Everything in a Chat Completions request that is not a message: tools, tool choice and controls, both ways."""

from __future__ import annotations

from typing import Any

from cannery.families.chat.settings import (
    FLAG,
    NUMBER,
    WHOLE,
    WORDS,
    Read,
    SettingTable,
    Unread,
    named_tools,
    read_effort,
    read_format,
    read_metadata,
    read_stop,
    take_choice,
    tool_names,
)
from cannery.families.chat.tools import write_tools
from cannery.families.openai.settings import (
    UNSHOWN,
    write_effort,
    write_metadata,
    write_output,
)
from cannery.families.openai.shared import put_shared
from cannery.messages.absence import absent
from cannery.messages.requests import (
    Request,
    Thinking,
    ToolChoice,
    new_tool_choice,
)
from cannery.wire.bodies import Object
from cannery.wire.controls import drop_choice, drop_control, given_controls, is_possible, put
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, set_again

NAME = "openai_chat"
CONTROL_PATHS: dict[str, str | tuple[str, ...]] = {
    "max_tokens": ("max_completion_tokens", "max_tokens"),
    "tool_choice": ("tool_choice", "function_call"),
    "candidates": "n",
    "finish": "choices[0].finish_reason",
    "citations": "choices[0].message.annotations",
    "parallel_calls": "parallel_tool_calls",
    "output": "response_format",
    "thinking": "reasoning_effort",
    "effort": "reasoning_effort",
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
    }
)
# The same of an answer.
MODELLED_ANSWER = frozenset(
    {
        "model",
        "id",
        "object",
        "created",
        "choices[0].finish_reason",
        "choices[0].message.annotations",
        "usage.completion_tokens",
        "usage.total_tokens",
    }
)

# --- reading -----------------------------------------------------------------------------------

_CHOICES = {word: word for word in ("auto", "none", "required")}
# Settings that are one value: the control that each sets, and the types that it may have.
_PLAIN: dict[str, tuple[str, tuple[type, ...]]] = {
    "temperature": ("temperature", NUMBER),
    "top_p": ("top_p", NUMBER),
    "seed": ("seed", WHOLE),
    "presence_penalty": ("presence_penalty", NUMBER),
    "frequency_penalty": ("frequency_penalty", NUMBER),
    "n": ("candidates", WHOLE),
    "parallel_tool_calls": ("parallel_calls", FLAG),
    "user": ("user", WORDS),
}


def _read_first(unread: Unread) -> None:
    """The limit and the tool choice, which have an older name each."""
    left = unread.left
    if "max_completion_tokens" in left or "max_tokens" in left:
        _read_limit(unread)
    if "tool_choice" in left or "function_call" in left:
        unread.found.tool_choice = _read_choice(unread)


def _read_limit(unread: Unread) -> None:
    """The limit of tokens under its newer or its older name."""
    left, controls = unread.left, unread.controls
    limit, older = left.get("max_completion_tokens"), left.get("max_tokens")
    if type(limit) is int:
        controls["max_tokens"] = left.pop("max_completion_tokens")
    elif type(older) is int:
        controls["max_tokens"] = older
        unread.places.settings["max_tokens"] = ("max_tokens",)
        if "max_completion_tokens" in left:
            unread.written["max_completion_tokens"] = older
        else:
            del left["max_tokens"]
            unread.form.append("max_tokens")


def _read_stream_options(value: Any) -> Read:
    if type(value) is not dict or type(value.get("include_usage")) is not bool:
        return absent, None
    return value.pop("include_usage"), set_again(value)


def _read_choice(unread: Unread) -> Any:
    """The tool choice under its newer or its older name, or absent."""
    left = unread.left
    key = "tool_choice" if "tool_choice" in left else "function_call"
    unread.places.settings["tool_choice"] = (key,)
    choice = left[key]
    if key == "tool_choice":
        found, patch = take_choice(choice, _CHOICES)
    else:
        unread.form.append(key)
        found, patch = _read_older_choice(choice)
    unread.take(key, found, patch)
    return found


def _read_older_choice(choice: Any) -> Read:
    """The older name only knows the name of a function, which stands by itself."""
    if type(choice) is dict and type(choice.get("name")) is str:
        return new_tool_choice("named", (choice.pop("name"),)), set_again(choice)
    return take_choice(choice, _CHOICES) if type(choice) is str else (absent, None)


TABLE = SettingTable(
    NAME,
    _PLAIN,
    {
        "stop": ("stop", read_stop),
        "reasoning_effort": ("thinking", read_effort),
        "metadata": ("metadata", read_metadata),
        "stream_options": ("include_usage", _read_stream_options),
        "response_format": ("output", read_format),
    },
    _read_first,
)


# --- writing -----------------------------------------------------------------------------------


def write_settings(request: Request, report: Report) -> Object:
    """Every field of the body but the messages, in the usual form."""
    body: Object = {}
    put(body, "model", request.model)
    if request.tools:
        write_tools(NAME, request, body, report)
    is_same = request.source == NAME
    if request.tool_choice is not absent:
        _write_choice(request, body, report, is_same=is_same)
    for name, value in given_controls(request.controls):
        key = _KEYS.get(name)
        if key is not None:
            body[key] = value
        else:
            _write_control(name, value, body, request, report)
    put(body, "stream", request.stream)
    if not is_same:
        if request.stream is not True:
            # Chat refuses options of a stream without one.
            body.pop("stream_options", None)
        if request.residue is not None:
            put_shared(report.taken, body)
    return body


# The fields of controls that are one value.
_KEYS = {control: key for key, (control, _) in _PLAIN.items() if control != "parallel_calls"}


def _write_control(name: str, value: Any, body: Object, request: Request, report: Report) -> None:
    is_same = request.source == NAME
    match name:
        case "max_tokens":
            key = "max_tokens" if is_old(request, "max_tokens") else "max_completion_tokens"
            body[key] = value
        case "parallel_calls":
            if is_same or body.get("tools"):
                body["parallel_tool_calls"] = value
            elif value is False:
                report.lose(
                    "CONTROL_DROPPED", "@parallel_calls", "without tools there are no calls"
                )
        case "stop":
            body["stop"] = list(value if is_same else value[:4])
            if len(value) > 4 and not is_same:
                report.lose("CONTROL_CHANGED", "@stop", "Chat takes four stop sequences")
        case "output":
            body["response_format"] = write_output(value, "json_schema")
        case "thinking":
            _write_thinking(value, body, report, is_same=is_same)
        case "metadata":
            write_metadata(request.controls, body, report, is_same=is_same)
        case "include_usage":
            body["stream_options"] = {"include_usage": value}
        case _:
            drop_control(name, value, report)


def is_old(request: Request, name: str) -> bool:
    """Whether a request said something under an older name."""
    residue = own_residue(request, NAME)
    return residue is not None and name in (residue.form or "").split()


def _write_thinking(thinking: Thinking, body: Object, report: Report, *, is_same: bool) -> None:
    effort = write_effort(thinking, report, is_same=is_same)
    if effort is not None:
        body["reasoning_effort"] = effort
    if thinking.summary not in (absent, *UNSHOWN):
        report.lose("CONTROL_DROPPED", "@summary", "Chat cannot show thoughts")


def _write_choice(request: Request, body: Object, report: Report, *, is_same: bool) -> None:
    choice = request.tool_choice
    if not isinstance(choice, ToolChoice):
        return
    if not (is_same or is_possible(choice, tool_names(body.get("tools", ())))):
        drop_choice(choice, report)
        return
    if is_old(request, "function_call"):
        body["function_call"] = {"name": choice.names[0]} if choice.names else choice.mode
    elif choice.mode == "allowed":
        mode = "required" if choice.must_call else "auto"
        allowed = {"mode": mode, "tools": named_tools(choice, request)}
        body["tool_choice"] = {"type": "allowed_tools", "allowed_tools": allowed}
    elif choice.mode == "named":
        body["tool_choice"] = named_tools(choice, request)[0]
    else:
        body["tool_choice"] = choice.mode
