"""Where a history goes: into a store (``Placement``), or, in a dry run, nowhere (``Rehearsal``).

Both say the same about what is new. A history that comes from another store of ours goes back under its own id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from cannery.errors import CanneryError
from cannery.messages import AnyCanister, Conversation
from cannery.storage import (
    Filed,
    Filing,
    Metadata,
    Store,
    StoredConversation,
    recognition_digests,
)
from cannery.storage.lineage import find_edge

# How many titles of one history are worth keeping.
_MOST_TITLES = 50


class Facts(NamedTuple):
    """What is known about a history beside what it says; ``kept`` is how another store of ours kept it."""

    title: str
    tags: tuple[str, ...] = ()
    model: str | None = None
    created: datetime | None = None
    kept: Metadata | None = None
    is_named: bool = False


# A history and what is known about it.
Known = tuple[Sequence[AnyCanister], Facts]


class Placed(NamedTuple):
    """What became of a history: how many of its canisters were added, and whether to something new."""

    added: int
    is_new: bool = False
    is_fork: bool = False


class Shelf(Protocol):
    """Takes histories."""

    def put(self, histories: Iterable[Known]) -> Iterator[Placed]:
        """Put each history where it belongs, in order."""


class Placement:
    """Files histories in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, histories: Iterable[Known]) -> Iterator[Placed]:
        """Put each history where it belongs, in order; those that are filed together cost one sync."""
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
            Filing(history, facts.title, facts.tags, facts.model, created=facts.created)
            for history, facts in histories
        )
        for (_, facts), found in zip(histories, filed, strict=True):
            if isinstance(found, CanneryError):
                raise found
            self._tell(found, facts)
            yield Placed(found.added, found.is_new, found.is_fork)

    def _tell(self, filed: Filed, facts: Facts) -> None:
        """Keep what is known about a history; what was made just now under its own title has nothing to change."""
        if not filed.is_new or facts.created is not None:
            is_made = filed.is_new or filed.is_fork
            changes = self._changes(filed.conversation, facts, is_made=is_made)
            if changes:
                self._store.change_metadata(filed.identifier, **changes)

    def _changes(
        self, conversation: StoredConversation, facts: Facts, *, is_made: bool
    ) -> dict[str, Any]:
        """What the metadata should say beside: of something new its own facts, else another title that it has."""
        known = conversation.metadata
        changes: dict[str, Any] = {}
        if not is_made:
            titles = (known.title, *known.other_titles)
            if facts.is_named and facts.title not in titles and len(titles) < _MOST_TITLES:
                changes["other_titles"] = (*known.other_titles, facts.title)
            return changes
        if known.title != facts.title:
            changes["title"] = facts.title
        if facts.created is not None and facts.created != known.created:
            changes["created"] = facts.created
        return changes

    def _restore(self, history: Conversation, kept: Metadata) -> Placed | None:
        """Bring a conversation back under its own id; None if something else has that id now."""
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


class Rehearsal:
    """Looks at what a store holds, and remembers what it would have been given."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        # What a history that was put ends with so far, and whether another goes on from there.
        self._goes_on: dict[bytes, bool] = {}
        self._kept: set[str] = set()

    def put(self, histories: Iterable[Known]) -> Iterator[Placed]:
        """Say what would become of each history."""
        for history, facts in histories:
            yield self._look_at(history, facts)

    def _look_at(self, history: Sequence[AnyCanister], facts: Facts) -> Placed:
        if facts.kept is not None and self._is_kept(facts.kept.id):
            return Placed(0)
        digests = recognition_digests(history)
        known, is_at_end = self._look_up(digests)
        new = [digest for digest in digests[known:] if digest is not None]
        if not new and known:
            return Placed(0)
        if known and (last := _last(digests[:known])) is not None:
            self._goes_on[last] = True
        for digest, follows in zip(new, [*new[1:], None], strict=True):
            self._goes_on[digest] = follows is not None
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

    def _look_up(self, digests: list[bytes | None]) -> tuple[int, bool]:
        """How much of a history is known, and whether what is known ends there."""
        match = None if self._store is None else self._store.match(digests)
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
