"""Everything in a generateContent request that is not a message, both ways, but for the tools.

The model and the choice to stream stand in the URL, so no body has them. Reading takes from the body what it
understands; a setting of an unexpected type stays there, and so in the residue.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, product
from typing import Any

from orjson import Fragment

from cannery.dialects.gemini_generate.forms import (
    NAME,
    SettingSection,
    both,
    snake,
    whole,
    whole_value,
)
from cannery.dialects.gemini_generate.tools import (
    StandardSchema,
    read_choice,
    take_tools,
    to_capitals,
    write_choice,
    write_tools,
)
from cannery.families.gemini.models import (
    budgets,
    least_level,
    nearest_level,
    takes_levels,
    thinks,
)
from cannery.messages.absence import Absential, absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    DEFAULT_CONTROLS,
    Controls,
    OutputFormat,
    Request,
    Thinking,
    Tool,
    new_controls,
    new_output_format,
    new_thinking,
)
from cannery.wire.bodies import Object
from cannery.wire.controls import (
    BUDGETS,
    FORMAT_NAME,
    budget_of,
    drop_control,
    given_controls,
    lose_thinking,
    number,
)
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.schemas import is_strict

CONFIG, _CHOICE = "generationConfig", "toolConfig.functionCallingConfig"
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
_OUTPUT_KEYS = ("responseMimeType", *_SCHEMA_KEYS)


def _spellings(*paths: str) -> tuple[str, ...]:
    """Every way to spell some paths, the usual one first."""
    return tuple(
        ".".join(steps)
        for path in paths
        for steps in product(*(dict.fromkeys((step, snake(step))) for step in path.split(".")))
    )


CONTROL_PATHS = {
    **{name: _spellings(f"{CONFIG}.{key}") for name, key in _FIELDS.items()},
    "output": _spellings(*(f"{CONFIG}.{key}" for key in _OUTPUT_KEYS)),
    "thinking": _spellings(f"{CONFIG}.thinkingConfig"),
    "effort": _spellings(f"{CONFIG}.thinkingConfig.thinkingLevel"),
    "budget": _spellings(f"{CONFIG}.thinkingConfig.thinkingBudget"),
    "summary": _spellings(f"{CONFIG}.thinkingConfig.includeThoughts"),
    "tool_choice": _spellings(_CHOICE),
    "finish": _spellings("candidates[0].finishReason"),
}
# What parallel calls and usage at the end of a stream ask for is what Gemini does anyway.
_KNOWN = frozenset(CONTROL_PATHS) | {"parallel_calls", "include_usage"}
_LEVELS = {
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "XHIGH",
}
_JSON, _TEXT, _ENUM = "application/json", "text/plain", "text/x.enum"
_SEEDS = range(-(2**31), 2**31)


MODELLED = frozenset(
    {
        *chain.from_iterable(CONTROL_PATHS.values()),
        *_spellings(
            *(f"{_CHOICE}.mode", f"{_CHOICE}.allowedFunctionNames", "toolConfig", "tools"),
            # Of a response.
            *("candidates[0].index", "responseId", "modelVersion", "createTime"),
            *(
                f"usageMetadata.{kind}TokenCount"
                for kind in ("prompt", "toolUsePrompt", "candidates", "total")
            ),
        ),
    }
)


# --- reading -----------------------------------------------------------------------------------


def _stop(value: Any) -> Any:
    is_stop = type(value) is list and value and all(type(item) is str for item in value)
    return tuple(value) if is_stop else absent


# The usual spelling of the keys of settings; what each is called in the model and how it is read.
_USUAL = both(
    (
        *(CONFIG, *_FIELDS.values(), *_OUTPUT_KEYS),
        *("thinkingConfig", "thinkingBudget", "thinkingLevel", "includeThoughts"),
        *("toolConfig", "functionCallingConfig", "allowedFunctionNames"),
    )
)
_WHOLE = frozenset({"max_tokens", "top_k", "seed", "candidates"})
_CONTROLS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    key: (name, _stop if name == "stop" else whole if name in _WHOLE else number)
    for name, key in _FIELDS.items()
}


def read_settings(
    body: Object, places: Places, shapes: list[str]
) -> tuple[tuple[Tool, ...], Any, Controls, Object | None]:
    """The tools, the choice and the controls of a body from which the messages were taken, and the patch of the rest.

    ``shapes`` gets the words for the shapes of its spelling.
    """
    choice: Any = absent
    controls = DEFAULT_CONTROLS
    if not body:
        return (), choice, controls, None
    section = SettingSection(body, _USUAL)
    tools = take_tools(body, places, shapes) if "tools" in body else ()
    config = section.get("toolConfig")
    if type(config) is dict:
        choice, patch = _read_tool_config(config, places, section.keys["toolConfig"])
        if choice is not absent:
            section.nest("toolConfig", patch)
    config = section.get(CONFIG)
    if type(config) is dict and config:
        inner = SettingSection(config, _USUAL)
        found = _read_config(inner, places, shapes, section.keys[CONFIG])
        if found:
            controls = new_controls(**found)
            section.nest(CONFIG, inner.patch())
    return tools, choice, controls, section.patch()


def _read_config(section: SettingSection, places: Places, shapes: list[str], key: str) -> Object:
    """The controls that ``generationConfig`` gives."""
    found: Object = {}
    keys = section.keys
    for usual in keys:
        if usual in _CONTROLS:
            name, read = _CONTROLS[usual]
            value = read(section.get(usual))
            if value is not absent:
                found[name] = value
                written = list(value) if name == "stop" else value
                places.settings[name] = (key, section.take(usual, written))
    given = [usual for usual in _OUTPUT_KEYS if usual in keys]
    if given:
        places.settings["output"] = (key, keys[given[0]])
        output = _take_output(section, shapes)
        if output is not absent:
            found["output"] = output
    if "thinkingConfig" in keys:
        thinking = _take_thinking(section, places, key)
        if thinking is not absent:
            found["thinking"] = thinking
    return found


def _take_output(section: SettingSection, shapes: list[str]) -> Any:
    kind = section.get("responseMimeType")
    if kind not in (_JSON, _ENUM, _TEXT, None):
        return absent
    given, own = section.get("responseJsonSchema"), section.get("responseSchema")
    schema: Any = None
    if kind != _TEXT and type(given) is dict:
        schema = whole_value(given)
        section.take("responseJsonSchema")
    elif kind != _TEXT and type(own) is dict:
        standard = StandardSchema(whole_value(own))
        schema = standard.value
        shapes += ["responseSchema", "capitals" if standard.is_capital else ""]
        if standard.is_exact:
            section.take("responseSchema")
        else:
            written = to_capitals(standard.value) if standard.is_capital else standard.value
            section.keep("responseSchema", written)
    if schema is None and kind in (None, _ENUM):
        return absent
    if kind is not None:
        section.take("responseMimeType", _TEXT if kind == _TEXT else _JSON)
    else:
        section.keep("responseMimeType", _JSON)
    if schema is not None:
        return new_output_format("schema", write_json(schema), strict=is_strict(schema) or absent)
    return new_output_format("text" if kind == _TEXT else "json")


def _take_thinking(section: SettingSection, places: Places, key: str) -> Any:
    config = section.get("thinkingConfig")
    if type(config) is not dict:
        return absent
    own = section.keys["thinkingConfig"]
    inner = SettingSection(config, _USUAL)
    place = (key, own)
    budget, level = whole(inner.get("thinkingBudget")), inner.get("thinkingLevel")
    shown = inner.get("includeThoughts")
    found: Object = {}
    if type(budget) is int:
        found["enabled"] = budget != 0
        if budget < 0:
            found["adaptive"] = True
        elif budget:
            found["budget"] = budget
        places.settings["budget"] = (*place, inner.take("thinkingBudget", max(budget, -1)))
    elif type(level) is str and level.upper() in _LEVELS.values():
        found["effort"] = level.lower()
        places.settings["effort"] = (*place, inner.take("thinkingLevel", level.upper()))
    if type(shown) is bool:
        found["summary"] = "auto" if shown else "none"
        places.settings["summary"] = (*place, inner.take("includeThoughts"))
    if not found:
        return absent
    places.settings["thinking"] = place
    section.nest("thinkingConfig", inner.patch())
    return new_thinking(**found)


def _read_tool_config(config: Object, places: Places, key: str) -> tuple[Any, Object | None]:
    """The choice of tools and the patch of ``toolConfig``; absent if no choice of functions is understood."""
    outer = SettingSection(config, _USUAL)
    held = outer.get("functionCallingConfig")
    if type(held) is not dict:
        return absent, None
    section = SettingSection(held, _USUAL)
    choice = read_choice(section)
    if choice is absent:
        return absent, None
    places.settings["tool_choice"] = (key, outer.keys["functionCallingConfig"])
    outer.nest("functionCallingConfig", section.patch())
    return choice, outer.patch()


# --- writing -----------------------------------------------------------------------------------


def write_settings(request: Request, report: Report, shapes: frozenset[str]) -> Object:
    """Every field of the body but the messages, in the usual form."""
    body: Object = {}
    if request.tools:
        write_tools(request, body, report)
    if request.tool_choice is not absent:
        write_choice(request, body, report)
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
    config: Object = {_FIELDS[name]: value for name, value in given.items() if name in _FIELDS}
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
        return {"responseMimeType": _TEXT}
    config: Object = {"responseMimeType": _JSON}
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
        _write_off("@thinking", model, config, report)
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
