"""A conversation: an immutable sequence of canisters.

It is a tuple, so any code that reads a tuple can read it; adding, slicing and replacing give new values. Two
conversations are equal if they have the same meaning (see ``identity``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import is_
from typing import Any, NamedTuple, Self, SupportsIndex, overload

import msgspec

from cannery.errors import MessageError
from cannery.messages.absence import absent
from cannery.messages.alignment import find_places
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
from cannery.messages.residue import PREAMBLE, Residue
from cannery.messages.role import Role

_SPOKEN_BY_MODEL = frozenset({Role.Assistant, Role.Invocation})
_SPEAKING = frozenset({Role.User, Role.Assistant, Role.Supervisor})
_SIDES = {role: role in _SPOKEN_BY_MODEL for role in Role} | {Role.Supervisor: None}


class Exchange(NamedTuple):
    """A call and its results; either side may be missing, and there may be several results."""

    invocation: InvocationCanisterClass | None
    results: tuple[ResultCanisterClass, ...]


def _unpacked(item: Any) -> Iterable[Any]:
    """The canisters of one argument; an invalid argument is refused when the conversation is built."""
    is_many = isinstance(item, Iterable) and not isinstance(item, (str, bytes, Mapping))
    return item if is_many and not is_canister(item) else (item,)


class Conversation(tuple[AnyCanister, ...]):
    """An immutable sequence of canisters, compared by meaning, also with a list of canisters.

    A plain tuple is never equal to a conversation: it compares and hashes its items one by one.
    """

    __slots__ = ()

    def __new__(cls, canisters: Iterable[Canister] = ()) -> Self:
        """Build a conversation from canisters; any other value is refused with its position."""
        self = super().__new__(cls, check_items("Conversation", canisters))
        for index, canister in enumerate(self):
            if not is_canister(canister):
                raise MessageError(
                    f"Conversation[{index}]", f"expected a canister, got {type(canister).__name__}"
                )
        return self

    @classmethod
    def trusted(cls, canisters: Iterable[Canister]) -> Conversation:
        """Build a conversation from values that are known to be canisters."""
        return tuple.__new__(cls, canisters)

    def append(self, *canisters: Canister | Iterable[Canister]) -> Conversation:
        """A new conversation with more at its end: canisters, or a Response."""
        added: tuple[Any, ...] = canisters
        if not all(map(is_canister, canisters)):
            added = tuple(Conversation(each for item in canisters for each in _unpacked(item)))
        return tuple.__new__(Conversation, tuple.__add__(self, added))

    def insert(self, index: int, *canisters: Canister) -> Conversation:
        """A new conversation with more before the given position.

        Canisters inserted in the middle of a wire message end it there; the rest opens another message. If only an
        empty canister precedes the position, they are inserted before the wire message.
        """
        position = len(tuple(self)[:index])
        return _edited(self, position, position, Conversation(canisters))

    def without(self, index: int) -> Conversation:
        """A new conversation without the canister at a position.

        If it opened a wire message, the next canister of that message opens it; a call that would fall to the message
        before gets an empty assistant canister before it.
        """
        position = self._position(index)
        return _edited(self, position, position + 1, ())

    def replaced(self, index: int, canister: Canister) -> Conversation:
        """A new conversation with the canister at a position replaced, in the same wire message."""
        position = self._position(index)
        (given,) = Conversation((canister,))
        stood = self[position]
        is_joined = stood.joined and _speaks_for(given, stood)
        if given.joined is not is_joined:
            given = given.replace(joined=is_joined)
        return _edited(self, position, position + 1, (given,))

    def turns(self) -> tuple[Conversation, ...]:
        """The groups of canisters that a wire sends as one message each.

        A turn starts at each canister that is not joined to the one before it, but calls directly after text of the
        model belong to the same turn.
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
        """The digest of the meaning of the whole conversation."""
        return conversation_digest(self)

    def prefix_digests(self, *, reasoning: bool = True) -> tuple[bytes | None, ...]:
        """For each position the digest of the history so far; None for a canister that adds nothing."""
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


def group_turns(canisters: Iterable[AnyCanister]) -> Iterator[list[AnyCanister]]:
    """The groups of canisters that a wire sends as one message each."""
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

    Tuples are compared at their first difference; without one, the shorter comes first. The comparison starts with
    identity, so it costs a few nanoseconds per canister.
    """
    try:
        return tuple.__le__(canisters, conversation)
    except TypeError:
        # Two canisters differ, and have no order.
        return False


def regrouped(before: Conversation, after: Conversation, source: str | None = None) -> Conversation:
    """The wire messages of an edited conversation, restored.

    A canister whose opening neighbour was removed opens the wire message itself, does not fall to the message before,
    and gets the fields of the message. A replacement stays in the message of the replaced canister. Leading
    instructions are marked if something stands before them now; ``source`` is the dialect that reads the mark.
    """
    if begins_with(after, before):
        return after
    groups = _group_numbers(before)
    places = find_places(before, after, groups)
    edited = after if source is None else _led(before, after, places, source)
    return _regrouped(before, edited, places, groups)


def _edited(
    before: Conversation, start: int, end: int, more: tuple[AnyCanister, ...]
) -> Conversation:
    """A conversation with other canisters between two places; only the adjacent wire messages are examined."""
    every = tuple(before)
    first, last = max(start - 1, 0), end
    while first and _follows(every[first], every[first - 1]):
        first -= 1
    while 0 < last < len(every) and _follows(every[last], every[last - 1]):
        last += 1
    last += 1
    behind = range(end, min(last, len(every)))
    places = {place - first: place - first for place in range(first, start)}
    places |= {start - first + len(more) + n: place - first for n, place in enumerate(behind)}
    around = Conversation.trusted(every[first:last])
    after = every[first:start] + tuple(more) + every[end:last]
    edited = _regrouped(around, after, places, _group_numbers(around))
    return Conversation.trusted(every[:first] + tuple(edited) + every[last:])


def _group_numbers(canisters: Iterable[AnyCanister]) -> list[int]:
    return [number for number, group in enumerate(group_turns(canisters)) for _ in group]


def _regrouped(
    before: Conversation,
    after: tuple[AnyCanister, ...],
    places: dict[int, int],
    groups: list[int],
) -> Conversation:
    """The same, if the old place and the wire message of each canister are known."""
    kept = frozenset(places.values())
    bequests = _bequests(before, kept)
    found: list[AnyCanister] = []
    news: list[bool] = []
    current: int | None = None
    # The group from which only an empty canister was taken so far.
    silent: int | None = None
    last: AnyCanister | None = None
    for index, canister in enumerate(after):
        place = places.get(index)
        group = None if place is None else groups[place]
        taken = canister
        if group is not None and group == silent and group != current:
            taken = _behind_silence(canister, found, news)
            current = group
        elif last is None or not _follows(canister, last):
            current = group
            if place and canister.joined:
                taken = canister.replace(joined=False)
        elif group is not None and place is not None and current != group:
            is_heir = current is None and place > 0 and place - 1 not in kept
            is_heir = is_heir and index - 1 not in places and _speaks_for(last, canister)
            if not (is_heir and groups[place - 1] == group):
                taken = _opener(canister, last, found)
                news.extend([True] * (len(found) - len(news)))
            current = group
        found.append(taken)
        news.append(place is None)
        if place in bequests:
            _inherit(found, news, bequests[place])
        if group is not None:
            silent = group if canister.held is absent else None
        last = canister
    return Conversation.trusted(found)


def _behind_silence(
    canister: AnyCanister, found: list[AnyCanister], news: list[bool]
) -> AnyCanister:
    """The canister after the empty one that opened its wire message, which is moved together with it."""
    at = max(index for index, is_new in enumerate(news) if not is_new)
    silent = found.pop(at)
    found.append(silent.replace(joined=False) if silent.joined else silent)
    news.append(news.pop(at))
    return canister if canister.joined else canister.replace(joined=True)


def _bequests(before: Conversation, kept: frozenset[int]) -> dict[int | None, Residue]:
    """The message fields on removed canisters, by the place of the first remaining canister of each message."""
    found: dict[int | None, Residue] = {}
    gone: AnyCanister | None = None
    said: Residue | None = None
    for place, canister in enumerate(before):
        residue = canister.residue
        if not canister.joined or (residue is not None and residue.envelope is not None):
            gone = None
        if place not in kept:
            if gone is None:
                gone, said = canister, residue
        elif gone is not None:
            if said is not None:
                found[place] = _bequest(said, gone, canister)
            gone = None
    return found


def _bequest(said: Residue, gone: AnyCanister, sibling: AnyCanister) -> Residue:
    """The fields of the whole wire message on a canister: the envelope, and a form that the next one also has."""
    own = sibling.residue
    is_common = own is not None and own.form == said.form and gone.role is sibling.role
    form = said.form if is_common and gone.role is not Role.Result else None
    return Residue(said.dialect, envelope=said.envelope, form=form)


def _inherit(found: list[AnyCanister], news: list[bool], said: Residue) -> None:
    """Give the canister that opens the last wire message the message fields of another one."""
    at = len(found) - 1
    while at > 0 and news[at - 1] and found[at].joined:
        at -= 1
    heir = found[at]
    own = heir.residue or Residue(said.dialect)
    if own.dialect != said.dialect or own.envelope is not None:
        return
    form = own.form or (said.form if heir.role in _SPEAKING else None)
    if (said.envelope, form) != (None, own.form):
        residue = msgspec.structs.replace(own, envelope=said.envelope, form=form)
        found[at] = heir.replace(residue=residue)


def _led(
    before: Conversation, after: Conversation, places: dict[int, int], source: str
) -> tuple[AnyCanister, ...]:
    """The canisters, with a mark on leading instructions that are now after other canisters."""
    count = 0
    while count < len(before) and before[count].role is Role.Supervisor:
        count += 1
    if not count or all(canister.role is Role.Supervisor for canister in after[:count]):
        return after
    edited: list[AnyCanister] = list(after)
    front = next(i for i, canister in enumerate(after) if canister.role is not Role.Supervisor)
    for index, place in places.items():
        if place < count and index > front:
            residue = edited[index].residue or Residue(source)
            if residue.dialect == source and residue.form is None:
                residue = msgspec.structs.replace(residue, form=PREAMBLE)
                edited[index] = edited[index].replace(residue=residue)
    return tuple(edited)


def _speaks_for(one: AnyCanister, other: AnyCanister) -> bool:
    """Whether one canister can replace another in a wire message."""
    return _SIDES[one.role] == _SIDES[other.role]


def _follows(canister: AnyCanister, last: AnyCanister) -> bool:
    is_call = canister.role is Role.Invocation and last.role in _SPOKEN_BY_MODEL
    return canister.joined or is_call


def _opener(canister: AnyCanister, last: AnyCanister, found: list[AnyCanister]) -> AnyCanister:
    """The canister as the first of a wire message; a call after text of the model needs an empty canister before it."""
    if canister.role is Role.Invocation and last.role in _SPOKEN_BY_MODEL:
        found.append(new_assistant(absent, canister.timestamp))
        return canister if canister.joined else canister.replace(joined=True)
    return canister.replace(joined=False)  # type: ignore[no-any-return]
