"""The store of conversations: create, find, list, search, file, verify, collect garbage."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import Struct

from cannery.backends import (
    GRACE,
    VISIBLE,
    Backend,
    Backup,
    Change,
    Collection,
    Cursor,
    Damage,
    Durability,
    Encryption,
    Holder,
    Metadata,
    Progress,
    Receipt,
    Selection,
    Summary,
    check_identifier,
    check_name,
    is_reserved,
    keyed,
    open_backend,
)
from cannery.errors import (
    CanneryError,
    ConflictError,
    ConversationNotFoundError,
    DamageError,
    InputError,
    StorageError,
    StoreUnavailableError,
)
from cannery.messages import AnyCanister, Conversation
from cannery.storage.content import CacheMemory, ContentCache, StoredContent
from cannery.storage.conversation import StoredConversation, check_durability, flatten
from cannery.storage.decoding import Decoder
from cannery.storage.description import Entries, describe
from cannery.storage.encoding import THRESHOLD, Encoder, Turn
from cannery.storage.erasing import bury
from cannery.storage.filing import Filed, Filing, file_many, known_before
from cannery.storage.history import SpokenChain, recognition_digests, without_doubles
from cannery.storage.instructions import (
    Exchange,
    Instructions,
    read_exchanges,
    read_instructions,
)
from cannery.storage.metadata import NO_LINK, Link, check_unicode, decode_metadata, new_metadata
from cannery.storage.profiles import check_profile
from cannery.storage.recognition import Recognised, Spoken, recognise
from cannery.storage.retention import Expired, KeepDays, expire
from cannery.storage.searching import Hit, search
from cannery.storage.trees import Tree, build_tree
from cannery.storage.verification import Report, verify

_ATTEMPTS = 100
_MOST_KNOWN = 4096


class Codec(Struct, frozen=True):
    """Encodes and decodes the lines of one scope."""

    cache: ContentCache
    encoder: Encoder
    decoder: Decoder


class Store:
    """Conversations in a backend.

    A store with a ``scope`` sees and writes only that scope; without one it sees every scope and writes to "".
    """

    def __init__(
        self,
        backend: Backend,
        *,
        scope: str | None = None,
        durability: Durability = "sync",
        threshold: int = THRESHOLD,
        cache_bytes: int = 64 << 20,
    ) -> None:
        check_durability(durability)
        self.backend = backend
        self.scope = None if scope is None else check_name(scope, "scope")
        self.durability: Durability = durability
        self._threshold = threshold
        self._memory = CacheMemory(cache_bytes)
        self._codecs: dict[str, Codec] = {}
        self._latest: dict[str, tuple[bytes, Metadata]] = {}
        self._is_view = False

    def within(self, scope: str | None) -> Store:
        """The same store with another scope; closing it leaves this one open."""
        other = Store(
            self.backend, scope=scope, durability=self.durability, threshold=self._threshold
        )
        other._memory = self._memory
        other._codecs = self._codecs
        other._is_view = True
        return other

    @property
    def own_scope(self) -> str:
        """The scope of new conversations, within which histories are recognised."""
        return self.scope or ""

    def sees(self, metadata: Metadata) -> bool:
        """Whether this store sees the scope of a conversation."""
        return self.scope is None or metadata.scope == self.scope

    def codec(self, scope: str) -> Codec:
        """The encoder and decoder for the lines of a scope."""
        found = self._codecs.get(scope)
        if found is None:
            if len(self._codecs) > _MOST_KNOWN:
                self._codecs.clear()
            cache = ContentCache(self.backend.contents(scope), scope, self._memory)
            found = Codec(cache, Encoder(cache, self._threshold), Decoder(cache))
            self._codecs[scope] = found
        return found

    def digest_key(self, scope: str) -> bytes:
        """The key of the digests by which a scope recognises histories; empty for none."""
        return self.backend.catalogue.key(scope)

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
        """Release all resources; a second call has no effect."""
        if not self._is_view:
            self.backend.close()

    @property
    def recovered(self) -> tuple[Damage, ...]:
        """Problems that opening the store repaired, or could not repair."""
        return self.backend.recovered

    @property
    def encryption(self) -> Encryption | None:
        """The keys of the scopes, if the store is encrypted."""
        return self.backend.encryption

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
        """A new conversation with its first canisters, all or nothing.

        It gets a new id, or the given one; ConflictError if that is in use. An imported one has the time ``created``
        elsewhere.
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
            scope=self.own_scope,
        )
        added = list(flatten([canisters]))
        check_profile(metadata.profile, added)
        return self.add(metadata, {}, added)

    def add(
        self,
        metadata: Metadata,
        requires: Mapping[str, bytes | None],
        canisters: Sequence[AnyCanister] = (),
    ) -> StoredConversation:
        """A new conversation with the given metadata and first canisters of its own."""
        self.commit(self.addition(metadata, requires, canisters))
        return StoredConversation(self, metadata.id)

    def addition(
        self,
        metadata: Metadata,
        requires: Mapping[str, bytes | None],
        canisters: Sequence[AnyCanister] = (),
        *,
        claims: Sequence[bytes] = (),
        key: str | None = None,
        turn: Turn | None = None,
    ) -> Change:
        """The change that makes a new conversation."""
        if is_reserved(metadata.id):
            raise InputError(f"{metadata.id!r} is reserved for the keys of encrypted stores")
        return self.change(
            metadata,
            canisters,
            requires={**requires, metadata.id: None},
            claims=claims,
            key=key,
            turn=turn,
            changed=metadata,
        )

    def change(
        self,
        metadata: Metadata,
        canisters: Sequence[AnyCanister],
        *,
        requires: Mapping[str, bytes | None],
        expected: int | None = None,
        claims: Sequence[bytes] = (),
        key: str | None = None,
        turn: Turn | None = None,
        changed: Metadata | None = None,
    ) -> Change:
        """The change that adds canisters to a conversation; a turn is kept with the first of them.

        ``changed`` is its metadata if that changes too.
        """
        kept = turn if canisters else None
        lines, contents = self.codec(metadata.scope).encoder.encode_all(canisters, kept)
        return Change(
            identifier=metadata.id,
            requires=requires,
            metadata=changed,
            lines=lines,
            entries=Entries(canisters, self.digest_key(metadata.scope)),
            base=metadata.position,
            expected=expected,
            contents=contents,
            scope=metadata.scope,
            session=metadata.session,
            key=None if key is None else check_name(key, "key"),
            claims=claims,
        )

    def commit(self, change: Change, durability: Durability | None = None) -> Receipt:
        """Commit a change."""
        return self.backend.commit(change, durability or self.durability)

    def commit_each(self, changes: Sequence[Change]) -> list[Receipt | CanneryError]:
        """Commit several independent changes with one sync."""
        return self.backend.commit_each(changes, self.durability)

    def stage(self, pieces: Iterable[bytes]) -> StoredContent:
        """Store content that arrives in pieces, for a canister that is appended later.

        It is never in memory as a whole. Content to which no canister refers within a grace period is freed by gc.
        """
        cache = self.codec(self.own_scope).cache
        digest, size = cache.contents.stage(pieces)
        return StoredContent(digest, size, cache)

    def get(self, identifier: str) -> StoredConversation:
        """The conversation with an id; ConversationNotFoundError if there is none."""
        self.metadata_of(identifier)
        return StoredConversation(self, identifier)

    def handle(self, identifier: str) -> StoredConversation:
        """A handle, without checking whether the conversation exists."""
        return StoredConversation(self, identifier)

    def delete(self, identifier: str) -> None:
        """Delete a conversation; its forks stay readable, and gc frees everything else of it."""
        self.change_metadata(identifier, deleted=None)

    def erase(self, identifier: str) -> None:
        """Delete a conversation and remove all of its text from every file.

        Text that its forks share stays, and so does content to which other conversations of the scope refer.
        StorageError says why it could not be erased; it is deleted then.
        """
        nothing = {"title": "", "tags": (), "other_titles": ()}
        try:
            self._change(self._stored, identifier, {"deleted": None, **nothing})
        except DamageError:
            bury(self, identifier)
        # Content that was staged for it is removed too; another caller that staged the same content gets an error.
        freed = self.backend.collect(grace=0)
        self.backend.purge()
        # Files that gc marked for purging are purged now.
        kept = [one for one in freed.damages if one.is_lost]
        if kept:
            raise StorageError(f"{identifier} may not be erased: {kept[0]}")

    def raw_metadata(self, identifier: str) -> bytes | None:
        """Metadata in its stored form."""
        return self.backend.metadata(identifier)

    def current(self, identifier: str) -> tuple[bytes, Metadata]:
        """Metadata in its stored form and decoded; ConversationNotFoundError if it is deleted."""
        self._latest.pop(identifier, None)
        raw, metadata = self._stored(identifier)
        if metadata.deleted:
            raise ConversationNotFoundError(identifier)
        if len(self._latest) > _MOST_KNOWN:
            self._latest.clear()
        self._latest[identifier] = raw, metadata
        return raw, metadata

    def _stored(self, identifier: str) -> tuple[bytes, Metadata]:
        """Metadata in its stored form and decoded, of a conversation that is deleted or not."""
        raw = self.backend.metadata(check_identifier(identifier))
        metadata = None if raw is None else decode_metadata(raw, identifier)
        if raw is None or metadata is None or not self.sees(metadata):
            raise ConversationNotFoundError(identifier)
        return raw, metadata

    def latest(self, identifier: str) -> tuple[bytes, Metadata]:
        """Metadata as this process saw it last: sufficient for a change that requires it to be current."""
        return self._latest.get(identifier) or self.current(identifier)

    def metadata_of(self, identifier: str) -> Metadata:
        """The metadata of a conversation that is not deleted."""
        return self.current(identifier)[1]

    def any_metadata(self, identifier: str) -> Metadata:
        """The metadata of a conversation, deleted or not."""
        return self._stored(identifier)[1]

    def change_metadata(self, identifier: str, **changes: Any) -> None:
        """Change some metadata of a conversation; ``deleted`` sets the time to now."""
        self._change(self.current, identifier, changes)

    def _change(
        self,
        read: Callable[[str], tuple[bytes, Metadata]],
        identifier: str,
        changes: Mapping[str, Any],
    ) -> None:
        for _ in range(_ATTEMPTS):
            raw, metadata = read(identifier)
            changed = metadata.changed(**changes)
            if "deleted" in changes:
                changed = msgspec.structs.replace(changed, deleted=changed.updated)
            change = Change(
                identifier=identifier,
                requires={identifier: raw},
                metadata=changed,
                base=metadata.position,
                scope=metadata.scope,
                session=metadata.session,
            )
            try:
                self.commit(change)
            except ConflictError:
                continue
            self._latest.pop(identifier, None)
            return
        raise ConflictError(f"conversation {identifier!r} changes all the time")

    def instructions(self, identifier: str) -> list[Instructions]:
        """The instructions and tools of a conversation as versions, oldest first."""
        return read_instructions(self, self.metadata_of(identifier))

    def exchanges(self, identifier: str) -> list[Exchange]:
        """The facts of a conversation's exchanges."""
        return read_exchanges(self, self.metadata_of(identifier))

    def tree(self, identifier: str) -> Tree:
        """All forks of a conversation's oldest ancestor."""
        self.metadata_of(identifier)
        return build_tree(self.backend.catalogue.tree(identifier), identifier)

    # Queries

    def list(  # noqa: PLR0913 - what a list can be narrowed to
        self,
        *,
        tag: str | None = None,
        profile: str | None = None,
        model: str | None = None,
        role: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        client: str | None = None,
        session: str | None = None,
        kinds: Iterable[str] | None = VISIBLE,
        limit: int | None = None,
        after: Cursor | None = None,
    ) -> tuple[Summary, ...]:
        """The conversations, most recently changed first; ``after`` is the ``cursor`` of a page's last one.

        ``kinds`` selects kinds (None: all); side requests of clients, such as for titles, are not shown by default.
        """
        times = {"since": since, "until": until}
        chosen = {"tag": tag, "profile": profile, "model": model, "role": role, "client": client}
        wanted = None if kinds is None else tuple(kinds)
        selection = self._select(kinds=wanted, session=session, **chosen, **times)
        return tuple(self.backend.catalogue.list(selection, after, limit))

    def search(  # noqa: PLR0913 - what a search can be narrowed to
        self,
        text: str,
        *,
        role: str | None = None,
        tag: str | None = None,
        profile: str | None = None,
        model: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        client: str | None = None,
        limit: int = 50,
    ) -> tuple[Hit, ...]:
        """The messages that contain all of the words, best first.

        ``role``, ``since`` and ``until`` concern the message; the rest concerns its conversation.
        """
        times = {"since": since, "until": until}
        chosen = {"tag": tag, "profile": profile, "model": model, "role": role, "client": client}
        return search(self, text, self._select(kinds=VISIBLE, **chosen, **times), limit)

    def _select(self, **chosen: Any) -> Selection:
        for value in chosen.values():
            if isinstance(value, str):
                check_unicode(value)
        return Selection(scope=self.scope, **chosen)

    def begin_with(self, text: str, limit: int = 10) -> tuple[str, ...]:
        """The conversations whose id has a prefix."""
        return tuple(self.backend.catalogue.begin_with(self.scope, text, limit))

    def recognise(self, history: Iterable[AnyCanister], session: str | None = None) -> Recognised:
        """The match for a history that ``file`` would use; nothing is written."""
        whole = Conversation.trusted(without_doubles(Conversation(history)))
        spoken = Spoken.of(whole, session or "", self.digest_key(self.own_scope))
        return recognise(self, [spoken])[0]

    def holders(self, digests: Iterable[bytes], limit: int = 16) -> tuple[Holder, ...]:
        """The places in this scope of digests of single canisters (``messages.digest``).

        Any run of a history can be looked up in one call; of each digest the latest few places are returned.
        """
        key = self.digest_key(self.own_scope)
        asked = {keyed(key, digest) if key else digest: digest for digest in digests}
        found = self.backend.catalogue.holders(self.own_scope, asked, limit)
        return tuple(one._replace(digest=asked[one.digest]) for one in found)

    def known_before(self, identifier: str, position: int, history: Sequence[AnyCanister]) -> int:
        """How many canisters of a history lie before a position of a conversation that shares them."""
        scope = self.any_metadata(identifier).scope
        digests = recognition_digests(history, SpokenChain(self.digest_key(scope)))
        return known_before(self, identifier, position, digests)

    def file(
        self,
        canisters: Iterable[AnyCanister],
        *,
        session: str | None = None,
        title: str = "",
        tags: tuple[str, ...] = (),
        model: str | None = None,
        identifier: str | None = None,
        link: Link = NO_LINK,
        turn: Turn | None = None,
    ) -> Filed:
        """File a history in one atomic step: find its conversation, append new messages, fork if it was edited.

        Histories of different sessions are never joined: a history that begins like another session's becomes a fork of
        it. Histories without a session share a common prefix and fork where they diverge. A new conversation or fork
        gets the given id, and ``link`` is its relation to its parent. Changed instructions are kept with the added
        messages.
        """
        filing = Filing(
            canisters,
            title,
            tags,
            model=model,
            identifier=identifier,
            session=session,
            link=link,
            turn=turn,
        )
        (filed,) = file_many(self, [filing])
        if isinstance(filed, CanneryError):
            raise filed
        return filed

    def file_many(
        self, filings: Iterable[Filing | Iterable[AnyCanister]]
    ) -> tuple[Filed | CanneryError, ...]:
        """File several histories as ``file`` would one after the other, with one look-up and one sync for all.

        Each is a ``Filing``, with the arguments of ``file``, or a history alone. The result has, in order, where each
        was filed, or the error that ``file`` would have raised; filed histories are durable, whatever happened to the
        others. Histories that may continue each other take more than one sync. A filing that has its own ``match``
        (None: no match) is looked up only if that turns out to be wrong.
        """
        return file_many(self, filings)

    def catch_up(self) -> None:
        """Update the catalogue with recent changes, so that the next query does not wait for it."""
        self.backend.catalogue.catch_up()

    def rebuild_index(self, progress: Progress | None = None) -> None:
        """Rebuild the catalogue from the stored data, while others read and write."""
        if self.backend.is_read_only:
            raise StoreUnavailableError(
                "the store can only be read: its index is in memory, and new"
            )
        self.backend.catalogue.rebuild(progress)

    # Maintenance

    def verify(self, progress: Progress | None = None) -> Report:
        """Re-derive every hash and report everything that is wrong."""
        return verify(self, progress)

    def backup(self, path: str | os.PathLike[str], progress: Progress | None = None) -> Backup:
        """Copy a consistent snapshot to an unused path; others may write meanwhile.

        The copy is a store; ``restore`` makes another from it and verifies that.
        """
        if self.scope is not None:
            raise InputError("a backup is of all scopes: open the store without one")
        return self.backend.backup(os.fsdecode(path), progress)

    def expire(
        self,
        keep: KeepDays | float,
        *,
        now: datetime | None = None,
        dry_run: bool = False,
        told: Callable[[Expired], object] = lambda _: None,
    ) -> tuple[Expired, ...]:
        """Delete conversations unchanged for longer than their scope keeps them; with ``dry_run`` only list them.

        A single number of days applies to every scope that this store sees. ``collect_garbage`` frees them afterwards.
        """
        days = keep if isinstance(keep, KeepDays) else KeepDays(keep)
        return expire(self, days, now=now, dry_run=dry_run, told=told)

    def collect_garbage(
        self,
        *,
        grace: float = GRACE,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Collection:
        """Free everything that is unreachable; with ``dry_run`` only list it.

        Content that was staged less than ``grace`` seconds ago stays.
        """
        return self.backend.collect(grace=grace, dry_run=dry_run, progress=progress)


def open_store(
    location: str | os.PathLike[str],
    scope: str | None = None,
    *,
    durability: Durability = "sync",
    threshold: int = THRESHOLD,
    cache_bytes: int = 64 << 20,
    encryption_key: str | None = None,
) -> Store:
    """Open the store at a path or URL, or create one there.

    With a ``scope`` only that scope is seen and written; without one, every scope is seen and "" written.
    ``encryption_key`` says where the keys of an encrypted store are: ``file:PATH`` or ``command:WORDS``, with
    ``{scope}`` in it.
    """
    return Store(
        open_backend(location, describe, encryption_key=encryption_key),
        scope=scope,
        durability=durability,
        threshold=threshold,
        cache_bytes=cache_bytes,
    )
