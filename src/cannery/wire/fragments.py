"""Encoded turns kept beside a conversation: writing it again with more at its end encodes only what is new.

The turns up to some canister are kept in that canister's memo, together with the canisters they were made from; they
are used again only for a conversation that starts with the very same canisters. Of one branch only the longest is kept.
"""

from __future__ import annotations

from typing import Any

from cannery.messages.role import Role

# How far from its end a conversation is searched for what was kept.
_REACH = 64


def find_prefix(
    canisters: tuple[Any, ...], dialect: str
) -> tuple[int, list[Any], frozenset[str]] | None:
    """The position up to which encoded turns are kept, the turns, and the call ids in them."""
    for position in range(len(canisters), max(0, len(canisters) - _REACH), -1):
        memo = canisters[position - 1]._memo  # noqa: SLF001 - looking must not make one
        kept = None if memo is None else memo.get(dialect)
        # Comparing tuples starts with identity, so equal prefixes cost a few nanoseconds a canister.
        if kept is not None and kept[0] == canisters[:position]:
            return position, kept[1], kept[2]
    return None


def keep_prefix(
    canisters: tuple[Any, ...], position: int, dialect: str, turns: list[Any], used: set[str]
) -> None:
    """Keep the encoded turns of the canisters before a position, instead of those kept before."""
    if position < 1:
        return
    for earlier in range(position - 1, max(0, position - _REACH), -1):
        memo = canisters[earlier - 1]._memo  # noqa: SLF001 - the same
        if memo is not None:
            memo.pop(dialect, None)
    canisters[position - 1].memo()[dialect] = (
        canisters[:position],
        turns,
        _ids(canisters, position, used),
    )


def _ids(canisters: tuple[Any, ...], position: int, used: set[str]) -> frozenset[str]:
    """The call ids before a position."""
    later = {getattr(canister, "identifier", None) for canister in canisters[position:]}
    return frozenset(used - later)


def leading_texts(canisters: tuple[Any, ...]) -> int | None:
    """How many supervisors stand first, all of them with something to say; None if one is blank or not text."""
    for count, canister in enumerate(canisters):
        if canister.role is not Role.Supervisor:
            return count
        held = canister.held
        if type(held) is not str or not held or held.isspace():
            return None
    return len(canisters)
