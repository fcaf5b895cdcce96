"""Turns on the wire: whose turn a canister is, and which canisters one wire message holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from cannery.messages.canisters import AnyCanister, AssistantCanisterClass, text_of
from cannery.messages.role import Role
from cannery.wire.contract import Piece

USER, MODEL, SUPERVISOR = "user", "model", "supervisor"
_SIDES = {
    Role.User: USER,
    Role.Document: USER,
    Role.Result: USER,
    Role.Assistant: MODEL,
    Role.Invocation: MODEL,
    Role.Supervisor: SUPERVISOR,
}


def side(piece: Piece) -> str:
    """Whose turn a piece belongs to."""
    return _SIDES[piece.canister.role]


def changed(canister: AnyCanister, **fields: Any) -> AnyCanister:
    """A copy of a canister with some struct fields changed; for the wire only."""
    return msgspec.structs.replace(canister, _memo=None, **fields)


def turns(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """The groups that a wire would send as one message each."""
    group: list[Piece] = []
    for piece in pieces:
        canister = piece.canister
        follows = bool(group) and side(piece) == side(group[-1])
        follows = follows and (
            canister.joined or (canister.role is Role.Invocation and side(group[-1]) == MODEL)
        )
        if group and not follows:
            yield group
            group = []
        group.append(piece)
    if group:
        yield group


def is_prefill(piece: Piece) -> bool:
    """Whether the model was meant to go on where this ends; here it starts anew."""
    canister = piece.canister
    return isinstance(canister, AssistantCanisterClass) and bool(text_of(canister.held))
