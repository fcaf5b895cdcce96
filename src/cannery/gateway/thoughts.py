"""Restores reasoning that a client cannot carry in its next request to the upstream that produced it.

A provider requires its signed reasoning with the calls that followed it. A client of another dialect drops it. The
store keeps the model's output with reasoning and signatures; here the latest are cached by the digest of what followed
them, and conversations that are not cached are read from the store. Only the target's own reasoning is restored; the
writer of its dialect decides which models can read it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from cannery.messages import AnyCanister, Conversation, ReasoningContentClass, Residue, Role
from cannery.storage.history import MODEL_ROLES, SpokenChain
from cannery.wire.places import Places

_MOST = 20_000
_MOST_BYTES = 8 << 20
_OVERHEAD = 600


class Lost(NamedTuple):
    """What a client omits of a model's output: the reasoning before it, and its residue."""

    thoughts: tuple[AnyCanister, ...]
    residue: Residue | None

    @property
    def size(self) -> int:
        """Its approximate size in bytes."""
        texts = [part or "" for one in self.thoughts for part in _texts(one)]
        beside = "" if self.residue is None else self.residue.part or ""
        return _OVERHEAD + len(beside) + sum(map(len, texts))


Pairs: TypeAlias = Sequence[tuple[int, int]]


def paired_digests(
    stored: Sequence[AnyCanister], pairs: Pairs, history: Sequence[AnyCanister]
) -> list[bytes | None]:
    """The digests after stored canisters: those of a client's history where it says the same in other words.

    ``pairs`` are positions here and there; there are none if the client repeats what is stored.
    """
    if not pairs:
        return SpokenChain().extend(stored)
    theirs = SpokenChain().extend(history)
    found: list[bytes | None] = [None] * len(stored)
    for here, there in pairs:
        found[here] = theirs[there]
    return found


class Thoughts:
    """The omitted parts, by scope and the digest of the history up to the output that they belong to."""

    def __init__(self) -> None:
        self._lost: OrderedDict[tuple[str | None, bytes], Lost] = OrderedDict()
        self._bytes = 0

    def remember(
        self,
        scope: str | None,
        canisters: Iterable[AnyCanister],
        digests: Sequence[bytes | None],
        own: str | None = None,
    ) -> None:
        """Cache a model's output, given with the digests of the history after each of its canisters.

        A client can carry the reasoning of its ``own`` dialect.
        """
        thoughts: list[AnyCanister] = []
        for canister, digest in zip(canisters, digests, strict=True):
            if canister.role is Role.User:
                thoughts = []
            elif _is_thought(canister):
                if _origin(canister) not in (None, own):
                    thoughts.append(canister)
            elif digest is not None:
                residue = canister.residue if canister.role in MODEL_ROLES else None
                if residue is not None and residue.dialect == own:
                    residue = None
                if thoughts or residue is not None:
                    self._put((scope, digest), Lost(tuple(thoughts), residue))
                thoughts = []

    def _put(self, key: tuple[str | None, bytes], lost: Lost) -> None:
        before = self._lost.pop(key, None)
        self._bytes += lost.size - (0 if before is None else before.size)
        self._lost[key] = lost
        while len(self._lost) > _MOST or self._bytes > _MOST_BYTES:
            self._bytes -= self._lost.popitem(last=False)[1].size

    def put_back(
        self,
        scope: str | None,
        conversation: Conversation,
        digests: Sequence[bytes | None],
        target: str,
        places: Places,
    ) -> Conversation:
        """A history with the target's omitted parts; the places of inserted canisters are recorded."""
        if not self._lost:
            return conversation
        found: list[AnyCanister] = []
        is_changed = False
        for canister, digest in zip(conversation, digests, strict=True):
            lost = None if digest is None else self._lost.get((scope, digest))
            if lost is None or canister.role not in MODEL_ROLES:
                found.append(canister)
                continue
            added = _wanted(lost.thoughts, target, found)
            whole = _with_residue(canister, lost.residue, target)
            if added:
                places.insert_history(len(found), len(added))
                first, *rest = added
                found.append(first.replace(joined=canister.joined))
                found += [one.replace(joined=True) for one in rest]
                whole = whole.replace(joined=True)
            is_changed = is_changed or bool(added) or whole is not canister
            found.append(whole)
        return Conversation.trusted(found) if is_changed else conversation


def _wanted(
    thoughts: Sequence[AnyCanister], target: str, before: Sequence[AnyCanister]
) -> list[AnyCanister]:
    """The target's reasoning, unless the client has sent some itself."""
    if before and _is_thought(before[-1]):
        return []
    return [one for one in thoughts if _origin(one) == target]


def _with_residue(canister: AnyCanister, residue: Residue | None, target: str) -> AnyCanister:
    """A canister with the target's residue: signatures of calls, for example."""
    if residue is None or residue.dialect != target:
        return canister
    own = canister.residue
    if own is not None and own.dialect == target:
        return canister
    return canister.replace(residue=residue)  # type: ignore[no-any-return]


def _origin(canister: AnyCanister) -> str | None:
    """The dialect of the provider that produced the reasoning."""
    held = canister.held
    if not isinstance(held, ReasoningContentClass) or held.origin is None:
        return None
    return held.origin.dialect


def _is_thought(canister: AnyCanister) -> bool:
    return canister.role is Role.Assistant and type(canister.held) is ReasoningContentClass


def _texts(canister: AnyCanister) -> Iterable[str | None]:
    held = canister.held
    if not isinstance(held, ReasoningContentClass):
        return ()
    return (*held.texts, *held.summaries, held.signature, held.encrypted)
