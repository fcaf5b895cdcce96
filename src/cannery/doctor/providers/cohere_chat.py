"""Rules of Cohere's chat (``POST /v2/chat``).

Sources: the types of cohere 7.3.1, the API reference (docs.cohere.com/reference/chat), and publicly quoted errors. This
path refuses the fields of ``/v1/chat``.
"""

from __future__ import annotations

from collections.abc import Iterator

from cannery.doctor.contract import SETTINGS, WARNING, Broken, Check, Judged
from cannery.doctor.images import decoded
from cannery.doctor.json_paths import objects, shown
from cannery.doctor.providers import _chat_relatives as chat
from cannery.doctor.providers._chat_messages import (
    answer,
    drop_message,
    messages_of,
    say_result,
)
from cannery.doctor.providers._exchanges import duplicates, orphans, unanswered
from cannery.doctor.providers._fields import COHERE, foreign_fields, unknown_fields
from cannery.doctor.shared import (
    drop,
    duplicate_names,
    lone_surrogates,
    ranges,
    replace_surrogates,
    types,
)

_READ = "2026-11-18"
_TYPES = "types of cohere 7.3.1"
_REFERENCE = "docs.cohere.com/reference/chat"
_ERRORS = "errors of the API quoted in public"
_ROLES = ("user", "assistant", "system", "tool")
_PARTS = {
    "user": ("text", "image_url"),
    "assistant": ("text", "thinking"),
    "system": ("text",),
    "tool": ("text", "document"),
}
# Fields of ``/v1/chat``, which this path refuses.
_OLD = ("message", "chat_history", "preamble", "connectors", "conversation_id", "tool_results")


def _identifiers(judged: Judged) -> Iterator[Broken]:
    for path, message in messages_of(judged):
        if message.get("role") == "tool" and not isinstance(message.get("tool_call_id"), str):
            yield (*path, "tool_call_id"), "tool_call_id is required"


def _contents(judged: Judged) -> Iterator[Broken]:
    for path, message in messages_of(judged):
        allowed = _PARTS.get(str(message.get("role")))
        for where, part in objects(message.get("content"), (*path, "content")):
            kind = part.get("type")
            if allowed is not None and kind is not None and kind not in allowed:
                yield where, f"{shown(kind)} in a message of the {message['role']}"


def _images(judged: Judged) -> Iterator[Broken]:
    for path, message in messages_of(judged):
        for where, part in objects(message.get("content"), (*path, "content")):
            image = part.get("image_url")
            url = image.get("url") if isinstance(image, dict) else None
            if part.get("type") != "image_url" or not isinstance(url, str):
                continue
            head, comma, data = url.partition(",")
            if head[:5].lower() == "data:" and (not comma or not data or decoded(data) is None):
                yield where, "the data of the image are empty or not base64"


def _documents(judged: Judged) -> Iterator[Broken]:
    given = judged.body.get("documents")
    for index, document in enumerate(given if isinstance(given, list) else ()):
        if isinstance(document, str):
            continue
        if not isinstance(document, dict) or not isinstance(document.get("data"), (dict, str)):
            yield ("documents", index), "a document is text, or an object with data"


def _format(judged: Judged) -> Iterator[Broken]:
    form = judged.body.get("response_format")
    is_json = isinstance(form, dict) and form.get("type") == "json_object"
    for key in ("tools", "documents"):
        if is_json and judged.body.get(key):
            yield ("response_format",), f"there is no JSON format beside {key}"


def _choice(judged: Judged) -> Iterator[Broken]:
    choice = judged.body.get("tool_choice")
    if choice is None:
        return
    if choice not in ("REQUIRED", "NONE"):
        yield ("tool_choice",), f"tool_choice is {shown(choice)}: REQUIRED or NONE"
    elif not judged.body.get("tools"):
        yield ("tool_choice",), "there is no tool to choose"


def _foreign(judged: Judged) -> Iterator[Broken]:
    for key in _OLD:
        if key in judged.body:
            yield (key,), f"{key} is a field of /v1/chat; this is for /v2/chat"
    yield from foreign_fields(judged.body, COHERE, ())


def _unknown(judged: Judged) -> Iterator[Broken]:
    yield from unknown_fields(judged.body, COHERE | {*_OLD}, ())


_KINDS = {
    "stream": (bool,),
    "max_tokens": (int,),
    "temperature": (float,),
    "p": (float,),
    "k": (int, float),
    "seed": (int,),
    "stop_sequences": (list,),
    "documents": (list,),
    "response_format": (dict,),
    "thinking": (dict,),
    "strict_tools": (bool,),
}
_LIMITS = {
    "p": (0.01, 0.99),
    "k": (0, 500),
    "frequency_penalty": (0, 1),
    "presence_penalty": (0, 1),
    "temperature": (0, 1),
}

CHECKS = (
    Check("surrogate", lone_surrogates, "RFC 8259, section 8.2", _READ, fix=replace_surrogates),
    Check("model-missing", chat.no_model, _TYPES, _READ, SETTINGS),
    Check("messages-missing", chat.no_messages, _TYPES, _READ, SETTINGS),
    Check("shape", chat.shapes(_ROLES, (str, list)), _TYPES, _READ),
    Check("part-place", _contents, _TYPES, _READ),
    Check("content-missing", chat.silent("content", "tool_calls", "tool_plan"), _ERRORS, _READ),
    Check("field-missing", _identifiers, _TYPES, _READ),
    Check("result-orphan", orphans(chat.events), _ERRORS, _READ, fix=say_result),
    Check("result-duplicate", duplicates(chat.events), _ERRORS, _READ, fix=drop_message),
    Check("call-unanswered", unanswered(chat.events), _ERRORS, _READ, fix=answer),
    Check("base64", _images, _REFERENCE, _READ),
    Check("documents", _documents, _TYPES, _READ, SETTINGS),
    Check("tools", chat.broken_tools, _TYPES, _READ, SETTINGS),
    Check(
        "name-duplicate",
        lambda judged: duplicate_names(chat.names_of(judged)),
        "common knowledge of such APIs",
        _READ,
        SETTINGS,
        WARNING,
    ),
    Check("tool-choice", _choice, _REFERENCE, _READ, SETTINGS, WARNING),
    Check("format", _format, _REFERENCE, _READ, SETTINGS, WARNING),
    Check("stop-limit", chat.too_many({"stop_sequences": 5}), _REFERENCE, _READ, SETTINGS),
    Check("type", types(_KINDS), _TYPES, _READ, SETTINGS),
    Check("range", ranges(_LIMITS), _REFERENCE, _READ, SETTINGS, WARNING),
    Check(
        "field-foreign",
        _foreign,
        "server error 'unknown field: parameter … is not a valid field'",
        _READ,
        SETTINGS,
        fix=drop,
    ),
    Check("field-unknown", _unknown, _TYPES, _READ, SETTINGS, WARNING),
)
