"""Everything in a generateContent request that is not a message: tools, tool choice and controls, both ways.

The model and the choice to stream stand in the URL, so no body has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from cannery.dialects.gemini_generate.models import (
    budgets,
    least_level,
    nearest_level,
    takes_levels,
    thinks,
)
from cannery.dialects.gemini_generate.schemas import is_capital, to_capitals, to_json_schema
from cannery.dialects.gemini_generate.spelling import (
    NAME,
    Object,
    camel,
    get,
    read_form,
    snake,
    spelled,
    usual_keys,
    write_form,
)
from cannery.messages.absence import Absential, absent
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
from cannery.messages.residue import Residue
from cannery.wire.controls import (
    BUDGETS,
    FORMAT_NAME,
    budget_of,
    distinct,
    drop_choice,
    drop_controls,
    field_of,
    is_possible,
    lose_thinking,
    number,
    put,
    report_grammar,
    switch_place,
    text,
)
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, patch_text, recall
from cannery.wire.schemas import is_strict

CONFIG, CHOICE = "generationConfig", "toolConfig.functionCallingConfig"
_FIELDS = {
    "max_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "stop": "stopSequences",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "candidates": "candidateCount",
}
_SCHEMA_KEYS = ("responseSchema", "responseJsonSchema")
CONTROL_PATHS: dict[str, str | tuple[str, ...]] = {
    **{name: f"{CONFIG}.{key}" for name, key in _FIELDS.items()},
    "output": (f"{CONFIG}.responseMimeType", *(f"{CONFIG}.{key}" for key in _SCHEMA_KEYS)),
    "thinking": f"{CONFIG}.thinkingConfig",
    "effort": f"{CONFIG}.thinkingConfig.thinkingLevel",
    "budget": f"{CONFIG}.thinkingConfig.thinkingBudget",
    "summary": f"{CONFIG}.thinkingConfig.includeThoughts",
    "tool_choice": CHOICE,
    "finish": "candidates[0].finishReason",
}
# What parallel calls and usage at the end of a stream ask for is what Gemini does anyway.
_KNOWN = frozenset(CONTROL_PATHS) | {"parallel_calls", "include_usage"}
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_LEVELS = {
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "XHIGH",
}
_FREEFORM = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
_JSON, _TEXT, _ENUM = "application/json", "text/plain", "text/x.enum"
_SEEDS = range(-(2**31), 2**31)


def _spellings(path: str) -> Iterator[str]:
    """Every way to spell a path."""
    for steps in product(*((step, snake(step)) for step in path.split("."))):
        yield ".".join(steps)


MODELLED = frozenset(
    spelling
    for path in (
        *(path for path in CONTROL_PATHS.values() if isinstance(path, str)),
        *CONTROL_PATHS["output"],
        f"{CONFIG}.thinkingConfig.includeThoughts",
        f"{CHOICE}.mode",
        f"{CHOICE}.allowedFunctionNames",
        "toolConfig",
        "tools",
        # of a response
        "candidates[0].finishReason",
        "candidates[0].index",
        "responseId",
        "modelVersion",
        "createTime",
        *(f"usageMetadata.{kind}TokenCount" for kind in ("prompt", "candidates", "total")),
    )
    for spelling in _spellings(path)
)

# --- reading -----------------------------------------------------------------------------------


def whole(value: Any) -> Any:
    """An integer, also spelled as digits or as a float (protobuf's JSON takes all three), or absent."""
    if type(value) is str and value.isascii() and value.removeprefix("-").isdecimal():
        return int(value) if len(value) < 19 else absent
    if type(value) is float and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value if type(value) is int else absent


def read_controls(body: Object) -> Controls:
    """The controls of a request; what has an unexpected type is left to the residue."""
    config = get(body, CONFIG)
    if type(config) is not dict:
        return new_controls()  # type: ignore[no-any-return]
    config = usual_keys(config)
    stop: Any = config.get("stopSequences")
    is_stop = type(stop) is list and stop and all(type(item) is str for item in stop)
    return new_controls(  # type: ignore[no-any-return]
        max_tokens=whole(config.get("maxOutputTokens")),
        temperature=number(config.get("temperature")),
        top_p=number(config.get("topP")),
        top_k=whole(config.get("topK")),
        stop=tuple(stop) if is_stop else absent,
        seed=whole(config.get("seed")),
        presence_penalty=number(config.get("presencePenalty")),
        frequency_penalty=number(config.get("frequencyPenalty")),
        candidates=whole(config.get("candidateCount")),
        output=_read_output(config),
        thinking=_read_thinking(config.get("thinkingConfig")),
    )


def read_shapes(body: Object) -> list[str]:
    """The shapes of settings that a request remembers."""
    config = get(body, CONFIG)
    schema = get(config, "responseSchema")
    if type(schema) is not dict or type(get(config, "responseJsonSchema")) is dict:
        return []
    return ["responseSchema", "capitals" if is_capital(schema) else ""]


def _read_output(config: Object) -> Any:
    kind = config.get("responseMimeType")
    given, own = config.get("responseJsonSchema"), config.get("responseSchema")
    if kind is None and given is None and own is None:
        return absent
    schema = given if type(given) is dict else to_json_schema(own)
    if type(schema) is dict and kind in (_JSON, _ENUM, None):
        return new_output_format("schema", write_json(schema), strict=is_strict(schema) or absent)
    if kind == _JSON:
        return new_output_format("json")
    return new_output_format("text") if kind == _TEXT else absent


def _read_thinking(value: Any) -> Any:
    if value is None:
        return absent
    budget, level = whole(get(value, "thinkingBudget")), text(get(value, "thinkingLevel"))
    shown = get(value, "includeThoughts")
    found: Object = {"summary": "auto" if shown else "none"} if type(shown) is bool else {}
    if isinstance(budget, int):
        found["enabled"] = budget != 0
        if budget < 0:
            found["adaptive"] = True
        elif budget:
            found["budget"] = budget
    elif isinstance(level, str) and level.upper() in _LEVELS.values():
        found["effort"] = level.lower()
    return new_thinking(**found) if found else absent


def read_tools(body: Object) -> tuple[Tool, ...]:
    """The tools of a request: one for each declared function, and one for each thing that Google runs."""
    listed = body.get("tools")
    if type(listed) is not list:
        return ()
    return tuple(tool for group in listed for tool in _read_group(group))


def tool_paths(body: Object) -> list[str]:
    """Where each tool of a request stands."""
    listed = body.get("tools")
    return [
        f"tools[{index}]{path}"
        for index, group in enumerate(listed if type(listed) is list else ())
        for path in _group_paths(group)
    ]


def _group_paths(group: Any) -> Iterator[str]:
    key = spelled(group, "functionDeclarations") if type(group) is dict else ""
    declared = 0
    for tool in _read_group(group):
        if tool.hosted is absent:
            yield f".{key}[{declared}]"
            declared += 1
        else:
            # What stands beside functions is a part of their group.
            yield f".{next(iter(decode_json(str(tool.hosted))))}" if declared else ""


def _read_group(group: Any) -> Iterator[Tool]:
    key = spelled(group, "functionDeclarations") if type(group) is dict else ""
    declared = group.get(key) if key else None
    if not group or not key or (declared is not None and not _are_named(declared)):
        yield _hosted(group, "")
        return
    joined = ""
    for item in declared or ():
        yield _read_declaration(item, [joined, key if key != "functionDeclarations" else ""])
        joined = "joined"
    for name, value in group.items():
        if name != key or declared is None:
            yield _hosted({name: value}, joined)
            joined = "joined"


def _are_named(declared: Any) -> bool:
    return (
        type(declared) is list
        and bool(declared)
        and all(type(item) is dict and _is_name(item.get("name")) for item in declared)
    )


def _is_name(value: Any) -> bool:
    return type(value) is str and bool(value)


def _hosted(group: Any, joined: str) -> Tool:
    name = next(iter(group), "") if type(group) is dict else ""
    residue = Residue(NAME, form=write_form(["hosted", joined]))
    return new_tool(camel(name) or "unknown", hosted=write_json(group), residue=residue)  # type: ignore[no-any-return]


def _read_declaration(item: Object, shapes: list[str]) -> Tool:
    schema, own = get(item, "parametersJsonSchema"), get(item, "parameters")
    if type(schema) is not dict and type(own) is dict:
        schema = to_json_schema(own)
        shapes = [*shapes, "parameters", "capitals" if is_capital(own) else ""]
    known = (
        item["name"],
        text(item.get("description")),
        write_json(schema) if type(schema) is dict else absent,
    )
    tool = new_tool(*known)
    form = write_form(shapes)
    part = patch_text(_write_declaration(tool, frozenset(shapes)), item, camel)
    if form is None and part is None:
        return tool  # type: ignore[no-any-return]
    return new_tool(*known, residue=Residue(NAME, part=part, form=form))  # type: ignore[no-any-return]


def read_tool_choice(body: Object) -> Any:
    """The tool choice of a request, or absent."""
    config = get(get(body, "toolConfig"), "functionCallingConfig")
    mode, allowed = get(config, "mode"), get(config, "allowedFunctionNames")
    if type(mode) is not str:
        return absent
    names: tuple[str, ...] = ()
    if type(allowed) is list and all(type(name) is str for name in allowed):
        names = tuple(allowed)
    match mode.upper():
        case "NONE":
            return new_tool_choice("none")
        case "ANY" if names:
            if len(names) == 1:
                return new_tool_choice("named", names)
            return new_tool_choice("allowed", names, must_call=True)
        case "ANY":
            return new_tool_choice("required")
        case "AUTO" | "VALIDATED":
            return new_tool_choice("allowed", names) if names else new_tool_choice("auto")
        case _:
            return absent


# --- writing -----------------------------------------------------------------------------------


def write_settings(request: Request, report: Report, shapes: frozenset[str]) -> Object:
    """Every field of the body but the messages, in the usual form."""
    body: Object = {}
    _write_tools(request, body, report)
    _write_choice(request, body, report)
    config = _write_controls(request, report, shapes)
    if config:
        body[CONFIG] = config
    return body


def _write_controls(request: Request, report: Report, shapes: frozenset[str]) -> Object:
    controls, at_home = request.controls, request.source == NAME
    config: Object = {}
    for name, key in _FIELDS.items():
        put(config, key, getattr(controls, name))
    if isinstance(controls.stop, tuple):
        config["stopSequences"] = list(controls.stop)
    if not at_home:
        _fit_limits(config, report)
    if isinstance(controls.output, OutputFormat):
        config.update(_write_output(controls.output, report, shapes))
    if isinstance(controls.thinking, Thinking):
        model = request.model if isinstance(request.model, str) and not at_home else None
        if thinks(model):
            thinking = _write_thinking(controls.thinking, model, controls.max_tokens, report)
            if thinking:
                config["thinkingConfig"] = thinking
        elif not _is_off(controls.thinking):
            lose_thinking(controls.thinking, report, "this model cannot think")
    if controls.parallel_calls is False:
        report.lose("CONTROL_DROPPED", "@parallel_calls", "Gemini may always call in parallel")
    drop_controls(controls, _KNOWN, report)
    return config


def _fit_limits(config: Object, report: Report) -> None:
    if len(config.get("stopSequences", ())) > 5:
        del config["stopSequences"][5:]
        report.lose("CONTROL_CHANGED", "@stop", "Gemini takes five stop sequences")
    candidates = config.get("candidateCount", 1)
    if not 1 <= candidates <= 8:
        config["candidateCount"] = max(1, min(candidates, 8))
        report.lose("CONTROL_CHANGED", "@candidates", "Gemini gives one to eight candidates")
    if config.get("seed", 0) not in _SEEDS:
        del config["seed"]
        report.lose("CONTROL_DROPPED", "@seed", "Gemini takes a seed of 32 bits")


def _write_output(output: OutputFormat, report: Report, shapes: frozenset[str]) -> Object:
    if output.kind == "text":
        return {"responseMimeType": _TEXT}
    config: Object = {"responseMimeType": _JSON}
    if isinstance(output.schema, str):
        schema = decode_json(output.schema)
        if "responseSchema" in shapes:
            config["responseSchema"] = to_capitals(schema) if "capitals" in shapes else schema
        else:
            config["responseJsonSchema"] = schema
    if output.name not in (absent, FORMAT_NAME):
        report.lose("FORMAT_NAME_DROPPED", "@output")
    if output.description is not absent:
        report.lose("CONTROL_CHANGED", "@output", "Gemini has no description of an output")
    return config


def _is_off(thinking: Thinking) -> bool:
    return thinking.enabled is False or thinking.effort == "none" or thinking.budget == 0


def _write_thinking(
    thinking: Thinking, model: str | None, limit: Absential[int], report: Report
) -> Object:
    config: Object = {}
    effort = thinking.effort
    if _is_off(thinking):
        _write_off(switch_place(thinking), model, config, report)
    elif isinstance(thinking.budget, int):
        config["thinkingBudget"] = budget = _within(thinking.budget, model)
        if budget != thinking.budget:
            report.lose("CONTROL_CHANGED", "@budget", f"this model thinks {budget} tokens instead")
    elif isinstance(effort, str):
        _write_effort(effort, model, limit, config, report)
    elif thinking.adaptive or thinking.enabled is True:
        config["thinkingBudget"] = -1
    is_settled = thinking.budget is not absent or thinking.enabled is False
    if is_settled and effort not in (absent, "none"):
        report.lose("CONTROL_DROPPED", "@effort", "beside a budget there is no effort")
    if isinstance(thinking.summary, str):
        config["includeThoughts"] = thinking.summary not in ("none", "omitted")
    return config


def _write_off(place: str, model: str | None, config: Object, report: Report) -> None:
    """Thinking switched off, or as short as a model can make it."""
    level, known = least_level(model), budgets(model)
    if level is not None:
        config["thinkingLevel"] = level
        report.lose("CONTROL_CHANGED", place, f"this model always thinks, at least {level!r}")
    elif known is not None and not known.may_be_off:
        config["thinkingBudget"] = known.least
        detail = f"this model always thinks, at least {known.least} tokens"
        report.lose("CONTROL_CHANGED", place, detail)
    else:
        config["thinkingBudget"] = 0


def _within(budget: int, model: str | None) -> int:
    """A budget that a model takes; what is negative leaves it to the model."""
    known = budgets(model)
    return budget if known is None or budget < 0 else min(max(budget, known.least), known.most)


def _write_effort(
    effort: str, model: str | None, limit: Absential[int], config: Object, report: Report
) -> None:
    if effort not in BUDGETS:
        report.lose("CONTROL_DROPPED", "@effort", f"Gemini has no effort {effort!r}")
    elif takes_levels(model):
        level = nearest_level(_LEVELS.get(effort, "HIGH"), model)
        config["thinkingLevel"] = level
        if level != _LEVELS.get(effort):
            report.lose("CONTROL_CHANGED", "@effort", f"effort {effort!r} became {level!r}")
    else:
        config["thinkingBudget"] = _within(budget_of(effort, limit), model)
        report.lose("CONTROL_CHANGED", "@effort", "an effort became a budget of tokens")


def _write_tools(request: Request, body: Object, report: Report) -> None:
    groups: list[Any] = []
    for place, tool in distinct(request, NAME, report):
        residue = own_residue(tool, NAME)
        shapes, _ = read_form(None if residue is None else residue.form)
        if residue is None:
            report_residue(tool, report, place)
        if isinstance(tool.hosted, str):
            if residue is None and request.source not in (None, NAME):
                report.lose("TOOL_DROPPED", place, f"Gemini has no hosted tool {tool.name!r}")
                continue
            _add_hosted(groups, decode_json(tool.hosted), is_joined="joined" in shapes)
            continue
        if request.source != NAME:
            _report_tool(tool, request, report, place)
        declaration = _write_declaration(tool, shapes)
        if residue is not None:
            declaration = recall(declaration, residue.part)
        elif request.source != NAME:
            _make_object(declaration)
        is_new = residue is not None and "joined" not in shapes
        _add_declaration(groups, declaration, shapes, is_new=is_new)
    if groups:
        body["tools"] = groups


def _make_object(declaration: Object) -> None:
    """Say that the parameters are an object, where their schema does not."""
    schema = declaration.get("parametersJsonSchema")
    if type(schema) is dict and schema.get("type") != "object":
        declaration["parametersJsonSchema"] = {**schema, "type": "object"}


def _report_tool(tool: Tool, request: Request, report: Report, place: str) -> None:
    if tool.is_freeform:
        report.lose("FREEFORM_WRAPPED", place)
        report.freeform.add(tool.name)
    report_grammar(tool, request.source, report, place)
    if tool.strict is True:
        within = field_of(tool, request.source, "strict")
        report.lose("FIELD_DROPPED", place, "Gemini has no 'strict' for a function", within)


def _add_hosted(groups: list[Any], entry: Any, *, is_joined: bool) -> None:
    if is_joined and groups and type(groups[-1]) is dict and type(entry) is dict:
        groups[-1].update(entry)
    else:
        groups.append(entry)


def _add_declaration(
    groups: list[Any], declaration: Object, shapes: frozenset[str], *, is_new: bool
) -> None:
    """Put a function beside the others: into its own group, or into the last that has functions."""
    key = "function_declarations" if "function_declarations" in shapes else "functionDeclarations"
    if not is_new:
        for group in reversed(groups):
            if type(group) is dict and type(get(group, "functionDeclarations")) is list:
                group[spelled(group, "functionDeclarations")].append(declaration)
                return
    groups.append({key: [declaration]})


def _write_declaration(tool: Tool, shapes: frozenset[str]) -> Object:
    declaration: Object = {"name": tool.name}
    put(declaration, "description", tool.description)
    if isinstance(tool.schema, str) and not tool.is_freeform:
        schema = decode_json(tool.schema)
        if "parameters" in shapes:
            declaration["parameters"] = to_capitals(schema) if "capitals" in shapes else schema
        else:
            declaration["parametersJsonSchema"] = schema
    elif tool.is_freeform:
        declaration["parametersJsonSchema"] = _FREEFORM
    return declaration


def _write_choice(request: Request, body: Object, report: Report) -> None:
    choice = request.tool_choice
    if not isinstance(choice, ToolChoice):
        return
    if request.source != NAME and not is_possible(choice, _declared(body.get("tools", ()))):
        drop_choice(choice, report)
        return
    config: Object = {"mode": _MODES.get(choice.mode, "ANY")}
    if choice.mode == "allowed" and not choice.must_call:
        config["mode"] = "VALIDATED"
    if choice.names and choice.mode in ("named", "allowed"):
        config["allowedFunctionNames"] = list(choice.names)
    body["toolConfig"] = {"functionCallingConfig": config}


def _declared(groups: Iterable[Object]) -> list[str]:
    """The names of the functions that a body declares."""
    listed = (get(group, "functionDeclarations") for group in groups if type(group) is dict)
    return [str(item.get("name")) for items in listed for item in items or () if type(item) is dict]
