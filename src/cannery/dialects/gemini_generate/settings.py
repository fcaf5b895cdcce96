"""Everything in a generateContent request that is not a message: where it stands, and how it is written.

The model and the choice to stream stand in the URL, so no body has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, product
from typing import Any

from orjson import Fragment

from cannery.dialects.gemini_generate.models import (
    budgets,
    least_level,
    nearest_level,
    takes_levels,
    thinks,
)
from cannery.dialects.gemini_generate.schemas import StandardSchema, names_object, to_capitals
from cannery.dialects.gemini_generate.spelling import (
    NAME,
    Object,
    get,
    read_form,
    snake,
    spelled,
)
from cannery.messages.absence import Absential, absent
from cannery.messages.json_text import decode_json
from cannery.messages.requests import (
    DEFAULT_CONTROLS,
    OutputFormat,
    Request,
    Thinking,
    Tool,
    ToolChoice,
)
from cannery.wire.controls import (
    BUDGETS,
    FORMAT_NAME,
    budget_of,
    distinct,
    drop_choice,
    drop_control,
    field_of,
    given_controls,
    is_possible,
    lose_thinking,
    put,
    report_grammar,
    switch_place,
)
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.patches import restore
from cannery.wire.residues import own_residue

CONFIG, CHOICE = "generationConfig", "toolConfig.functionCallingConfig"
FIELDS = {
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
OUTPUT_KEYS = ("responseMimeType", *_SCHEMA_KEYS)


def _spellings(*paths: str) -> tuple[str, ...]:
    """Every way to spell some paths, the usual one first."""
    return tuple(
        ".".join(steps)
        for path in paths
        for steps in product(*(dict.fromkeys((step, snake(step))) for step in path.split(".")))
    )


CONTROL_PATHS = {
    **{name: _spellings(f"{CONFIG}.{key}") for name, key in FIELDS.items()},
    "output": _spellings(*(f"{CONFIG}.{key}" for key in OUTPUT_KEYS)),
    "thinking": _spellings(f"{CONFIG}.thinkingConfig"),
    "effort": _spellings(f"{CONFIG}.thinkingConfig.thinkingLevel"),
    "budget": _spellings(f"{CONFIG}.thinkingConfig.thinkingBudget"),
    "summary": _spellings(f"{CONFIG}.thinkingConfig.includeThoughts"),
    "tool_choice": _spellings(CHOICE),
    "finish": _spellings("candidates[0].finishReason"),
}
# What parallel calls and usage at the end of a stream ask for is what Gemini does anyway.
_KNOWN = frozenset(CONTROL_PATHS) | {"parallel_calls", "include_usage"}
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
LEVELS = {
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "XHIGH",
}
_FREEFORM = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
JSON_TYPE, TEXT_TYPE = "application/json", "text/plain"
_SEEDS = range(-(2**31), 2**31)


MODELLED = frozenset(
    {
        *chain.from_iterable(CONTROL_PATHS.values()),
        *_spellings(
            *(f"{CHOICE}.mode", f"{CHOICE}.allowedFunctionNames", "toolConfig", "tools"),
            # Of a response.
            *("candidates[0].index", "responseId", "modelVersion", "createTime"),
            *(
                f"usageMetadata.{kind}TokenCount"
                for kind in ("prompt", "toolUsePrompt", "candidates", "total")
            ),
        ),
    }
)


def write_settings(request: Request, report: Report, shapes: frozenset[str]) -> Object:
    """Every field of the body but the messages, in the usual form."""
    body: Object = {}
    if request.tools:
        _write_tools(request, body, report)
    if request.tool_choice is not absent:
        _write_choice(request, body, report)
    if request.controls is not DEFAULT_CONTROLS:
        config = _write_controls(request, report, shapes)
        if config:
            body[CONFIG] = config
    if "tool" in shapes and len(body.get("tools", ())) == 1:
        (body["tools"],) = body["tools"]
    return body


def _write_controls(request: Request, report: Report, shapes: frozenset[str]) -> Object:
    controls, is_same = request.controls, request.source == NAME
    given = dict(given_controls(controls))
    config: Object = {FIELDS[name]: value for name, value in given.items() if name in FIELDS}
    if "stop" in given:
        config["stopSequences"] = list(given["stop"])
    if not is_same:
        _fit_limits(config, report)
    if isinstance(controls.output, OutputFormat):
        config.update(_write_output(controls.output, report, shapes))
    if isinstance(controls.thinking, Thinking):
        model = request.model if isinstance(request.model, str) and not is_same else None
        if thinks(model):
            thinking = _write_thinking(controls.thinking, model, controls.max_tokens, report)
            if thinking:
                config["thinkingConfig"] = thinking
        elif not _is_off(controls.thinking):
            lose_thinking(controls.thinking, report, "this model cannot think")
    if controls.parallel_calls is False:
        report.lose("CONTROL_DROPPED", "@parallel_calls", "Gemini may always call in parallel")
    for name, value in given.items():
        if name not in _KNOWN:
            drop_control(name, value, report)
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
        return {"responseMimeType": TEXT_TYPE}
    config: Object = {"responseMimeType": JSON_TYPE}
    if isinstance(output.schema, str):
        if "responseSchema" in shapes:
            schema = decode_json(output.schema)
            config["responseSchema"] = to_capitals(schema) if "capitals" in shapes else schema
        else:
            config["responseJsonSchema"] = Fragment(output.schema)
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
        level = nearest_level(LEVELS.get(effort, "HIGH"), model)
        config["thinkingLevel"] = level
        if level != LEVELS.get(effort):
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
            declaration = _restored(declaration, tool, residue.part, shapes)
        elif request.source != NAME:
            _make_object(declaration, tool)
        is_new = residue is not None and "joined" not in shapes
        _add_declaration(groups, declaration, shapes, is_new=is_new)
    if groups:
        body["tools"] = groups


def _restored(declaration: Object, tool: Tool, part: str | None, shapes: frozenset[str]) -> Object:
    """A declaration as it was read; a schema that was kept to the letter goes when the tool got another."""
    if part is None:
        return declaration
    patch = decode_json(part)
    kept = patch.get("s", {})
    own = kept.get("parameters") if "parameters" in shapes else None
    if type(own) is dict and StandardSchema(own).value != decode_json(str(tool.schema)):
        del kept["parameters"]
    return restore(declaration, patch)  # type: ignore[no-any-return]


def _make_object(declaration: Object, tool: Tool) -> None:
    """Say that the parameters are an object, where their schema does not."""
    if isinstance(tool.schema, str) and not tool.is_freeform and not names_object(tool.schema):
        schema = {**decode_json(tool.schema), "type": "object"}
        declaration["parametersJsonSchema"] = schema


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
    groups.append({key: declaration if "single" in shapes else [declaration]})


def _write_declaration(tool: Tool, shapes: frozenset[str]) -> Object:
    declaration: Object = {"name": tool.name}
    put(declaration, "description", tool.description)
    if isinstance(tool.schema, str) and not tool.is_freeform:
        if "parameters" in shapes:
            schema = decode_json(tool.schema)
            declaration["parameters"] = to_capitals(schema) if "capitals" in shapes else schema
        else:
            declaration["parametersJsonSchema"] = Fragment(tool.schema)
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
    body["toolConfig"] = {"functionCallingConfig": written_choice(choice)}


def written_choice(choice: ToolChoice) -> Object:
    """The usual form of a choice."""
    config: Object = {"mode": _MODES.get(choice.mode, "ANY")}
    if choice.mode == "allowed" and not choice.must_call:
        config["mode"] = "VALIDATED"
    if choice.names and choice.mode in ("named", "allowed"):
        config["allowedFunctionNames"] = list(choice.names)
    return config


def _declared(groups: Iterable[Object]) -> list[str]:
    """The names of the functions that a body declares."""
    listed = (get(group, "functionDeclarations") for group in groups if type(group) is dict)
    return [str(item.get("name")) for items in listed for item in items or () if type(item) is dict]
