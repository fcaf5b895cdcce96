"""Filing a history: finding the conversation that holds it, adding what is new, forking what was edited.

Stateless clients send everything again with each turn. The chain of digests says, by a handful of
look-ups, how much of it is known, and where.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from cannery.errors import ConflictError, ConversationNotFoundError
from cannery.messages import AnyCanister, Conversation, prefix_digests
from cannery.storage.conversation import StoredConversation
from cannery.storage.history import Chain
from cannery.storage.indexing import Holder, catch_up, chain_up, find_prefix

if TYPE_CHECKING:
    from cannery.storage.store import Store

_ATTEMPTS = 20


class Filed(Struct, frozen=True):
    """Where a history was filed: ``known`` of its canisters were there, ``added`` were not."""

    conversation: StoredConversation
    known: int
    added: int
    is_new: bool
    is_fork: bool

    @property
    def identifier(self) -> str:
        """The conversation's id."""
        return self.conversation.identifier


class _Match(Struct, frozen=True):
    """The longest known prefix: the first ``known`` canisters, and who holds them."""

    known: int
    holder: Holder


def file_history(
    store: Store,
    canisters: Iterable[AnyCanister],
    *,
    title: str = "",
    tags: tuple[str, ...] = (),
    model: str | None = None,
) -> Filed:
    """Put a history where it belongs."""
    history = Conversation(canisters)
    filing = _Filing(store, history)
    for _ in range(_ATTEMPTS):
        match = filing.look_up()
        try:
            if match is None:
                conversation = store.create(title=title, tags=tags, model=model)
                conversation.append(history)
                return Filed(conversation, 0, len(history), is_new=True, is_fork=False)
            return filing.go_on(match)
        except (ConflictError, ConversationNotFoundError):
            # Somebody was faster; look again.
            continue
    raise ConflictError("others keep adding to the same conversation")


class _Filing:
    """One history on its way into a store."""

    def __init__(self, store: Store, history: Conversation) -> None:
        self._store = store
        self._history = history
        self._digests: Sequence[bytes | None] = list(Chain().extend(history))
        self._places = [index for index, digest in enumerate(self._digests) if digest is not None]

    def look_up(self) -> _Match | None:
        """The longest prefix that some conversation holds."""
        return self._store.index.use(self._look_up)

    def _look_up(self, connection: sqlite3.Connection) -> _Match | None:
        catch_up(self._store, connection)
        chain_up(self._store, connection)
        low, high = 0, len(self._places)
        stride = 1
        # What is new is mostly short: step back from the end in growing strides, then bisect.
        while high > 0:
            probe = max(high - stride, 0)
            if self._holders(connection, probe):
                low = probe + 1
                break
            high = probe
            stride *= 2
        while low < high:
            middle = (low + high) // 2
            if self._holders(connection, middle):
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return None
        return _Match(self._places[low - 1] + 1, self._holders(connection, low - 1)[0])

    def _holders(self, connection: sqlite3.Connection, at: int) -> list[Holder]:
        digest = self._digests[self._places[at]]
        return [] if digest is None else find_prefix(connection, digest)

    def go_on(self, match: _Match) -> Filed:
        """Add what is new to the conversation that holds the rest, or to a fork of it."""
        conversation = self._store.get(match.holder.identifier)
        rest = self._history[match.known :]
        if match.holder.is_at_end:
            if rest:
                conversation.append(rest, revision=str(match.holder.length))
            return Filed(conversation, match.known, len(rest), is_new=False, is_fork=False)
        if not any(self._digests[match.known :]):
            return Filed(conversation, len(self._history), 0, is_new=False, is_fork=False)
        fork = conversation.fork(match.holder.position, edge="move")
        known = self._known_before(conversation, match, fork.metadata.position)
        rest = self._history[known:]
        fork.append(rest)
        return Filed(fork, known, len(rest), is_new=False, is_fork=True)

    def _known_before(self, conversation: StoredConversation, match: _Match, position: int) -> int:
        """How many canisters lie before a position that the cut was moved to."""
        if position == match.holder.position:
            return match.known
        return known_before(conversation.load(0, position), self._digests)


def known_before(shared: Conversation, digests: Sequence[bytes | None]) -> int:
    """How many canisters of a history lie in what it shares with a conversation, silent ones included."""
    held = list(prefix_digests(shared, reasoning=False))
    silent = 0
    while held and held[-1] is None:
        held.pop()
        silent += 1
    known = digests.index(held[-1]) + 1 if held and held[-1] in digests else 0
    while silent and known < len(digests) and digests[known] is None:
        known += 1
        silent -= 1
    return known
