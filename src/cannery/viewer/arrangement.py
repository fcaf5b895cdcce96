"""Arranges messages into blocks: calls with their results, and parallel calls together.

A block has one or more messages; each message of a window is in exactly one block, so that every position has an
anchor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from cannery.messages import AnyCanister, InvocationCanisterClass, ResultCanisterClass, absent


class Placed(Struct, frozen=True):
    """A message with its position in the conversation."""

    position: int
    canister: AnyCanister


class Call(Struct, frozen=True):
    """A call and its results, which may be outside of the window."""

    placed: Placed
    results: tuple[Placed, ...]


class Calls(Struct, frozen=True):
    """Calls that the model made in parallel."""

    calls: tuple[Call, ...]

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of all its messages."""
        found = []
        for call in self.calls:
            found += [call.placed.position, *(each.position for each in call.results)]
        return tuple(found)


class Single(Struct, frozen=True):
    """One message that is not a call."""

    placed: Placed

    @property
    def positions(self) -> tuple[int, ...]:
        """Its position."""
        return (self.placed.position,)


class Silent(Struct, frozen=True):
    """A message without content: the model only called tools."""

    placed: Placed

    @property
    def positions(self) -> tuple[int, ...]:
        """Its position."""
        return (self.placed.position,)


Block = Single | Calls | Silent


def placed(canisters: Iterable[AnyCanister], start: int = 0) -> list[Placed]:
    """Pair canisters with their positions."""
    return [Placed(start + index, canister) for index, canister in enumerate(canisters)]


def arrange(window: Sequence[Placed]) -> Iterator[Block]:
    """Group a window of messages into blocks, in order."""
    answers = _paired(window)
    paired = {each.position for results in answers.values() for each in results}
    group: list[Call] = []
    is_answered = False
    for each in window:
        is_call = isinstance(each.canister, InvocationCanisterClass)
        if each.position in paired:
            is_answered = True
            continue
        # A call after a result, or after any other message, is not parallel to the calls before it.
        if group and (is_answered or not is_call):
            yield Calls(tuple(group))
            group = []
        is_answered = False
        if is_call:
            group.append(Call(each, tuple(answers.get(each.position, ()))))
        else:
            yield Silent(each) if each.canister.held is absent else Single(each)
    if group:
        yield Calls(tuple(group))


def _paired(window: Sequence[Placed]) -> dict[int, list[Placed]]:
    """The results of each call, by the call's position; several calls may have the same id, one after the other."""
    calls: dict[str, int] = {}
    answers: dict[int, list[Placed]] = {}
    for each in window:
        canister = each.canister
        if isinstance(canister, InvocationCanisterClass):
            calls[canister.identifier] = each.position
        elif isinstance(canister, ResultCanisterClass) and canister.invocation_id in calls:
            answers.setdefault(calls[canister.invocation_id], []).append(each)
    return answers
