"""Erasing what cannot be read: a tombstone in the place of metadata that is damaged in every copy.

gc frees what has a tombstone, so it must say of which scope the conversation is and which lines are its own. The
catalogue knows both as long as it was not built again; else the lines say where they begin, and content that they refer
to is found in one scope only.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cannery.backends import Change, Metadata, referred
from cannery.errors import CanneryError, DamageError
from cannery.storage.metadata import decode_metadata

if TYPE_CHECKING:
    from cannery.storage.store import Store


def bury(store: Store, identifier: str) -> None:
    """Delete a conversation whose metadata cannot be read; a store with a scope refuses, as it may be another's."""
    if store.scope is not None:
        where = f"conversations/{identifier}/conversation.json"
        problem = "the metadata is damaged, so its scope is not known; erase it without a scope"
        raise DamageError(where, problem)
    metadata = _known(store, identifier) or _derived(store, identifier)
    change = Change(
        identifier=identifier,
        requires={},
        metadata=metadata,
        base=metadata.position,
        scope=metadata.scope,
    )
    store.commit(change)


def _known(store: Store, identifier: str) -> Metadata | None:
    """A tombstone by what the catalogue knows."""
    with contextlib.suppress(CanneryError):
        for one in store.backend.catalogue.tree(identifier):
            if one.identifier == identifier:
                return _tombstone(identifier, one.parent, one.position, one.scope)
    return None


def _derived(store: Store, identifier: str) -> Metadata:
    """A tombstone by what the lines say."""
    lines = store.backend.read(identifier, 0, 0).lines
    there = [(at, line) for at, line in enumerate(lines) if line is not None]
    wanted = referred(b"\n".join(line for _, line in there))
    scope = next((one for one in _scopes(store) if _holds(store, one, wanted)), None)
    if scope is None:
        problem = "the metadata is damaged, and no scope has the content that it refers to"
        raise DamageError(f"conversations/{identifier}", problem)
    return _tombstone(identifier, None, there[0][0] if there else 0, scope)


def _scopes(store: Store) -> list[str]:
    """Every scope."""
    found = {""}
    for identifier in store.backend.identifiers():
        with contextlib.suppress(CanneryError):
            raw = store.raw_metadata(identifier)
            if raw is not None:
                found.add(decode_metadata(raw, identifier).scope)
    return sorted(found)


def _holds(store: Store, scope: str, digests: set[bytes]) -> bool:
    """Whether a scope has some content."""
    with contextlib.suppress(CanneryError):
        return store.backend.contents(scope).has(digests) == digests
    return False


def _tombstone(identifier: str, parent: str | None, position: int, scope: str) -> Metadata:
    now = datetime.now(UTC)
    return Metadata(
        identifier, now, now, parent=parent, position=position, deleted=now, scope=scope
    )
