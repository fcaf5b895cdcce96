"""A backend that encrypts its data and stores it in another backend.

The position of a line is authenticated, and only the inner backend knows it for certain. So each append states the
position that it was encrypted for; if another writer was faster, it is encrypted again for the next one.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from cannery.backends._contract import (
    GRACE,
    Backend,
    Backup,
    Catalogue,
    Change,
    Collection,
    ContentTable,
    Cursor,
    Damage,
    Describe,
    Durability,
    Entry,
    Expected,
    Growth,
    Inspection,
    Metadata,
    Progress,
    Reading,
    Receipt,
    Span,
    check_change,
    check_identifier,
    referred,
)
from cannery.backends._encryption import lines, metadata
from cannery.backends._encryption.catalogue import EncryptedCatalogue
from cannery.backends._encryption.ciphers import ScopeKeys
from cannery.backends._encryption.contents import (
    EncryptedContents,
    EndHash,
    open_content,
    seal_content,
)
from cannery.backends._encryption.exchanges import EncryptedExchanges
from cannery.backends._encryption.keyring import Keyring
from cannery.backends._encryption.outside import is_reserved
from cannery.backends._encryption.sources import parse_source
from cannery.backends._hashing import Hashing
from cannery.backends._keys import Encryption
from cannery.backends._single import SingleCommits
from cannery.errors import (
    CanneryError,
    ConflictError,
    DamageError,
    InputError,
    KeyUnavailableError,
)

_ATTEMPTS = 1000
_MOST_KNOWN = 100_000
_MOST_SEALED = 4096


class _Lock:
    """A lock that is removed with its last holder."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


class EncryptedBackend(SingleCommits):
    """Another backend, in which all messages are ciphertext."""

    def __init__(
        self, inner: Backend, describe: Describe, hashing: Hashing, key: str, location: str
    ) -> None:
        hashing.kind = EndHash
        self.inner = inner
        self._describe = describe
        self._ring = Keyring(inner, parse_source(key), location)
        self._scopes: dict[str, str] = {}
        self._ends: dict[str, int] = {}
        self._sealed_metadata: dict[bytes, bytes] = {}
        self._locks: weakref.WeakValueDictionary[str, _Lock] = weakref.WeakValueDictionary()
        self._locks_lock = threading.Lock()
        self.is_read_only = inner.is_read_only
        self.catalogue: Catalogue = EncryptedCatalogue(self, self._ring)
        self.exchanges = EncryptedExchanges(inner.exchanges, self._ring, self.scope_of)

    @property
    def recovered(self) -> tuple[Damage, ...]:
        """Problems that opening repaired or could not repair."""
        return self.inner.recovered

    @property
    def encryption(self) -> Encryption:
        """The keys."""
        return self._ring

    # Writing

    def commit_each(
        self, changes: Iterable[Change], durability: Durability = "sync"
    ) -> list[Receipt | CanneryError]:
        """Make several changes in order with one sync, each of them all or nothing."""
        wanted = list(changes)
        for change in wanted:
            _check(change)
        outcomes: list[Receipt | CanneryError] = []
        for together in _apart(wanted):
            with self._held(together):
                outcomes += self._commit(together, durability)
        return outcomes

    @contextlib.contextmanager
    def _held(self, changes: Sequence[Change]) -> Iterator[None]:
        """Keep other threads of this process from appending to the same conversations, which would encrypt in vain."""
        names = sorted({one.identifier for one in changes if _is_guess(one)})
        with self._locks_lock:
            locks = [self._locks.setdefault(name, _Lock()) for name in names]
        with contextlib.ExitStack() as held:
            for lock in locks:
                held.enter_context(lock.lock)
            yield

    def _commit(
        self, changes: Sequence[Change], durability: Durability
    ) -> list[Receipt | CanneryError]:
        outcomes: list[Receipt | CanneryError | None] = [None] * len(changes)
        starts: dict[int, int] = {}
        waiting = list(range(len(changes)))
        for _ in range(_ATTEMPTS):
            sealed: list[tuple[int, Change]] = []
            for index in waiting:
                try:
                    starts[index] = self._start(changes[index])
                    sealed.append((index, self._sealed(changes[index], starts[index])))
                except CanneryError as error:
                    outcomes[index] = error
            made = self.inner.commit_each([change for _, change in sealed], durability)
            waiting = []
            for (index, _), outcome in zip(sealed, made, strict=True):
                if _is_overtaken(changes[index], outcome, starts[index]):
                    waiting.append(index)
                outcomes[index] = self._noted(changes[index], outcome)
            if not waiting:
                break
        return [outcome for outcome in outcomes if outcome is not None]

    def _start(self, change: Change) -> int:
        """The probable position of a change's lines."""
        if change.expected is not None or not change.lines:
            return change.expected or 0
        if change.requires.get(change.identifier, b"") is None:
            return change.base
        known = self._ends.get(change.identifier)
        return self.inner.end(change.identifier, change.base) if known is None else known

    def _noted(self, change: Change, outcome: Receipt | CanneryError) -> Receipt | CanneryError:
        """Record the end of a conversation."""
        end = None
        if isinstance(outcome, Receipt):
            end = outcome.stop if change.lines else None
        elif isinstance(outcome, ConflictError):
            end = outcome.position
        if end is not None:
            if len(self._ends) > _MOST_KNOWN:
                self._ends.clear()
            self._ends[change.identifier] = end
        return outcome

    def _sealed(self, change: Change, start: int) -> Change:
        """A change in encrypted form for the inner backend."""
        requires = {one: self._required(one, raw) for one, raw in change.requires.items()}
        about = change.metadata
        kept = None
        if about is not None:
            kept = self._kept(about, requires.get(about.id), has_lines=bool(change.lines))
        if not change.lines and not change.contents and not change.claims and change.key is None:
            return msgspec.structs.replace(
                change, requires=requires, metadata=kept, session=self._session(change)
            )
        keys = self._ring.keys(change.scope)
        entries = [lines.outside_of(keys, entry) for entry in change.entries]
        stored = lines.seal(keys, change.lines, entries, lines.Place(change.identifier, start))
        return msgspec.structs.replace(
            change,
            requires=requires,
            metadata=kept,
            lines=stored,
            entries=entries,
            expected=start if change.lines else change.expected,
            contents={
                keys.content_id(digest): None if data is None else seal_content(keys, digest, data)
                for digest, data in change.contents.items()
            },
            session=keys.token("session", change.session),
            key=None if change.key is None else keys.token("key", change.key),
        )

    def _session(self, change: Change) -> str:
        return (
            self._ring.keys(change.scope).token("session", change.session) if change.session else ""
        )

    def _required(self, identifier: str, raw: bytes | None) -> bytes | None:
        """The stored form that metadata must have to be unchanged since it was read."""
        if raw is None:
            return None
        known = self._sealed_metadata.get(raw)
        if known is not None:
            return known
        try:
            read = msgspec.json.decode(raw, type=Metadata)
        except msgspec.MsgspecError:
            return raw
        if self._ring.problem(read.scope) is None:
            return self._remember(raw, metadata.seal(self._ring.keys(read.scope), read).encode())
        kept = self.inner.metadata(check_identifier(identifier))
        return kept if kept is not None and self._read_metadata(kept).encode() == raw else raw

    def _remember(self, raw: bytes, sealed: bytes) -> bytes:
        if len(self._sealed_metadata) > _MOST_SEALED:
            self._sealed_metadata.clear()
        self._sealed_metadata[raw] = sealed
        return sealed

    def _kept(self, about: Metadata, before: bytes | None, *, has_lines: bool) -> Metadata:
        """Metadata in stored form. Unreadable metadata can still be deleted."""
        problem = self._ring.problem(about.scope)
        if problem is None:
            return metadata.seal(self._ring.keys(about.scope), about)
        if about.deleted is None or before is None or has_lines:
            raise problem
        kept = msgspec.json.decode(before, type=Metadata)
        return msgspec.structs.replace(
            kept, title="", tags=(), model=None, updated=about.updated, deleted=about.deleted
        )

    # Reading

    def contents(self, scope: str) -> ContentTable:
        """The content of a scope."""
        return EncryptedContents(self.inner.contents(scope), lambda: self._ring.keys(scope))

    def metadata(self, identifier: str) -> bytes | None:
        """The metadata of a conversation, or None."""
        return self.metadata_many([identifier]).get(identifier)

    def metadata_many(self, identifiers: Iterable[str]) -> dict[str, bytes]:
        """The metadata of the existing ones."""
        wanted = [check_identifier(one) for one in identifiers]
        found = self.inner.metadata_many([one for one in wanted if not is_reserved(one)])
        return {one: self._read_metadata(raw).encode() for one, raw in found.items()}

    def _read_metadata(self, raw: bytes) -> Metadata:
        """Stored metadata decrypted; without the scope's key, its clear fields."""
        kept = msgspec.json.decode(raw, type=Metadata)
        self._know(kept.id, kept.scope)
        problem = self._ring.problem(kept.scope)
        if problem is not None:
            return metadata.locked(kept, metadata.told(problem))
        return metadata.unseal(self._ring.keys(kept.scope), kept)

    def _know(self, identifier: str, scope: str) -> None:
        if len(self._scopes) > _MOST_KNOWN:
            self._scopes.clear()
        self._scopes[identifier] = scope

    def scope_of(self, identifier: str, *, is_known: bool = True) -> str | None:
        """The scope of a conversation; None for an unknown one."""
        known = self._scopes.get(identifier) if is_known else None
        if known is None:
            raw = self.inner.metadata(identifier)
            if raw is None:
                return None
            known = msgspec.json.decode(raw, type=Metadata).scope
            self._know(identifier, known)
        return known

    def identifiers(self, after: str = "") -> Iterator[str]:
        """All conversations after a given one, deleted ones included, in order of their ids."""
        return (one for one in self.inner.identifiers(after) if not is_reserved(one))

    def end(self, identifier: str, base: int) -> int:
        """The position after the last line."""
        return self.inner.end(identifier, base)

    def read(self, identifier: str, base: int, start: int, stop: int | None = None) -> Reading:
        """The lines from one position to before another."""
        return self.read_many([Span(identifier, base, start, stop)])[0]

    def read_many(self, spans: Sequence[Span]) -> list[Reading]:
        """The lines of several spans."""
        found = self.inner.read_many(spans)
        return [self._read(span, reading) for span, reading in zip(spans, found, strict=True)]

    def _read(self, span: Span, reading: Reading) -> Reading:
        if not reading.lines:
            return reading
        keys = self._keys_of(span.identifier)
        opened, wrong = _opened(keys, span, reading)
        if wrong and self.scope_of(span.identifier, is_known=False) is not None:
            # The same id may have been given to a conversation of another scope.
            opened, wrong = _opened(self._keys_of(span.identifier), span, reading)
        damages = reading.damages
        if wrong:
            damages = tuple(sorted((*damages, *wrong), key=lambda one: one.position or 0))
        return Reading(reading.start, opened, damages)

    def _keys_of(self, identifier: str) -> ScopeKeys:
        scope = self.scope_of(identifier)
        if scope is None:
            where = f"conversations/{identifier}/conversation.json"
            raise DamageError(where, "the metadata is missing, and with it what tells the key")
        return self._ring.keys(scope)

    def described(self, scope: str, read: Sequence[bytes]) -> Sequence[Entry]:
        """The catalogue entries of a scope's decrypted lines, with their words."""
        return self._describe(self.contents(scope), read)

    def changes(self, cursor: Cursor | None, limit: int = 1000) -> Growth:
        """The changes after a cursor, each at least once, in the order of commits."""
        growth = self.inner.changes(cursor, limit)
        if growth.noted is None:
            return growth
        return growth._replace(
            noted=[one for one in growth.noted if not is_reserved(one.identifier)]
        )

    # Maintenance

    def inspect(self, progress: Progress | None = None) -> Inspection:
        """Re-derive every hash, and decrypt all referenced content."""
        inspection = self.inner.inspect(progress)
        damages = [*inspection.damages]
        seen: set[tuple[str, bytes]] = set()
        for identifier in self.identifiers():
            try:
                damages += self._inspect(identifier, seen)
            except KeyUnavailableError:
                # The caller that reads the conversation reports it.
                continue
            except CanneryError as error:
                damages.append(Damage(f"conversations/{identifier}", str(error)))
        return Inspection(inspection.contents, inspection.content_bytes, tuple(damages))

    def _inspect(self, identifier: str, seen: set[tuple[str, bytes]]) -> Iterator[Damage]:
        raw = self.inner.metadata(identifier)
        if raw is None:
            return
        kept = msgspec.json.decode(raw, type=Metadata)
        keys = self._ring.keys(kept.scope)
        read = self.inner.read(identifier, kept.position, kept.position).lines
        wanted = referred(b"\n".join(line for line in read if line is not None))
        table = self.inner.contents(kept.scope)
        for name in table.has(one for one in wanted if (kept.scope, one) not in seen):
            seen.add((kept.scope, name))
            try:
                open_content(keys, None, table.get(name))
            except DamageError:
                # The inner backend has reported it.
                continue
            except (CanneryError, ValueError) as error:
                yield Damage(f"content sha256:{name.hex()}", str(error))

    def manifest(self) -> Mapping[str, Expected]:
        """The objects that must exist."""
        found = self.inner.manifest()
        return {name: one for name, one in found.items() if not is_reserved(name)}

    def collect(
        self,
        *,
        grace: float = GRACE,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Collection:
        """Free deleted conversations except the parts that forks need, and unreferenced content."""
        return self.inner.collect(grace=grace, dry_run=dry_run, progress=progress)

    def purge(self) -> None:
        """Remove everything that ``collect`` freed from all files."""
        self.inner.purge()

    def backup(self, path: str, progress: Progress | None = None) -> Backup:
        """Copy a consistent snapshot; the copy is encrypted with the same keys."""
        made = self.inner.backup(path, progress)
        return made._replace(conversations=made.conversations - 1 - len(self._ring.scopes()))

    def close(self) -> None:
        """Release all resources."""
        self.inner.close()


def _check(change: Change) -> None:
    check_change(change)
    if is_reserved(change.identifier):
        raise InputError(f"{change.identifier!r} is reserved for the keys of encrypted stores")
    if len(change.entries) != len(change.lines):
        raise InputError("an encrypted store needs an entry for each line")


def _is_guess(change: Change) -> bool:
    """Whether the position of a change's lines is uncertain."""
    return bool(change.lines) and change.expected is None


def _is_overtaken(change: Change, outcome: Receipt | CanneryError, start: int) -> bool:
    """Whether a change was refused only because it was encrypted for another position."""
    if not isinstance(outcome, ConflictError) or not _is_guess(change):
        return False
    return outcome.position not in (None, start)


def _apart(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    """Changes in order, in runs in which no change follows lines of the same run, whose position could change."""
    run: list[Change] = []
    appended: set[str] = set()
    for change in changes:
        if change.identifier in appended and _is_guess(change):
            yield run
            run, appended = [], set()
        run.append(change)
        if change.lines:
            appended.add(change.identifier)
    if run:
        yield run


def _opened(
    keys: ScopeKeys, span: Span, reading: Reading
) -> tuple[list[bytes | None], list[Damage]]:
    """Decrypted lines, None for those that cannot be decrypted, and their problems."""
    place = lines.Place(span.identifier, reading.start)
    opened, wrong = lines.unseal(keys, reading.lines, place)
    where = f"conversations/{span.identifier}/messages.jsonl"
    return opened, [
        Damage(
            where, f"the line cannot be decrypted: {problem}", position - span.base + 1, position
        )
        for position, problem in wrong.items()
    ]
