"""Recent changes of this process: the catalogue applies them from here, without reading them back.

A change is identified by its unique place in the change feed. So a follower of the feed can tell whether all changes of
a conversation were made here, and in which order. Bounded, and only an optimisation: a missing change is read.
"""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from cannery.backends._catalogue import writing
from cannery.backends._catalogue.schema import row_of
from cannery.backends._contract import Change, Cursor, Entry, Metadata, Receipt
from cannery.backends.directory import references
from cannery.backends.directory.packs import key_of
from cannery.errors import CanneryError

_MOST = 1024
_LARGEST = 16 << 10


class Addition(NamedTuple):
    """A change that was made: entries from ``start`` on, metadata if it changed, its checksum, and content keys."""

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
        """Keep a change that was made."""
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
        """The changes of a conversation at some places, if all are here and each directly follows the one before."""
        found: list[Addition] = []
        for place in places:
            addition = self._additions.get(place)
            if addition is None or addition.identifier != identifier:
                return None
            if found and addition.start != found[-1].start + len(found[-1].entries):
                return None
            try:
                # They are derived now, and stay so.
                list(addition.entries)
            except CanneryError:
                # Something that it refers to can no longer be read.
                return None
            found.append(addition)
        return found


def learn(connection: sqlite3.Connection, news: Sequence[Addition]) -> bool:
    """Apply changes from memory, but for the content they refer to, if they directly follow the tables' state."""
    parents = {one.metadata.parent for one in news if one.metadata is not None} - {None}
    if any(row_of(connection, str(parent)) is None for parent in parents):
        # A child is in the tree of its parent, which may have been made later.
        return False
    row = before = row_of(connection, news[0].identifier)
    is_new = row is None
    parent = None if row is None else row.parent
    for addition in news:
        metadata = addition.metadata
        if row is None:
            base = None if metadata is None else writing.base_of(connection, metadata)
            if metadata is None or base is None:
                return False
            row = writing.begin(connection, metadata, addition.seen, base)
        elif metadata is not None:
            row = writing.described(connection, row, metadata, addition.seen)
        if row.length != addition.start or row.seen != addition.seen or row.unreadable:
            return False
        if addition.entries:
            row = writing.grown(connection, row, addition.entries, with_words=False)
    if row is not None:
        writing.put(connection, row, is_new=is_new, before=before)
        references.move(connection, parent, row.parent)
    return row is not None
