"""Items of common shape, read without comparing what was said with what would be written.

What such an item leaves behind as residue depends on its shape alone. A body of nothing but plain messages is decoded
into canisters at once. Anything else is left to ``reading``, and the tests hold both against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from cannery.dialects.openai_responses.settings import NAME
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    new_assistant,
    new_invocation,
    new_result,
    new_supervisor,
    new_user,
)
from cannery.messages.checked import now
from cannery.messages.conversation import Conversation
from cannery.messages.requests import Request, new_controls, new_request
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.markers import MARKS
from cannery.wire.plain import PlainAssistant, PlainDeveloper, PlainSystem, PlainUser
from cannery.wire.received import RECEIVED

# The residue of a message by its shape: the keys of the item, and those of its only part if it has one.
ResidueOf = Callable[[str, tuple[str, ...], tuple[str, ...]], Residue | None]

_ROLES = frozenset({"user", "assistant", "system", "developer"})
_PARTS = ("input_text", "output_text")
_NO_PART: tuple[str, ...] = ()


class PlainBody(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A request of plain messages and the commonest settings."""

    input: list[PlainUser | PlainAssistant | PlainSystem | PlainDeveloper]
    model: str = absent  # type: ignore[assignment]
    instructions: str = absent  # type: ignore[assignment]
    max_output_tokens: int = absent  # type: ignore[assignment]
    temperature: int | float = absent  # type: ignore[assignment]
    top_p: int | float = absent  # type: ignore[assignment]
    stream: bool = absent  # type: ignore[assignment]


_decode_plain = msgspec.json.Decoder(PlainBody).decode
_INSTRUCTIONS = Residue(NAME, form="instructions")


def usual_request(body: bytes) -> Request | None:
    """The request of a body of nothing but plain messages; None for any other."""
    when = now()
    RECEIVED.set(when)
    try:
        plain: Any = _decode_plain(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    canisters: list[Any] = plain.input
    if "" in [canister.held for canister in canisters]:
        return None
    if plain.instructions is not absent:
        if not plain.instructions:
            return None
        canisters = [new_supervisor(plain.instructions, when, False, _INSTRUCTIONS), *canisters]
    controls = new_controls(plain.max_output_tokens, plain.temperature, plain.top_p)
    known = (Conversation.trusted(canisters), plain.model, (), absent, controls, plain.stream)
    return new_request(*known, None, NAME)  # type: ignore[no-any-return]


def usual_item(item: Any, when: datetime, residue_of: ResidueOf) -> AnyCanister | None:
    """The canister of an item of common shape; None for any other."""
    if type(item) is not dict:
        return None
    kind = item.get("type", absent)
    if kind == "function_call":
        return _call(item, when)
    if kind == "function_call_output":
        return _result(item, when)
    if kind is not absent and kind != "message":
        return None
    role, content = item.get("role"), item.get("content")
    if len(item) != (2 if kind is absent else 3) or type(role) is not str or role not in _ROLES:
        return None
    part = _NO_PART
    if type(content) is list:
        said = content[0] if len(content) == 1 else None
        part, content = _only_text(said)
    if type(content) is not str or not content:
        return None
    residue = None if kind is absent and not part else residue_of(role, (*item,), part)
    if role == "user":
        return new_user(content, when, False, residue)  # type: ignore[no-any-return]
    if role == "assistant":
        return new_assistant(content, when, False, residue)  # type: ignore[no-any-return]
    return new_supervisor(content, when, False, residue, None, role)  # type: ignore[no-any-return]


def usual_path(item: Object, path: str) -> str:
    """Where the canister of such an item stands."""
    if "content" not in item:
        return path
    return f"{path}.content" if type(item["content"]) is str else f"{path}.content[0]"


def probe(role: str, keys: tuple[str, ...], part: tuple[str, ...]) -> Object:
    """A message of a shape, with some words in it."""
    words: Any = "words"
    if part:
        kind, *rest = part
        empty: Object = {"annotations": []}
        words = [{"type": kind, **{key: empty.get(key, "words") for key in rest if key != "type"}}]
    said = {"type": "message", "role": role, "content": words}
    return {key: said[key] for key in keys}


def _only_text(part: Any) -> tuple[tuple[str, ...], Any]:
    """The kind and keys of a part that is nothing but text, and the text; of no other."""
    if type(part) is not dict:
        return _NO_PART, None
    kind = part.get("type")
    count = 3 if part.get("annotations") == [] else 2
    if len(part) != count or kind not in _PARTS:
        return _NO_PART, None
    return (kind, *part), part.get("text")


def _call(item: Object, when: datetime) -> AnyCanister | None:
    identifier, name = item.get("call_id"), item.get("name")
    arguments = item.get("arguments")
    if (
        len(item) != 4
        or type(identifier) is not str
        or not identifier
        or type(name) is not str
        or type(arguments) is not str
    ):
        return None
    return new_invocation(arguments, when, False, None, None, identifier, name, False)  # type: ignore[no-any-return]


def _result(item: Object, when: datetime) -> AnyCanister | None:
    identifier, output = item.get("call_id"), item.get("output")
    if (
        len(item) != 3
        or type(identifier) is not str
        or not identifier
        or type(output) is not str
        or output.startswith(MARKS)
    ):
        return None
    return new_result(output, when, False, None, None, identifier, absent)  # type: ignore[no-any-return]
