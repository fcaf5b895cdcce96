"""What this process has written lately: the index learns it from here, and does not have to read it back.

A change is known by its place in the backend's change log, which no two share. So whoever follows that log can tell
whether all that happened to a conversation was written here, and in which order. Bounded, and never needed: what is
not here any more is read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from cannery.backends import Change, Cursor, Receipt
from cannery.messages import AnyCanister
from cannery.storage.metadata import Metadata

_MOST = 1024
_LARGEST = 16 << 10


class Write(NamedTuple):
    """A change with what it means: the metadata that it leaves a conversation with, and the canisters that it adds."""

    change: Change
    metadata: Metadata
    canisters: Sequence[AnyCanister] = ()


class Addition(NamedTuple):
    """A change that was made: canisters from ``start`` on, and the metadata, also as it is stored."""

    start: int
    canisters: Sequence[AnyCanister]
    metadata: Metadata
    raw: bytes


class Recent:
    """The latest small changes."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._additions: OrderedDict[Cursor, Addition] = OrderedDict()

    def note(self, write: Write, receipt: Receipt) -> None:
        """Remember a change that was made."""
        change, metadata, canisters = write
        size = sum(map(len, change.lines))
        for data in change.contents.values():
            size += len(data or b"")
        raw = change.metadata or change.requires[change.identifier]
        if size > _LARGEST or raw is None:
            return
        addition = Addition(receipt.start, canisters, metadata, raw)
        with self._lock:
            self._additions[receipt.place] = addition
            if len(self._additions) > self._most:
                self._additions.popitem(last=False)

    def of(self, identifier: str, places: Sequence[Cursor]) -> list[Addition] | None:
        """The changes of a conversation at some places, if all are here and each follows upon the one before."""
        found: list[Addition] = []
        for place in places:
            addition = self._additions.get(place)
            if addition is None or addition.metadata.id != identifier:
                return None
            if found and addition.start != found[-1].start + len(found[-1].canisters):
                return None
            found.append(addition)
        return found
