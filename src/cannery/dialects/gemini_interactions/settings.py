"""Everything in an Interactions request that is not its input: tools, their choice and controls, both ways.

Most controls and the choice of tools stand in ``generation_config``. The shape of an answer is a ``response_format``;
older clients give a bare schema there, with ``response_mime_type`` beside it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw
from orjson import Fragment

from cannery.errors import DialectError
from cannery.families.gemini.models import least_level, nearest_level
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
    new_tool,
    new_tool_choice,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Fields, Object, decode, kind_of
from cannery.wire.controls import (
    FORMAT_NAME,
    distinct,
    drop_choice,
    drop_control,
    effort_of,
    field_of,
    given_controls,
    is_possible,
    put,
    report_grammar,
)
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.residues import keep_unusual, nested, own_residue, recall, set_again, setting

NAME = "gemini_interactions"
CONFIG = "generation_config"
_NUMBER = (int, float)
# The settings in ``generation_config``: the control that each sets, and the types that it may have.
_CONFIG: dict[str, tuple[str, tuple[type, ...]]] = {
    "max_output_tokens": ("max_tokens", (int,)),
    "temperature": ("temperature", _NUMBER),
    "top_p": ("top_p", _NUMBER),
    "seed": ("seed", (int,)),
}
_KEYS = {control: key for key, (control, _) in _CONFIG.items()}
CONTROL_PATHS: dict[str, str | tuple[str, ...]] = {
    **{control: f"{CONFIG}.{key}" for control, key in _KEYS.items()},
    "stop": f"{CONFIG}.stop_sequences",
    "thinking": (f"{CONFIG}.thinking_level", f"{CONFIG}.thinking_summaries"),
    "effort": f"{CONFIG}.thinking_level",
    "summary": f"{CONFIG}.thinking_summaries",
    "tool_choice": f"{CONFIG}.tool_choice",
    "output": ("response_format", "response_mime_type"),
    "finish": "status",
}
MODELLED = frozenset(
    {
        *("model", "stream", "input", "system_instruction", "tools"),
        *("response_format", "response_mime_type"),
        *(f"{CONFIG}.{key}" for key in _CONFIG),
        *(f"{CONFIG}.{key}" for key in ("stop_sequences", "tool_choice")),
        *(f"{CONFIG}.{key}" for key in ("thinking_level", "thinking_summaries")),
    }
)
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
_SEEDS = range(-(2**31), 2**31)
_FREEFORM = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
_split_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_UNSHOWN = ("none", "omitted")


# --- reading -----------------------------------------------------------------------------------


def read_settings(fields: Fields) -> tuple[Object, Object, Object]:
    """The settings by their names in the model, the patches of those of which a part was taken, and what is written.

    They are taken from the fields of a request; what is not understood stays there.
    """
    values: Object = {}
    patches: Object = {}
    written: Object = {}
    for key, kind in (("model", str), ("stream", bool)):
        value = decode(fields[key]) if key in fields else None
        if type(value) is kind:
            values[key] = value
            del fields[key]
    if "tools" in fields:
        values["tools"] = _take_tools(fields)
    config = decode(fields[CONFIG]) if CONFIG in fields else None
    if type(config) is dict:
        found, patch = _read_config(config)
        if found:
            values |= found
            patches[CONFIG] = patch
            del fields[CONFIG]
    _take_output(fields, values, patches, written)
    return values, patches, written


def _read_config(config: Object) -> tuple[Object, Object | None]:
    """The controls that ``generation_config`` gives, and the patch of the rest."""
    found: Object = {}
    inner: Object = {}
    written: Object = {}
    for key, (name, types) in _CONFIG.items():
        if type(config.get(key)) in types:
            found[name] = config.pop(key)
    stop = config.get("stop_sequences")
    if type(stop) is list and stop and all(type(word) is str for word in stop):
        found["stop"] = tuple(config.pop("stop_sequences"))
    thinking: Object = {}
    for key, name in (("thinking_level", "effort"), ("thinking_summaries", "summary")):
        word = config.get(key)
        if type(word) is str and (word in _LEVELS or (name == "summary" and word)):
            thinking[name] = word
            keep_unusual(config, key, _summaries(word) if name == "summary" else word, written)
    if thinking:
        found["thinking"] = new_thinking(**thinking)
    choice = _read_choice(config.get("tool_choice"))
    if choice is not absent:
        found["tool_choice"] = choice
        given, usual = config["tool_choice"], _written_choice(choice)
        patch = _choice_patch(given, usual)
        if patch is None and given != usual:
            written["tool_choice"] = usual
        else:
            del config["tool_choice"]
            inner["tool_choice"] = patch
    return found, setting(config, inner, written)


def _choice_patch(given: Any, usual: Any) -> Object | None:
    """The patch of a choice that has more fields than the usual one."""
    if type(given) is not dict or type(usual) is not dict:
        return None
    allowed = given["allowed_tools"]
    ours = usual["allowed_tools"]
    if any(allowed.get(key) != value for key, value in ours.items()):
        return None
    around = {key: value for key, value in given.items() if key != "allowed_tools"}
    within = {key: value for key, value in allowed.items() if key not in ours}
    return nested(around, {"allowed_tools": set_again(within)})


def _read_choice(value: Any) -> Any:
    """The choice of tools, or absent if it makes none that is known."""
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


def _take_tools(fields: Fields) -> tuple[Tool, ...]:
    """Take the tools; what they take as parameters is not decoded."""
    try:
        tools = _split_tools(fields["tools"])
    except msgspec.ValidationError:
        _refuse_tools(decode(fields["tools"]))
        return ()
    if tools:
        del fields["tools"]
    return tuple(map(_read_tool, tools))


def _refuse_tools(value: Any) -> None:
    if value is None:
        return
    if type(value) is not list:
        raise DialectError(NAME, "tools", f"expected a list, got {kind_of(value)}")
    for index, tool in enumerate(value):
        if type(tool) is not dict:
            raise DialectError(NAME, f"tools[{index}]", f"expected an object, got {kind_of(tool)}")


def _read_tool(item: dict[str, Raw]) -> Tool:
    kind = decode(item["type"]) if "type" in item else None
    name = decode(item["name"]) if "name" in item else None
    if kind != "function" or type(name) is not str or not name:
        kind = kind if type(kind) is str and kind else "unknown"
        return new_tool(kind, hosted=write_json(item))  # type: ignore[no-any-return]
    del item["type"], item["name"]
    description: Any = decode(item["description"]) if "description" in item else absent
    if type(description) is str:
        del item["description"]
    else:
        description = absent
    schema: Any = str(item["parameters"], "utf-8") if "parameters" in item else ""
    if schema[:1] == "{":
        del item["parameters"]
    else:
        schema = absent
    residue = Residue(NAME, write_json({"s": item})) if item else None
    return new_tool(name, description, schema, residue=residue)  # type: ignore[no-any-return]


def _take_output(fields: Fields, values: Object, patches: Object, written: Object) -> None:
    """Take the shape of the answer: a format of text, one in a list, or a bare schema with its type beside it."""
    given = decode(fields["response_format"]) if "response_format" in fields else None
    kind = decode(fields["response_mime_type"]) if "response_mime_type" in fields else None
    shape = given[0] if type(given) is list and len(given) == 1 else given
    if type(shape) is dict and shape.get("type") == "text":
        output = _read_format(shape)
    elif type(given) is dict and given and kind == _JSON and "mime_type" not in given:
        output = new_output_format("schema", write_json(given))
    elif given is None and kind in (_JSON, _TEXT):
        output = new_output_format("json" if kind == _JSON else "text")
    else:
        return
    values["output"] = output
    usual = _written_format(output)
    if given == usual:
        del fields["response_format"]
    elif type(given) is dict and _has_more(given, usual):
        patches["response_format"] = {"s": {key: given[key] for key in given if key not in usual}}
        del fields["response_format"]
    else:
        written["response_format"] = usual


def _has_more(given: Object, usual: Object) -> bool:
    """Whether an object says all of another, and something beside it."""
    return all(key in given and given[key] == value for key, value in usual.items())


def _read_format(shape: Object) -> OutputFormat:
    schema, kind = shape.get("schema"), shape.get("mime_type")
    if type(schema) is dict and kind != _TEXT:
        return new_output_format("schema", write_json(schema))  # type: ignore[no-any-return]
    return new_output_format("json" if kind == _JSON else "text")  # type: ignore[no-any-return]


# --- writing -----------------------------------------------------------------------------------


def write_settings(request: Request, report: Report) -> Object:
    """Every field of the body but the instruction and the input, in the usual form."""
    body: Object = {}
    put(body, "model", request.model)
    if request.tools:
        _write_tools(request, body, report)
    config = _write_controls(request, body, report)
    if isinstance(request.tool_choice, ToolChoice):
        _write_choice(request, request.tool_choice, body, config, report)
    if config:
        body[CONFIG] = config
    put(body, "stream", request.stream)
    return body


def _write_controls(request: Request, body: Object, report: Report) -> Object:
    config: Object = {}
    for name, value in given_controls(request.controls):
        if name in _KEYS:
            config[_KEYS[name]] = value
        elif name == "stop":
            config["stop_sequences"] = list(value)
        elif name == "output":
            body["response_format"] = _write_output(value, report)
        elif name == "thinking":
            _write_thinking(value, request, config, report)
        elif name == "parallel_calls":
            if value is False:
                report.lose("CONTROL_DROPPED", "@parallel_calls", "Gemini may call in parallel")
        elif name != "include_usage":
            # Usage comes with every answer, so asking for it needs no words.
            drop_control(name, value, report)
    if request.source != NAME:
        _fit_limits(config, report)
    return config


def _fit_limits(config: Object, report: Report) -> None:
    if len(config.get("stop_sequences", ())) > 5:
        del config["stop_sequences"][5:]
        report.lose("CONTROL_CHANGED", "@stop", "Gemini takes five stop sequences")
    if config.get("seed", 0) not in _SEEDS:
        del config["seed"]
        report.lose("CONTROL_DROPPED", "@seed", "Gemini takes a seed of 32 bits")


def _write_tools(request: Request, body: Object, report: Report) -> None:
    written: list[Any] = []
    for place, tool in distinct(request, NAME, report):
        residue = own_residue(tool, NAME)
        if residue is None:
            report_residue(tool, report, place)
        if isinstance(tool.hosted, str):
            written.append(Fragment(tool.hosted))
            continue
        if request.source != NAME:
            _report_tool(tool, report, place)
        declared: Object = {"type": "function", "name": tool.name}
        put(declared, "description", tool.description)
        if tool.is_freeform:
            declared["parameters"] = _FREEFORM
        elif isinstance(tool.schema, str):
            declared["parameters"] = Fragment(tool.schema)
        written.append(declared if residue is None else recall(declared, residue.part))
    if written:
        body["tools"] = written


def _report_tool(tool: Tool, report: Report, place: str) -> None:
    if tool.is_freeform:
        report.lose("FREEFORM_WRAPPED", place)
        report.freeform.add(tool.name)
    report_grammar(tool, report, place)
    if tool.strict is True:
        within = field_of(tool, report, "strict")
        report.lose("FIELD_DROPPED", place, "Gemini has no 'strict' for a function", within)


def _write_choice(
    request: Request, choice: ToolChoice, body: Object, config: Object, report: Report
) -> None:
    sent = [str(tool.get("name")) for tool in body.get("tools", ()) if isinstance(tool, dict)]
    if request.source != NAME and not is_possible(choice, sent):
        drop_choice(choice, report)
        return
    config["tool_choice"] = _written_choice(choice)


def _written_choice(choice: ToolChoice) -> Any:
    """The usual form of a choice."""
    if choice.mode not in ("named", "allowed"):
        return _MODES[choice.mode]
    is_free = choice.mode == "allowed" and not choice.must_call
    return {"allowed_tools": {"mode": "validated" if is_free else "any", "tools": [*choice.names]}}


def _write_output(output: OutputFormat, report: Report) -> Object:
    if output.name not in (absent, FORMAT_NAME):
        report.lose("FORMAT_NAME_DROPPED", "@output")
    if output.description is not absent:
        report.lose("CONTROL_CHANGED", "@output", "Gemini has no description of an output")
    return _written_format(output)


def _written_format(output: OutputFormat) -> Object:
    """The usual form of an output format."""
    shape: Object = {"type": "text", "mime_type": _TEXT if output.kind == "text" else _JSON}
    if isinstance(output.schema, str):
        shape["schema"] = decode_json(output.schema)
    return shape


def _summaries(word: str) -> str:
    return "none" if word in _UNSHOWN else "auto"


def _write_thinking(thinking: Thinking, request: Request, config: Object, report: Report) -> None:
    is_same = request.source == NAME
    model = request.model if isinstance(request.model, str) and not is_same else None
    effort = thinking.effort
    if thinking.enabled is False or effort == "none" or thinking.budget == 0:
        level = (least_level(model) or "MINIMAL").lower()
        config["thinking_level"] = level
        report.lose("CONTROL_CHANGED", "@thinking", f"thinking is {level!r} at least")
    elif effort is absent and isinstance(thinking.budget, int) and thinking.budget > 0:
        config["thinking_level"] = effort_of(thinking.budget)
        report.lose("CONTROL_CHANGED", "@budget", "a token budget became a level")
    elif isinstance(effort, str):
        if isinstance(thinking.budget, int):
            report.lose("CONTROL_DROPPED", "@budget", "beside a level there is no token budget")
        known = effort if effort in _LEVELS else "high" if effort == "max" else None
        if known is None:
            report.lose("CONTROL_DROPPED", "@effort", f"Gemini has no level {effort!r}")
        else:
            level = known if is_same else nearest_level(known.upper(), model).lower()
            config["thinking_level"] = level
            if level != effort:
                report.lose("CONTROL_CHANGED", "@effort", f"effort {effort!r} became {level!r}")
    if isinstance(thinking.summary, str):
        config["thinking_summaries"] = _summaries(thinking.summary)
