"""What this process has written lately: the catalogue learns it from here, and does not have to read it back.

A change is known by its place in the change feed, which no two share. So a follower of the feed can tell whether all
that happened to a conversation was written here, and in which order. Bounded, and never needed: what is not here any
more is read.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from cannery.backends._contract import Change, Cursor, Entry, Metadata, Receipt
from cannery.backends.directory.packs import key_of
from cannery.errors import CanneryError

_MOST = 1024
_LARGEST = 16 << 10


class Addition(NamedTuple):
    """A change that was made: entries from ``start`` on, metadata if it changed, its checksum, and keys of content."""

    identifier: str
    start: int
    entries: Sequence[Entry]
    metadata: Metadata | None
    seen: int
    keys: Sequence[bytes]


class Recent:
    """The latest small changes."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._additions: OrderedDict[Cursor, Addition] = OrderedDict()

    def note(self, change: Change, receipt: Receipt) -> None:
        """Remember a change that was made."""
        size = sum(map(len, change.lines))
        for data in change.contents.values():
            size += len(data or b"")
        metadata = change.metadata
        raw = change.requires.get(change.identifier) if metadata is None else metadata.encode()
        if size > _LARGEST or raw is None or len(change.entries) != len(change.lines):
            return
        keys = [key_of(change.scope, digest) for digest in change.contents]
        addition = Addition(
            change.identifier, receipt.start, change.entries, metadata, zlib.crc32(raw), keys
        )
        with self._lock:
            self._additions[receipt.place] = addition
            if len(self._additions) > self._most:
                self._additions.popitem(last=False)

    def of(self, identifier: str, places: Sequence[Cursor]) -> list[Addition] | None:
        """The changes of a conversation at some places, if all are here and each follows upon the one before."""
        found: list[Addition] = []
        for place in places:
            addition = self._additions.get(place)
            if addition is None or addition.identifier != identifier:
                return None
            if found and addition.start != found[-1].start + len(found[-1].entries):
                return None
            try:
                found.append(addition._replace(entries=list(addition.entries)))
            except CanneryError:
                # Something that it refers to cannot be read any more.
                return None
        return found
