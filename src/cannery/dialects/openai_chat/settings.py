"""Everything in a Chat Completions request that is not a message: tools, tool choice and controls, both ways."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from cannery.families.chat.tools import write_tools
from cannery.families.openai.settings import (
    UNSHOWN,
    read_output,
    write_effort,
    write_metadata,
    write_output,
)
from cannery.families.openai.shared import put_shared, shared_settings
from cannery.messages.absence import absent
from cannery.messages.json_text import write_json
from cannery.messages.requests import (
    Controls,
    OutputFormat,
    Request,
    Thinking,
    ToolChoice,
    new_controls,
    new_thinking,
    new_tool_choice,
)
from cannery.wire.bodies import Object
from cannery.wire.controls import (
    drop_choice,
    drop_controls,
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
        # of a response
        "id",
        "object",
        "created",
        "choices[0].finish_reason",
        "choices[0].message.annotations",
        "usage.completion_tokens",
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
        output=read_output(body.get("response_format"), "json_schema"),
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
    controls = request.controls
    if at_home or body.get("tools"):
        put(body, "parallel_tool_calls", controls.parallel_calls)
    elif controls.parallel_calls is False:
        report.lose("CONTROL_DROPPED", "@parallel_calls", "without tools there are no calls")
    limit_key = "max_tokens" if is_old(request, "max_tokens") else "max_completion_tokens"
    put(body, limit_key, controls.max_tokens)
    _write_controls(controls, body, report, at_home=at_home)
    put(body, "stream", request.stream)
    if not at_home:
        if request.stream is not True:
            # Chat refuses options of a stream without one.
            body.pop("stream_options", None)
        put_shared(request, NAME, body)
    return body


def takes_over(request: Request) -> Collection[str]:
    """The settings that are taken from the residue of the sibling."""
    return shared_settings(request, NAME).places


def old_names(body: Object) -> str | None:
    """The settings that a body gives under older names, as the form of a residue."""
    names = []
    if type(body.get("max_tokens")) is int and "max_completion_tokens" not in body:
        names.append("max_tokens")
    if "function_call" in body and "tool_choice" not in body:
        names.append("function_call")
    return " ".join(names) or None


def is_old(request: Request, name: str) -> bool:
    """Whether a request said something under an older name."""
    residue = own_residue(request, NAME)
    return residue is not None and name in (residue.form or "").split()


def _write_controls(controls: Controls, body: Object, report: Report, *, at_home: bool) -> None:
    limit, temperature, top_p = controls.max_tokens, controls.temperature, controls.top_p
    put(body, "temperature", temperature)
    put(body, "top_p", top_p)
    if controls == new_controls(limit, temperature, top_p):
        # Most requests have no more than that.
        return
    if isinstance(controls.stop, tuple):
        body["stop"] = list(controls.stop)
        if len(controls.stop) > 4 and not at_home:
            del body["stop"][4:]
            report.lose("CONTROL_CHANGED", "@stop", "Chat takes four stop sequences")
    put(body, "seed", controls.seed)
    put(body, "presence_penalty", controls.presence_penalty)
    put(body, "frequency_penalty", controls.frequency_penalty)
    put(body, "n", controls.candidates)
    if isinstance(controls.output, OutputFormat):
        body["response_format"] = write_output(controls.output, "json_schema")
    if isinstance(controls.thinking, Thinking):
        _write_thinking(controls.thinking, body, report, at_home=at_home)
    write_metadata(controls, body, report, at_home=at_home)
    put(body, "user", controls.user)
    if controls.include_usage is not absent:
        body["stream_options"] = {"include_usage": controls.include_usage}
    drop_controls(controls, _KNOWN, report)


def _write_thinking(thinking: Thinking, body: Object, report: Report, *, at_home: bool) -> None:
    effort = write_effort(thinking, report, at_home=at_home)
    if effort is not None:
        body["reasoning_effort"] = effort
    if thinking.summary not in (absent, *UNSHOWN):
        report.lose("CONTROL_DROPPED", "@summary", "Chat cannot show thoughts")


def _write_choice(request: Request, body: Object, report: Report, *, at_home: bool) -> None:
    choice = request.tool_choice
    if not isinstance(choice, ToolChoice):
        return
    if not (at_home or is_possible(choice, _names(body.get("tools", ())))):
        drop_choice(choice, report)
        return
    if is_old(request, "function_call"):
        body["function_call"] = {"name": choice.names[0]} if choice.names else choice.mode
    elif choice.mode == "allowed":
        mode = "required" if choice.must_call else "auto"
        allowed = {"mode": mode, "tools": _named(choice, request)}
        body["tool_choice"] = {"type": "allowed_tools", "allowed_tools": allowed}
    elif choice.mode == "named":
        body["tool_choice"] = _named(choice, request)[0]
    else:
        body["tool_choice"] = choice.mode


def _named(choice: ToolChoice, request: Request) -> list[Object]:
    """The tools that a choice names."""
    freeform = {tool.name for tool in request.tools if tool.is_freeform}
    kinds = (
        "custom" if choice.is_freeform or name in freeform else "function" for name in choice.names
    )
    return [
        {"type": kind, kind: {"name": name}} for kind, name in zip(kinds, choice.names, strict=True)
    ]


def _names(tools: Iterable[Object]) -> list[str]:
    """The names of the tools of a body."""
    return [str(_chosen(tool)[0]) for tool in tools]
