"""Finds the conversation that a history continues, and the reason for the match.

The search order, within the scope:

1. *session*: the longest known prefix of the history in the client's own session (none is a session like any other);
2. *history*: for a client that has sessions, the longest known prefix in any session, if it includes an answer of the
   model and the history continues: a model's output is nearly unique. Nothing is added to another session; a fork is.
   A request beside a conversation is looked up this way even if its own session holds a shorter prefix;
3. *rewritten*: all of a conversation, as clients of other dialects spell it (``storage.rewriting``). Only what a client
   sent as its history is compared so: any other history is what it says, and an edited result is a fork;
4. *end*: the end of a conversation anywhere in the history, for clients that omit, move or edit earlier messages.

A prefix with questions only is a match only if the instructions are equal too, and in the same session only
(``identity.Said``): different people ask the same questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from cannery.backends import Match
from cannery.errors import ConversationNotFoundError, DamageError
from cannery.messages import AnyCanister, Conversation, Role
from cannery.storage.history import (
    MODEL_ROLES,
    SpokenChain,
    beginning,
    own_of,
    recognition_digests,
)
from cannery.storage.rewriting import continue_in

if TYPE_CHECKING:
    from cannery.storage.store import Store

# How much of a history's end is looked up, in how many conversations, and how much of one must match.
_LAST_SAID = 24
_MOST_CANDIDATES = 4
_LEAST_AGREED = 2


class Spoken(Struct):
    """A history with the digests by which it is recognised; ``asked`` canisters precede the model's first answer.

    ``says`` are all digests that a catalogue would have of it. A request that is ``is_aside`` is beside a conversation
    and continues the longest known prefix wherever that is: an earlier request beside it holds less. A history that
    ``is_sent`` is that of a client, which may spell earlier messages differently than they are stored.
    """

    history: Conversation
    digests: Sequence[bytes | None]
    owns: Sequence[bytes | None]
    asked: int
    session: str = ""
    says: frozenset[bytes | None] = frozenset()
    key: bytes = b""
    is_aside: bool = False
    is_sent: bool = False

    @classmethod
    def of(
        cls,
        history: Conversation,
        session: str,
        key: bytes,
        *,
        is_aside: bool = False,
        is_sent: bool = False,
    ) -> Spoken:
        """The digests of a history; ``key`` is the scope's (``Catalogue.key``)."""
        chain = SpokenChain(key)
        digests = recognition_digests(history, chain)
        asked = asked_before(history, digests)
        says = frozenset(chain.links)
        return cls(history, digests, chain.owns, asked, session, says, key, is_aside, is_sent)

    def setup(self) -> tuple[AnyCanister, ...]:
        """The instructions: everything before a person's first message."""
        return tuple(self.history[: beginning(self.history, self.owns or None)])

    def answers(self) -> list[bytes | None]:
        """The digests from the model's first answer on."""
        return [None] * self.asked + list(self.digests[self.asked :])

    def questions(self) -> list[bytes | None]:
        """The digests before that."""
        return list(self.digests[: self.asked])

    def goes_on_from(self, known: int) -> bool:
        """Whether the first canisters include an answer of the model, and something follows them."""
        return known > self.asked and any(self.digests[known:])


class Recognised(Struct, frozen=True):
    """The conversation that a history continues (``match``; None: none), the reason, and whether it must be forked.

    ``pairs`` are positions of the model's canisters there and in the history, if the client wrote them differently.
    """

    match: Match | None = None
    why: str = "new"
    is_apart: bool = False
    pairs: tuple[tuple[int, int], ...] = ()


def asked_before(history: Sequence[AnyCanister], digests: Sequence[bytes | None]) -> int:
    """The number of canisters before the model's first answer."""
    for index, digest in enumerate(digests):
        if digest is not None and history[index].role in MODEL_ROLES:
            return index
    return len(history)


def recognise(store: Store, histories: Sequence[Spoken]) -> list[Recognised]:
    """The matches of histories, with one look-up for all of the same session."""
    found = [Recognised()] * len(histories)
    by_session: dict[str, list[int]] = {}
    for index, spoken in enumerate(histories):
        by_session.setdefault(spoken.session, []).append(index)
    for session, indexes in by_session.items():
        # A conversation with the answer may lack the question under these instructions, so each is looked up
        # separately.
        wanted = [histories[index] for index in indexes]
        looked_for = [one.answers() for one in wanted] + [one.questions() for one in wanted]
        matches = store.backend.catalogue.match(store.own_scope, session, looked_for)
        for at, index in enumerate(indexes):
            match = matches[at] or matches[len(wanted) + at]
            if match is not None:
                found[index] = Recognised(match, "session" if session else "history")
    for index, spoken in enumerate(histories):
        match = found[index].match
        if match is None or match.known <= spoken.asked:
            found[index] = _without_answer(store, spoken, match)
        elif not spoken.is_aside and not match.is_at_end:
            found[index] = _rewritten(store, spoken, match) or found[index]
        elif spoken.is_aside:
            elsewhere = _elsewhere(store, spoken)
            if elsewhere is not None and elsewhere.known > match.known:
                found[index] = Recognised(elsewhere, "history", is_apart=True)
    return found


def _elsewhere(store: Store, spoken: Spoken) -> Match | None:
    """The longest known prefix in any session that includes an answer of the model, if the history continues."""
    found = store.backend.catalogue.match(store.own_scope, None, [spoken.answers()])[0]
    return found if found is not None and spoken.goes_on_from(found.known) else None


def _without_answer(store: Store, spoken: Spoken, match: Match | None) -> Recognised:
    """The match of a history of whose answers its session has none."""
    if spoken.asked < len(spoken.history):
        elsewhere = _elsewhere(store, spoken) if spoken.session else None
        if elsewhere is not None:
            return Recognised(elsewhere, "history", is_apart=True)
        found = _rewritten(store, spoken, match) or find_end(store, spoken)
        if found is not None:
            return found
    return Recognised() if match is None else Recognised(match, "question")


def _rewritten(store: Store, spoken: Spoken, match: Match | None) -> Recognised | None:
    """The conversation of a match, if the history says all of it in other words of its client and goes on."""
    if match is None or not spoken.is_sent:
        return None
    try:
        conversation = store.get(match.identifier).load()
    except (ConversationNotFoundError, DamageError):
        return None
    return _continued(store, spoken, match.identifier, conversation)


def _continued(
    store: Store, spoken: Spoken, identifier: str, conversation: Conversation
) -> Recognised | None:
    found = continue_in(conversation, spoken.history, spoken.key)
    if found is None or not spoken.goes_on_from(found.known):
        return None
    session = store.metadata_of(identifier).session
    match = Match(found.known, identifier, len(conversation), len(conversation))
    is_apart = session != spoken.session
    return Recognised(match, "rewritten", is_apart=is_apart, pairs=found.pairs)


def find_end(store: Store, spoken: Spoken) -> Recognised | None:
    """The conversation whose end occurs in a history, wherever it begins."""
    said = [(at, own) for at, own in enumerate(spoken.owns) if own is not None]
    wanted = [own for _, own in said[-_LAST_SAID:]]
    held = store.backend.catalogue.holders(store.own_scope, wanted)
    is_own = [not holder.session or bool(spoken.session) for holder in held]
    counted = Counter(one.identifier for one, is_seen in zip(held, is_own, strict=True) if is_seen)
    for identifier, count in counted.most_common(_MOST_CANDIDATES):
        if count < _LEAST_AGREED and not spoken.is_sent:
            break
        try:
            conversation = store.get(identifier).load()
        except (ConversationNotFoundError, DamageError):
            continue
        found = _continued(store, spoken, identifier, conversation) if spoken.is_sent else None
        if found is not None:
            return found
        known = _ends_in(conversation, spoken, said) if count >= _LEAST_AGREED else None
        if known is not None and spoken.goes_on_from(known):
            session = store.metadata_of(identifier).session
            match = Match(known, identifier, len(conversation), len(conversation))
            return Recognised(match, "end", is_apart=session != spoken.session)
    return None


def _ends_in(
    conversation: Conversation, spoken: Spoken, said: Sequence[tuple[int, bytes]]
) -> int | None:
    """How many canisters of a history lie before or in the end of a conversation; None if it does not end there.

    Results may differ, because clients shorten old ones: questions and the model's output must match.
    """
    history = spoken.history
    ours = [
        (at, own)
        for at, (own, is_setup) in enumerate(own_of(one, spoken.key) for one in conversation)
        if own is not None and not is_setup and conversation[at].role is not Role.Result
    ]
    theirs = [(at, own) for at, own in said if history[at].role is not Role.Result]
    answers = [index for index, (at, _) in enumerate(ours) if conversation[at].role in MODEL_ROLES]
    if not answers:
        return None
    last = answers[-1]
    after = [own for _, own in ours[last + 1 :]]
    for index in range(len(theirs) - 1, -1, -1):
        if theirs[index][1] != ours[last][1]:
            continue
        agreed = 0
        while agreed <= min(index, last) and theirs[index - agreed][1] == ours[last - agreed][1]:
            agreed += 1
        follows = [own for _, own in theirs[index + 1 : index + 1 + len(after)]]
        if agreed >= _LEAST_AGREED and follows == after:
            return theirs[index + len(after)][0] + 1
    return None
