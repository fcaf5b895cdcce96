"""What a canister tells the catalogue: its digest, its words, the call that it makes or answers."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from cannery.backends import ContentTable, Entry, sortable
from cannery.messages import AnyCanister, InvocationCanisterClass, ResultCanisterClass
from cannery.storage.content import CacheMemory, ContentCache
from cannery.storage.decoding import Decoder
from cannery.storage.history import own_of
from cannery.storage.words import words_of

_CACHE_BYTES = 4 << 20


def entries_of(canisters: Iterable[AnyCanister], key: bytes = b"") -> list[Entry]:
    """What the catalogue keeps of canisters; ``key`` is that of their scope (``Catalogue.key``)."""
    return [_entry(canister, key) for canister in canisters]


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
    """What the catalogue keeps of stored lines."""
    cache = ContentCache(contents, "", CacheMemory(_CACHE_BYTES))
    return entries_of(Decoder(cache).decode(lines))
