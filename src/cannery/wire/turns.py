"""Turns on the wire: whose turn a canister is, and which canisters one wire message holds."""

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
# Whose turn a canister is, by its class.
SIDES: dict[type, str] = {
    UserCanisterClass: USER,
    DocumentCanisterClass: USER,
    ResultCanisterClass: USER,
    AssistantCanisterClass: MODEL,
    InvocationCanisterClass: MODEL,
    SupervisorCanisterClass: SUPERVISOR,
}
_UNSAID = {"role": "assistant", "content": ""}


def side(piece: Piece) -> str:
    """Whose turn a piece belongs to."""
    return SIDES[type(piece.canister)]


def changed(canister: AnyCanister, **fields: Any) -> AnyCanister:
    """A copy of a canister with some struct fields changed; for the wire only."""
    return msgspec.structs.replace(canister, _memo=None, **fields)


def turns(pieces: list[Piece]) -> list[list[Piece]]:
    """The groups that a wire would send as one message each."""
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
    """The text in the place of a content that could not be said; "" where nothing stands for it."""
    if isinstance(held, PartsContentClass):
        return next(filter(None, map(omitted, held.parts)), "")
    if held is absent or isinstance(held, (str, TextualContentClass, ReasoningContentClass)):
        # A turn without words is nothing to tell of, and a model need not think.
        return ""
    return f"[{'block' if isinstance(held, OpaqueContentClass) else held.kind} omitted]"


def omission(turn: Iterable[Piece]) -> str:
    """The text in the place of a turn of which nothing could be said; "" where the turn is left out.

    A question stays a question, and a picture of the model's was seen. No other words are put into its mouth.
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
    """Whether nothing of a turn of the model could be said in a message; one with an empty text says that."""
    return message == _UNSAID and not any(
        piece.canister.held is absent or isinstance(piece.canister.held, (str, TextualContentClass))
        for piece in turn
    )


def is_prefill(piece: Piece) -> bool:
    """Whether the model was meant to go on where this ends; here it starts anew."""
    canister = piece.canister
    return isinstance(canister, AssistantCanisterClass) and bool(text_of(canister.held))
