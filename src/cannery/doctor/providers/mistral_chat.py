"""Rules of Mistral's chat.

Sources: the validator that Mistral publishes (mistral-common 1.13.0), the types of mistralai 3.7.0, and publicly quoted
errors of the API. Models with tokenizers from v13 on accept any call id; the others require nine characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cannery.doctor.contract import SETTINGS, WARNING, Broken, Check, Judged
from cannery.doctor.json_paths import shown
from cannery.doctor.providers import _chat_relatives as chat
from cannery.doctor.providers._chat_messages import (
    answer,
    drop_message,
    messages_of,
    say_result,
)
from cannery.doctor.providers._exchanges import duplicates, orphans, unanswered
from cannery.doctor.providers._fields import MISTRAL, foreign_fields, unknown_fields
from cannery.doctor.shared import (
    drop,
    duplicate_names,
    illegal_names,
    lone_surrogates,
    ranges,
    replace_surrogates,
    types,
)

_READ = "2026-11-15"
_COMMON = "validator of mistral-common 1.13.0"
_TYPES = "types of mistralai 3.7.0"
_ERRORS = "errors of the API quoted in public (mistralai/client-python)"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID = re.compile(r"[A-Za-z0-9]{9}")
_FOLLOWERS = {
    "system": ("user", "assistant", "system"),
    "user": ("assistant", "system", "user"),
    "assistant": ("assistant", "user", "tool"),
    "tool": ("assistant", "tool", "user"),
}


def _order(judged: Judged) -> Iterator[Broken]:
    before = ""
    for path, message in messages_of(judged):
        role = message.get("role")
        if isinstance(role, str) and role not in _FOLLOWERS.get(before, (role,)):
            yield (*path, "role"), f"{role} may not follow {before}"
        before = str(role)


def _last(judged: Judged) -> Iterator[Broken]:
    messages = messages_of(judged)
    if messages:
        path, message = messages[-1]
        if message.get("role") in ("assistant", "system") and not message.get("prefix"):
            yield path, "the last message is of the user or a tool, or of the assistant with prefix"


def _prefixes(judged: Judged) -> Iterator[Broken]:
    for path, message in messages_of(judged)[:-1]:
        if message.get("prefix"):
            yield (*path, "prefix"), "only the last message can be a prefix"


def _instructions(judged: Judged) -> Iterator[Broken]:
    for path, message in messages_of(judged):
        if message.get("role") == "system" and message.get("content") is None:
            yield path, "a system message needs content"


def _ids(judged: Judged) -> Iterator[Broken]:
    for path, message in messages_of(judged):
        named = [((*where, "id"), call.get("id")) for where, call in chat.calls_of(path, message)]
        yield from illegal_names(named, _ID, "id of a call")


def _choice(judged: Judged) -> Iterator[Broken]:
    choice = judged.body.get("tool_choice")
    names = [name for _, name in chat.names_of(judged)]
    if isinstance(choice, dict):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        if name not in names:
            yield ("tool_choice",), f"no tool has the name {shown(name)}"
    elif choice is not None and choice not in ("auto", "none", "any", "required"):
        yield ("tool_choice",), f"tool_choice is {shown(choice)}: auto, none, any or required"
    elif choice in ("any", "required") and not names:
        yield ("tool_choice",), "there is no tool to choose"


def _foreign(judged: Judged) -> Iterator[Broken]:
    yield from foreign_fields(judged.body, MISTRAL, ())


def _unknown(judged: Judged) -> Iterator[Broken]:
    yield from unknown_fields(judged.body, MISTRAL, ())


_KINDS = {
    "stream": (bool,),
    "max_tokens": (int,),
    "temperature": (float,),
    "top_p": (float,),
    "random_seed": (int,),
    "stop": (str, list),
    "safe_prompt": (bool,),
    "parallel_tool_calls": (bool,),
    "n": (int,),
    "response_format": (dict,),
    "tool_choice": (str, dict),
}

CHECKS = (
    Check("surrogate", lone_surrogates, "RFC 8259, section 8.2", _READ, fix=replace_surrogates),
    Check("model-missing", chat.no_model, _TYPES, _READ, SETTINGS),
    Check("messages-missing", chat.no_messages, _TYPES, _READ, SETTINGS),
    Check("shape", chat.shapes(tuple(_FOLLOWERS), (str, list)), _TYPES, _READ),
    Check("content-missing", chat.silent("content", "tool_calls"), _COMMON, _READ),
    Check("system-content", _instructions, _COMMON, _READ),
    Check("order", _order, _COMMON, _READ),
    Check("last-role", _last, _COMMON, _READ, SETTINGS),
    Check("prefix", _prefixes, _COMMON, _READ, fix=drop),
    Check("result-orphan", orphans(chat.events), _COMMON, _READ, fix=say_result),
    Check("result-duplicate", duplicates(chat.events), _COMMON, _READ, fix=drop_message),
    Check("call-unanswered", unanswered(chat.events), f"{_COMMON}; error 3230", _READ, fix=answer),
    Check("name-charset", chat.call_names(_NAME), _COMMON, _READ),
    Check("id-charset", _ids, f"{_COMMON} up to v11; {_ERRORS}", _READ, severity=WARNING),
    Check("tools", chat.broken_tools, _TYPES, _READ, SETTINGS),
    Check(
        "name-duplicate",
        lambda judged: duplicate_names(chat.names_of(judged)),
        _COMMON,
        _READ,
        SETTINGS,
        WARNING,
    ),
    Check("tool-choice", _choice, _TYPES, _READ, SETTINGS, WARNING),
    Check("type", types(_KINDS), _TYPES, _READ, SETTINGS),
    Check(
        "range",
        ranges({"temperature": (0, 1.5), "top_p": (0, 1)}),
        "docs.mistral.ai/api, Chat",
        _READ,
        SETTINGS,
        fix=drop,
    ),
    Check("field-foreign", _foreign, f"{_ERRORS}: extra_forbidden", _READ, SETTINGS, fix=drop),
    Check("field-unknown", _unknown, _TYPES, _READ, SETTINGS, WARNING),
)
