"""Forks: whose lines a conversation's positions lie in, and where a history may be cut.

A fork holds only what came after its position; the rest is its ancestors'. Nothing here reads more than
the metadata of ancestors and the lines around one position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cannery.errors import DamageError, InputError
from cannery.messages import InvocationCanisterClass, ResultCanisterClass
from cannery.messages.canisters import CanisterStruct
from cannery.storage.metadata import Metadata

_WINDOW = 32

Look = Callable[[str], Metadata]
"""The metadata of a conversation, deleted or not."""
Read = Callable[[int, int], Sequence[CanisterStruct]]
"""The canisters from one position to before another."""


class Segment(NamedTuple):
    """Positions of a conversation that lie in one log, which begins at ``base``."""

    identifier: str
    base: int
    start: int
    stop: int | None


def segments(metadata: Metadata, look: Look, start: int, stop: int | None) -> list[Segment]:
    """The logs that hold positions ``start`` to ``stop`` of a conversation, oldest first."""
    found: list[Segment] = []
    seen = {metadata.id}
    while True:
        base = metadata.position
        if stop is None or stop > base:
            found.append(Segment(metadata.id, base, max(start, base), stop))
        stop = base if stop is None else min(stop, base)
        if metadata.parent is None or start >= base:
            return found[::-1]
        if metadata.parent in seen:
            raise DamageError(f"conversations/{metadata.id}", "is its own ancestor")
        seen.add(metadata.parent)
        metadata = look(metadata.parent)


def owner(metadata: Metadata, look: Look, position: int) -> Metadata:
    """The conversation whose own log reaches a position: the parent that a fork there needs."""
    while metadata.parent is not None and position <= metadata.position:
        metadata = look(metadata.parent)
    return metadata


def find_edge(position: int, end: int, read: Read) -> int:
    """The last position up to the given one where no tool exchange is cut apart."""
    cut = _answered_after(position, end, read)
    if not cut:
        return position
    edge = position
    for at, canister in _backwards(position, read):
        if isinstance(canister, InvocationCanisterClass):
            cut.discard(canister.identifier)
            edge = at
        elif not cut:
            # What stands here is not a call of the same turn.
            break
    return edge if not cut else position


def _answered_after(position: int, end: int, read: Read) -> set[str]:
    """The calls before a position whose results stand directly behind it."""
    made: set[str] = set()
    answered: set[str] = set()
    while position < end:
        stop = min(position + _WINDOW, end)
        for canister in read(position, stop):
            if isinstance(canister, InvocationCanisterClass):
                made.add(canister.identifier)
            elif isinstance(canister, ResultCanisterClass):
                if canister.invocation_id not in made:
                    answered.add(canister.invocation_id)
            else:
                return answered
        position = stop
    return answered


def _backwards(position: int, read: Read) -> Iterator[tuple[int, CanisterStruct]]:
    while position > 0:
        start = max(position - _WINDOW, 0)
        canisters = read(start, position)
        for index in range(len(canisters) - 1, -1, -1):
            yield start + index, canisters[index]
        position = start


def check_position(at: object, end: int) -> int:
    """Refuse a position that is not in the conversation; negative ones count from its end."""
    if not isinstance(at, int) or isinstance(at, bool):
        raise InputError(f"a position is an int, not {type(at).__name__}")
    position = at + end if at < 0 else at
    if not 0 <= position <= end:
        raise InputError(f"position {at} is not in a conversation of {end} messages")
    return position


def still_needed(everything: Mapping[str, Metadata]) -> dict[str, int | None]:
    """The deleted conversations, and how many of their own first lines forks need; None if there is no fork."""
    needed: dict[str, int] = {}
    for metadata in everything.values():
        fork = metadata
        if fork.deleted is not None:
            continue
        while fork.parent is not None and fork.position > needed.get(fork.parent, -1):
            needed[fork.parent] = fork.position
            above = everything.get(fork.parent)
            if above is None:
                break
            fork = above
    return {
        identifier: max(needed[identifier] - metadata.position, 0) if identifier in needed else None
        for identifier, metadata in everything.items()
        if metadata.deleted is not None
    }
