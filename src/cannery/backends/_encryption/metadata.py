"""Metadata as the inner backend stores it: clear fields that it needs, names as tokens, and all of it in the title."""

from __future__ import annotations

import msgspec

from cannery.backends._contract import Metadata
from cannery.backends._encryption.ciphers import ScopeKeys
from cannery.errors import DamageError, KeyUnavailableError

_decode = msgspec.json.Decoder(Metadata).decode


def seal(keys: ScopeKeys, metadata: Metadata) -> Metadata:
    """Metadata in stored form."""
    return _outside(keys, metadata, keys.seal_metadata(metadata.encode(), metadata.id))


def unseal(keys: ScopeKeys, kept: Metadata) -> Metadata:
    """The decrypted metadata; DamageError if the stored form is not authentic."""
    if not kept.title:
        # Deleted while its key was not available: only the clear fields remain.
        return kept
    found = open_title(keys, kept.title, kept.id)
    if _outside(keys, found, kept.title) != kept:
        where = f"conversations/{kept.id}/conversation.json"
        raise DamageError(where, "what stands in the clear is not what was written")
    return found


def open_title(keys: ScopeKeys, title: str, identifier: str) -> Metadata:
    """The metadata in a title."""
    try:
        return _decode(keys.open_metadata(title, identifier))
    except msgspec.MsgspecError as error:
        where = f"conversations/{identifier}/conversation.json"
        raise DamageError(where, f"not metadata: {error}") from None


def told(problem: KeyUnavailableError) -> str:
    """The text in place of a title that cannot be decrypted."""
    # The reader of a list need not know where keys are stored.
    is_gone = "its key was destroyed" if problem.is_destroyed else "its key is not available"
    return f"({is_gone}; `cannery keys` says more)"


def locked(kept: Metadata, problem: str) -> Metadata:
    """The metadata of a conversation without its key."""
    return msgspec.structs.replace(kept, title=problem, tags=(), model=None, session="", client="")


def _outside(keys: ScopeKeys, metadata: Metadata, title: str) -> Metadata:
    """The clear fields, around the encrypted ones."""
    model = metadata.model
    return Metadata(
        id=metadata.id,
        created=metadata.created,
        updated=metadata.updated,
        title=title,
        tags=tuple(keys.token("tag", tag) for tag in metadata.tags),
        profile=metadata.profile,
        model=None if model is None else keys.token("model", model),
        parent=metadata.parent,
        position=metadata.position,
        deleted=metadata.deleted,
        scope=metadata.scope,
        session=keys.token("session", metadata.session),
        kind=metadata.kind,
        client=keys.token("client", metadata.client),
        began_at=metadata.began_at,
    )
