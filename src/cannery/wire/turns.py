"""Turns on the wire: which side a canister belongs to, and which canisters form one wire message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    AssistantCanisterClass,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    UserCanisterClass,
    text_of,
)
from cannery.messages.content import (
    OpaqueContentClass,
    PartsContentClass,
    ReasoningContentClass,
    TextualContentClass,
)
from cannery.wire.contract import Piece

USER, MODEL, SUPERVISOR = "user", "model", "supervisor"
# The side of a canister, by its class.
SIDES: dict[type, str] = {
    UserCanisterClass: USER,
    DocumentCanisterClass: USER,
    ResultCanisterClass: USER,
    AssistantCanisterClass: MODEL,
    InvocationCanisterClass: MODEL,
    SupervisorCanisterClass: SUPERVISOR,
}


# The keys of a message that has nothing but its content.
_BARE = {"role", "content"}


def side(piece: Piece) -> str:
    """The side that a piece belongs to."""
    return SIDES[type(piece.canister)]


def changed(canister: AnyCanister, **fields: Any) -> AnyCanister:
    """A copy of a canister with some struct fields changed; only for the wire."""
    return msgspec.structs.replace(canister, _memo=None, **fields)


def turns(pieces: list[Piece]) -> list[list[Piece]]:
    """The groups of pieces that a wire sends as one message each."""
    groups: list[list[Piece]] = []
    speaker = ""
    for piece in pieces:
        canister = piece.canister
        kind = type(canister)
        whose = SIDES[kind]
        if whose is speaker and (canister.joined or kind is InvocationCanisterClass):
            groups[-1].append(piece)
        else:
            groups.append([piece])
            speaker = whose
    return groups


def omitted(held: Any) -> str:
    """The placeholder text for a content that cannot be written; "" if it needs none."""
    if isinstance(held, PartsContentClass):
        return next(filter(None, map(omitted, held.parts)), "")
    if held is absent or isinstance(held, (str, TextualContentClass, ReasoningContentClass)):
        # An empty turn needs no report, and a model is not required to think.
        return ""
    return f"[{'block' if isinstance(held, OpaqueContentClass) else held.kind} omitted]"


def omission(turn: Iterable[Piece]) -> str:
    """The placeholder text for a turn of which nothing can be written; "" if the turn is left out.

    A user turn stays a turn, and so does an image that the model produced. No other text is attributed to the model.
    """
    for piece in turn:
        canister = piece.canister
        is_block = type(canister.held) is OpaqueContentClass and SIDES[type(canister)] is MODEL
        if type(canister) is not InvocationCanisterClass and not is_block:
            text = omitted(canister.held)
            if text:
                return text
    return ""


def is_unsaid(message: Mapping[str, Any], turn: Iterable[Piece]) -> bool:
    """Whether nothing of a turn can be written in a message; a turn with an empty text can."""
    is_empty = message.get("content") == "" and message.keys() == _BARE
    return is_empty and not any(
        piece.canister.held is absent or isinstance(piece.canister.held, (str, TextualContentClass))
        for piece in turn
    )


def is_prefill(piece: Piece) -> bool:
    """Whether the model was meant to continue a trailing assistant turn, which is not possible here."""
    canister = piece.canister
    return type(canister) is AssistantCanisterClass and bool(text_of(canister.held))
