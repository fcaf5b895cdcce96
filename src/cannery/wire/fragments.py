"""Turns kept beside a conversation: writing it again with more at its end encodes only what is new.

The turns up to some canister are kept in that canister's memo, together with the canisters before it; they are used
again only for a conversation that starts with the very same canisters. Of one branch only the longest is kept. What is
kept never leads back to the canister that keeps it: no collector looks into canisters, so nobody would ever free them.
They are encoded when they are used again for the first time, so that a conversation written once pays nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from msgspec import Raw

from cannery.messages.role import Role
from cannery.wire.bodies import Turns, encode
from cannery.wire.contract import Notes

# How far from its end a conversation is searched for what was kept.
_REACH = 64
# From how many pieces on the encoded turns are joined to one.
_MANY = 32


class Walked(NamedTuple):
    """What a walk over a conversation wrote: turns, where the last assistant turn starts, and how many come before."""

    turns: list[Any]
    last: int
    before: int


class Walk(Protocol):
    """Writes the turns from a position on; None if the conversation needs the general way.

    No call id may be among ``known`` or come twice; those met are added to ``used``. With ``goes_on`` there are turns
    before the position, the last of them the user's.
    """

    def __call__(
        self,
        canisters: tuple[Any, ...],
        index: int,
        notes: Notes,
        used: set[str],
        known: frozenset[str],
        *,
        goes_on: bool,
    ) -> Walked | None:
        """The turns."""


class _Kept(NamedTuple):
    """The turns of some canisters and the one that keeps them: the first encoded, with the commas that follow."""

    earlier: tuple[Any, ...]
    encoded: list[bytes]
    pending: list[Any]
    ids: frozenset[str]
    notes: Notes


_NOTHING = _Kept((), [], [], frozenset(), [])


def write_kept(
    canisters: tuple[Any, ...], start: int, notes: Notes, key: str, walk: Walk
) -> Turns | list[Any] | None:
    """The turns from a position on, all but the last taken from what was kept, and kept again."""
    position, known = _find(canisters, key)
    encoded = known.encoded
    if known.pending:
        encoded = encoded + [encode(turn) + b"," for turn in known.pending]
        if len(encoded) > _MANY:
            encoded = [b"".join(encoded)]
    used: set[str] = set()
    said: Notes = list(known.notes)
    walked = walk(canisters, position or start, said, used, known.ids, goes_on=bool(encoded))
    if walked is None:
        return None
    turns, last, before = walked
    if last > 0:
        ids = known.ids | (used - _ids(canisters, last)) if used else known.ids
        about = [note for note in said if type(note[1]) is not int or note[1] < last]
        if position:
            canisters[position - 1].memo().pop(key, None)
        kept = _Kept(canisters[: last - 1], encoded, turns[:before], ids, about)
        canisters[last - 1].memo()[key] = kept
    notes += said
    if encoded and not turns:
        encoded, turns = encoded[:-1], [Raw(encoded[-1][:-1])]
    return Turns([*encoded, encode(turns)[1:-1]]) if encoded else turns


def _find(canisters: tuple[Any, ...], key: str) -> tuple[int, _Kept]:
    """The longest beginning whose turns are kept: its length, and the turns."""
    for position in range(len(canisters), max(0, len(canisters) - _REACH), -1):
        memo = canisters[position - 1]._memo  # noqa: SLF001 - looking must not make one
        kept: _Kept | None = None if memo is None else memo.get(key)
        # Comparing tuples starts with identity, so equal prefixes cost a few nanoseconds a canister.
        if kept is not None and kept.earlier == canisters[: position - 1]:
            return position, kept
    return 0, _NOTHING


def _ids(canisters: tuple[Any, ...], position: int) -> set[str]:
    """The ids of the calls from a position on."""
    return {getattr(canister, "identifier", "") for canister in canisters[position:]}


def leading_texts(canisters: tuple[Any, ...]) -> int | None:
    """How many supervisors stand first, all of them with something to say; None if one is blank or not text."""
    for count, canister in enumerate(canisters):
        if canister.role is not Role.Supervisor:
            return count
        held = canister.held
        if type(held) is not str or not held or held.isspace():
            return None
    return len(canisters)
