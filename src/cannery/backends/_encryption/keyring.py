"""The data keys of scopes: each is stored wrapped by the key that its scope has outside the store.

They are stored in conversations with reserved ids that the layers above never see: one that marks the store as
encrypted, and one for each scope. So every backend stores, copies and verifies them like other data. Without the
outside key, a data key cannot be unwrapped, and the scope is unreadable; the same holds once the wrapped key is
destroyed.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
from msgspec import Struct

from cannery.backends._contract import Backend, Change, Metadata, Selection
from cannery.backends._encryption.ciphers import ScopeKeys, name_of, unwrap, wrap
from cannery.backends._encryption.outside import KEY_PREFIX, KIND, MARKER, is_reserved
from cannery.backends._encryption.sources import KeySource, parse_source
from cannery.backends._keys import ScopeKey
from cannery.errors import (
    ConfigurationError,
    ConflictError,
    DamageError,
    KeyUnavailableError,
    StorageError,
)

T = TypeVar("T")
_TAG = "cannery-key"
# Sorts after everything else in lists.
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_VERSION = 1
_PAGE = 200
_ATTEMPTS = 100
_PATIENCE = 5.0
_LEASE = 30.0


class _Marker(Struct, frozen=True):
    """The marker of an encrypted store."""

    version: int
    store: str


class _Record(Struct, frozen=True, omit_defaults=True):
    """The wrapped data key of a scope; or the time when it was destroyed."""

    version: int
    key: str = ""
    wrapped: str = ""
    destroyed: str = ""


def record_id(scope: str) -> str:
    """The conversation that holds the key of a scope."""
    return KEY_PREFIX + hashlib.sha256(scope.encode(errors="surrogatepass")).hexdigest()[:40]


class Keyring:
    """The keys of the scopes of one store, each unwrapped on first use."""

    def __init__(self, inner: Backend, source: KeySource, location: str) -> None:
        self._inner = inner
        self._source = source
        # One lock for each scope: a key command may take long.
        self._locks: dict[str, threading.Lock] = {}
        self._known: dict[str, ScopeKeys] = {}
        self._good_until: dict[str, float] = {}
        self._refused: dict[str, tuple[float, KeyUnavailableError]] = {}
        self._store = bytes.fromhex(_find_marker(inner, location).store)

    def keys(self, scope: str) -> ScopeKeys:
        """The keys of a scope, created if it has none; KeyUnavailableError gives the reason if that fails."""
        found = self._known.get(scope)
        if found is None or time.monotonic() > self._good_until[scope]:
            with self._locks.setdefault(scope, threading.Lock()):
                found = self._looked(scope) or self._asked(scope)
                self._good_until[scope] = time.monotonic() + _LEASE
                self._known[scope] = found
        return found

    def _looked(self, scope: str) -> ScopeKeys | None:
        """The cached keys, unless another process has destroyed them: data written then would be lost."""
        found = self._known.get(scope)
        if found is not None and time.monotonic() > self._good_until[scope]:
            record = self._record(scope)
            if record is None or record.destroyed:
                del self._known[scope]
                return None
        return found

    def _asked(self, scope: str) -> ScopeKeys:
        """The keys of a scope; a missing key is not looked up again at once."""
        when, problem = self._refused.get(scope, (0.0, None))
        if problem is not None and time.monotonic() - when < _PATIENCE:
            raise KeyUnavailableError(scope, problem.problem, is_destroyed=problem.is_destroyed)
        try:
            return self._learn(scope)
        except KeyUnavailableError as error:
            self._refused[scope] = time.monotonic(), error
            raise

    def known(self, scope: str) -> ScopeKeys | None:
        """The keys of a scope for reading; None if it never had any. KeyUnavailableError as for ``keys``."""
        found = self._known.get(scope)
        if found is None and self._record(scope) is not None:
            found = self.keys(scope)
        return found

    def reply(self, name: str) -> str:
        """The token of a reply id, the same in every scope; such an id is random and reveals nothing."""
        return hashlib.sha256(self._store + name.encode(errors="surrogatepass")).hexdigest()[:32]

    def problem(self, scope: str) -> KeyUnavailableError | None:
        """The reason why a scope cannot be read, if any."""
        try:
            self.known(scope)
        except KeyUnavailableError as error:
            return error
        return None

    def _learn(self, scope: str) -> ScopeKeys:
        for _ in _attempts():
            record = self._record(scope)
            data_key = self._begin(scope) if record is None else self._unwrap(scope, record)
            if data_key is not None:
                return ScopeKeys(data_key, self._store)
        raise StorageError(f"the key of scope {scope!r} changes all the time")

    def _unwrap(self, scope: str, record: _Record) -> bytes:
        if record.destroyed:
            problem = (
                f"its key was destroyed on {record.destroyed[:10]}; what it held cannot be read"
            )
            raise KeyUnavailableError(scope, problem, is_destroyed=True)
        try:
            key = self._source.read(scope)
        except KeyUnavailableError as error:
            problem = f"{error.problem}. Put it back: without it nothing here can be read"
            raise KeyUnavailableError(scope, problem) from None
        if name_of(key) != record.key:
            problem = (
                f"{self._source.place(scope)!r} gives key {name_of(key)}, and it is encrypted with"
                f" key {record.key}; give that one"
            )
            raise KeyUnavailableError(scope, problem)
        found = unwrap(record.wrapped, key, self._place(scope))
        if found is None:
            where = f"conversations/{record_id(scope)}/conversation.json"
            raise DamageError(
                where, f"the wrapped key of scope {scope!r} is damaged; restore a backup"
            )
        return found

    def _begin(self, scope: str) -> bytes | None:
        """A new data key for a scope; None if another process was faster."""
        there = self._inner.catalogue.list(Selection(scope=scope), None, 2)
        if any(not is_reserved(one.identifier) for one in there):
            if self._record(scope) is not None:
                return None
            where = f"conversations/{record_id(scope)}/conversation.json"
            problem = f"the wrapped key of scope {scope!r} is missing; restore it from a backup"
            raise DamageError(where, problem)
        try:
            key = self._source.read(scope)
        except KeyUnavailableError as error:
            problem = f"{error.problem}. `cannery keys create` makes a key for a new scope"
            raise KeyUnavailableError(scope, problem) from None
        data_key = os.urandom(32)
        return data_key if self._put(scope, self._wrapped(scope, data_key, key), None) else None

    def _wrapped(self, scope: str, data_key: bytes, key: bytes) -> _Record:
        return _Record(_VERSION, name_of(key), wrap(data_key, key, self._place(scope)))

    def _place(self, scope: str) -> bytes:
        return b"cannery key\0" + self._store + scope.encode(errors="surrogatepass")

    # Records

    def _raw(self, scope: str) -> bytes | None:
        return self._inner.metadata(record_id(scope))

    def _record(self, scope: str) -> _Record | None:
        raw = self._raw(scope)
        return None if raw is None else _decode(raw, record_id(scope), _Record)

    def _put(self, scope: str, record: _Record, before: bytes | None) -> bool:
        """Write the record of a scope if it is unchanged; whether it was written."""
        change = _change(record_id(scope), scope, record, (_TAG,), before)
        try:
            self._inner.commit(change)
        except ConflictError:
            return False
        return True

    def scopes(self) -> list[str]:
        """Every scope that has, or had, a key."""
        return [scope for scope, _ in self._records()]

    def states(self) -> list[ScopeKey]:
        """The state of each of them."""
        found = []
        for scope, record in self._records():
            problem = self.problem(scope)
            found.append(ScopeKey(scope, record.key, "" if problem is None else problem.problem))
        return found

    def _records(self) -> Iterator[tuple[str, _Record]]:
        after = None
        while page := self._inner.catalogue.list(Selection(tag=_TAG), after, _PAGE):
            for one in page:
                if one.identifier == record_id(one.scope):
                    yield one.scope, _read(one.title, one.identifier, _Record)
            after = page[-1].cursor

    # Rotating and destroying

    def rotate(self, scope: str, new: str) -> ScopeKey:
        """Wrap the data key of a scope with another key; encrypted data stays unchanged."""
        raw = self._raw(scope)
        if raw is None:
            raise KeyUnavailableError(scope, "it has no key yet")
        data_key = self._unwrap(scope, _decode(raw, record_id(scope), _Record))
        record = self._wrapped(scope, data_key, parse_source(new).read(scope))
        if not self._put(scope, record, raw):
            raise ConflictError(f"the key of scope {scope!r} was changed by another process")
        self._inner.purge()
        return ScopeKey(scope, record.key, "")

    def destroy(self, scope: str) -> None:
        """Remove every copy of a scope's wrapped key: the scope can never be read again."""
        raw = self._raw(scope)
        if raw is None:
            raise KeyUnavailableError(scope, "it has no key to destroy")
        when = datetime.now(UTC).isoformat(timespec="seconds")
        record = _Record(_VERSION, destroyed=when)
        if not self._put(scope, record, raw):
            raise ConflictError(f"the key of scope {scope!r} was changed by another process")
        self._known.pop(scope, None)
        self._inner.purge()


def _change(
    identifier: str, scope: str, value: Struct, tags: tuple[str, ...], before: bytes | None
) -> Change:
    metadata = Metadata(
        identifier,
        _LONG_AGO,
        _LONG_AGO,
        title=msgspec.json.encode(value).decode(),
        tags=tags,
        scope=scope,
        kind=KIND,
    )
    return Change(
        identifier=identifier, requires={identifier: before}, metadata=metadata, scope=scope
    )


def _attempts() -> Iterator[int]:
    """A few attempts: a commit in progress in another process can cause a refusal before it can be read."""
    for attempt in range(_ATTEMPTS):
        yield attempt
        time.sleep(0.001 * attempt)


def _find_marker(inner: Backend, location: str) -> _Marker:
    """The marker of an encrypted store; a new store gets one."""
    for _ in _attempts():
        raw = inner.metadata(MARKER)
        marker = _new_marker(inner, location) if raw is None else _decode(raw, MARKER, _Marker)
        if marker is None:
            continue
        if marker.version > _VERSION:
            problem = f"it is encrypted in version {marker.version}; this program knows {_VERSION}"
            raise StorageError(f"{location}: {problem}")
        return marker
    raise StorageError(f"{location}: another process makes it a store, and does not end")


def _new_marker(inner: Backend, location: str) -> _Marker | None:
    """Mark a new store as encrypted; None if another process was faster."""
    there = next((one for one in inner.identifiers() if one != MARKER), None)
    if there is not None and inner.metadata(MARKER) is None:
        problem = (
            "this store is not encrypted, and a key was given. Open it without a key; or make a new"
            " store with the key, and `cannery export --all` and `cannery import` what is in this one"
        )
        raise ConfigurationError(location, problem)
    marker = _Marker(_VERSION, os.urandom(16).hex())
    try:
        inner.commit(_change(MARKER, "", marker, (), None))
    except ConflictError:
        return None
    return marker


def _decode(raw: bytes, identifier: str, kind: type[T]) -> T:
    try:
        return _read(msgspec.json.decode(raw, type=Metadata).title, identifier, kind)
    except msgspec.MsgspecError as error:
        where = f"conversations/{identifier}/conversation.json"
        raise DamageError(where, f"not a record of a key: {error}") from None


def _read(text: str, identifier: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        where = f"conversations/{identifier}/conversation.json"
        raise DamageError(where, f"not a record of a key: {error}") from None
