"""Contents of common shape, read without comparing what was said with what would be written.

Texts, calls and their results with nothing beside them, in the usual spelling; anything else is left to ``reading``,
and the tests hold both against each other.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any

from cannery.dialects.gemini_generate.outputs import OUTPUT
from cannery.dialects.gemini_generate.spelling import NAME, Object, write_form
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    new_assistant,
    new_invocation,
    new_result,
    new_user,
)
from cannery.messages.json_text import write_json
from cannery.messages.residue import Residue
from cannery.wire.arguments import RAW_ARGUMENTS
from cannery.wire.residues import patch_text

_ROLES = ("user", "model")
_MADE = {"functionCall": {"id": "", "name": "", "args": {}}}
_NAMED = {"functionResponse": {"id": "", "name": "", "response": {}}}


def usual_content(content: Any, when: datetime) -> list[AnyCanister] | None:
    """The canisters of a content of common shape; None for any other.

    A call or result that has no id gets the empty one here.
    """
    if type(content) is not dict or len(content) != 2:
        return None
    role, parts = content.get("role"), content.get("parts")
    if type(parts) is not list or not parts or role not in _ROLES:
        return None
    say = new_user if role == "user" else new_assistant
    found: list[Any] = []
    for part in parts:
        if type(part) is not dict or len(part) != 1:
            return None
        words = part.get("text")
        if type(words) is str:
            found.append(say(words, when, bool(found)))
            continue
        if role == "user":
            canister = _result(part.get("functionResponse"), when, joined=bool(found))
        else:
            canister = _call(part.get("functionCall"), when)
            if not found:
                found.append(new_assistant(absent, when))
        if canister is None:
            return None
        found.append(canister)
    return found


def _call(call: Any, when: datetime) -> AnyCanister | None:
    if type(call) is not dict:
        return None
    identifier, name, arguments = call.get("id", ""), call.get("name"), call.get("args")
    if (
        type(identifier) is not str
        or len(call) != (3 if identifier else 2)
        or type(name) is not str
        or not name
        or type(arguments) is not dict
        or RAW_ARGUMENTS in arguments
    ):
        return None
    residue = None if identifier else _idless_call()
    own = (identifier, name, False)
    return new_invocation(write_json(arguments), when, True, residue, None, *own)  # type: ignore[no-any-return]


def _result(result: Any, when: datetime, *, joined: bool) -> AnyCanister | None:
    if type(result) is not dict:
        return None
    identifier, name, response = result.get("id", ""), result.get("name"), result.get("response")
    words = response.get(OUTPUT) if type(response) is dict and len(response) == 1 else None
    if (
        type(identifier) is not str
        or len(result) != (3 if identifier else 2)
        or type(name) is not str
        or type(words) is not str
        or words.lstrip()[:1] in ("{", "[")
    ):
        return None
    residue = _result_residue(name, bool(identifier))
    return new_result(words, when, joined, residue, None, identifier, absent)  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _idless_call() -> Residue:
    """What a call without an id leaves behind."""
    return Residue(NAME, part=patch_text(_MADE, _without_id(_MADE)))


@lru_cache(maxsize=256)
def _result_residue(name: str, has_id: bool) -> Residue:  # noqa: FBT001 - the key of a cache
    """What a result leaves behind: the name that it came under, and that it had no id."""
    part = None if has_id else patch_text(_NAMED, _without_id(_NAMED))
    return Residue(NAME, part=part, form=write_form((), name))


def _without_id(part: Object) -> Object:
    return {
        kind: {key: value for key, value in inner.items() if key != "id"}
        for kind, inner in part.items()
    }
