"""Turns on the wire: whose turn a canister is, and which canisters one wire message holds."""

from __future__ import annotations

from typing import Any

import msgspec

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


def is_prefill(piece: Piece) -> bool:
    """Whether the model was meant to go on where this ends; here it starts anew."""
    canister = piece.canister
    return isinstance(canister, AssistantCanisterClass) and bool(text_of(canister.held))
