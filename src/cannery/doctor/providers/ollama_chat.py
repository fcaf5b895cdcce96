"""Rules of Ollama's chat (``POST /api/chat``).

Source: the Go structs of the server (ollama/ollama at fb30760, ``api/types.go`` and ``server/routes.go``), which refuse
values of other types, and ignore unknown fields: a setting outside ``options`` has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery.doctor.contract import SETTINGS, WARNING, Broken, Check, Judged
from cannery.doctor.images import decoded
from cannery.doctor.json_paths import shown
from cannery.doctor.providers import _chat_relatives as chat
from cannery.doctor.providers._chat_messages import messages_of
from cannery.doctor.shared import (
    drop,
    duplicate_names,
    lone_surrogates,
    replace_surrogates,
    types,
    wrong_types,
)

_READ = "2026-11-18"
_STRUCTS = "api/types.go of ollama/ollama at fb30760"
_ROLES = ("system", "user", "assistant", "tool")
# The base64 of ``%PDF-``.
_PDF = "JVBERi"
_EFFORTS = ("high", "medium", "low", "max")
_KINDS = {
    "stream": (bool,),
    "options": (dict,),
    "format": (str, dict),
    "keep_alive": (str, int, float),
    "think": (bool, str),
    "tools": (list,),
}
_OPTIONS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(
        ("num_ctx", "num_batch", "num_gpu", "num_thread", "num_keep", "seed", "num_predict"),
        (int,),
    ),
    **dict.fromkeys(("top_k", "repeat_last_n", "mirostat"), (int,)),
    **dict.fromkeys(("temperature", "top_p", "min_p", "typical_p", "tfs_z"), (float,)),
    **dict.fromkeys(("repeat_penalty", "presence_penalty", "frequency_penalty"), (float,)),
    "stop": (list,),
    "use_mmap": (bool,),
}


def _lower(judged: Judged) -> Iterator[Broken]:
    """Roles that the server does not know; it ignores case."""
    given = judged.body.get("messages")
    for index, message in enumerate(given if isinstance(given, list) else ()):
        if not isinstance(message, dict):
            yield ("messages", index), f"a message is an object, not {shown(message)}"
            continue
        role = message.get("role")
        if not isinstance(role, str) or role.lower() not in _ROLES:
            yield ("messages", index, "role"), f"the role is {shown(role)}"
        kinds = {"content": (str,), "thinking": (str,), "images": (list,), "tool_calls": (list,)}
        yield from wrong_types(message, kinds, ("messages", index))


def _calls(judged: Judged) -> Iterator[Broken]:
    for path, message in messages_of(judged):
        calls = message.get("tool_calls")
        for index, call in enumerate(calls if isinstance(calls, list) else ()):
            where = (*path, "tool_calls", index)
            function = call.get("function") if isinstance(call, dict) else None
            if not isinstance(function, dict) or not isinstance(function.get("name"), str):
                yield where, "a call needs a function with a name"
            elif not isinstance(function.get("arguments"), (dict, type(None))):
                yield (*where, "function", "arguments"), "arguments is an object, not text"


def _images(judged: Judged) -> Iterator[Broken]:
    for path, message in messages_of(judged):
        images = message.get("images")
        for index, image in enumerate(images if isinstance(images, list) else ()):
            where = (*path, "images", index)
            if isinstance(image, str) and image[:5].lower() == "data:":
                yield where, "an image is bare base64, without the head of a data URL"
            elif not image or decoded(image) is None:
                yield where, "the data are empty or not base64"
            elif str(image).startswith(_PDF):
                yield where, "a PDF is no image"


def _strip(judged: Judged, path: Any) -> str | None:
    """Remove the head of a data URL."""
    images = judged.messages[path[1]]["images"]
    head, _, data = str(images[path[3]]).partition(",")
    if not head.lower().startswith("data:") or decoded(data) is None:
        return None
    images[path[3]] = data
    return "removed the head of the data URL"


def _settings(judged: Judged) -> Iterator[Broken]:
    options = judged.body.get("options")
    if isinstance(options, dict):
        yield from wrong_types(options, _OPTIONS, ("options",))
    think = judged.body.get("think")
    if isinstance(think, str) and think not in _EFFORTS:
        yield ("think",), f"think is {shown(think)}: true, false, {', '.join(_EFFORTS)}"
    form = judged.body.get("format")
    if isinstance(form, str) and form not in ("", "json"):
        yield ("format",), f"format is {shown(form)}: 'json' or a schema"


def _ignored(judged: Judged) -> Iterator[Broken]:
    for key in judged.body:
        if key in (*_OPTIONS, "max_tokens", "response_format", "tool_choice"):
            yield (key,), f"{key} has no effect here; settings of the model stand in options"


CHECKS = (
    Check("surrogate", lone_surrogates, "RFC 8259, section 8.2", _READ, fix=replace_surrogates),
    Check("model-missing", chat.no_model, "server/routes.go: model is required", _READ, SETTINGS),
    Check("messages-missing", chat.no_messages, _STRUCTS, _READ, SETTINGS, WARNING),
    Check("shape", _lower, _STRUCTS, _READ),
    Check("arguments", _calls, _STRUCTS, _READ),
    Check("base64", _images, f"{_STRUCTS}: ImageData", _READ, fix=_strip),
    Check("tools", chat.broken_tools, _STRUCTS, _READ, SETTINGS),
    Check(
        "name-duplicate",
        lambda judged: duplicate_names(chat.names_of(judged)),
        "common knowledge of such APIs",
        _READ,
        SETTINGS,
        WARNING,
    ),
    Check("type", types(_KINDS), _STRUCTS, _READ, SETTINGS),
    Check("options", _settings, f"{_STRUCTS}: Options.FromMap", _READ, SETTINGS, fix=drop),
    Check("field-ignored", _ignored, _STRUCTS, _READ, SETTINGS, WARNING),
)
