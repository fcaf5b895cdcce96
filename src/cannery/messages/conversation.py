"""A conversation: an immutable sequence of canisters and what people do with one.

It is a tuple, so everything that reads a tuple reads it; adding, slicing and replacing give new
values. Two conversations are equal when they mean the same (see ``identity``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import is_
from typing import Any, NamedTuple, Self, SupportsIndex, overload

from cannery.errors import MessageError
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    InvocationCanisterClass,
    ResultCanisterClass,
    is_canister,
    new_assistant,
)
from cannery.messages.checked import check_items
from cannery.messages.identity import conversation_digest, prefix_digests
from cannery.messages.protocols import Canister
from cannery.messages.role import Role

_SPOKEN_BY_MODEL = frozenset({Role.Assistant, Role.Invocation})


class Exchange(NamedTuple):
    """A call and what answered it; either side may be missing, and there may be several answers."""

    invocation: InvocationCanisterClass | None
    results: tuple[ResultCanisterClass, ...]


class Conversation(tuple[AnyCanister, ...]):
    """An immutable sequence of canisters, compared by meaning, also with a list of canisters.

    A plain tuple is never equal to one: it compares and hashes its items one by one.
    """

    __slots__ = ()

    def __new__(cls, canisters: Iterable[Canister] = ()) -> Self:
        """Make one from canisters; anything else is refused with its position."""
        self = super().__new__(cls, check_items("Conversation", canisters))
        for index, canister in enumerate(self):
            if not is_canister(canister):
                raise MessageError(
                    f"Conversation[{index}]", f"expected a canister, got {type(canister).__name__}"
                )
        return self

    @classmethod
    def trusted(cls, canisters: Iterable[Canister]) -> Conversation:
        """Make one from what is known to be canisters."""
        return tuple.__new__(cls, canisters)

    def append(self, *canisters: Canister) -> Conversation:
        """A new conversation with more at its end."""
        if not all(map(is_canister, canisters)):
            Conversation(canisters)  # says what is wrong with them
        return tuple.__new__(Conversation, tuple.__add__(self, canisters))

    def insert(self, index: int, *canisters: Canister) -> Conversation:
        """A new conversation with more before the given position.

        New messages in the middle of a wire message end it there; what follows opens another.
        """
        more = Conversation(canisters)
        rest = tuple(self)[index:]
        if not all(canister.joined for canister in more):
            rest = _opened(rest)
        return Conversation.trusted(tuple(self)[:index] + tuple(more) + rest)

    def without(self, index: int) -> Conversation:
        """A new conversation without the canister at a position.

        When it opened a wire message, the next canister of that message opens it now.
        """
        position = self._position(index)
        rest = tuple(self)[position + 1 :]
        if not self[position].joined:
            rest = _opened(rest)
        return Conversation.trusted(tuple(self)[:position] + rest)

    def replaced(self, index: int, canister: Canister) -> Conversation:
        """A new conversation with another canister at a position."""
        position = self._position(index)
        return Conversation((*tuple(self[:position]), canister, *tuple(self[position + 1 :])))

    def turns(self) -> tuple[Conversation, ...]:
        """The groups that a wire would send as one message each.

        A turn starts at each canister that is not joined to the one before it; calls directly after
        what the model said belong to its turn all the same.
        """
        return tuple(Conversation.trusted(group) for group in group_turns(self))

    def exchanges(self) -> tuple[Exchange, ...]:
        """Each call with its results, in call order; results without a call come last."""
        calls: dict[int, tuple[InvocationCanisterClass, list[ResultCanisterClass]]] = {}
        latest: dict[str, int] = {}
        orphans: list[Exchange] = []
        for index, canister in enumerate(self):
            if isinstance(canister, InvocationCanisterClass):
                calls[index] = (canister, [])
                latest[canister.identifier] = index
            elif isinstance(canister, ResultCanisterClass):
                at = latest.get(canister.invocation_id)
                if at is None:
                    orphans.append(Exchange(None, (canister,)))
                else:
                    calls[at][1].append(canister)
        paired = [Exchange(call, tuple(results)) for call, results in calls.values()]
        return (*paired, *orphans)

    def by_role(self, *roles: Role) -> Conversation:
        """Only the canisters of some roles."""
        kept = Conversation.trusted(canister for canister in self if canister.role in roles)
        return regrouped(self, kept)

    @property
    def digest(self) -> bytes:
        """The digest of what the whole conversation means."""
        return conversation_digest(self)

    def prefix_digests(self, *, reasoning: bool = True) -> tuple[bytes | None, ...]:
        """For each position the digest of the history so far; None where nothing is added."""
        return tuple(prefix_digests(self, reasoning=reasoning))

    def _position(self, index: int) -> int:
        try:
            return range(len(self))[index]
        except IndexError:
            raise IndexError(f"no canister at {index}: the conversation has {len(self)}") from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"immutable type: 'Conversation' (tried to set {name!r})")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"immutable type: 'Conversation' (tried to delete {name!r})")

    def __add__(self, other: Any) -> Conversation:
        if isinstance(other, (str, bytes)) or not isinstance(other, Iterable):
            return NotImplemented
        return Conversation.trusted(tuple.__add__(self, tuple(Conversation(other))))

    def __radd__(self, other: Any) -> Conversation:
        if isinstance(other, (str, bytes)) or not isinstance(other, Iterable):
            return NotImplemented
        return Conversation(other) + self

    @overload
    def __getitem__(self, index: SupportsIndex) -> AnyCanister: ...
    @overload
    def __getitem__(self, index: slice) -> Conversation: ...
    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Conversation.trusted(found) if isinstance(index, slice) else found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Conversation, list)):
            return False if isinstance(other, tuple) else NotImplemented
        if len(self) == len(other) and all(map(is_, self, other)):
            return True
        return all(map(is_canister, other)) and self.digest == conversation_digest(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Conversation({tuple.__repr__(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Conversation.trusted, (tuple(self),)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def _opened(canisters: tuple[AnyCanister, ...]) -> tuple[AnyCanister, ...]:
    """The canisters, the first of which opens a wire message."""
    if canisters and canisters[0].joined:
        return (canisters[0].replace(joined=False), *canisters[1:])
    return canisters


def group_turns(canisters: Iterable[AnyCanister]) -> Iterator[list[AnyCanister]]:
    """The groups that a wire would send as one message each."""
    group: list[AnyCanister] = []
    for canister in canisters:
        follows = canister.joined or (
            canister.role is Role.Invocation and bool(group) and group[-1].role in _SPOKEN_BY_MODEL
        )
        if group and not follows:
            yield group
            group = []
        group.append(canister)
    if group:
        yield group


def begins_with(conversation: tuple[AnyCanister, ...], canisters: tuple[AnyCanister, ...]) -> bool:
    """Whether a conversation begins with these canisters or equal ones.

    Tuples are compared by their first difference; where there is none, the shorter comes first. That starts with
    identity, so it costs a few nanoseconds a canister.
    """
    try:
        return tuple.__le__(canisters, conversation)
    except TypeError:
        # Two canisters differ, and have no order.
        return False


def regrouped(before: Conversation, after: Conversation) -> Conversation:
    """A conversation that was edited, its wire messages as they were before.

    What has lost the canister that opened its wire message opens one itself, and does not fall to the
    message before it. A canister in the place of another stands in its message.
    """
    if begins_with(after, before):
        return after
    places = _places(before, after)
    groups = [number for number, group in enumerate(group_turns(before)) for _ in group]
    kept = frozenset(places.values())
    found: list[AnyCanister] = []
    current: int | None = None
    for index, canister in enumerate(after):
        place = places.get(index)
        last = after[index - 1] if index else None
        if last is None or not _follows(canister, last):
            current = None if place is None else groups[place]
        elif place is not None and current != groups[place]:
            is_heir = current is None and place - 1 not in kept and index - 1 not in places
            if not (is_heir and groups[place - 1] == groups[place]):
                canister = _opener(canister, last, found)  # noqa: PLW2901 - it opens a message now
            current = groups[place]
        found.append(canister)
    return Conversation.trusted(found)


def _follows(canister: AnyCanister, last: AnyCanister) -> bool:
    is_call = canister.role is Role.Invocation and last.role in _SPOKEN_BY_MODEL
    return canister.joined or is_call


def _opener(canister: AnyCanister, last: AnyCanister, found: list[AnyCanister]) -> AnyCanister:
    """The canister as the first of a wire message; a call behind the model's words needs a silent turn to start."""
    if canister.role is Role.Invocation and last.role in _SPOKEN_BY_MODEL:
        found.append(new_assistant(absent, canister.timestamp))
        return canister if canister.joined else canister.replace(joined=True)
    return canister.replace(joined=False)  # type: ignore[no-any-return]


def _places(before: Conversation, after: Conversation) -> dict[int, int]:
    """Where the canisters of an edited conversation stood: the same ones, or equal ones in the same order."""
    known = {id(canister): place for place, canister in enumerate(before)}
    places = {
        index: known[id(canister)] for index, canister in enumerate(after) if id(canister) in known
    }
    if places:
        return places
    waiting: dict[AnyCanister, list[int]] = {}
    for place in range(len(before) - 1, -1, -1):
        waiting.setdefault(before[place], []).append(place)
    least = 0
    for index, canister in enumerate(after):
        stood = waiting.get(canister, [])
        while stood and stood[-1] < least:
            stood.pop()
        if stood:
            places[index] = stood.pop()
            least = places[index] + 1
    return places
