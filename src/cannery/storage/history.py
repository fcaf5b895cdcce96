"""The digests by which recognition looks up histories.

A history consists of what people asked and what models wrote and called. Setup is excluded: instructions, documents,
blocks that clients insert into a user's message, answers that clients made up, and everything before a person's first
message, whatever its role. Reasoning is excluded too, because clients may omit it, and so is a second copy of a result.

``messages.identity`` defines the digest of a canister. Text counts without surrounding white space, and a user's text
with blocks of setup by the part that a person typed. The catalogue continues the same chain. A scope may have a key
(``Catalogue.key``): its digests are keyed, so that the messages cannot be guessed from them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from cannery.backends import keyed
from cannery.errors import CanneryError
from cannery.messages import AnyCanister, ResultCanisterClass, Role, TextualContentClass
from cannery.messages.identity import (
    NOTHING_SAID,
    Said,
    answer_mark,
    continued,
    meaning,
    text_meaning,
)
from cannery.titles import SEARCHED, has_setup, is_invented, typed_text

_SETUP = frozenset({Role.Supervisor, Role.Document})
_TALKING = frozenset({Role.User, Role.Assistant})
# Clients repeat earlier messages with every turn; the digests of this many short texts are cached.
_SHORT = 1024
_MOST_SHORT = 2048
MODEL_ROLES = frozenset({Role.Assistant, Role.Invocation})
"""The roles of the model: its output is nearly unique, so conversations are recognised by it."""


class Own(NamedTuple):
    """A canister's own addition to a history: its digest (None for nothing), and whether it is setup."""

    digest: bytes | None
    is_setup: bool = False


def own_of(canister: AnyCanister, key: bytes = b"") -> Own:
    """A canister's addition to a history; reasoning and empty turns add nothing."""
    own = _plain_own(canister)
    return own if not key or own.digest is None else Own(keyed(key, own.digest), own.is_setup)


def _plain_own(canister: AnyCanister) -> Own:
    role = canister.role
    if role in _SETUP:
        return Own(meaning(canister, reasoning=False), is_setup=True)
    text = plain_text(canister) if role in _TALKING else None
    if text is not None:
        own = _own_short(role, text) if len(text) <= _SHORT else _own_text(role, text)
        if own is not None:
            return own
    return Own(meaning(canister, reasoning=False))


def _own_text(role: Role, text: str) -> Own | None:
    """The addition of a text in a user or model role; None for blank text."""
    said = text.strip()
    if not said:
        return None
    if role is Role.User and has_setup(text):
        typed = typed_text(text).strip()
        if not typed:
            return Own(text_meaning(role, said), is_setup=True)
        said = typed if len(text) <= SEARCHED else said
    elif role is Role.Assistant and is_invented(said):
        return Own(text_meaning(role, said), is_setup=True)
    return Own(text_meaning(role, said))


# An exchange is recognised, filed and described.
_own_short = functools.lru_cache(_MOST_SHORT)(_own_text)


def plain_text(canister: Any) -> str | None:
    """The plain text of a canister; None for other content or unreadable text."""
    held = canister.held
    if type(held) is str:
        return held
    if type(held) is not TextualContentClass:
        return None
    try:
        return held.text
    except CanneryError:
        return None


class SpokenChain:
    """The digests of a growing history: each covers all canisters up to it (``identity.Said``)."""

    __slots__ = ("_answered", "_calls", "_key", "_ordinals", "_said", "links", "owns")

    def __init__(self, key: bytes = b"") -> None:
        self._key = key
        self._said = NOTHING_SAID
        self._calls = 0
        self._ordinals: dict[str, int] = {}
        self._answered: dict[str, bytes] = {}
        self.links: list[bytes | None] = []
        self.owns: list[bytes | None] = []
        """What each canister says by itself, None for setup and for what adds nothing."""

    def extend(self, canisters: Iterable[AnyCanister]) -> list[bytes | None]:
        """The digest after each of some more canisters, None for one that adds nothing."""
        links = [self._add(canister) for canister in canisters]
        self.links += links
        return links

    def _add(self, canister: Any) -> bytes | None:
        role, held = canister.role, canister.held
        is_plain = type(held) is str and role in _TALKING and not held.isspace() and held
        if is_plain and not self._said.questions and len(held) <= _SHORT:
            own, chain = _after_short(self._said.chain, role, held, self._key)
            self.owns.append(own)
            if chain is not None:
                self._said = Said(chain, b"")
            return chain
        own, is_setup = own_of(canister, self._key)
        if own is not None and role is Role.Result:
            own = self._first_answer(canister, own)
        self.owns.append(None if is_setup else own)
        if own is None:
            return None
        if role is Role.Result:
            own += answer_mark(self._ordinals.get(canister.invocation_id))
        before = self._said
        said = self._said = before.followed(role.value, own, is_setup=is_setup)
        if role is Role.Invocation:
            self._ordinals[canister.identifier] = self._calls
            self._calls += 1
        return None if said is before else said.chain

    def _first_answer(self, canister: Any, own: bytes) -> bytes | None:
        """The digest of a result; None for a repeated one, as Gemini CLI sends results of a resumed session."""
        if self._answered.get(canister.invocation_id) == own:
            return None
        self._answered[canister.invocation_id] = own
        return own


@functools.lru_cache(_MOST_SHORT)
def _after_short(
    chain: bytes, role: Role, text: str, key: bytes
) -> tuple[bytes | None, bytes | None]:
    """The addition of a short text, and the digest of an answered history with it; None for setup."""
    own = _own_short(role, text)
    if own is None or own.digest is None or own.is_setup:
        return None, None
    digest = keyed(key, own.digest) if key else own.digest
    return digest, continued(chain, digest)


def recognition_digests(
    history: Sequence[AnyCanister], chain: SpokenChain | None = None
) -> list[bytes | None]:
    """The digests by which a history is recognised, one per canister; None for one that adds nothing.

    This includes canisters before the first question. A history without a question is recognised as a whole.
    """
    chain = SpokenChain() if chain is None else chain
    digests = chain.extend(history)
    start = beginning(history, chain.owns)
    if start < len(history):
        owns = chain.owns
        return [None if at < start or owns[at] is None else one for at, one in enumerate(digests)]
    last = next((at for at in range(len(digests) - 1, -1, -1) if digests[at] is not None), 0)
    return [one if at == last else None for at, one in enumerate(digests)]


def without_doubles(history: Iterable[AnyCanister]) -> list[AnyCanister]:
    """A history without repeated copies of the same result."""
    if not isinstance(history, list | tuple):
        history = list(history)
    if not any(type(canister) is ResultCanisterClass for canister in history):
        return list(history)
    kept: list[AnyCanister] = []
    answered: dict[str, bytes | None] = {}
    for canister in history:
        if canister.role is Role.Result:
            identifier: str = canister.invocation_id  # type: ignore[union-attr]
            own = own_of(canister).digest
            if answered.get(identifier, b"") == own:
                continue
            answered[identifier] = own
        elif canister.role is Role.Invocation:
            # A call with the id of an earlier one needs a result of its own.
            answered.pop(canister.identifier, None)  # type: ignore[union-attr]
        kept.append(canister)
    return kept


def beginning(history: Sequence[AnyCanister], owns: Sequence[bytes | None] | None = None) -> int:
    """The number of canisters before a person's first message."""
    for index, canister in enumerate(history):
        if canister.role is Role.User:
            own = own_of(canister) if owns is None else Own(owns[index], owns[index] is None)
            if own.digest is not None and not own.is_setup:
                return index
    return len(history)
