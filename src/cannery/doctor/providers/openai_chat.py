"""Rules of OpenAI Chat Completions; rules of a model apply only to names of OpenAI's models.

Many servers have this API. The rules are OpenAI's, without those that a recorded request to any of these servers broke.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from cannery.doctor.contract import SETTINGS, WARNING, Broken, Check, Judged, Object
from cannery.doctor.images import decoded
from cannery.doctor.json_paths import at, objects, put, remove, shown
from cannery.doctor.providers import _openai_models as models
from cannery.doctor.providers._chat_messages import (
    answer,
    drop_message,
    messages_of,
    say_result,
)
from cannery.doctor.providers._chat_settings import SETTINGS_CHECKS
from cannery.doctor.providers._openai_shared import (
    API,
    NAME,
    breakpoints,
    file_problems,
    image_problems,
    rename,
    set_media_note,
)
from cannery.doctor.shared import (
    MB,
    drop,
    illegal_names,
    lone_surrogates,
    missing,
    replace_surrogates,
)
from cannery.wire.places import Path

_ROLES = ("developer", "system", "user", "assistant", "tool", "function")
_MOST_MESSAGES = 2048
_LONGEST = 10 * MB
_PARTS: dict[str, dict[str, tuple[type, ...]]] = {
    "text": {"text": (str,)},
    "image_url": {"image_url": (dict,)},
    "input_audio": {"input_audio": (dict,)},
    "file": {"file": (dict,)},
    "refusal": {"refusal": (str,)},
}
_USER_NAME = re.compile(r"[^\s<|\\/>]{1,64}")


def _parts(judged: Judged) -> Iterator[tuple[Object, Path, Object]]:
    for path, message in messages_of(judged):
        for where, part in objects(message.get("content"), (*path, "content")):
            yield message, where, part


# --- messages -------------------------------------------------------------------------------------


def _no_messages(judged: Judged) -> Iterator[Broken]:
    messages = judged.body.get("messages")
    if not isinstance(messages, list):
        yield ("messages",), "messages is required, and a list"
    elif not messages:
        yield ("messages",), "at least one message is required"


def _many_messages(judged: Judged) -> Iterator[Broken]:
    count = len(judged.messages)
    if count > _MOST_MESSAGES and models.model_of(judged.model):
        yield ("messages",), f"{count} messages; {_MOST_MESSAGES} are allowed"


def _shapes(judged: Judged) -> Iterator[Broken]:
    for index, message in enumerate(judged.messages):
        path = ("messages", index)
        if not isinstance(message, dict):
            yield path, f"a message is an object, not {shown(message)}"
            continue
        role, content = message.get("role"), message.get("content")
        if role not in _ROLES:
            yield (*path, "role"), f"no role is called {shown(role)}"
        if not isinstance(content, (str, list, type(None))):
            yield (*path, "content"), f"content is text or a list of parts, not {shown(content)}"
        elif content is None and role in ("user", "system", "developer", "tool"):
            yield (*path, "content"), f"a {role} message needs content"
        for number, part in enumerate(content if isinstance(content, list) else ()):
            if not isinstance(part, (dict, str)):
                yield (*path, "content", number), f"a part is an object, not {shown(part)}"
            elif isinstance(part, dict) and not isinstance(part.get("type"), str):
                yield (*path, "content", number, "type"), "type is required in a part"


def _fields(judged: Judged) -> Iterator[Broken]:
    for _, path, part in _parts(judged):
        kind = part.get("type")
        if isinstance(kind, str) and not (kind == "image_url" and isinstance(part.get(kind), str)):
            yield from missing(part, _PARTS.get(kind, {}), path)
    for path, message in messages_of(judged):
        if message.get("role") == "tool":
            yield from missing(message, {"tool_call_id": (str,)}, path)
        if message.get("role") == "function":
            yield from missing(message, {"name": (str,)}, path)
        for where, call in _calls(path, message):
            yield from _call_fields(where, call)


def _call_fields(path: Path, call: Object) -> Iterator[Broken]:
    yield from missing(call, {"id": (str,)}, path)
    kind = call.get("type", "function")
    if kind == "function":
        yield from missing(call, {"function": (dict,)}, path)
        if isinstance(call.get("function"), dict):
            yield from missing(call["function"], {"name": (str,)}, (*path, "function"))
    if kind == "custom":
        yield from missing(call, {"custom": (dict,)}, path)


def _arguments(judged: Judged) -> Iterator[Broken]:
    for path, message in messages_of(judged):
        for where, call in _calls(path, message):
            function = call.get("function")
            if isinstance(function, dict) and not isinstance(function.get("arguments"), str):
                given = shown(function.get("arguments"))
                yield (
                    (*where, "function", "arguments"),
                    f"arguments are JSON in a text, not {given}",
                )


def _spell_arguments(judged: Judged, path: Path) -> str | None:
    given = at(judged.body, path)
    put(judged.body, path, "{}" if given is None else json.dumps(given, ensure_ascii=False))
    return "wrote the arguments as text"


def _calls(path: Path, message: Object) -> list[tuple[Path, Object]]:
    is_assistant = message.get("role") == "assistant"
    return objects(message.get("tool_calls"), (*path, "tool_calls")) if is_assistant else []


def _empty(judged: Judged) -> Iterator[Broken]:
    for path, message in messages_of(judged):
        if message.get("content") == [] and not message.get("tool_calls"):
            yield path, "the list of parts is empty"
        if message.get("tool_calls") == [] and models.model_of(judged.model):
            yield (*path, "tool_calls"), "the list of calls is empty"


def _drop_empty(judged: Judged, path: Path) -> str | None:
    remove(judged.body, path)
    return "removed the empty message" if len(path) == 2 else "removed the empty list"


def _silent(judged: Judged) -> Iterator[Broken]:
    others = ("tool_calls", "function_call", "audio", "refusal")
    for path, message in messages_of(judged):
        if (
            message.get("role") == "assistant"
            and message.get("content") is None
            and not any(message.get(key) for key in others)
            and models.model_of(judged.model)
        ):
            yield path, "an assistant message needs content or calls"


# --- calls and results ------------------------------------------------------------------------------


def _unanswered(judged: Judged) -> Iterator[Broken]:
    waiting: dict[Any, Path] = {}
    for path, message in messages_of(judged):
        if message.get("role") == "tool":
            waiting.pop(message.get("tool_call_id"), None)
            continue
        yield from _waiting(waiting)
        waiting = {call.get("id"): where for where, call in _calls(path, message)}
    yield from _waiting(waiting)


def _waiting(waiting: dict[Any, Path]) -> Iterator[Broken]:
    for name, path in waiting.items():
        yield path, f"the call {shown(name)} has no tool message directly behind its message"


def _orphans(judged: Judged) -> Iterator[Broken]:
    yield from ((path, text) for path, text, is_twice in _unasked(judged) if not is_twice)


def _twice(judged: Judged) -> Iterator[Broken]:
    yield from ((path, text) for path, text, is_twice in _unasked(judged) if is_twice)


def _unasked(judged: Judged) -> Iterator[tuple[Path, str, bool]]:
    called: set[Any] = set()
    answered: set[Any] = set()
    for path, message in messages_of(judged):
        if message.get("role") != "tool":
            called, answered = {call.get("id") for _, call in _calls(path, message)}, set()
            continue
        name = message.get("tool_call_id")
        if name in answered:
            yield path, f"a second result for {shown(name)}", True
        elif name not in called:
            yield path, f"a result for {shown(name)}, which the message before does not call", False
        answered.add(name)


def _ids(judged: Judged) -> Iterator[Broken]:
    for path, message in messages_of(judged):
        seen: set[Any] = set()
        for where, call in _calls(path, message):
            if call.get("id") in seen:
                yield (
                    (*where, "id"),
                    f"two calls of one message have the id {shown(call.get('id'))}",
                )
            seen.add(call.get("id"))


def _long_ids(judged: Judged) -> Iterator[Broken]:
    if not models.model_of(judged.model):
        return
    for path, message in messages_of(judged):
        for where, call in _calls(path, message):
            if isinstance(call.get("id"), str) and len(call["id"]) > 40:
                yield (*where, "id"), f"the id has {len(call['id'])} characters; 40 were allowed"


def _call_names(judged: Judged) -> Iterator[Broken]:
    for path, message in messages_of(judged):
        for where, call in _calls(path, message):
            kind = call.get("type", "function")
            held = call.get(kind) if isinstance(kind, str) else None
            if isinstance(held, dict) and held.get("name") is not None:
                yield from illegal_names([((*where, kind, "name"), held["name"])], NAME)


def _speakers(judged: Judged) -> Iterator[Broken]:
    for path, message in messages_of(judged):
        name = message.get("name")
        if (
            name is not None
            and message.get("role") in ("user", "system", "developer", "assistant")
            and (models.model_of(judged.model) or not isinstance(name, str))
        ):
            yield from illegal_names([((*path, "name"), name)], _USER_NAME)


# --- parts ------------------------------------------------------------------------------------------


def _images(judged: Judged) -> Iterator[tuple[Path, Any]]:
    for _, path, part in _parts(judged):
        held = part.get("image_url")
        if part.get("type") == "image_url" and held is not None:
            yield path, held.get("url") if isinstance(held, dict) else held


def _places(judged: Judged) -> Iterator[Broken]:
    for message, path, part in _parts(judged):
        kind, role = part.get("type"), message.get("role")
        if (
            role in ("system", "developer", "tool")
            and kind in ("image_url", "input_audio", "file")
            and (models.model_of(judged.model) or kind == "input_audio")
        ):
            yield path, f"a {role} message takes text parts only, not {kind}"
        if role == "assistant" and kind in ("image_url", "input_audio", "file"):
            yield path, f"an assistant message takes text and refusals only, not {kind}"


def _sounds(judged: Judged) -> Iterator[Broken]:
    for message, path, part in _parts(judged):
        audio = part.get("input_audio")
        if part.get("type") != "input_audio" or not isinstance(audio, dict):
            continue
        if message.get("role") == "user" and not models.hears(models.model_of(judged.model)):
            yield path, f"{judged.model} takes no audio"
        elif audio.get("format") not in ("wav", "mp3") and models.model_of(judged.model):
            yield path, f"audio is wav or mp3, not {shown(audio.get('format'))}"
        elif not audio.get("data") or decoded(audio.get("data")) is None:
            yield path, "the data are empty or not base64"


def _files(code: str) -> Any:
    def find(judged: Judged) -> Iterator[Broken]:
        for _, path, part in _parts(judged):
            file = part.get("file")
            if part.get("type") == "file" and isinstance(file, dict):
                is_link = str(file.get("file_data")).startswith(("http://", "https://"))
                if is_link and not models.model_of(judged.model):
                    continue
                for found, (_, text) in file_problems(file, "file_data", (*path, "file")):
                    if found == code:
                        yield path, text
                if code == "file-source" and not (file.get("file_data") or file.get("file_id")):
                    yield path, "a file has neither file_data nor file_id"

    return find


def _note(judged: Judged, path: Path) -> str | None:
    return set_media_note(judged, path, "text")


def _long_text(judged: Judged) -> Iterator[Broken]:
    for path, message in messages_of(judged):
        content = message.get("content")
        if isinstance(content, str) and len(content) > _LONGEST:
            yield (
                (*path, "content"),
                f"the text has {len(content)} characters; {_LONGEST} are allowed",
            )


_CHAT = f"{API}/chat/create"
_VISION = "https://platform.openai.com/docs/guides/images-vision"
_REASONING = "https://developers.openai.com/api/docs/guides/reasoning"
_STRICT = "https://platform.openai.com/docs/guides/structured-outputs"
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

CHECKS: tuple[Check, ...] = (
    Check(
        "surrogate",
        lone_surrogates,
        "RFC 8259, section 8.1: a body is UTF-8",
        _NOW,
        fix=replace_surrogates,
    ),
    Check("messages-missing", _no_messages, _CHAT, _READ, SETTINGS),
    Check(
        "message-count",
        _many_messages,
        "server error 'messages: array too long. Expected an array with maximum length 2048'",
        _READ,
    ),
    Check("shape", _shapes, "types of openai 3.49.0; recorded error 2025", _READ),
    Check("field-missing", _fields, "types of openai 3.49.0", _READ),
    Check("arguments", _arguments, _CHAT, _READ, fix=_spell_arguments),
    Check("empty", _empty, "server errors quoted in public", _READ, fix=_drop_empty),
    Check("content-missing", _silent, _CHAT, _READ, fix=drop_message),
    Check("result-duplicate", _twice, _CHAT, _READ, fix=drop_message),
    Check("result-orphan", _orphans, _CHAT, _READ, fix=say_result),
    Check("call-unanswered", _unanswered, _CHAT, _READ, fix=answer),
    Check("id-duplicate", _ids, "server errors quoted in public", _READ),
    Check(
        "id-length",
        _long_ids,
        "server errors through 2025; vercel/ai#17233",
        _READ,
        severity=WARNING,
    ),
    Check("name-charset", _call_names, _CHAT, _READ, fix=rename),
    Check(
        "speaker-name",
        _speakers,
        "server error 'messages[0].name: string does not match pattern'",
        _READ,
        fix=drop,
    ),
    Check("part-place", _places, "types of openai 3.49.0; recorded error 2026", _NOW, fix=_note),
    Check("audio", _sounds, "recorded error of gpt-5-mini 2026", _NOW, fix=_note),
    Check("image-url", image_problems("image-url", _images), _VISION, _NOW, fix=_note),
    Check(
        "media-type",
        image_problems("media-type", _images),
        f"{_VISION}; recorded error 2025",
        _NOW,
        fix=_note,
    ),
    Check("base64", image_problems("base64", _images), _VISION, _NOW, fix=_note),
    Check("file-type", _files("media-type"), "recorded error 2026", _NOW, fix=_note),
    Check("file-base64", _files("base64"), _CHAT, _READ, fix=_note),
    Check("file-source", _files("file-source"), _CHAT, _READ, fix=_note),
    Check(
        "text-length",
        _long_text,
        "server error 'string too long. Expected a string with maximum length 10485760'",
        _READ,
    ),
    Check("cache-marks", breakpoints, _CHAT, _READ, fix=drop),
    *SETTINGS_CHECKS,
)
