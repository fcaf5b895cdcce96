"""Chat messages of common shape, read without comparing what was said with what would be written.

Nothing but the usual fields, and fields that say nothing (``"refusal": null``, ``"annotations": []``), which clients
send back with every answer. Anything else is left to ``chat_reading``; the tests hold both against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    new_assistant,
    new_invocation,
    new_result,
    new_supervisor,
    new_user,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.markers import MARKS

# Fields that say nothing, each with whether it is an empty list and not null.
Silent = tuple[tuple[str, bool], ...]
# The residue of an assistant message by the form of its content and the fields that say nothing.
ResidueOf = Callable[[str, Silent], Residue | None]

_CALL = {"id", "type", "function"}
_FUNCTION = {"name", "arguments"}
_SPOKEN = {"role", "content", "tool_calls"}


def take_common(
    message: Any,
    path: str,
    when: datetime,
    found: list[tuple[AnyCanister, str]],
    residue: ResidueOf,
) -> bool:
    """Take the canisters of a message of common shape, with their paths; False for any other."""
    if type(message) is not dict:
        return False
    role, content = message.get("role"), message.get("content", absent)
    if role == "assistant":
        return _take_assistant(message, content, path, when, found, residue)
    if type(content) is not str or content.startswith(MARKS):
        return False
    canister: AnyCanister
    if role == "tool":
        identifier = message.get("tool_call_id")
        if len(message) != 3 or type(identifier) is not str:
            return False
        found.append((new_result(content, when, False, None, None, identifier, absent), path))
        return True
    if len(message) != 2:
        return False
    if role == "user":
        canister = new_user(content, when)
    elif role in ("system", "developer"):
        canister = new_supervisor(content, when, False, None, None, role)
    else:
        return False
    found.append((canister, f"{path}.content"))
    return True


def _take_assistant(
    message: Object,
    content: Any,
    path: str,
    when: datetime,
    found: list[tuple[AnyCanister, str]],
    residue: ResidueOf,
) -> bool:
    calls = message.get("tool_calls", absent)
    others = [(name, held) for name, held in message.items() if name not in _SPOKEN]
    if any(held is not None and held != [] for _, held in others):
        return False
    names: Silent = tuple((name, held is not None) for name, held in others)
    if calls is absent:
        if type(content) is not str:
            return False
        kept = residue("text", names) if names else None
        found.append((new_assistant(content, when, False, kept), f"{path}.content"))
        return True
    if type(calls) is not list or not all(map(_is_call, calls)) or not calls:
        return False
    if content is None or content is absent or content == "":
        form = "null" if content is None else "absent" if content is absent else "string"
        kept = None if form == "null" and not names else residue(form, names)
        found.append((new_assistant(absent, when, False, kept), path))
    elif type(content) is str:
        kept = residue("text calls", names) if names else None
        found.append((new_assistant(content, when, False, kept), f"{path}.content"))
    else:
        return False
    for index, call in enumerate(calls):
        function = call["function"]
        own = (call["id"], function["name"], False)
        canister = new_invocation(function["arguments"], when, True, None, None, *own)
        found.append((canister, f"{path}.tool_calls[{index}]"))
    return True


def _is_call(call: Any) -> bool:
    if type(call) is not dict or call.keys() != _CALL or call["type"] != "function":
        return False
    function = call["function"]
    return (
        type(function) is dict
        and function.keys() == _FUNCTION
        and type(function["name"]) is str
        and type(function["arguments"]) is str
        and type(call["id"]) is str
    )
