"""One stored conversation: append, load, fork, edit.

An instance is a handle and holds no messages; several handles, threads and processes may use the same
conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from cannery.backends import Change, Damage, Durability, Metadata
from cannery.errors import (
    ConflictError,
    DamageError,
    InputError,
    ProfileError,
)
from cannery.messages import AnyCanister, Conversation
from cannery.messages.canisters import is_canister
from cannery.storage.encoding import Turn
from cannery.storage.lineage import answered_here, check_position, find_edge, owner, segments
from cannery.storage.metadata import InForce, Link, check_tags, check_title, new_metadata
from cannery.storage.profiles import check_profile, fold_records, unfold_record

if TYPE_CHECKING:
    from cannery.storage.instructions import Exchange, Instructions
    from cannery.storage.store import Store
    from cannery.storage.trees import Tree

_ATTEMPTS = 100
# How many canisters are read at a time while iterating.
_PAGE = 256
_DURABILITIES = ("sync", "group", "os")


class Reading(Struct, frozen=True):
    """The readable part of a conversation, and the damage found."""

    canisters: Conversation
    damages: tuple[Damage, ...]

    def check(self) -> None:
        """Raise DamageError for the first damage that loses data."""
        for damage in self.damages:
            if not damage.is_lost:
                continue
            where = damage.where if damage.line is None else f"{damage.where}, line {damage.line}"
            raise DamageError(where, damage.problem)


class ForkFacts(Struct, frozen=True):
    """The facts of a fork; None keeps the parent's."""

    title: str | None = None
    tags: tuple[str, ...] | None = None
    identifier: str | None = None
    session: str | None = None
    link: Link | None = None


class StoredConversation:
    """A conversation in a store."""

    def __init__(self, store: Store, identifier: str) -> None:
        self._store = store
        self.identifier = identifier

    def __repr__(self) -> str:
        return f"StoredConversation({self.identifier!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoredConversation):
            return NotImplemented
        return (self._store, self.identifier) == (other._store, other.identifier)

    def __hash__(self) -> int:
        return hash(self.identifier)

    # Facts

    @property
    def metadata(self) -> Metadata:
        """Title, tags, times, profile, parent and position, as they are now."""
        return self._store.metadata_of(self.identifier)

    @property
    def title(self) -> str:
        """Its title; "" if it has none."""
        return self.metadata.title

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self.metadata.tags

    @property
    def profile(self) -> str:
        """The records it accepts: ``archive`` or ``chat``."""
        return self.metadata.profile

    @property
    def parent(self) -> str | None:
        """The conversation that it was forked from."""
        return self.metadata.parent

    @property
    def created(self) -> datetime:
        """When it was created."""
        return self.metadata.created

    @property
    def revision(self) -> str:
        """A token that changes with every append."""
        return str(len(self))

    @property
    def tree(self) -> Tree:
        """All forks of its oldest ancestor, with this one among them."""
        return self._store.tree(self.identifier)

    def instructions(self) -> list[Instructions]:
        """Its instructions and tools as versions, oldest first, each with the position where it began."""
        return self._store.instructions(self.identifier)

    def exchanges(self) -> list[Exchange]:
        """Its exchanges: where each begins, its model, and by what it was recognised."""
        return self._store.exchanges(self.identifier)

    def __len__(self) -> int:
        metadata = self.metadata
        return self._store.backend.end(self.identifier, metadata.position)

    # Writing

    def append(
        self,
        *canisters: AnyCanister | Iterable[AnyCanister],
        revision: str | None = None,
        durability: Durability | None = None,
        key: str | None = None,
    ) -> str:
        """Add canisters (or a Response) at the end, all or none; returns the new revision.

        With ``revision`` only if nothing was added since that revision (ConflictError otherwise). A second append with
        the same ``key`` adds nothing and returns the revision of the first.
        """
        added = list(flatten(canisters))
        if durability is not None:
            check_durability(durability)
        if not added:
            return self.revision
        look = self._store.latest
        for _ in range(_ATTEMPTS):
            raw, metadata = look(self.identifier)
            look = self._store.current
            change = self._append_change(added, (raw, metadata), revision, key)
            try:
                receipt = self._store.commit(change, durability)
            except ConflictError:
                if self._store.raw_metadata(self.identifier) == raw:
                    raise
                continue
            return str(receipt.stop)
        raise ConflictError(f"conversation {self.identifier!r} changes all the time")

    def append_change(self, added: list[AnyCanister], revision: str | None = None) -> Change | None:
        """The change that ``append`` makes, to be committed together with others; None if nothing is added."""
        if not added:
            return None
        return self._append_change(added, self._store.latest(self.identifier), revision, None)

    def _append_change(
        self,
        added: list[AnyCanister],
        known: tuple[bytes, Metadata],
        revision: str | None,
        key: str | None,
    ) -> Change:
        raw, metadata = known
        check_profile(metadata.profile, added)
        expected = None if revision is None else _position_of(revision)
        requires = {self.identifier: raw}
        return self._store.change(metadata, added, requires=requires, expected=expected, key=key)

    def save(self, record: Mapping[str, Any]) -> str:
        """Add one record of a chat; returns the new revision."""
        if self.profile != "chat":
            raise ProfileError(self.profile, "records are for the chat profile; use append")
        return self.append(unfold_record(record))

    def records(self) -> list[dict[str, Any]]:
        """The chat records, as they were saved."""
        return fold_records(self.load(hydrate=True))

    def rename(self, title: str) -> None:
        """Give it another title."""
        check_title(title)
        self._store.change_metadata(self.identifier, title=title)

    def retag(self, *tags: str) -> None:
        """Give it other tags."""
        check_tags(tags)
        self._store.change_metadata(self.identifier, tags=tags)

    def delete(self) -> None:
        """Delete it; its forks stay readable."""
        self._store.delete(self.identifier)

    # Reading

    def load(
        self, start: int = 0, stop: int | None = None, *, hydrate: bool = False
    ) -> Conversation:
        """Its canisters; content stays in the store until it is accessed, unless ``hydrate``.

        A negative ``start`` counts from the end. DamageError names the first damaged line; ``read`` returns the
        readable ones around it.
        """
        reading = self.read(start, stop, hydrate=hydrate)
        reading.check()
        return reading.canisters

    def __iter__(self) -> Iterator[AnyCanister]:
        """Its canisters in order, read a page at a time; canisters added meanwhile are included."""
        start = 0
        while page := self.load(start, start + _PAGE):
            yield from page
            start += len(page)

    def hydrate(self) -> Conversation:
        """Its canisters with all content loaded and verified."""
        return self.load(hydrate=True)

    def read(self, start: int = 0, stop: int | None = None, *, hydrate: bool = False) -> Reading:
        """Its readable canisters, and the damage."""
        metadata = self.metadata
        if start < 0:
            start = max(len(self) + start, 0)
        return read_positions(self._store, metadata, start, stop, hydrate=hydrate)

    # Forking

    def fork(
        self,
        at: int | None = None,
        *,
        edge: Literal["refuse", "move"] = "refuse",
        title: str | None = None,
        tags: tuple[str, ...] | None = None,
        identifier: str | None = None,
    ) -> StoredConversation:
        """A new conversation that shares the first ``at`` canisters with this one; all of them by default.

        A cut inside a tool exchange is refused, or moved to before the exchange.
        """
        end = len(self)
        position = end if at is None else check_position(at, end)
        moved = find_edge(position, end, self.load)
        if moved != position and edge != "move":
            raise InputError(
                f"position {position} lies inside a tool exchange that begins at {moved}; "
                "fork there, or with edge='move'"
            )
        return self._fork(moved, (), ForkFacts(title, tags, identifier))

    def branch(
        self,
        history: Sequence[AnyCanister],
        *,
        known: int,
        at: int,
        tags: tuple[str, ...] | None = None,
        identifier: str | None = None,
    ) -> StoredConversation:
        """A fork at a position, continued with a history whose first ``known`` canisters lie before it.

        Fork and canisters are one change. A cut inside a tool exchange is made before it, one beyond the end at the
        end, and the history continues from there.
        """
        position, added = self._cut(history, known, at)
        return self._fork(position, added, ForkFacts(None, tags, identifier))

    def branch_change(
        self, history: Sequence[AnyCanister], *, known: int, at: int, **more: Any
    ) -> Change:
        """The change that ``branch`` makes, to be committed together with others."""
        position, added = self._cut(history, known, at)
        return self._fork_change(position, added, **more)

    def _cut(
        self, history: Sequence[AnyCanister], known: int, at: int
    ) -> tuple[int, list[AnyCanister]]:
        """The position at which a fork leaves its parent, and the canisters that follow."""
        end = len(self)
        moved = find_edge(check_position(min(at, end), end), end, self.load)
        if moved != at:
            known = self._store.known_before(self.identifier, moved, history)
        return moved, answered_here(history, known, moved, self.load)

    def _fork(
        self, position: int, added: Sequence[AnyCanister], facts: ForkFacts
    ) -> StoredConversation:
        """A fork and its first own canisters, in one change."""
        for _ in range(_ATTEMPTS):
            change = self._fork_change(position, added, facts=facts)
            try:
                self._store.commit(change)
            except ConflictError:
                if self._store.raw_metadata(change.identifier) is not None:
                    raise
                continue
            return StoredConversation(self._store, change.identifier)
        raise ConflictError(f"conversation {self.identifier!r} changes all the time")

    def _fork_change(
        self,
        position: int,
        added: Sequence[AnyCanister],
        *,
        facts: ForkFacts,
        claims: Sequence[bytes] = (),
        key: str | None = None,
        turn: Turn | None = None,
    ) -> Change:
        _, metadata = self._store.current(self.identifier)
        check_profile(metadata.profile, added)
        parent = owner(metadata, self._store.any_metadata, position)
        link = facts.link or Link("", metadata.client, metadata.client_version)
        is_set_up = turn is not None and turn.is_version
        fork = new_metadata(
            title=metadata.title if facts.title is None else facts.title,
            tags=metadata.tags if facts.tags is None else facts.tags,
            profile=metadata.profile,
            model=metadata.model,
            parent=parent.id,
            position=position,
            identifier=facts.identifier,
            scope=metadata.scope,
            session=metadata.session if facts.session is None else facts.session,
            link=link,
            setup="" if is_set_up else InForce.inherited(metadata.setup),
        )
        requires = {parent.id: self._store.raw_metadata(parent.id)}
        return self._store.addition(fork, requires, added, claims=claims, key=key, turn=turn)

    def edit(self, position: int, canister: AnyCanister) -> StoredConversation:
        """A fork that ends with another canister at a position."""
        end = len(self)
        at = check_position(position, end)
        if at == end:
            raise InputError(f"there is no message {position} to edit")
        return self._fork(at, list(flatten([canister])), ForkFacts())


def read_positions(
    store: Store,
    metadata: Metadata,
    start: int = 0,
    stop: int | None = None,
    *,
    hydrate: bool = False,
) -> Reading:
    """The readable canisters of a conversation, deleted or not, from its own log and its ancestors'."""
    lines: list[bytes] = []
    damages: list[Damage] = []
    spans = segments(metadata, store.any_metadata, start, stop)
    for segment, found in zip(spans, store.backend.read_many(spans), strict=True):
        damages += found.damages
        missing = 0
        if segment.stop is not None:
            missing = segment.stop - found.start - len(found.lines)
        if missing > 0 and segment.identifier != metadata.id:
            where = f"conversations/{segment.identifier}/messages.jsonl"
            damages.append(Damage(where, f"ends {missing} line(s) before its fork"))
        lines += filter(None, found.lines) if found.damages else found.lines  # type: ignore[arg-type]
    canisters = store.codec(metadata.scope).decoder.decode(lines, hydrate=hydrate)
    return Reading(Conversation.trusted(canisters), tuple(damages))


def check_durability(durability: object) -> None:
    """Refuse an unknown level of durability."""
    if durability not in _DURABILITIES:
        raise InputError(f"no durability {durability!r}; known: {', '.join(_DURABILITIES)}")


def flatten(canisters: Iterable[Any]) -> Iterator[AnyCanister]:
    """The canisters one by one, from any nesting of arguments."""
    for item in canisters:
        if is_canister(item):
            yield item
        elif isinstance(item, Iterable) and not isinstance(item, (str, bytes, Mapping)):
            yield from flatten(item)
        else:
            raise InputError(f"expected a canister, got {type(item).__name__}")


def _position_of(revision: object) -> int:
    if not isinstance(revision, str) or not revision.isdecimal():
        raise InputError(f"not a revision: {revision!r}")
    return int(revision)
