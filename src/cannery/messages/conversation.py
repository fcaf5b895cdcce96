"""A conversation: an immutable sequence of canisters and what people do with one.

It is a tuple, so everything that reads a tuple reads it; adding, slicing and replacing give new values. Two
conversations are equal when they mean the same (see ``identity``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, SupportsIndex, overload

from cannery.errors import MessageError
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    InvocationCanisterClass,
    ResultCanisterClass,
    is_canister,
)
from cannery.messages.identity import conversation_digest, prefix_digests
from cannery.messages.role import Role

_SPOKEN_BY_MODEL = frozenset({Role.Assistant, Role.Invocation})


class Exchange(NamedTuple):
    """A call and what answered it; either side may be missing, and a call may have several answers."""

    invocation: InvocationCanisterClass | None
    results: tuple[ResultCanisterClass, ...]


class Conversation(tuple[AnyCanister, ...]):
    """An immutable sequence of canisters, compared by meaning."""

    def __new__(cls, canisters: Iterable[AnyCanister] = ()) -> Conversation:
        """Make one from canisters; anything else is refused with its position."""
        self = super().__new__(cls, canisters)
        for index, canister in enumerate(self):
            if not is_canister(canister):
                raise MessageError(
                    f"Conversation[{index}]", f"expected a canister, got {type(canister).__name__}"
                )
        return self

    @classmethod
    def trusted(cls, canisters: Iterable[AnyCanister]) -> Conversation:
        """Make one from what is known to be canisters."""
        return tuple.__new__(cls, canisters)

    def append(self, *canisters: AnyCanister) -> Conversation:
        """A new conversation with more at its end."""
        return self + canisters

    def insert(self, index: int, *canisters: AnyCanister) -> Conversation:
        """A new conversation with more before the given position."""
        return Conversation(tuple(self[:index]) + canisters + tuple(self[index:]))

    def without(self, index: int) -> Conversation:
        """A new conversation without the canister at a position."""
        position = range(len(self))[index]
        return Conversation.trusted(tuple(self[:position]) + tuple(self[position + 1 :]))

    def replaced(self, index: int, canister: AnyCanister) -> Conversation:
        """A new conversation with another canister at a position."""
        position = range(len(self))[index]
        return Conversation((*tuple(self[:position]), canister, *tuple(self[position + 1 :])))

    def turns(self) -> tuple[Conversation, ...]:
        """The groups that a wire would send as one message each.

        A turn starts at each canister that is not joined to the one before it; calls directly after what the model
        said belong to its turn all the same.
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
        return Conversation.trusted(canister for canister in self if canister.role in roles)

    @property
    def digest(self) -> bytes:
        """The digest of what the whole conversation means."""
        return self._cached("digest", lambda: conversation_digest(self))  # type: ignore[no-any-return]

    def prefix_digests(self, *, reasoning: bool = True) -> tuple[bytes | None, ...]:
        """For each position the digest of the history so far; None where a canister adds nothing."""
        return tuple(prefix_digests(self, reasoning=reasoning))

    def _cached(self, name: str, make: Any) -> Any:
        if name not in self.__dict__:
            self.__dict__[name] = make()
        return self.__dict__[name]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"immutable type: 'Conversation' (tried to set {name!r})")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"immutable type: 'Conversation' (tried to delete {name!r})")

    def __add__(self, other: Iterable[AnyCanister]) -> Conversation:  # type: ignore[override]
        return Conversation.trusted(tuple.__add__(self, tuple(Conversation(other))))

    @overload
    def __getitem__(self, index: SupportsIndex) -> AnyCanister: ...
    @overload
    def __getitem__(self, index: slice) -> Conversation: ...
    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Conversation.trusted(found) if isinstance(index, slice) else found

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Conversation):
            return self is other or self.digest == other.digest
        if isinstance(other, (tuple, list)):
            return tuple.__eq__(self, tuple(other))
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Conversation({tuple.__repr__(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Conversation, (tuple(self),)


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


def is_wordless(canister: AnyCanister) -> bool:
    """Whether an assistant canister says nothing by itself."""
    return canister.role is Role.Assistant and (canister.held is absent or canister.held == "")
