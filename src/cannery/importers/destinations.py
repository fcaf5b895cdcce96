"""The destination of an import: a store (``Placement``), or nothing, in a dry run (``Rehearsal``).

Both report the same new messages. A history that was exported from a Cannery store gets its own id back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from cannery.errors import CanneryError, ConversationNotFoundError
from cannery.messages import AnyCanister, Conversation, digest
from cannery.storage import (
    Filed,
    Filing,
    Metadata,
    Store,
    StoredConversation,
    recognition_digests,
)
from cannery.storage.lineage import find_edge

# The maximum number of titles stored for one history.
_MOST_TITLES = 50
# How often a deleted row may be imported again.
_MOST_RETURNS = 100


class Facts(NamedTuple):
    """The facts about a history.

    ``kept`` is its metadata in another Cannery store; ``identifier`` is its name in its source, ``started_by`` the name
    there of the conversation that started it.
    """

    title: str
    tags: tuple[str, ...] = ()
    model: str | None = None
    created: datetime | None = None
    kept: Metadata | None = None
    is_named: bool = False
    identifier: str = ""
    started_by: str | None = None


# A history and its facts.
Known = tuple[Sequence[AnyCanister], Facts]


class Placed(NamedTuple):
    """The result for a history: the number of canisters added, and whether a conversation or fork was created."""

    added: int
    is_new: bool = False
    is_fork: bool = False


class Row(NamedTuple):
    """A record of a data set: its id, its histories, the chosen one first, and its facts."""

    identifier: str
    histories: list[list[AnyCanister]]
    facts: Facts


class Shelf(Protocol):
    """A destination of histories."""

    def put(self, histories: Iterable[Known]) -> Iterator[Placed]:
        """File each history, in order."""

    def put_rows(self, rows: Iterable[Row]) -> Iterator[Placed]:
        """File each row as a conversation of its own, in order, unless it is present."""


class Placement:
    """Files histories in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # The conversations filed so far, by their identifiers in the source.
        self._places: dict[str, str] = {}

    def put(self, histories: Iterable[Known]) -> Iterator[Placed]:
        """File each history, in order; a batch costs one sync."""
        together: list[Known] = []
        for history, facts in histories:
            if facts.kept is not None:
                yield from self._file(together)
                together = []
                restored = self._restore(Conversation(history), facts.kept)
                if restored is not None:
                    yield restored
                    continue
            together.append((history, facts))
        yield from self._file(together)

    def _file(self, histories: Sequence[Known]) -> Iterator[Placed]:
        filed = self._store.file_many(
            Filing(history, facts.title, facts.tags, facts.model, created=_began(history, facts))
            for history, facts in histories
        )
        for (history, facts), found in zip(histories, filed, strict=True):
            if isinstance(found, CanneryError):
                raise found
            self._update_metadata(found, history, facts)
            if facts.identifier:
                self._places.setdefault(facts.identifier, found.identifier)
            yield Placed(found.added, found.is_new, found.is_fork)

    def _update_metadata(self, filed: Filed, history: Sequence[AnyCanister], facts: Facts) -> None:
        """Update the metadata from a history's facts; a new conversation already has them."""
        changes: dict[str, Any] = {}
        if not filed.is_new:
            changes = self._changes(filed.conversation, history, facts, is_made=filed.is_fork)
        parent = self._places.get(facts.started_by or "")
        if parent is not None and parent != filed.identifier:
            known = filed.conversation.metadata
            if known.parent is None:
                changes = {"updated": _ended(history, known), **changes, "parent": parent}
        if changes:
            self._store.change_metadata(filed.identifier, **changes)

    def _changes(
        self,
        conversation: StoredConversation,
        history: Sequence[AnyCanister],
        facts: Facts,
        *,
        is_made: bool,
    ) -> dict[str, Any]:
        """The metadata to change: the facts of a new fork, or an additional title of a known conversation."""
        known = conversation.metadata
        if not is_made:
            titles = (known.title, *known.other_titles)
            if facts.is_named and facts.title not in titles and len(titles) < _MOST_TITLES:
                # Another title does not change the time of the last update.
                others = (*known.other_titles, facts.title)
                return {"other_titles": others, "updated": _ended(history, known)}
            return {}
        return {
            "title": facts.title,
            "model": facts.model or known.model,
            "created": _began(history, facts),
            "updated": _ended(history, None),
        }

    def put_rows(self, rows: Iterable[Row]) -> Iterator[Placed]:
        """File each row as a conversation of its own, in order, unless it is present; all with one sync."""
        waiting: list[tuple[Row, str]] = []
        known: dict[int, int] = {}
        total = 0
        for number, row in enumerate(rows):
            total += 1
            name = free_identifier(self._store, row.identifier)
            if name is None:
                known[number] = len(row.histories)
            else:
                waiting.append((row, name))
        made = iter(list(self._make(waiting)))
        for number in range(total):
            if number in known:
                yield from [Placed(0)] * known[number]
            else:
                yield from next(made)

    def _make(self, rows: Sequence[tuple[Row, str]]) -> Iterator[list[Placed]]:
        """Create a conversation for each row, and a fork for each further history in it."""
        filings = [
            Filing(
                row.histories[0],
                row.facts.title,
                row.facts.tags,
                row.facts.model,
                name,
                None,
                is_exact=True,
                created=_began(row.histories[0], row.facts),
                # A session of its own, so that no other history is recognised as its continuation.
                session=name,
            )
            for row, name in rows
        ]
        for (row, name), filed in zip(rows, self._store.file_many(filings), strict=True):
            if isinstance(filed, CanneryError):
                raise filed
            placed = [Placed(filed.added, is_new=True)]
            for number, history in enumerate(row.histories[1:], 1):
                shared = _shared(row.histories[0], history)
                fork = filed.conversation.branch(
                    history, known=shared, at=shared, identifier=f"{name}-{number}"
                )
                placed.append(Placed(len(fork) - fork.metadata.position, is_fork=True))
            yield placed

    def _restore(self, history: Conversation, kept: Metadata) -> Placed | None:
        """Restore a conversation under its own id; None if the id is taken by another history."""
        store = self._store
        try:
            found = store.any_metadata(kept.id)
        except CanneryError:
            return self._bring_back(history, kept)
        if found.deleted is not None:
            return None
        conversation = store.get(kept.id)
        known = conversation.load()
        if known == history[: len(known)]:
            rest = history[len(known) :]
            if rest:
                conversation.append(rest)
            return Placed(len(rest))
        return Placed(0) if history == known[: len(history)] else None

    def _bring_back(self, history: Conversation, kept: Metadata) -> Placed:
        store = self._store
        parent, position = kept.parent, kept.position
        requires: dict[str, bytes | None] = {}
        try:
            shared = store.get(parent).load(0, position) if parent is not None else ()
        except CanneryError:
            shared = ()
        if parent is not None and len(shared) == position and shared == history[:position]:
            requires[parent] = store.raw_metadata(parent)
        else:
            parent, position = None, 0
        metadata = msgspec.structs.replace(kept, parent=parent, position=position, deleted=None)
        rest = history[position:]
        store.add(metadata, requires).append(rest)
        return Placed(len(rest), is_new=parent is None, is_fork=parent is not None)


def _began(history: Sequence[AnyCanister], facts: Facts) -> datetime | None:
    """The start of a history: as its source says, or the time of its first message."""
    return facts.created or (history[0].timestamp if history else None)


def _ended(history: Sequence[AnyCanister], known: Metadata | None) -> datetime:
    """The time of the last message of a history."""
    last = max(canister.timestamp for canister in history)
    return last if known is None else max(last, known.updated)


def _shared(one: Sequence[AnyCanister], other: Sequence[AnyCanister]) -> int:
    """The length of the common prefix of two histories."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if digest(left) != digest(right):
            return index
    return min(len(one), len(other))


def _slice(history: Sequence[AnyCanister], start: int, stop: int) -> Sequence[AnyCanister]:
    return history[start:stop]


def free_identifier(store: Store | None, identifier: str) -> str | None:
    """The id for a row; None if the row is present. A deleted row does not get its old id again."""
    for number in range(_MOST_RETURNS):
        name = identifier if not number else f"{identifier}-r{number}"
        try:
            found = None if store is None else store.any_metadata(name)
        except ConversationNotFoundError:
            return name
        if found is None:
            return name
        if found.deleted is None:
            return None
    return None


class Rehearsal:
    """Determines the result of an import without writing, and remembers the histories seen."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        # The last digest of each history so far, and whether another history continues after it.
        self._goes_on: dict[bytes, bool] = {}
        self._kept: set[str] = set()

    def put_rows(self, rows: Iterable[Row]) -> Iterator[Placed]:
        """Report the result for each row."""
        for row in rows:
            if row.identifier in self._kept or free_identifier(self._store, row.identifier) is None:
                yield from [Placed(0)] * len(row.histories)
                continue
            self._kept.add(row.identifier)
            first = row.histories[0]
            yield Placed(len(first), is_new=True)
            for history in row.histories[1:]:
                shared = _shared(first, history)
                shared = find_edge(shared, len(first), partial(_slice, first))
                yield Placed(len(history) - shared, is_fork=True)

    def put(self, histories: Iterable[Known]) -> Iterator[Placed]:
        """Report the result for each history."""
        for history, facts in histories:
            yield self._look_at(history, facts)

    def _look_at(self, history: Sequence[AnyCanister], facts: Facts) -> Placed:
        if facts.kept is not None and self._is_kept(facts.kept.id):
            return Placed(0)
        digests = recognition_digests(history)
        known, is_at_end = self._look_up(history, digests)
        new = [digest for digest in digests[known:] if digest is not None]
        if not new and known:
            return Placed(0)
        if known and (last := _last(digests[:known])) is not None:
            self._goes_on[last] = True
        for one, follows in zip(new, [*new[1:], None], strict=False):
            self._goes_on[one] = follows is not None
        is_fork = bool(known) and not is_at_end
        if is_fork:
            # A fork never begins inside a tool exchange.
            known = find_edge(known, len(history), lambda start, stop: history[start:stop])
        return Placed(len(history) - known, is_new=not (known or is_fork), is_fork=is_fork)

    def _is_kept(self, identifier: str) -> bool:
        if identifier in self._kept:
            return True
        self._kept.add(identifier)
        try:
            return self._store is not None and bool(self._store.get(identifier))
        except CanneryError:
            return False

    def _look_up(
        self, history: Sequence[AnyCanister], digests: list[bytes | None]
    ) -> tuple[int, bool]:
        """The length of the known prefix of a history, and whether a conversation ends there."""
        match = None if self._store is None else self._store.recognise(history).match
        stored = 0 if match is None else match.known
        for known in range(len(digests), stored, -1):
            digest = digests[known - 1]
            if digest is not None and digest in self._goes_on:
                return known, not self._goes_on[digest]
        if match is None:
            return 0, False
        last = _last(digests[:stored])
        return stored, match.is_at_end and not (last is not None and self._goes_on.get(last, False))


def _last(digests: Sequence[bytes | None]) -> bytes | None:
    return next((digest for digest in reversed(digests) if digest is not None), None)
