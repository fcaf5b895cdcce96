"""Rules of Gemini's Interactions API (``POST /v1beta/interactions``).

Sources: the types and docstrings of google-genai 3.1.0 (``google.genai.interactions``) and the guide
(ai.google.dev/gemini-api/docs/interactions). A body that continues an earlier interaction does not contain its steps,
so the results in such a body are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cannery.doctor.contract import SETTINGS, WARNING, Broken, Check, Judged, Object
from cannery.doctor.images import decoded
from cannery.doctor.json_paths import at, is_blank, objects, remove, shown
from cannery.doctor.providers._exchanges import (
    CALL,
    RESULT,
    TURN,
    Event,
    Find,
    duplicates,
    orphans,
    unanswered,
)
from cannery.doctor.shared import (
    duplicate_names,
    illegal_names,
    lone_surrogates,
    replace_surrogates,
    types,
    wrong_types,
)
from cannery.messages.json_text import write_json
from cannery.wire.markers import NO_RESULT, orphan_text
from cannery.wire.places import Path

_READ = "2026-11-18"
_TYPES = "types of google-genai 3.1.0"
_GUIDE = "ai.google.dev/gemini-api/docs/interactions"
_FUNCTIONS = "docstring of FunctionDeclaration.name, google-genai 3.1.0"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_CONTENTS = ("text", "image", "audio", "video", "document")
_SPOKEN = ("user_input", "model_output")


def _steps(judged: Judged) -> list[tuple[Path, Object]]:
    """The steps of the input; a single content is a list of one."""
    given = judged.body.get("input")
    if isinstance(given, dict):
        return [(("input",), given)]
    return objects(given, ("input",))


def _spoken(judged: Judged) -> Iterator[tuple[Path, Object, bool]]:
    """Every content of the input, and whether it belongs to a result."""
    for path, step in _steps(judged):
        kind = step.get("type")
        if kind in _CONTENTS:
            yield path, step, False
        if kind == "function_result":
            # A result that is not a list is the raw value of the function.
            for where, content in objects(step.get("result"), (*path, "result")):
                yield where, content, True
            continue
        held = step.get("content")
        where = (*path, "content")
        for place, content in [(where, held)] if isinstance(held, dict) else objects(held, where):
            yield place, content, False


def _no_model(judged: Judged) -> Iterator[Broken]:
    if not judged.body.get("model") and not judged.body.get("agent"):
        yield ("model",), "model is required, or an agent"


def _no_input(judged: Judged) -> Iterator[Broken]:
    given = judged.body.get("input")
    if given in (None, "", [], {}) and not judged.body.get("continuation_token"):
        yield ("input",), "input is required: text, contents or steps"


def _shapes(judged: Judged) -> Iterator[Broken]:
    given = judged.body.get("input")
    if not isinstance(given, (str, list, dict, type(None))):
        yield ("input",), f"input is text, a content or a list, not {shown(given)}"
    for index, step in enumerate(given if isinstance(given, list) else ()):
        if not isinstance(step, dict):
            yield ("input", index), f"a step is an object, not {shown(step)}"
    for path, step in _steps(judged):
        if not isinstance(step.get("type"), str) and "role" not in step:
            yield path, "type is required"
    for path, content, _ in _spoken(judged):
        if not isinstance(content.get("type"), str):
            yield path, "type is required"
        elif content["type"] == "text" and not isinstance(content.get("text"), str):
            yield path, "a text needs its text"


def _empty(judged: Judged) -> Iterator[Broken]:
    for path, step in _steps(judged):
        if step.get("type") in _SPOKEN and not step.get("content"):
            yield path, "a content is required"


def _mixed(judged: Judged) -> Iterator[Broken]:
    kinds = [step.get("type") for _, step in _steps(judged)]
    is_mixed = any(kind in _CONTENTS for kind in kinds) and any(kind in _SPOKEN for kind in kinds)
    if is_mixed:
        yield ("input",), "the input lists steps or contents, not both"


def _blank(judged: Judged) -> Iterator[Broken]:
    for path, content, is_result in _spoken(judged):
        if content.get("type") == "text" and is_blank(content.get("text")) and not is_result:
            yield path, "text without a visible character"


def _media(code: str) -> Find:
    def find(judged: Judged) -> Iterator[Broken]:
        for path, content, _ in _spoken(judged):
            found = _broken_medium(content) if content.get("type") in _CONTENTS[1:] else None
            if found is not None and found[0] == code:
                yield path, found[1]

    return find


def _broken_medium(content: Object) -> tuple[str, str] | None:
    """The error of a media content, as code and text."""
    data, uri = content.get("data"), content.get("uri")
    if (data is None) == (uri is None):
        return "media-source", "a medium has data or a uri"
    if data is not None and not content.get("mime_type"):
        return "media-type", "data need a mime_type"
    if data is not None and (not data or decoded(data, urlsafe=True) is None):
        return "base64", "the data are empty or not base64"
    return None


def _events(judged: Judged) -> Iterator[Event]:
    if judged.body.get("previous_interaction_id"):
        return
    for path, step in _steps(judged):
        match step.get("type"):
            case "function_call":
                yield Event(CALL, path, step.get("id"))
            case "function_result":
                yield Event(RESULT, path, step.get("call_id"))
            case "user_input":
                yield Event(TURN)
            case _:
                pass


def _answer(judged: Judged, path: Path) -> str | None:
    path = _listed(judged, path)
    call = at(judged.body, path)
    told = {"type": "function_result", "call_id": call.get("id"), "name": call.get("name")}
    place = _behind(judged, int(path[1]) + 1, ("function_call", "function_result"))
    judged.messages.insert(place, {**told, "result": NO_RESULT, "is_error": True})
    return f"added an error result for the call {call.get('id')}"


def _say_result(judged: Judged, path: Path) -> str | None:
    path = _listed(judged, path)
    step = at(judged.body, path)
    said = step.get("result")
    text = orphan_text(
        str(step.get("call_id")), said if isinstance(said, str) else write_json(said)
    )
    spoken = {"type": "user_input", "content": [{"type": "text", "text": text}]}
    judged.messages.insert(_behind(judged, int(path[1]), ("function_result",)), spoken)
    remove(judged.body, path)
    return "turned the result into what the user says"


def _listed(judged: Judged, path: Path) -> Path:
    """The path of a step in a list; a single step as input is first converted to a list."""
    if len(path) > 1:
        return path
    judged.body["input"] = [judged.body["input"]]
    return ("input", 0)


def _behind(judged: Judged, place: int, kinds: tuple[str, ...]) -> int:
    """The position after a run of steps of some kinds."""
    steps = judged.messages
    while (
        place < len(steps) and isinstance(steps[place], dict) and steps[place].get("type") in kinds
    ):
        place += 1
    return place


def _drop_step(judged: Judged, path: Path) -> str | None:
    remove(judged.body, path)
    return "removed the step"


def _fields(judged: Judged) -> Iterator[Broken]:
    for path, step in _steps(judged):
        kind = step.get("type")
        if kind == "function_call":
            yield from illegal_names([((*path, "name"), step.get("name"))], _NAME)
            yield from wrong_types(step, {"arguments": (dict,), "id": (str,)}, path)
        elif kind == "function_result" and not isinstance(step.get("call_id"), str):
            yield (*path, "call_id"), "call_id is required"


def _functions(judged: Judged) -> list[tuple[Path, Any]]:
    return [
        ((*path, "name"), tool.get("name"))
        for path, tool in objects(judged.body.get("tools"), ("tools",))
        if tool.get("type") == "function"
    ]


def _tools(judged: Judged) -> Iterator[Broken]:
    given = judged.body.get("tools")
    for index, tool in enumerate(given if isinstance(given, list) else ()):
        if not isinstance(tool, dict):
            yield ("tools", index), f"a tool is an object, not {shown(tool)}"
    yield from illegal_names(_functions(judged), _NAME)


def _config(judged: Judged) -> Iterator[Broken]:
    config = judged.body.get("generation_config")
    if not isinstance(config, dict):
        return
    kinds = {"max_output_tokens": (int,), "temperature": (float,), "top_p": (float,)}
    kinds |= {"seed": (int,), "stop_sequences": (list,)}
    yield from wrong_types(config, kinds, ("generation_config",))
    stops = config.get("stop_sequences")
    if isinstance(stops, list) and len(stops) > 5:
        yield ("generation_config", "stop_sequences"), f"{len(stops)} sequences; 5 are allowed"


def _choice(judged: Judged) -> Iterator[Broken]:
    config = judged.body.get("generation_config")
    choice = config.get("tool_choice") if isinstance(config, dict) else None
    allowed = choice.get("allowed_tools") if isinstance(choice, dict) else None
    names = [name for _, name in _functions(judged)]
    listed = allowed.get("tools") if isinstance(allowed, dict) else None
    for name in listed if isinstance(listed, list) else ():
        if name not in names:
            where = ("generation_config", "tool_choice", "allowed_tools")
            yield where, f"no tool has the name {shown(name)}"


def _background(judged: Judged) -> Iterator[Broken]:
    if judged.body.get("background") is True and judged.body.get("store") is False:
        yield ("background",), "what runs in the background must be stored"


_KINDS = {
    "stream": (bool,),
    "store": (bool,),
    "background": (bool,),
    "tools": (list,),
    "generation_config": (dict,),
    "system_instruction": (str,),
    "previous_interaction_id": (str,),
}

CHECKS = (
    Check("surrogate", lone_surrogates, "RFC 8259, section 8.2", _READ, fix=replace_surrogates),
    Check("model-missing", _no_model, _TYPES, _READ, SETTINGS),
    Check("input-missing", _no_input, _TYPES, _READ, SETTINGS),
    Check("shape", _shapes, _TYPES, _READ),
    Check("empty", _empty, _TYPES, _READ),
    Check("mixed", _mixed, _TYPES, _READ),
    Check("text-blank", _blank, "errors of generateContent", _READ, severity=WARNING),
    Check("media-source", _media("media-source"), _TYPES, _READ),
    Check("media-type", _media("media-type"), _GUIDE, _READ),
    Check("base64", _media("base64"), _GUIDE, _READ),
    Check("result-orphan", orphans(_events), _GUIDE, _READ, fix=_say_result),
    Check("result-duplicate", duplicates(_events), _GUIDE, _READ, fix=_drop_step),
    Check("call-unanswered", unanswered(_events), _GUIDE, _READ, fix=_answer),
    Check("field-missing", _fields, f"{_TYPES}; {_FUNCTIONS}", _READ),
    Check("tools", _tools, f"{_TYPES}; {_FUNCTIONS}", _READ, SETTINGS),
    Check(
        "name-duplicate",
        lambda judged: duplicate_names(_functions(judged)),
        "errors of generateContent",
        _READ,
        SETTINGS,
        WARNING,
    ),
    Check("tool-choice", _choice, _GUIDE, _READ, SETTINGS),
    Check("type", types(_KINDS), _TYPES, _READ, SETTINGS),
    Check("generation-config", _config, _TYPES, _READ, SETTINGS),
    Check("background", _background, _GUIDE, _READ, SETTINGS),
)
