"""A cache of rendered fragments by digest, so that unchanged text is not rendered again."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable

from markupsafe import Markup

_LIMIT = 32 << 20
_LARGEST = 1 << 20


class Fragments:
    """HTML by the kind of rendering and the digest of its source, limited by the total number of characters."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._held: OrderedDict[tuple[str, bytes], Markup] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self.hits = 0

    def get(self, kind: str, text: str, render: Callable[[str], Markup]) -> Markup:
        """The rendering of a text, from the cache or new."""
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        key = (kind, digest)
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                self.hits += 1
                return found
        made = render(text)
        if len(made) <= _LARGEST:
            self._keep(key, made)
        return made

    def _keep(self, key: tuple[str, bytes], made: Markup) -> None:
        with self._lock:
            if key not in self._held:
                self._held[key] = made
                self._size += len(made)
            while self._size > self._limit:
                self._size -= len(self._held.popitem(last=False)[1])


FRAGMENTS = Fragments()
