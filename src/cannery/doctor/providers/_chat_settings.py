"""Rules of OpenAI Chat Completions for tools and settings, most of them by the model of a request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cannery.doctor.contract import SETTINGS, WARNING, Broken, Check, Judged, Object
from cannery.doctor.json_paths import is_blank, objects, put, shown
from cannery.doctor.providers import _openai_models as models
from cannery.doctor.providers._chat_messages import messages_of
from cannery.doctor.providers._fields import CHAT, foreign_fields, unknown_fields
from cannery.doctor.providers._openai_shared import (
    API,
    NAME,
    metadata_limits,
    stream_options,
    top_fields,
)
from cannery.doctor.providers._openai_tools import tool_checks
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

_TYPES: dict[str, tuple[type, ...]] = {
    "model": (str,),
    "messages": (list,),
    "max_tokens": (int,),
    "max_completion_tokens": (int,),
    "temperature": (float,),
    "top_p": (float,),
    "n": (int,),
    "stream": (bool,),
    "stream_options": (dict,),
    "stop": (str, list),
    "tools": (list,),
    "tool_choice": (str, dict),
    "functions": (list,),
    "metadata": (dict,),
    "response_format": (dict,),
    "parallel_tool_calls": (bool,),
    "presence_penalty": (float,),
    "frequency_penalty": (float,),
    "logit_bias": (dict,),
    "logprobs": (bool,),
    "top_logprobs": (int,),
    "seed": (int,),
    "reasoning_effort": (str,),
}


def _functions(judged: Judged) -> Iterator[tuple[Path, Object]]:
    for path, tool in objects(judged.body.get("tools"), ("tools",)):
        if tool.get("type", "function") == "function" and isinstance(tool.get("function"), dict):
            yield (*path, "function"), tool["function"]
    yield from objects(judged.body.get("functions"), ("functions",))


def _named(judged: Judged) -> list[tuple[Path, Any]]:
    found = [((*path, "name"), function.get("name")) for path, function in _functions(judged)]
    for path, tool in objects(judged.body.get("tools"), ("tools",)):
        if tool.get("type") == "custom" and isinstance(tool.get("custom"), dict):
            found.append(((*path, "custom", "name"), tool["custom"].get("name")))
    return found


def _tool_fields(judged: Judged) -> Iterator[Broken]:
    for path, tool in objects(judged.body.get("tools"), ("tools",)):
        if tool.get("type", "function") == "function":
            yield from missing(tool, {"function": (dict,)}, path)
    if judged.body.get("tools") == [] and models.model_of(judged.model):
        yield ("tools",), "the list of tools is empty"


def _choice(judged: Judged) -> Iterator[Broken]:
    body = judged.body
    has_tools = bool(body.get("tools")) or bool(body.get("functions"))
    for key in ("tool_choice", "parallel_tool_calls"):
        if (
            body.get(key) is not None
            and not has_tools
            and body[key] != "none"
            and models.model_of(judged.model)
        ):
            yield (key,), f"{key} is given without tools"
    choice = body.get("tool_choice")
    named = choice.get("function") if isinstance(choice, dict) else None
    if (
        has_tools
        and isinstance(named, dict)
        and named.get("name") not in {name for _, name in _named(judged)}
    ):
        yield ("tool_choice",), f"no tool is called {shown(named.get('name'))}"


def _no_model(judged: Judged) -> Iterator[Broken]:
    if judged.model is None:
        yield ("model",), "model is required"


def _limits(judged: Judged) -> Iterator[Broken]:
    body, model = judged.body, models.model_of(judged.model)
    if body.get("max_tokens") is not None and not models.takes_max_tokens(model):
        yield ("max_tokens",), f"{judged.model} takes max_completion_tokens, not max_tokens"
    elif (
        body.get("max_tokens") is not None
        and body.get("max_completion_tokens") is not None
        and model is not None
    ):
        yield ("max_tokens",), "max_tokens and max_completion_tokens are both given"
    for key in ("max_tokens", "max_completion_tokens"):
        if isinstance(body.get(key), int) and body[key] < 1:
            yield (key,), f"{key} is {body[key]}; it must be at least 1"


def _rename_limit(judged: Judged, path: Path) -> str | None:
    limit = judged.body.pop(str(path[0]))
    is_known = models.takes_max_tokens(models.model_of(judged.model))
    if limit is None or limit < 1 or is_known or "max_completion_tokens" in judged.body:
        return f"removed {path[0]}"
    judged.body["max_completion_tokens"] = limit
    return "renamed max_tokens to max_completion_tokens"


def _refused(judged: Judged) -> Iterator[Broken]:
    body, model = judged.body, models.model_of(judged.model)
    if models.refuses_sampling(model, body.get("reasoning_effort")):
        for key, default in (("temperature", 1), ("top_p", 1)):
            if body.get(key) not in (None, default):
                yield (key,), f"{judged.model} takes the default of {key} only"
        for key in ("presence_penalty", "frequency_penalty"):
            if body.get(key) not in (None, 0):
                yield (key,), f"{judged.model} does not take {key}"
        for key in ("logprobs", "top_logprobs", "logit_bias"):
            if body.get(key):
                yield (key,), f"{judged.model} does not take {key}"
    if body.get("stop") is not None and not models.takes_stop(model):
        yield ("stop",), f"{judged.model} does not take stop"
    if body.get("web_search_options") is not None and not models.searches(model):
        yield ("web_search_options",), f"{judged.model} does not take web_search_options"
    is_plain = model is not None and not model.is_reasoning
    if body.get("reasoning_effort") is not None and is_plain:
        yield ("reasoning_effort",), f"{judged.model} does not take reasoning_effort"


def _instructions(judged: Judged) -> Iterator[Broken]:
    if models.takes_instructions(models.model_of(judged.model)):
        return
    for path, message in messages_of(judged):
        if message.get("role") in ("system", "developer"):
            yield (*path, "role"), f"{judged.model} takes no {message['role']} messages"


def _to_user(judged: Judged, path: Path) -> str | None:
    put(judged.body, path, "user")
    return "made it a user message"


def _stops(judged: Judged) -> Iterator[Broken]:
    stops = judged.body.get("stop")
    if isinstance(stops, list) and len(stops) > 4 and models.model_of(judged.model):
        yield ("stop",), f"{len(stops)} stop sequences; 4 are allowed"


def _top_logprobs(judged: Judged) -> Iterator[Broken]:
    if (
        judged.body.get("top_logprobs") is not None
        and not judged.body.get("logprobs")
        and models.model_of(judged.model)
    ):
        yield ("top_logprobs",), "top_logprobs needs logprobs: true"


def _format(judged: Judged) -> Iterator[Broken]:
    form = judged.body.get("response_format")
    if not isinstance(form, dict):
        return
    kind = form.get("type")
    if kind == "json_schema":
        held = form.get("json_schema")
        where = ("response_format", "json_schema")
        if not isinstance(held, dict):
            yield where, "json_schema is required"
        else:
            yield from illegal_names([((*where, "name"), held.get("name"))], NAME)
    elif (
        kind == "json_object"
        and models.model_of(judged.model)
        and "json" not in json.dumps(judged.body.get("messages")).lower()
    ):
        yield (
            ("response_format",),
            "json_object needs the word 'json' somewhere in the messages",
        )


def _blank_user(judged: Judged) -> Iterator[Broken]:
    for path, message in messages_of(judged):
        if message.get("role") == "user" and is_blank(message.get("content")):
            yield (*path, "content"), "the user message is blank"


_CHAT = f"{API}/chat/create"
_VISION = "https://platform.openai.com/docs/guides/images-vision"
_REASONING = "https://developers.openai.com/api/docs/guides/reasoning"
_UNKNOWN = "server error 'Unrecognized request argument supplied'; types of openai 3.49.0"
_READ = "2026-11-15"
_NOW = "2026-11-18"
_RANGES = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
    "top_logprobs": (0.0, 20.0),
    "n": (1.0, 128.0),
}

SETTINGS_CHECKS: tuple[Check, ...] = (
    Check("request-size", too_large(512 * MB), _VISION, _NOW, SETTINGS, WARNING),
    # Azure has the model in the URL, and the body may not name it.
    Check("model-missing", _no_model, _CHAT, _READ, SETTINGS, WARNING),
    Check("type", types(_TYPES), "types of openai 3.49.0", _READ, SETTINGS),
    Check("field-foreign", top_fields(foreign_fields, CHAT), _UNKNOWN, _NOW, SETTINGS, fix=drop),
    Check("field-unknown", top_fields(unknown_fields, CHAT), _UNKNOWN, _NOW, SETTINGS, WARNING),
    *tool_checks(_functions, _named, _CHAT),
    Check("tool-fields", _tool_fields, _CHAT, _READ, SETTINGS),
    Check("tool-choice", _choice, _CHAT, _READ, SETTINGS, fix=drop),
    Check("limit", _limits, _REASONING, _NOW, SETTINGS, fix=_rename_limit),
    Check(
        "setting-model", _refused, f"{_REASONING}; recorded error 2025", _NOW, SETTINGS, fix=drop
    ),
    Check(
        "role-model", _instructions, "recorded errors of o1-mini 2025", _NOW, SETTINGS, fix=_to_user
    ),
    Check("stop-count", _stops, _CHAT, _READ, SETTINGS),
    Check("logprobs", _top_logprobs, _CHAT, _READ, SETTINGS, fix=drop),
    Check("stream-options", stream_options, _CHAT, _READ, SETTINGS, fix=drop),
    Check("range", ranges(_RANGES), f"{_CHAT}; recorded error 2025", _READ, SETTINGS, fix=drop),
    Check("metadata", metadata_limits, _CHAT, _READ, SETTINGS, fix=drop),
    Check("format", _format, _CHAT, _READ, SETTINGS),
    Check(
        "blank-text",
        _blank_user,
        "a question without words; most servers take it",
        _READ,
        severity=WARNING,
    ),
)
