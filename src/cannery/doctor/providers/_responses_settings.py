"""Rules of OpenAI Responses for tools and settings, most of them by the model of a request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cannery.doctor.contract import SETTINGS, WARNING, Broken, Check, Judged, Object
from cannery.doctor.json_paths import objects, shown
from cannery.doctor.providers import _openai_models as models
from cannery.doctor.providers._fields import RESPONSES, foreign_fields, unknown_fields
from cannery.doctor.providers._openai_shared import (
    API,
    NAME,
    metadata_limits,
    stream_options,
    top_fields,
)
from cannery.doctor.providers._openai_tools import tool_checks
from cannery.doctor.providers._responses_items import (
    has_state,
    items_of,
    kind_of,
)
from cannery.doctor.shared import (
    MB,
    drop,
    illegal_names,
    missing,
    ranges,
    too_large,
    types,
)
from cannery.wire.places import Path

_LEAST_TOKENS = 16
_TYPES: dict[str, tuple[type, ...]] = {
    "model": (str,),
    "input": (str, list),
    "instructions": (str, list),
    "max_output_tokens": (int,),
    "temperature": (float,),
    "top_p": (float,),
    "stream": (bool,),
    "store": (bool,),
    "tools": (list,),
    "tool_choice": (str, dict),
    "parallel_tool_calls": (bool,),
    "reasoning": (dict,),
    "text": (dict,),
    "metadata": (dict,),
    "include": (list,),
    "previous_response_id": (str,),
}


def _functions(judged: Judged) -> Iterator[tuple[Path, Object]]:
    for path, tool in objects(judged.body.get("tools"), ("tools",)):
        if tool.get("type") == "function":
            yield path, tool


def _named(judged: Judged) -> list[tuple[Path, Any]]:
    return [
        ((*path, "name"), tool.get("name"))
        for path, tool in objects(judged.body.get("tools"), ("tools",))
        if tool.get("type") in ("function", "custom", "namespace")
    ]


def _tool_fields(judged: Judged) -> Iterator[Broken]:
    for path, tool in objects(judged.body.get("tools"), ("tools",)):
        yield from missing(tool, {"type": (str,)}, path)


def _choice(judged: Judged) -> Iterator[Broken]:
    choice, tools = judged.body.get("tool_choice"), judged.body.get("tools")
    has_tools = bool(tools) or any(
        kind_of(item) == "additional_tools" for _, item in items_of(judged)
    )
    if choice not in (None, "none", "auto") and not has_tools and not has_state(judged):
        yield ("tool_choice",), "tool_choice is given without tools"
    elif (
        isinstance(choice, dict)
        and choice.get("type") in ("function", "custom")
        and tools
        and choice.get("name") not in {name for _, name in _named(judged)}
    ):
        yield ("tool_choice",), f"no tool is called {shown(choice.get('name'))}"


def _state(judged: Judged) -> Iterator[Broken]:
    if judged.body.get("previous_response_id") and judged.body.get("conversation"):
        yield ("conversation",), "previous_response_id and conversation are both given"


def _refused(judged: Judged) -> Iterator[Broken]:
    body, model = judged.body, models.model_of(judged.model)
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
    if models.refuses_sampling(model, effort):
        for key in ("temperature", "top_p"):
            if body.get(key) not in (None, 1):
                yield (key,), f"{judged.model} takes the default of {key} only"
    if effort is not None and model is not None and not model.is_reasoning:
        yield ("reasoning",), f"{judged.model} does not take reasoning.effort"


def _limits(judged: Judged) -> Iterator[Broken]:
    limit = judged.body.get("max_output_tokens")
    if isinstance(limit, int) and limit < _LEAST_TOKENS and models.model_of(judged.model):
        yield (
            ("max_output_tokens",),
            f"max_output_tokens is {limit}; at least {_LEAST_TOKENS} is needed",
        )


def _raise_limit(judged: Judged, _: Path) -> str | None:
    judged.body["max_output_tokens"] = _LEAST_TOKENS
    return f"set max_output_tokens to {_LEAST_TOKENS}"


def _format(judged: Judged) -> Iterator[Broken]:
    text = judged.body.get("text")
    form = text.get("format") if isinstance(text, dict) else None
    if not isinstance(form, dict):
        return
    if form.get("type") == "json_schema":
        yield from illegal_names([(("text", "format", "name"), form.get("name"))], NAME)
    if (
        form.get("type") == "json_object"
        and models.model_of(judged.model)
        and not has_state(judged)
    ) and (
        "json"
        not in json.dumps([judged.body.get("input"), judged.body.get("instructions")]).lower()
    ):
        yield ("text", "format"), "json_object needs the word 'json' somewhere in the input"


_RESPONSES = f"{API}/responses/create"
_VISION = "https://platform.openai.com/docs/guides/images-vision"
_FILES = "https://platform.openai.com/docs/guides/pdf-files"
_REASONING = "https://developers.openai.com/api/docs/guides/reasoning"
_UNKNOWN = "server error 'Unknown parameter'; types of openai 3.49.0"
_READ = "2026-11-15"
_NOW = "2026-11-18"
_RANGES = {"temperature": (0.0, 2.0), "top_p": (0.0, 1.0), "top_logprobs": (0.0, 20.0)}

SETTINGS_CHECKS: tuple[Check, ...] = (
    Check("request-size", too_large(512 * MB), _VISION, _NOW, SETTINGS, WARNING),
    Check("type", types(_TYPES), "types of openai 3.49.0", _READ, SETTINGS),
    Check(
        "field-foreign", top_fields(foreign_fields, RESPONSES), _UNKNOWN, _NOW, SETTINGS, fix=drop
    ),
    Check(
        "field-unknown", top_fields(unknown_fields, RESPONSES), _UNKNOWN, _NOW, SETTINGS, WARNING
    ),
    Check("state-twice", _state, _RESPONSES, _READ, SETTINGS),
    *tool_checks(_functions, _named, _RESPONSES),
    Check("tool-fields", _tool_fields, _RESPONSES, _READ, SETTINGS),
    Check("tool-choice", _choice, _RESPONSES, _READ, SETTINGS, fix=drop),
    Check("setting-model", _refused, _REASONING, _NOW, SETTINGS, fix=drop),
    Check(
        "limit",
        _limits,
        "server error 'integer below minimum value. Expected a value >= 16'",
        _READ,
        SETTINGS,
        fix=_raise_limit,
    ),
    Check("stream-options", stream_options, _RESPONSES, _READ, SETTINGS, fix=drop),
    Check(
        "range", ranges(_RANGES), f"{_RESPONSES}; recorded error 2025", _READ, SETTINGS, fix=drop
    ),
    Check("metadata", metadata_limits, _RESPONSES, _READ, SETTINGS, fix=drop),
    Check("format", _format, _RESPONSES, _READ, SETTINGS),
)
