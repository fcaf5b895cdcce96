"""Everything in a Chat Completions request that is not a message: tools, tool choice and controls, both ways."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from msgspec import Struct

from cannery.families.chat.tools import write_tools
from cannery.families.openai.settings import (
    UNSHOWN,
    take_output,
    write_effort,
    write_metadata,
    write_output,
)
from cannery.families.openai.shared import put_shared, shared_settings
from cannery.messages.absence import absent
from cannery.messages.json_text import write_json
from cannery.messages.requests import (
    DEFAULT_CONTROLS,
    Controls,
    Request,
    Thinking,
    ToolChoice,
    new_controls,
    new_thinking,
    new_tool_choice,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Fields, Object, decode
from cannery.wire.controls import drop_choice, drop_control, given_controls, is_possible, put
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import nested, own_residue, set_again, take_usual

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

# --- reading -----------------------------------------------------------------------------------

_NUMBER, _WHOLE, _FLAG, _WORDS = (int, float), (int,), (bool,), (str,)
# Settings that are one value: the control that each sets, and the types that it may have.
_PLAIN: dict[str, tuple[str, tuple[type, ...]]] = {
    "temperature": ("temperature", _NUMBER),
    "top_p": ("top_p", _NUMBER),
    "seed": ("seed", _WHOLE),
    "presence_penalty": ("presence_penalty", _NUMBER),
    "frequency_penalty": ("frequency_penalty", _NUMBER),
    "n": ("candidates", _WHOLE),
    "parallel_tool_calls": ("parallel_calls", _FLAG),
    "user": ("user", _WORDS),
}


class Settings(Struct):
    """The settings of a request as they were read."""

    model: Any = absent
    stream: Any = absent
    tool_choice: Any = absent
    controls: Controls = DEFAULT_CONTROLS
    residue: Residue | None = None


def read_settings(fields: Fields, places: Places) -> Settings:
    """All fields of a request but its messages and tools; what is not understood becomes the residue."""
    found = Settings()
    controls: Object = {}
    left: Object = {}
    for key, field in fields.items():
        value = decode(field)
        row = _PLAIN.get(key)
        if row is not None and type(value) in row[1]:
            controls[row[0]] = value
        elif key == "model" and type(value) is str:
            found.model = value
        elif key == "stream" and type(value) is bool:
            found.stream = value
        else:
            left[key] = value
    if left:
        _read_rest(left, found, controls, places)
    if controls:
        found.controls = new_controls(**controls)
    return found


def _read_rest(left: Object, found: Settings, controls: Object, places: Places) -> None:
    """The settings that take more than one look; each is taken out of ``left``, or stays there."""
    patches: Object = {}
    form: list[str] = []
    if "max_completion_tokens" in left or "max_tokens" in left:
        _read_limit(left, controls, form, places)
    if "tool_choice" in left or "function_call" in left:
        found.tool_choice = _read_choice(left, patches, form, places)
    for key in [key for key in left if key in _OTHERS]:
        control, patch = _OTHERS[key](left[key])
        if control is not absent:
            controls[_NAMES.get(key, key)] = control
            if patch is not _SPELLED:
                del left[key]
                patches[key] = patch
    envelope = nested(left, patches)
    if envelope is not None or form:
        text = None if envelope is None else write_json(envelope)
        found.residue = Residue(NAME, None, text, " ".join(form) or None)


def _read_limit(left: Object, controls: Object, form: list[str], places: Places) -> None:
    """The limit of tokens under its newer or its older name."""
    limit, older = left.get("max_completion_tokens"), left.get("max_tokens")
    if type(limit) is int:
        controls["max_tokens"] = left.pop("max_completion_tokens")
    elif type(older) is int:
        controls["max_tokens"] = older
        places.settings["max_tokens"] = ("max_tokens",)
        if "max_completion_tokens" not in left:
            del left["max_tokens"]
            form.append("max_tokens")


# What a setting says, and the patch of its spelling.
_Read = tuple[Any, Object | None]
# The patch of a setting that is understood and kept to the letter, since it is not spelled in the usual way.
_SPELLED: Object = {}


def _read_stop(value: Any) -> _Read:
    if type(value) is str:
        return (value,), _SPELLED
    if type(value) is list and value and all(type(item) is str for item in value):
        return tuple(value), None
    return absent, None


def _read_effort(value: Any) -> _Read:
    return (new_thinking(effort=value) if type(value) is str else absent), None


def _read_metadata(value: Any) -> _Read:
    return (write_json(value) if type(value) is dict and value else absent), None


def _read_stream_options(value: Any) -> _Read:
    if type(value) is not dict or type(value.get("include_usage")) is not bool:
        return absent, None
    return value.pop("include_usage"), set_again(value)


def _read_format(value: Any) -> _Read:
    return take_output(value, "json_schema")


_OTHERS: dict[str, Callable[[Any], _Read]] = {
    "stop": _read_stop,
    "reasoning_effort": _read_effort,
    "metadata": _read_metadata,
    "stream_options": _read_stream_options,
    "response_format": _read_format,
}
_NAMES = {
    "reasoning_effort": "thinking",
    "stream_options": "include_usage",
    "response_format": "output",
}


def _read_choice(left: Object, patches: Object, form: list[str], places: Places) -> Any:
    """The tool choice under its newer or its older name, or absent."""
    key = "tool_choice" if "tool_choice" in left else "function_call"
    places.settings["tool_choice"] = (key,)
    choice = left[key]
    is_older = key == "function_call"
    if is_older:
        form.append(key)
    if type(choice) is str and choice in ("auto", "none", "required"):
        del left[key]
        return new_tool_choice(choice)
    if type(choice) is not dict:
        return absent
    allowed = choice.get("allowed_tools") if choice.get("type") == "allowed_tools" else None
    if is_older:
        # The older name only knows the name of a function, which stands by itself.
        if type(choice.get("name")) is not str:
            return absent
        found, patch = new_tool_choice("named", (choice.pop("name"),)), set_again(choice)
    elif type(allowed) is dict:
        found, patch = _read_allowed(choice, allowed)
    else:
        name, is_freeform, patch = _take_named(choice)
        found = absent
        if name is not None:
            found = new_tool_choice("named", (name,), is_freeform=is_freeform)
    if found is not absent:
        del left[key]
        patches[key] = patch
    return found


def _take_named(tool: Object) -> tuple[str | None, bool, Object | None]:
    """The name of a tool that is chosen, whether it takes free text, and the patch of what is left."""
    name, is_freeform = _chosen(tool)
    if name is None:
        return None, False, None
    kind = "custom" if is_freeform else "function"
    dropped: list[str] = []
    take_usual(tool, "type", kind, dropped)
    inner = tool.get(kind)
    if type(inner) is not dict or inner.get("name") != name:
        # The name stands a level higher, as in Responses.
        return name, is_freeform, nested(tool, {}, [*dropped, kind])
    del inner["name"], tool[kind]
    return name, is_freeform, nested(tool, {kind: set_again(inner)}, dropped)


def _chosen(choice: Object) -> tuple[str | None, bool]:
    kind = choice.get("type", "function")
    inner = choice.get(kind, choice) if type(kind) is str else choice
    name = inner.get("name") if type(inner) is dict else None
    return (name if type(name) is str else None), kind == "custom"


def _read_allowed(choice: Object, allowed: Object) -> tuple[Any, Object | None]:
    tools = allowed.get("tools")
    if type(tools) is not list or not tools:
        return absent, None
    if not all(type(tool) is dict and _chosen(tool)[0] is not None for tool in tools):
        return absent, None
    must_call = allowed.get("mode") == "required"
    read = [_take_named(tool) for tool in tools]
    patches = {str(index): patch for index, (_, _, patch) in enumerate(read) if patch is not None}
    dropped: list[str] = []
    take_usual(allowed, "mode", "required" if must_call else "auto", dropped)
    del allowed["tools"], choice["allowed_tools"], choice["type"]
    inner = nested(allowed, {"tools": {"i": patches} if patches else None}, dropped)
    names = tuple(str(name) for name, _, _ in read)
    return new_tool_choice("allowed", names, must_call), nested(choice, {"allowed_tools": inner})


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
            put_shared(request, NAME, body)
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


def takes_over(request: Request) -> Collection[str]:
    """The settings that are taken from the residue of the sibling."""
    return shared_settings(request, NAME).places


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
    if not (is_same or is_possible(choice, _names(body.get("tools", ())))):
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
