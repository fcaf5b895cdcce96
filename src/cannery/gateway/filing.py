"""Putting planned exchanges into the store, on the recorder's threads.

A new conversation and its messages, or a fork and its messages, are one change: either all of it
is there or nothing. A plan that no longer fits, because another process was faster, is carried out
as a fork.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec import structs

from cannery.backends import Change
from cannery.errors import ConflictError, ConversationNotFoundError, StorageError
from cannery.gateway.ledger import Digest, Plan, Spot, named_key
from cannery.messages import AnyCanister, Conversation
from cannery.storage import Store
from cannery.storage.indexing import Holder, catch_up, chain_up, find_prefix
from cannery.storage.lineage import find_edge, owner
from cannery.storage.metadata import Metadata, new_metadata
from cannery.storage.recognition import known_before

_ATTEMPTS = 20


class Filer:
    """Files in one store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def file(self, plan: Plan, history: Sequence[AnyCanister], model: str | None) -> str:
        """File a history as planned; the id of its conversation."""
        rest = history[plan.known :]
        if plan.kind == "known":
            return plan.identifier
        if plan.kind == "new":
            return self._create(plan, rest, model)
        if plan.kind == "append":
            return self._append(plan, history, rest)
        self._fork(plan, history, str(plan.parent))
        return plan.identifier

    def _create(self, plan: Plan, rest: Sequence[AnyCanister], model: str | None) -> str:
        metadata = structs.replace(new_metadata(model=model), id=plan.identifier)
        try:
            self._add(metadata, {}, rest)
        except ConflictError:
            # A conversation of that name is there, and holds something else.
            metadata = new_metadata(model=model)
            self._add(metadata, {}, rest)
        return metadata.id

    def _append(
        self, plan: Plan, history: Sequence[AnyCanister], rest: Sequence[AnyCanister]
    ) -> str:
        if not rest:
            return plan.identifier
        conversation = self.store.handle(plan.identifier)
        try:
            conversation.append(rest, revision=str(plan.position))
        except ConflictError:
            fork = plan._replace(identifier=new_metadata().id)
            self._fork(fork, history, plan.identifier)
            return fork.identifier
        return plan.identifier

    def _fork(self, plan: Plan, history: Sequence[AnyCanister], parent: str) -> None:
        conversation = self.store.get(parent)
        end = len(conversation)
        position = find_edge(plan.position, end, conversation.load)
        known = plan.known
        if position != plan.position:
            known = known_before(
                conversation.load(0, position),
                Conversation.trusted(history).prefix_digests(reasoning=False),
            )
        for _ in range(_ATTEMPTS):
            _, metadata = self.store.current(parent)
            above = owner(metadata, self.store.any_metadata, position)
            fork = new_metadata(
                title=metadata.title,
                profile=metadata.profile,
                model=metadata.model,
                parent=above.id,
                position=position,
            )
            raw = self.store.raw_metadata(above.id)
            try:
                self._add(
                    structs.replace(fork, id=plan.identifier), {above.id: raw}, history[known:]
                )
            except ConflictError:
                continue
            return
        raise ConflictError(f"conversation {parent!r} changes all the time")

    def _add(
        self,
        metadata: Metadata,
        requires: dict[str, bytes | None],
        canisters: Sequence[AnyCanister],
    ) -> None:
        """A conversation and its first own messages, in one change."""
        encoded = [self.store.encoder.encode(canister) for canister in canisters]
        contents: dict[bytes, bytes | None] = {}
        for one in encoded:
            for digest, data in one.contents.items():
                if data is not None or digest not in contents:
                    contents[digest] = data
        change = Change(
            identifier=metadata.id,
            requires={metadata.id: None, **requires},
            metadata=metadata.encode(),
            lines=[one.line for one in encoded],
            base=metadata.position,
            contents=contents,
        )
        self.store.backend.commit(change, self.store.durability)

    def mark(self, identifier: str, tag: str) -> None:
        """Tag a conversation."""
        tags = self.store.metadata_of(identifier).tags
        if tag not in tags:
            self.store.change_metadata(identifier, tags=(*tags, tag))

    def look_up(self, digests: Sequence[Digest | None]) -> tuple[int, Spot, int] | None:
        """The longest beginning of a history that the store holds: how much, where, and how long it is there."""
        places = [index for index, digest in enumerate(digests) if digest is not None]

        def look(connection: sqlite3.Connection) -> tuple[int, Holder] | None:
            catch_up(self.store, connection)
            chain_up(self.store, connection)
            for index in reversed(places):
                holders = find_prefix(connection, digests[index] or b"")
                if holders:
                    return index + 1, holders[0]
            return None

        found = self.store.index.use(look)
        if found is None:
            return None
        known, holder = found
        end = holder.position if holder.is_at_end else holder.length
        position = holder.length if holder.is_at_end else holder.position
        return known, Spot(holder.identifier, position), max(end, position)

    def look_in(
        self, identifier: str, keys: Sequence[Digest | None]
    ) -> tuple[int, Spot, int] | None:
        """The same in one conversation, for keys that carry its name."""
        try:
            held = self.store.get(identifier).load()
        except ConversationNotFoundError:
            return None
        places = {
            named_key(identifier, digest): position
            for position, digest in enumerate(held.prefix_digests(reasoning=False), 1)
            if digest is not None
        }
        for index in range(len(keys) - 1, -1, -1):
            position = places.get(keys[index] or b"")
            if position is not None:
                is_at_end = position == max(places.values())
                place = len(held) if is_at_end else position
                return index + 1, Spot(identifier, place), len(held)
        return None

    def load(self, identifier: str, stop: int | None) -> Conversation | None:
        """The first messages of a conversation, or None if there is none."""
        try:
            return self.store.get(identifier).load(0, stop)
        except (ConversationNotFoundError, StorageError):
            return None
