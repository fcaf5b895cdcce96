"""Filing a history: finding the conversation that holds it, adding what is new, forking what was edited.

Stateless clients send everything again with each turn. The chain of digests says, by a handful of
look-ups, how much of it is known, and where. Histories that share only instructions and documents are different
conversations (``history``). A conversation or a fork that is made for a history is made together with its canisters,
in one change.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from cannery.errors import ConflictError, ConversationNotFoundError
from cannery.messages import AnyCanister, Conversation, digest, prefix_digests
from cannery.storage.conversation import StoredConversation
from cannery.storage.history import recognition_digests
from cannery.storage.index import row_of
from cannery.storage.indexing import chain_up, find_holder, is_held, last_prefix

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


class Match(Struct, frozen=True):
    """The longest beginning of a history that is stored: its first ``known`` canisters end at a position.

    If nothing was said in the conversation after them, that position is its ``length``.
    """

    known: int
    identifier: str
    position: int
    length: int

    @property
    def is_at_end(self) -> bool:
        """Whether nothing follows."""
        return self.position == self.length


def match_history(store: Store, digests: Sequence[bytes | None]) -> Match | None:
    """Find the longest beginning of a history by its digests."""
    return match_histories(store, [digests])[0]


def match_histories(
    store: Store, histories: Sequence[Sequence[bytes | None]]
) -> list[Match | None]:
    """Find the longest beginning of each of several histories."""

    def look(connection: sqlite3.Connection) -> list[Match | None]:
        return [_match(connection, digests) for digests in histories]

    return store.use_index(chain_up, look)


def _match(connection: sqlite3.Connection, digests: Sequence[bytes | None]) -> Match | None:
    known = [one for one in digests if one is not None]
    low, high = 0, len(known)
    stride = 1
    # What is new is mostly short: step back from the end in growing strides, then bisect.
    while high > 0:
        probe = max(high - stride, 0)
        if is_held(connection, known[probe]):
            low = probe + 1
            break
        high = probe
        stride *= 2
    while low < high:
        middle = (low + high) // 2
        if is_held(connection, known[middle]):
            low = middle + 1
        else:
            high = middle
    # The longest may be held by a conversation that is deleted.
    for one in reversed(known[:low]):
        holder = find_holder(connection, one)
        if holder is not None:
            position = holder.length if holder.is_at_end else holder.position
            return Match(digests.index(one) + 1, holder.identifier, position, holder.length)
    return None


def known_before(
    store: Store, identifier: str, position: int, digests: Sequence[bytes | None]
) -> int:
    """How many canisters of a history lie before a position of a conversation, silent ones included."""

    def look(connection: sqlite3.Connection) -> tuple[bytes | None, int]:
        row = row_of(connection, identifier)
        if row is None or row.unreadable:
            return _last_read(store.get(identifier).load(0, position))
        found = last_prefix(connection, row, position)
        return (None, 0) if found is None else (found.digest, found.position)

    last, spoken = store.use_index(chain_up, look)
    silent = position - spoken
    known = digests.index(last) + 1 if last is not None and last in digests else 0
    while silent and known < len(digests) and digests[known] is None:
        known += 1
        silent -= 1
    return known


def _last_read(shared: Sequence[AnyCanister]) -> tuple[bytes | None, int]:
    held = list(prefix_digests(shared, reasoning=False))
    for position in range(len(held), 0, -1):
        if held[position - 1] is not None:
            return held[position - 1], position
    return None, 0


def rest_of(
    store: Store, history: Conversation, digests: Sequence[bytes | None], match: Match
) -> Conversation:
    """What is to be added to the conversation that ends where a history is known.

    Digests do not tell whether it ends with the same thoughts and empty turns; so these are compared.
    """
    rest = history[match.known :]
    silent = 0
    for one in digests[match.known :]:
        if one is not None:
            break
        silent += 1
    if silent:
        held = store.handle(match.identifier).load(max(match.length - silent, 0), match.length)
        ends, begins = list(map(digest, held)), list(map(digest, rest[:silent]))
        for count in range(len(ends), 0, -1):
            if ends[-count:] == begins[:count]:
                return rest[count:]
    return rest


def file_history(
    store: Store,
    canisters: Iterable[AnyCanister],
    *,
    title: str = "",
    tags: tuple[str, ...] = (),
    model: str | None = None,
    identifier: str | None = None,
    created: datetime | None = None,
) -> Filed:
    """Put a history where it belongs."""
    history = Conversation(canisters)
    digests = recognition_digests(history)
    for _ in range(_ATTEMPTS):
        match = match_history(store, digests)
        try:
            if match is None:
                conversation = store.create(
                    title=title,
                    tags=tags,
                    model=model,
                    identifier=identifier,
                    created=created,
                    canisters=history,
                )
                return Filed(conversation, 0, len(history), is_new=True, is_fork=False)
            return _go_on(store, history, digests, match, identifier)
        except (ConflictError, ConversationNotFoundError):
            if identifier is not None and store.raw_metadata(identifier) is not None:
                raise
            # Somebody was faster; look again.
            continue
    raise ConflictError("others keep adding to the same conversation")


def _go_on(
    store: Store,
    history: Conversation,
    digests: Sequence[bytes | None],
    match: Match,
    identifier: str | None,
) -> Filed:
    """Add what is new to the conversation that holds the rest, or to a fork of it."""
    conversation = store.get(match.identifier)
    if match.is_at_end:
        rest = rest_of(store, history, digests, match)
        if rest:
            conversation.append(rest, revision=str(match.length))
        known = len(history) - len(rest)
        return Filed(conversation, known, len(rest), is_new=False, is_fork=False)
    if not any(digests[match.known :]):
        return Filed(conversation, len(history), 0, is_new=False, is_fork=False)
    fork = conversation.branch(history, known=match.known, at=match.position, identifier=identifier)
    added = len(fork) - fork.metadata.position
    return Filed(fork, len(history) - added, added, is_new=False, is_fork=True)
