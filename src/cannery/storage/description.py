"""The catalogue's facts about a canister: its digest, its words, and the call that it makes or answers."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import overload

from cannery.backends import ContentTable, Entry, sortable
from cannery.messages import AnyCanister, InvocationCanisterClass, ResultCanisterClass
from cannery.storage.content import CacheMemory, ContentCache
from cannery.storage.decoding import Decoder
from cannery.storage.history import own_of
from cannery.storage.words import words_of

_CACHE_BYTES = 4 << 20


class Entries(Sequence[Entry]):
    """The catalogue entries of canisters, derived on access: a catalogue that follows a feed may never need them."""

    __slots__ = ("_canisters", "_found", "_key")

    def __init__(self, canisters: Sequence[AnyCanister], key: bytes = b"") -> None:
        self._canisters = canisters
        # The digest key of their scope (``Catalogue.key``).
        self._key = key
        self._found: list[Entry] | None = None

    def __len__(self) -> int:
        return len(self._canisters)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._derived())

    @overload
    def __getitem__(self, place: int) -> Entry: ...

    @overload
    def __getitem__(self, place: slice) -> list[Entry]: ...

    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        return self._derived()[place]

    def _derived(self) -> list[Entry]:
        if self._found is None:
            self._found = [_entry(canister, self._key) for canister in self._canisters]
        return self._found


def _entry(canister: AnyCanister, key: bytes) -> Entry:
    own, is_setup = own_of(canister, key)
    return Entry(
        canister.role.value,
        sortable(canister.timestamp),
        own,
        canister.identifier if isinstance(canister, InvocationCanisterClass) else None,
        canister.invocation_id if isinstance(canister, ResultCanisterClass) else None,
        functools.partial(words_of, canister),
        is_setup,
    )


def describe(contents: ContentTable, lines: Sequence[bytes]) -> list[Entry]:
    """The catalogue entries of stored lines."""
    cache = ContentCache(contents, "", CacheMemory(_CACHE_BYTES))
    return list(Entries(Decoder(cache).decode(lines)))
