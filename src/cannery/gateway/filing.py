"""Putting planned exchanges into the store, on the recorder's threads.

A new conversation and its messages, or a fork and its messages, are one change: either all of it
is there or nothing. A plan that no longer fits, because another process was faster, is carried out
as a fork; one whose beginning was dropped while the store was down is filed whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cannery.errors import ConflictError, ConversationNotFoundError, StorageError
from cannery.gateway.entries import Entry
from cannery.gateway.identifiers import new_identifier
from cannery.gateway.ledger import Digest, Plan, Spot, named_key
from cannery.messages import AnyCanister, Conversation, conversation_digest
from cannery.storage import Filed, Filing, Match, Store


class Filer:
    """Files in one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._within: dict[str, Filer] = {}

    def within(self, scope: str | None) -> Filer:
        """What files in one scope of the store; None for all of it, as a person's own machine has it."""
        if scope is None:
            return self
        found = self._within.get(scope)
        if found is None:
            found = self._within[scope] = Filer(self.store.within(scope))
        return found

    def file_many(self, entries: Iterable[Entry]) -> None:
        """File with one sync a scope what can be done as it is planned, and say in each entry where it is.

        What is refused is left as it is: it needs more than that.
        """
        by_scope: dict[str | None, list[tuple[Entry, Plan]]] = {}
        for entry in entries:
            if entry.plan is not None and entry.plan.kind != "known":
                by_scope.setdefault(entry.scope, []).append((entry, entry.plan))
        for scope, together in by_scope.items():
            filings = [_filing(entry, plan) for entry, plan in together]
            many = self.within(scope).store.file_many(filings)
            for (entry, _), filed in zip(together, many, strict=True):
                if isinstance(filed, Filed):
                    entry.filed = filed.identifier

    def file(self, plan: Plan, history: Sequence[AnyCanister], model: str | None) -> str:
        """File a history as planned; the id of its conversation."""
        rest = history[plan.known :]
        if plan.kind == "known":
            return plan.identifier
        if plan.kind == "new":
            return self._create(plan, rest, model)
        if plan.kind == "append":
            return self._append(plan, history, rest, model)
        return self._fork(plan, history, str(plan.parent), plan.identifier, model)

    def _create(self, plan: Plan, rest: Sequence[AnyCanister], model: str | None) -> str:
        try:
            made = self.store.create(model=model, identifier=plan.identifier, canisters=rest)
        except ConflictError:
            if self._holds(plan.identifier, 0, rest) or self._fill(plan.identifier, rest):
                return plan.identifier
            # A conversation of that name is there, and holds something else.
            made = self.store.create(model=model, canisters=rest)
        return made.identifier

    def _fill(self, identifier: str, rest: Sequence[AnyCanister]) -> bool:
        """Put a history into a conversation that was made empty; False if it is not."""
        try:
            self.store.handle(identifier).append(rest, revision="0")
        except (ConflictError, ConversationNotFoundError):
            return False
        return True

    def _append(
        self,
        plan: Plan,
        history: Sequence[AnyCanister],
        rest: Sequence[AnyCanister],
        model: str | None,
    ) -> str:
        if not rest:
            return plan.identifier
        conversation = self.store.handle(plan.identifier)
        try:
            conversation.append(rest, revision=str(plan.position))
        except ConversationNotFoundError:
            # Its beginning was never filed, so it is filed now.
            return self._create(plan, history, model)
        except ConflictError:
            if self._holds(plan.identifier, plan.position, rest):
                return plan.identifier
            if len(conversation) < plan.position:
                return self.store.file(history, model=model).identifier
            return self._fork(plan, history, plan.identifier, new_identifier(), model)
        return plan.identifier

    def _fork(
        self,
        plan: Plan,
        history: Sequence[AnyCanister],
        parent: str,
        identifier: str,
        model: str | None,
    ) -> str:
        try:
            conversation = self.store.get(parent)
        except ConversationNotFoundError:
            return self._create(plan, history, model)
        try:
            fork = conversation.branch(
                history, known=plan.known, at=plan.position, tags=(), identifier=identifier
            )
        except ConflictError:
            if not self._holds(identifier, 0, history):
                raise
            return identifier
        return fork.identifier

    def _holds(self, identifier: str, start: int, said: Sequence[AnyCanister]) -> bool:
        """Whether a conversation says just this from a position on.

        A change that was refused may have been made all the same, if the store broke down meanwhile.
        """
        try:
            held = self.store.get(identifier).load(start)
        except ConversationNotFoundError:
            return False
        return len(held) == len(said) and conversation_digest(held) == conversation_digest(said)

    def mark(self, identifier: str, tag: str) -> None:
        """Tag a conversation."""
        tags = self.store.metadata_of(identifier).tags
        if tag not in tags:
            self.store.change_metadata(identifier, tags=(*tags, tag))

    def look_up(self, digests: Sequence[Digest | None]) -> tuple[int, Spot, int] | None:
        """The longest beginning of a history that the store holds: how much, where, and how long it is there."""
        match = self.store.match(digests)
        if match is None:
            return None
        return match.known, Spot(match.identifier, match.position), match.length

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

    def load(self, identifier: str, stop: int | None) -> tuple[Conversation, int] | None:
        """The first messages of a conversation and how many it has in all, or None if there is none."""
        try:
            conversation = self.store.get(identifier)
            return conversation.load(0, stop), len(conversation)
        except (ConversationNotFoundError, StorageError):
            return None


def _filing(entry: Entry, plan: Plan) -> Filing:
    """A plan as the store takes it."""
    match = None
    if plan.kind == "append":
        match = Match(plan.known, plan.identifier, plan.position, plan.position)
    elif plan.kind == "fork":
        # Something follows there, however much it is.
        match = Match(plan.known, str(plan.parent), plan.position, plan.position + 1)
    history, model = Conversation.trusted(entry.history()), entry.model()
    return Filing(history, model=model, identifier=plan.identifier, match=match, is_exact=True)
