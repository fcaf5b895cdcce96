"""The catalogue of an encrypted store: queries with tokens, decrypts the results, and searches by decrypting.

A search decrypts the conversations of a scope, most recently changed first, until it has found enough: a word index,
even a keyed one, would reveal the text to anyone who can count words. Its cost grows with the scope.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from cannery.backends._contract import (
    Branch,
    Cursor,
    Found,
    Holder,
    Match,
    Metadata,
    Progress,
    Selection,
    Summary,
    Term,
)
from cannery.backends._encryption.keyring import Keyring
from cannery.backends._encryption.metadata import open_title, told
from cannery.backends._encryption.outside import is_reserved
from cannery.backends._encryption.search import Reader, Search
from cannery.errors import CanneryError, KeyUnavailableError

_PAGE = 100


class EncryptedCatalogue:
    """The decrypted answers of another catalogue."""

    def __init__(self, reader: Reader, ring: Keyring) -> None:
        self._reader = reader
        self._inner = reader.inner.catalogue
        self._ring = ring

    def key(self, scope: str) -> bytes:
        """The key of a scope's digests."""
        return self._ring.keys(scope).digests

    def match(
        self, scope: str, session: str | None, histories: Sequence[Sequence[bytes | None]]
    ) -> list[Match | None]:
        """The longest prefix of each history that a conversation of a scope and session holds."""
        named = session and self._ring.keys(scope).token("session", session)
        return self._inner.match(scope, named, histories)

    def holders(self, scope: str, digests: Iterable[bytes], limit: int = 16) -> list[Holder]:
        """The places in a scope of digests of single canisters; the latest few places of each."""
        found = self._inner.holders(scope, digests, limit)
        known = self._metadata({one.identifier for one in found if one.session})
        return [
            one._replace(session=known[one.identifier].session) if one.session else one
            for one in found
            if not one.session or one.identifier in known
        ]

    def said_before(self, identifier: str, position: int) -> tuple[bytes | None, int] | None:
        """The digest of a conversation's history before a position, and where its last content ends."""
        return self._inner.said_before(identifier, position)

    def _metadata(self, identifiers: Iterable[str]) -> dict[str, Metadata]:
        found = self._reader.metadata_many(identifiers)
        return {name: msgspec.json.decode(raw, type=Metadata) for name, raw in found.items()}

    # Lists

    def list(
        self, selection: Selection, after: Cursor | None = None, limit: int | None = None
    ) -> Sequence[Summary]:
        """Conversations after a cursor, most recently changed first."""
        found: list[Summary] = []
        for kept in self._kept(selection, after, limit):
            if limit is not None and len(found) >= limit:
                break
            found.append(self._opened(kept))
        return found

    def _kept(
        self, selection: Selection, after: Cursor | None, limit: int | None
    ) -> Iterator[Summary]:
        """Conversations in stored form; tokens differ between scopes, so each scope is queried separately."""
        is_named = any((selection.tag, selection.model, selection.client, selection.session))
        if selection.scope is not None or not is_named:
            yield from self._pages(self._tokens(selection), after, limit)
            return
        lists = []
        for scope in self._ring.scopes():
            with contextlib.suppress(KeyUnavailableError):
                named = self._tokens(msgspec.structs.replace(selection, scope=scope))
                lists.append(self._pages(named, after, limit))
        yield from heapq.merge(*lists, key=lambda one: one.cursor, reverse=True)

    def _pages(
        self, selection: Selection, after: Cursor | None, limit: int | None
    ) -> Iterator[Summary]:
        size = None if limit is None else limit + 1
        while page := self._inner.list(selection, after, size):
            yield from (one for one in page if not is_reserved(one.identifier))
            if size is None or len(page) < size:
                return
            after = page[-1].cursor

    def _tokens(self, selection: Selection) -> Selection:
        """A selection with the tokens of its scope."""
        names = {
            kind: name
            for kind in ("tag", "model", "client", "session")
            if (name := getattr(selection, kind))
        }
        if not names or selection.scope is None:
            return selection
        keys = self._ring.known(selection.scope)
        if keys is None:
            # The scope has never been written to.
            return selection
        tokens = {kind: keys.token(kind, name) for kind, name in names.items()}
        return msgspec.structs.replace(selection, **tokens)

    def _opened(self, kept: Summary) -> Summary:
        try:
            facts = self._facts(kept.scope, kept.title, kept.identifier)
        except CanneryError as error:
            problem = told(error) if isinstance(error, KeyUnavailableError) else str(error)
            return msgspec.structs.replace(
                kept, title=problem, tags=(), model=None, session="", client=""
            )
        return msgspec.structs.replace(
            kept,
            title=facts.title,
            tags=facts.tags,
            model=facts.model,
            session=facts.session,
            client=facts.client,
        )

    def _facts(self, scope: str, title: str, identifier: str) -> Metadata:
        return open_title(self._ring.keys(scope), title, identifier)

    def tree(self, identifier: str) -> Sequence[Branch]:
        """A conversation, its oldest ancestor and all forks of that one."""
        found = self._inner.tree(identifier)
        scope = self._reader.scope_of(identifier) or ""
        return [one._replace(title=self._title(scope, one)) for one in found]

    def _title(self, scope: str, branch: Branch) -> str:
        if not branch.title:
            return ""
        try:
            return self._facts(scope, branch.title, branch.identifier).title
        except KeyUnavailableError as error:
            return told(error)

    def begin_with(self, scope: str | None, text: str, limit: int) -> Sequence[str]:
        """The conversations, not deleted, whose id has a prefix, in order."""
        wanted = limit
        while True:
            found = self._inner.begin_with(scope, text, wanted)
            kept = [one for one in found if not is_reserved(one)]
            if len(kept) >= limit or len(found) < wanted:
                return kept[:limit]
            wanted = 2 * wanted + _PAGE

    def catch_up(self) -> None:
        """Apply committed changes now, so that the next query does not wait for it."""
        self._inner.catch_up()

    def rebuild(self, progress: Progress | None = None) -> None:
        """Discard derived data and build it again, while others read and write; needs no key."""
        last = (0, 0)

        def tell(done: int, total: int) -> None:
            nonlocal last
            last = done, total
            if progress is not None:
                progress(done, total)

        self._inner.rebuild(tell)
        if last[0] != last[1]:
            # Conversations that hold keys have no messages.
            tell(last[1], last[1])

    # Search

    def search(self, terms: Sequence[Term], selection: Selection, limit: int) -> Sequence[Found]:
        """The messages that contain all terms, those of the most recently changed conversations first."""
        if selection.scope is not None:
            # A query for a single scope gets the reason why the scope cannot be searched.
            self._ring.known(selection.scope)
        return Search(self._reader, self._ring, self._listed(selection)).find(
            terms, selection, limit
        )

    def _listed(self, selection: Selection) -> Iterator[Summary]:
        """The conversations to be searched."""
        about = msgspec.structs.replace(selection, role=None, since=None, until=None)
        after = None
        while page := self.list(about, after, _PAGE):
            yield from page
            after = page[-1].cursor
