"""A store of conversations: make, find, list, search, file, verify, and free what nothing reaches."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from cannery.backends import (
    Backend,
    Change,
    Collection,
    Damage,
    Durability,
    Progress,
    Receipt,
    check_identifier,
    open_backend,
)
from cannery.errors import (
    CanneryError,
    ConflictError,
    ConversationNotFoundError,
    InputError,
    StoreUnavailableError,
)
from cannery.messages import AnyCanister, prefix_digests
from cannery.storage.content import ContentCache
from cannery.storage.conversation import StoredConversation, check_durability, flatten
from cannery.storage.decoding import Decoder
from cannery.storage.encoding import THRESHOLD, Encoder
from cannery.storage.filing import Filing, file_many
from cannery.storage.index import Index, Row, rows
from cannery.storage.indexing import catch_up, chain_up, search_up, sortable
from cannery.storage.lineage import still_needed
from cannery.storage.metadata import Metadata, decode_metadata, new_metadata
from cannery.storage.profiles import check_profile
from cannery.storage.recent import Recent, Write
from cannery.storage.recognition import Filed, Match, file_history, known_before, match_history
from cannery.storage.trees import Tree, build_tree, root_of
from cannery.storage.verification import Report, verify
from cannery.storage.words import query_of, snippet, words_of

_ATTEMPTS = 100
_MOST_KNOWN = 4096
_TAGGED = "EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?)"
# A fork has the roles of what it shares with its ancestors, too.
_SPOKEN = """EXISTS (
    WITH RECURSIVE line (id, until) AS (
        SELECT conversations.id, conversations.length
        UNION SELECT c.parent, min(line.until, c.position)
        FROM line JOIN conversations c USING (id) WHERE c.parent IS NOT NULL
    ) SELECT 1 FROM line JOIN conversations c USING (id) JOIN roles r USING (number)
    WHERE r.role = ? AND r.position <= line.until
)"""


T = TypeVar("T")
Part: TypeAlias = Callable[["Store", sqlite3.Connection], bool]
"""Brings a part of the index up to date; False if more is to be done."""


class Summary(Struct, frozen=True):
    """A conversation in a list."""

    identifier: str
    title: str
    tags: tuple[str, ...]
    created: datetime
    updated: datetime
    profile: str
    model: str | None
    parent: str | None
    position: int
    count: int


class Hit(Struct, frozen=True):
    """A message that a search found."""

    identifier: str
    title: str
    position: int
    role: str
    snippet: str
    timestamp: datetime


class Store:
    """Conversations behind a backend."""

    def __init__(
        self,
        backend: Backend,
        *,
        durability: Durability = "sync",
        threshold: int = THRESHOLD,
        cache_bytes: int = 64 << 20,
    ) -> None:
        check_durability(durability)
        self.backend = backend
        self.durability: Durability = durability
        self.cache = ContentCache(backend, cache_bytes)
        self.encoder = Encoder(self.cache, threshold)
        self.decoder = Decoder(self.cache)
        self.index = Index(backend.index_path)
        self.recent = Recent()
        self._latest: dict[str, tuple[bytes, Metadata]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of everything; closing twice is fine."""
        self.index.close()
        self.backend.close()

    @property
    def recovered(self) -> tuple[Damage, ...]:
        """What opening found and mended, or could not mend."""
        return self.backend.recovered

    # Conversations

    def create(
        self,
        title: str = "",
        profile: str = "archive",
        tags: Iterable[str] = (),
        model: str | None = None,
        *,
        identifier: str | None = None,
        created: datetime | None = None,
        canisters: Iterable[AnyCanister] = (),
    ) -> StoredConversation:
        """A new conversation with its first canisters, all of it or nothing.

        It gets a new id, or the one that is given; ConflictError if that is taken. One that began elsewhere says when
        it was ``created`` there.
        """
        if isinstance(tags, str):
            raise InputError("tags are several words, not one text")
        metadata = new_metadata(
            title=title,
            tags=tuple(tags),
            profile=profile,
            model=model,
            identifier=identifier,
            created=created,
        )
        added = list(flatten([canisters]))
        check_profile(metadata.profile, added, set())
        return self.add(metadata, {}, added)

    def add(
        self,
        metadata: Metadata,
        requires: Mapping[str, bytes | None],
        canisters: Sequence[AnyCanister] = (),
    ) -> StoredConversation:
        """A new conversation with given metadata and first canisters of its own."""
        self.commit(self.addition(metadata, requires, canisters))
        return StoredConversation(self, metadata.id)

    def addition(
        self,
        metadata: Metadata,
        requires: Mapping[str, bytes | None],
        canisters: Sequence[AnyCanister] = (),
    ) -> Write:
        """The change that makes a new conversation."""
        lines, contents = self.encoder.encode_all(canisters)
        change = Change(
            identifier=metadata.id,
            requires={**requires, metadata.id: None},
            metadata=metadata.encode(),
            lines=lines,
            base=metadata.position,
            contents=contents,
        )
        return Write(change, metadata, canisters)

    def commit(self, write: Write, durability: Durability | None = None) -> Receipt:
        """Make a change, and remember it."""
        receipt = self.backend.commit(write.change, durability or self.durability)
        self.recent.note(write, receipt)
        return receipt

    def commit_each(self, writes: Sequence[Write]) -> list[Receipt | CanneryError]:
        """Make several changes with one sync, each for itself, and remember them."""
        changes = [write.change for write in writes]
        receipts = self.backend.commit_each(changes, self.durability)
        for write, receipt in zip(writes, receipts, strict=True):
            if isinstance(receipt, Receipt):
                self.recent.note(write, receipt)
        return receipts

    def get(self, identifier: str) -> StoredConversation:
        """The conversation with an id; ConversationNotFoundError if there is none."""
        self.metadata_of(identifier)
        return StoredConversation(self, identifier)

    def handle(self, identifier: str) -> StoredConversation:
        """A handle without asking whether the conversation is there."""
        return StoredConversation(self, identifier)

    def delete(self, identifier: str) -> None:
        """Delete a conversation; its forks stay readable, and gc frees what nothing needs."""
        self.change_metadata(identifier, deleted=None)

    def raw_metadata(self, identifier: str) -> bytes | None:
        """Metadata as it is stored."""
        return self.backend.metadata(identifier)

    def current(self, identifier: str) -> tuple[bytes, Metadata]:
        """Metadata as it is stored and as it reads; ConversationNotFoundError if it is deleted."""
        raw = self.backend.metadata(check_identifier(identifier))
        metadata = None if raw is None else decode_metadata(raw, identifier)
        if raw is None or metadata is None or metadata.deleted is not None:
            self._latest.pop(identifier, None)
            raise ConversationNotFoundError(identifier)
        if len(self._latest) > _MOST_KNOWN:
            self._latest.clear()
        self._latest[identifier] = raw, metadata
        return raw, metadata

    def latest(self, identifier: str) -> tuple[bytes, Metadata]:
        """Metadata as this process has seen it last: good enough for a change that requires it to be so."""
        return self._latest.get(identifier) or self.current(identifier)

    def metadata_of(self, identifier: str) -> Metadata:
        """The metadata of a conversation that is there."""
        return self.current(identifier)[1]

    def any_metadata(self, identifier: str) -> Metadata:
        """The metadata of a conversation, deleted or not."""
        raw = self.backend.metadata(check_identifier(identifier))
        if raw is None:
            raise ConversationNotFoundError(identifier)
        return decode_metadata(raw, identifier)

    def change_metadata(self, identifier: str, **changes: Any) -> None:
        """Change some facts about a conversation; ``deleted`` means now."""
        for _ in range(_ATTEMPTS):
            raw, metadata = self.current(identifier)
            changed = metadata.changed(**changes)
            if "deleted" in changes:
                changed = msgspec.structs.replace(changed, deleted=changed.updated)
            change = Change(
                identifier=identifier,
                requires={identifier: raw},
                metadata=changed.encode(),
                base=metadata.position,
            )
            try:
                self.commit(Write(change, changed))
            except ConflictError:
                continue
            return
        raise ConflictError(f"conversation {identifier!r} changes all the time")

    def tree(self, identifier: str) -> Tree:
        """All forks of a conversation's oldest ancestor."""
        self.metadata_of(identifier)
        everything = self._everything()
        return build_tree(root_of(identifier, everything), everything)

    def _everything(self) -> dict[str, Metadata]:
        found = {}
        for identifier in self.backend.identifiers():
            try:
                found[identifier] = self.any_metadata(identifier)
            except CanneryError:
                continue
        return found

    # Finding

    def list(
        self,
        *,
        tag: str | None = None,
        profile: str | None = None,
        model: str | None = None,
        role: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> tuple[Summary, ...]:
        """The conversations, those first that changed last."""
        where, values = _conditions(
            (_TAGGED, tag),
            ("profile = ?", profile),
            ("model = ?", model),
            (_SPOKEN, role),
            ("updated >= ?", None if since is None else sortable(since)),
            ("updated <= ?", None if until is None else sortable(until)),
        )
        order = f"NOT deleted{where} ORDER BY updated DESC, id DESC LIMIT ?"
        values.append(-1 if limit is None else limit)

        def work(connection: sqlite3.Connection) -> tuple[Summary, ...]:
            return tuple(_summary(row) for row in rows(connection, order, values))

        return self.use_index(_listed if role is None else chain_up, work)

    def search(
        self,
        text: str,
        *,
        role: str | None = None,
        tag: str | None = None,
        profile: str | None = None,
        model: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
    ) -> tuple[Hit, ...]:
        """The messages that hold all of the words, best first.

        ``role``, ``since`` and ``until`` are about the message; the rest about its conversation.
        """
        query = query_of(text)
        if not query:
            return ()
        where, values = _conditions(
            ("p.role = ?", role),
            (_TAGGED, tag),
            ("profile = ?", profile),
            ("model = ?", model),
            ("p.said >= ?", None if since is None else sortable(since)),
            ("p.said <= ?", None if until is None else sortable(until)),
        )
        sql = (
            "SELECT conversations.number, p.position FROM texts t"  # noqa: S608 - conditions are ours
            " JOIN places p ON p.place = t.rowid JOIN conversations USING (number)"
            f" WHERE texts MATCH ? AND NOT deleted{where} ORDER BY rank LIMIT ?"
        )

        def work(connection: sqlite3.Connection) -> list[tuple[Row, int]]:
            found = connection.execute(sql, (query, *values, limit)).fetchall()
            return [
                (row, position)
                for number, position in found
                for row in rows(connection, "number = ?", (number,))
            ]

        hits = []
        for row, position in self.use_index(search_up, work):
            for canister in self.handle(row.id).read(position, position + 1).canisters:
                shown = snippet(words_of(canister), text)
                said_by, when = canister.role.value, canister.timestamp
                hits.append(Hit(row.id, row.title, position, said_by, shown, when))
        return tuple(hits)

    def match(self, digests: Sequence[bytes | None]) -> Match | None:
        """The longest beginning of a history that a conversation holds.

        ``digests`` are those after each of its canisters, as ``recognition_digests`` gives them.
        """
        return match_history(self, digests)

    def known_before(self, identifier: str, position: int, history: Sequence[AnyCanister]) -> int:
        """How many canisters of a history lie before a position of a conversation that shares them."""
        digests = list(prefix_digests(history, reasoning=False))
        return known_before(self, identifier, position, digests)

    def file(
        self,
        canisters: Iterable[AnyCanister],
        *,
        title: str = "",
        tags: tuple[str, ...] = (),
        model: str | None = None,
        identifier: str | None = None,
    ) -> Filed:
        """Put a history where it belongs: find it, add what is new, fork what was edited.

        If a conversation or a fork has to be made, it gets the given id.
        """
        return file_history(
            self, canisters, title=title, tags=tags, model=model, identifier=identifier
        )

    def file_many(
        self, filings: Iterable[Filing | Iterable[AnyCanister]]
    ) -> tuple[Filed | CanneryError, ...]:
        """File several histories as ``file`` would one after the other, with one look-up and one sync for all.

        Each is a ``Filing``, which has what ``file`` takes, or a history alone. For each, in order, where it was
        filed, or the error that ``file`` would have raised; what was filed is durable, whatever became of the others.
        Histories that may go on from each other, and forks, take more than one sync. A filing that says itself where
        its history goes on (``match``; None: nowhere) is looked up only if that turns out to be wrong.
        """
        return file_many(self, filings)

    def rebuild_index(self, progress: Progress | None = None) -> None:
        """Throw the index away and build it again; ``progress`` hears of conversations, each counted three times."""
        if self.backend.is_read_only:
            raise StoreUnavailableError(
                "the store can only be read: its index is in memory, and new"
            )
        self.index.discard()
        total = 3 * len(list(self.backend.identifiers()))
        done = 0

        def step() -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(min(done, total), total)

        self.index.use(lambda connection: catch_up(self, connection, step))
        while not self.index.use(lambda connection: chain_up(self, connection, step)):
            pass
        while not self.index.use(lambda connection: search_up(self, connection, step)):
            pass

    def use_index(self, part: Part, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do something with the index when a part of it is up to date.

        If much is missing, it is added in several transactions, so that others have their turn.
        """

        def attempt(connection: sqlite3.Connection) -> tuple[T] | None:
            catch_up(self, connection)
            return (work(connection),) if part(self, connection) else None

        while (found := self.index.use(attempt)) is None:
            pass
        return found[0]

    # Keeping

    def verify(self, progress: Progress | None = None) -> Report:
        """Derive every hash again and name everything that is wrong."""
        return verify(self, progress)

    def collect_garbage(
        self, *, dry_run: bool = False, progress: Progress | None = None
    ) -> Collection:
        """Free what nothing reaches; with ``dry_run`` say what that is."""

        def needs(everything: Mapping[str, bytes]) -> Mapping[str, int | None]:
            return still_needed(
                {
                    identifier: decode_metadata(raw, identifier)
                    for identifier, raw in everything.items()
                }
            )

        return self.backend.collect(needs, dry_run=dry_run, progress=progress)


def _listed(store: Store, connection: sqlite3.Connection) -> bool:  # noqa: ARG001 - a part like others
    """What a list needs is there when the index has caught up."""
    return True


def _conditions(*chosen: tuple[str, Any]) -> tuple[str, list[Any]]:
    """The conditions that somebody asked for, and their values."""
    used = [(condition, value) for condition, value in chosen if value is not None]
    return "".join(f" AND {condition}" for condition, _ in used), [value for _, value in used]


def _summary(row: Row) -> Summary:
    return Summary(
        identifier=row.id,
        title=row.title,
        tags=msgspec.json.decode(row.tags, type=tuple[str, ...]),
        created=datetime.fromisoformat(row.created),
        updated=datetime.fromisoformat(row.updated),
        profile=row.profile,
        model=row.model,
        parent=row.parent,
        position=row.position,
        count=row.length,
    )


def open_store(
    location: str | os.PathLike[str],
    *,
    durability: Durability = "sync",
    threshold: int = THRESHOLD,
    cache_bytes: int = 64 << 20,
) -> Store:
    """Open the store at a path or URL, or make one there."""
    return Store(
        open_backend(location),
        durability=durability,
        threshold=threshold,
        cache_bytes=cache_bytes,
    )
