"""Stored content in memory: a bounded cache, and content that is loaded on access."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cannery.backends import ContentTable

_CACHE_BYTES = 64 << 20


class CacheMemory:
    """A least-recently-used cache of content by scope and digest, bounded in bytes."""

    def __init__(self, limit: int = _CACHE_BYTES) -> None:
        self._limit = limit
        self._held: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def find(self, scope: str, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """The cached bytes of some content."""
        found: dict[bytes, bytes] = {}
        with self._lock:
            for digest in digests:
                data = self._held.get((scope, digest))
                if data is not None:
                    self._held.move_to_end((scope, digest))
                    found[digest] = data
        return found

    def keep(self, scope: str, digest: bytes, data: bytes) -> None:
        """Cache content, unless it is so large that it would evict the rest."""
        if len(data) > self._limit // 4:
            return
        with self._lock:
            if (scope, digest) not in self._held:
                self._held[scope, digest] = data
                self._size += len(data)
            while self._size > self._limit:
                self._size -= len(self._held.popitem(last=False)[1])


class ContentCache:
    """The content of one scope, read through a cache."""

    def __init__(self, contents: ContentTable, scope: str, memory: CacheMemory) -> None:
        self.contents = contents
        self._scope = scope
        self._memory = memory

    def get(self, digest: bytes, size: int = -1) -> bytes:
        """The content, verified when it was read; ``size`` is the size in its line, -1 if unknown."""
        found = self._memory.find(self._scope, (digest,)).get(digest)
        if found is None:
            found = self.contents.get(digest, None if size < 0 else size)
            self._memory.keep(self._scope, digest, found)
        return found

    def get_many(self, digests: Mapping[bytes, int]) -> dict[bytes, bytes]:
        """Several contents, read together, each with the size in its line."""
        found = self._memory.find(self._scope, digests)
        missing = [digest for digest in digests if digest not in found]
        if missing:
            sizes = {digest: digests[digest] for digest in missing if digests[digest] >= 0}
            for digest, data in self.contents.get_many(missing, sizes):
                found[digest] = data
                self._memory.keep(self._scope, digest, data)
        return found


class StoredContent:
    """Content in a store that is loaded on access."""

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
        """The cache that loads it: a store recognises its own content."""
        return self._cache

    def load(self) -> bytes:
        """The bytes, verified."""
        return self._cache.get(self.digest, self.size)

    def stream(self) -> Iterator[bytes]:
        """The bytes in pieces, verified at the end; they are never in memory as a whole."""
        return self._cache.contents.stream(self.digest)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoredContent):
            return NotImplemented
        return self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"StoredContent({self.content_id!r}, size={self.size})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A store cannot be pickled; its content can, as an id.
        from cannery.messages import NotHydrated

        return NotHydrated, (self.content_id, self.size)
