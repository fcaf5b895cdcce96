"""Search: the catalogue's matches, with the words around them.

A message that was deleted since the catalogue was queried, or that is damaged, is not shown: ``verify`` reports damage,
and sound messages are found anyway.
"""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from cannery.backends import Selection
from cannery.errors import ConversationNotFoundError, DamageError
from cannery.storage.words import snippet, terms_of, words_of

if TYPE_CHECKING:
    from cannery.storage.store import Store


class Hit(Struct, frozen=True):
    """A message that a search found."""

    identifier: str
    title: str
    position: int
    role: str
    snippet: str
    timestamp: datetime


def search(store: Store, text: str, selection: Selection, limit: int) -> tuple[Hit, ...]:
    """The messages that contain all of the words, best first."""
    terms = terms_of(text)
    if not terms:
        return ()
    hits: list[Hit] = []
    for identifier, title, position in store.backend.catalogue.search(terms, selection, limit):
        with contextlib.suppress(ConversationNotFoundError, DamageError):
            for canister in store.handle(identifier).read(position, position + 1).canisters:
                shown = snippet(words_of(canister), text)
                said_by, when = canister.role.value, canister.timestamp
                hits.append(Hit(identifier, title, position, said_by, shown, when))
    return tuple(hits)
