"""Stored content in memory: a bounded cache, and content that is loaded when somebody looks at it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from cannery.backends import Backend

_CACHE_BYTES = 64 << 20


class ContentCache:
    """Content by digest from a backend; keeps what was used last, up to a number of bytes."""

    def __init__(self, backend: Backend, limit: int = _CACHE_BYTES) -> None:
        self._backend = backend
        self._limit = limit
        self._held: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, digest: bytes) -> bytes:
        """The content, verified when it was read."""
        with self._lock:
            data = self._held.get(digest)
            if data is not None:
                self._held.move_to_end(digest)
                return data
        data = self._backend.get(digest)
        self._keep(digest, data)
        return data

    def get_many(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """Several contents, read together."""
        found: dict[bytes, bytes] = {}
        missing = []
        with self._lock:
            for digest in digests:
                data = self._held.get(digest)
                if data is None:
                    missing.append(digest)
                else:
                    found[digest] = data
        for digest, data in self._backend.get_many(missing):
            found[digest] = data
            self._keep(digest, data)
        return found

    def _keep(self, digest: bytes, data: bytes) -> None:
        if len(data) > self._limit // 4:
            return
        with self._lock:
            if digest not in self._held:
                self._held[digest] = data
                self._size += len(data)
            while self._size > self._limit:
                self._size -= len(self._held.popitem(last=False)[1])


class StoredContent:
    """Content in a store that is loaded when it is looked at."""

    __slots__ = ("_cache", "digest", "size")

    def __init__(self, digest: bytes, size: int, cache: ContentCache) -> None:
        self.digest = digest
        self.size = size
        self._cache = cache

    @property
    def content_id(self) -> str:
        """``sha256:`` and 64 hex digits."""
        return f"sha256:{self.digest.hex()}"

    @property
    def cache(self) -> ContentCache:
        """Where it comes from: a store recognises its own content."""
        return self._cache

    def load(self) -> bytes:
        """The bytes, verified."""
        return self._cache.get(self.digest)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoredContent):
            return NotImplemented
        return self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"StoredContent({self.content_id!r}, size={self.size})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A store does not travel; its content does, as an id.
        from cannery.messages import NotHydrated

        return NotHydrated, (self.content_id, self.size)
