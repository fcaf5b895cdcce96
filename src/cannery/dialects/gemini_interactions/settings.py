"""Everything in an Interactions request except its input: tools, tool choice and controls, both ways.

Most controls and the tool choice are in ``generation_config``. The output shape is a ``response_format``; older clients
give a bare schema there, with ``response_mime_type`` beside it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw
from orjson import Fragment

from cannery.families.gemini.models import least_level, nearest_level
from cannery.families.gemini.settings import FIVE, UNSTRICT, fit_seed
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    OutputFormat,
    Request,
    Thinking,
    Tool,
    ToolChoice,
    new_output_format,
    new_tool,
    new_tool_choice,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Fields, Object, decode
from cannery.wire.controls import (
    FORMAT_NAME,
    effort_of,
    put,
    sent_names,
    take_listed,
)
from cannery.wire.losses import Report
from cannery.wire.residues import nested, set_again
from cannery.wire.setting_reading import NOT_READ, Reading, Said, Spelled
from cannery.wire.settings import (
    FLAG,
    NUMBER,
    TEXT,
    TEXTS,
    UNSAID,
    WHOLE,
    Form,
    Setting,
    SettingTable,
    Writing,
    among,
    fit_limit,
    unless,
    within,
)
from cannery.wire.tools import take_facts, written_tools

NAME = "gemini_interactions"
_CONFIG = "generation_config"
# The response fields that the model holds.
MODELLED_ANSWER = frozenset(
    {
        *("id", "model", "object", "created", "updated", "status", "usage", "steps", "outputs"),
        *(f"usage.total_{kind}tokens" for kind in ("", "input_", "output_", "tool_use_")),
    }
)
_LEVELS = ("minimal", "low", "medium", "high", "xhigh")
_MODES = {"auto": "auto", "none": "none", "required": "any"}
_CHOICES = {"auto": "auto", "none": "none", "any": "required", "validated": "auto"}
_JSON, _TEXT = "application/json", "text/plain"
_split_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_UNSHOWN = ("none", "omitted")


# --- tools ---------------------------------------------------------------------------------------


def take_tools(fields: Fields) -> tuple[Tool, ...]:
    """Take the tools; their parameters stay undecoded."""
    try:
        tools = _split_tools(fields["tools"])
    except msgspec.ValidationError:
        take_listed(NAME, {"tools": decode(fields["tools"])}, "tools")
        return ()
    if tools:
        del fields["tools"]
    return tuple(map(_read_tool, tools))


def _read_tool(item: dict[str, Raw]) -> Tool:
    kind = decode(item["type"]) if "type" in item else None
    name = decode(item["name"]) if "name" in item else None
    if kind != "function" or type(name) is not str or not name:
        kind = kind if type(kind) is str and kind else "unknown"
        return new_tool(kind, hosted=write_json(item))  # type: ignore[no-any-return]
    del item["type"], item["name"]
    facts = take_facts(item, strict="")
    residue = Residue(NAME, write_json({"s": item})) if item else None
    return new_tool(name, *facts, residue=residue)  # type: ignore[no-any-return]


def _write_tools(request: Request, body: Object, report: Report) -> None:
    tools = written_tools(NAME, request, report, _write_tool, unstrict=UNSTRICT)
    written = [ours for _, _, ours in tools]
    if written:
        body["tools"] = written


def _write_tool(tool: Tool, _: bool) -> Object:  # noqa: FBT001 - as written_tools says it
    declared: Object = {"type": "function", "name": tool.name}
    put(declared, "description", tool.description)
    if isinstance(tool.schema, str):
        declared["parameters"] = Fragment(tool.schema)
    return declared


# --- the choice of tools -------------------------------------------------------------------------


def _read_choice(value: Any, _: Reading) -> Said:
    choice = _choice(value)
    if choice is absent:
        return NOT_READ
    usual = _written_choice(choice)
    patch = _choice_patch(value, usual)
    return choice, Spelled(usual) if patch is None and value != usual else patch


def _choice_patch(given: Any, usual: Any) -> Object | None:
    """The patch of a tool choice with more fields than the usual one."""
    if type(given) is not dict or type(usual) is not dict:
        return None
    allowed = given["allowed_tools"]
    ours = usual["allowed_tools"]
    if any(allowed.get(key) != value for key, value in ours.items()):
        return None
    around = {key: value for key, value in given.items() if key != "allowed_tools"}
    within = {key: value for key, value in allowed.items() if key not in ours}
    return nested(around, {"allowed_tools": set_again(within)})


def _choice(value: Any) -> Any:
    """The tool choice, or absent if it is unknown."""
    if type(value) is str:
        return new_tool_choice(_CHOICES[value]) if value in _CHOICES else absent
    allowed = value.get("allowed_tools") if type(value) is dict else None
    if type(allowed) is not dict:
        return absent
    mode: Any = allowed.get("mode", "auto")
    names: Any = allowed.get("tools")
    if type(mode) is not str or mode not in _CHOICES:
        return absent
    is_named = type(names) is list and names and all(type(name) is str for name in names)
    if not is_named or mode == "none":
        return new_tool_choice(_CHOICES[mode]) if names in (None, []) else absent
    if mode == "any" and len(names) == 1:
        return new_tool_choice("named", (names[0],))
    return new_tool_choice("allowed", tuple(names), must_call=mode == "any")


def _written_choice(choice: ToolChoice) -> Any:
    """The usual form of a tool choice."""
    if choice.mode not in ("named", "allowed"):
        return _MODES[choice.mode]
    is_free = choice.mode == "allowed" and not choice.must_call
    return {"allowed_tools": {"mode": "validated" if is_free else "any", "tools": [*choice.names]}}


# --- the shape of an answer ----------------------------------------------------------------------


def _read_output(given: Any, reading: Reading) -> Said:
    """A text format, one in a list, or a bare schema with its type beside it."""
    shape = given[0] if type(given) is list and len(given) == 1 else given
    kind = reading.left.get("response_mime_type")
    if type(shape) is dict and shape.get("type") == "text":
        output = _format(shape)
    elif type(given) is dict and given and kind == _JSON and "mime_type" not in given:
        output = new_output_format("schema", write_json(given))
    else:
        return NOT_READ
    usual = _written_format(output)
    if type(given) is dict and _has_more(given, usual):
        return output, set_again({key: given[key] for key in given if key not in usual})
    return output, Spelled(usual)


def _read_type(kind: Any, reading: Reading) -> Said:
    """The output type of a request without a format."""
    if reading.left.get("response_format") is not None or kind not in (_JSON, _TEXT):
        return NOT_READ
    output = new_output_format("json" if kind == _JSON else "text")
    reading.written["response_format"] = _written_format(output)
    return output, Spelled()


def _has_more(given: Object, usual: Object) -> bool:
    """Whether an object has all fields of another, and more."""
    return all(key in given and given[key] == value for key, value in usual.items())


def _format(shape: Object) -> OutputFormat:
    schema, kind = shape.get("schema"), shape.get("mime_type")
    if type(schema) is dict and kind != _TEXT:
        return new_output_format("schema", write_json(schema))  # type: ignore[no-any-return]
    return new_output_format("json" if kind == _JSON else "text")  # type: ignore[no-any-return]


def _write_output(output: OutputFormat, to: Writing) -> Object:
    if output.name not in (absent, FORMAT_NAME):
        to.report.lose("FORMAT_NAME_DROPPED", "@output")
    if output.description is not absent:
        to.change("Gemini has no description of an output")
    return _written_format(output)


def _written_format(output: OutputFormat) -> Object:
    """The usual form of an output format."""
    shape: Object = {"type": "text", "mime_type": _TEXT if output.kind == "text" else _JSON}
    if isinstance(output.schema, str):
        shape["schema"] = decode_json(output.schema)
    return shape


# --- thinking ------------------------------------------------------------------------------------


def _read_level(value: Any, _: Reading) -> Said:
    return (value, None) if type(value) is str and value in _LEVELS else NOT_READ


def _read_summaries(value: Any, _: Reading) -> Said:
    if type(value) is not str or not value:
        return NOT_READ
    usual = _summaries(value)
    return value, None if usual == value else Spelled(usual)


def _summaries(word: str) -> str:
    return "none" if word in _UNSHOWN else "auto"


def _write_thinking(thinking: Thinking, to: Writing) -> Any:
    if isinstance(thinking.summary, str):
        config = to.body.setdefault(_CONFIG, {})
        config["thinking_summaries"] = _summaries(thinking.summary)
    asked, effort = to.request.model, thinking.effort
    model = asked if isinstance(asked, str) and not to.is_same else None
    if thinking.enabled is False or effort == "none" or thinking.budget == 0:
        level = (least_level(model) or "MINIMAL").lower()
        to.change(f"thinking is {level!r} at least")
        return level
    if effort is absent and isinstance(thinking.budget, int) and thinking.budget > 0:
        to.change("a token budget became a level", "budget")
        return effort_of(thinking.budget)
    if not isinstance(effort, str):
        return absent
    if isinstance(thinking.budget, int):
        to.drop("beside a level there is no token budget", "budget")
    known = effort if effort in _LEVELS else "high" if effort == "max" else None
    if known is None:
        to.drop(f"Gemini has no level {effort!r}", "effort")
        return absent
    level = known if to.is_same else nearest_level(known.upper(), model).lower()
    if level != effort:
        to.change(f"effort {effort!r} became {level!r}", "effort")
    return level


_CHOICE = Form((), _read_choice, lambda choice, _: _written_choice(choice))
_LEVEL, _SHOWN = f"{_CONFIG}.thinking_level", f"{_CONFIG}.thinking_summaries"
TABLE = SettingTable(
    NAME,
    (
        Setting("model", "model", TEXT),
        Setting("tool_choice", f"{_CONFIG}.tool_choice", _CHOICE, among(sent_names)),
        Setting("max_tokens", f"{_CONFIG}.max_output_tokens", WHOLE, fit_limit()),
        Setting("temperature", f"{_CONFIG}.temperature", NUMBER, within(0, 2)),
        Setting("top_p", f"{_CONFIG}.top_p", NUMBER, within(0, 1)),
        Setting("stop", f"{_CONFIG}.stop_sequences", TEXTS, FIVE),
        Setting("seed", f"{_CONFIG}.seed", WHOLE, fit_seed),
        Setting("parallel_calls", "", unless(True, "Gemini may call in parallel")),
        Setting("output", "response_format", Form((), _read_output, _write_output)),
        Setting("output", "response_mime_type", Form(read=_read_type)),
        Setting("thinking", _LEVEL, Form(write=_write_thinking)),
        Setting("effort", _LEVEL, Form(read=_read_level)),
        Setting("summary", _SHOWN, Form(read=_read_summaries)),
        # Every response reports usage, so the request for it is not written.
        Setting("include_usage", "", UNSAID),
        Setting("stream", "stream", FLAG),
    ),
    {"finish": "status"},
    tools=_write_tools,
)
