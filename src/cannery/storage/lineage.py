"""Forks: which logs hold the positions of a conversation, and where a history may be cut.

A fork holds only the lines after its position; the rest is its ancestors'. Nothing here reads more than the metadata of
ancestors and the lines around one position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from cannery.backends import Metadata, Span
from cannery.errors import DamageError, InputError
from cannery.messages import AnyCanister, InvocationCanisterClass, ResultCanisterClass
from cannery.messages.canisters import CanisterStruct

_WINDOW = 32

Look = Callable[[str], Metadata]
"""The metadata of a conversation, deleted or not."""
Read = Callable[[int, int], Sequence[CanisterStruct]]
"""The canisters from one position to before another."""


def segments(metadata: Metadata, look: Look, start: int, stop: int | None) -> list[Span]:
    """The logs that hold positions ``start`` to ``stop`` of a conversation, oldest first."""
    found: list[Span] = []
    seen = {metadata.id}
    while True:
        base = metadata.position
        if stop is None or stop > base:
            found.append(Span(metadata.id, base, max(start, base), stop))
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
    """The last position up to the given one that does not split a tool exchange."""
    cut = _answered_after(position, end, read)
    if not cut:
        return position
    edge = position
    for at, canister in _backwards(position, read):
        if isinstance(canister, InvocationCanisterClass):
            cut.discard(canister.identifier)
            edge = at
        elif not cut:
            # The canister here is not a call of the same turn.
            break
    return edge if not cut else position


def _answered_after(position: int, end: int, read: Read) -> set[str]:
    """The calls before a position whose results follow it directly."""
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


def answered_here(
    history: Sequence[AnyCanister], known: int, position: int, read: Read
) -> list[AnyCanister]:
    """The canisters that a history adds after its first ``known`` ones, which a conversation holds before a position.

    Clients give calls other ids each time. A result that answers one of the known calls gets the conversation's id for
    that call: the calls of both are the same, in the same order.
    """
    rest = list(history[known:])
    made: set[str] = set()
    wanted: set[str] = set()
    for canister in rest:
        if isinstance(canister, InvocationCanisterClass):
            made.add(canister.identifier)
        elif isinstance(canister, ResultCanisterClass) and canister.invocation_id not in made:
            wanted.add(canister.invocation_id)
    if not wanted:
        return rest
    names = [one.identifier for one in history[:known] if isinstance(one, InvocationCanisterClass)]
    # Of several calls with one id the last is meant.
    ranks = {name: len(names) - at for at, name in enumerate(names, 1) if name in wanted}
    if not ranks:
        return rest
    held = _last_calls(position, max(ranks.values()) + 1, read)
    renamed = {name: held[rank] for name, rank in ranks.items() if rank < len(held)}
    return [_answering(canister, renamed) for canister in rest]


def _last_calls(position: int, count: int, read: Read) -> list[str]:
    """The ids of the last calls before a position, the last first."""
    found: list[str] = []
    for _, canister in _backwards(position, read):
        if len(found) == count:
            break
        if isinstance(canister, InvocationCanisterClass):
            found.append(canister.identifier)
    return found


def _answering(canister: AnyCanister, renamed: Mapping[str, str]) -> AnyCanister:
    if isinstance(canister, ResultCanisterClass):
        name = renamed.get(canister.invocation_id, canister.invocation_id)
        if name != canister.invocation_id:
            return canister.replace(invocation_id=name)  # type: ignore[no-any-return]
    return canister


def check_position(at: object, end: int) -> int:
    """Refuse a position outside the conversation; negative ones count from its end."""
    if not isinstance(at, int) or isinstance(at, bool):
        raise InputError(f"a position is an int, not {type(at).__name__}")
    position = at + end if at < 0 else at
    if not 0 <= position <= end:
        raise InputError(f"position {at} is not in a conversation of {end} messages")
    return position
