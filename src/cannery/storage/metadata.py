"""What is known about a conversation beside its messages (section 4 of ``docs/storage-format.md``)."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from cannery.backends import check_identifier
from cannery.errors import DamageError, InputError

Profile: TypeAlias = Literal["archive", "chat"]
PROFILES: tuple[Profile, ...] = ("archive", "chat")
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LONGEST_TITLE = 1000


class Metadata(Struct, frozen=True, omit_defaults=True):
    """Title, tags, times, profile, and for a fork its parent and position."""

    id: str
    created: datetime
    updated: datetime
    title: str = ""
    tags: tuple[str, ...] = ()
    profile: Profile = "archive"
    model: str | None = None
    parent: str | None = None
    position: int = 0
    deleted: datetime | None = None
    # Other titles under which the same history was brought in.
    other_titles: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """As it is stored."""
        return msgspec.json.encode(self)

    def changed(self, **changes: object) -> Metadata:
        """The same with some facts changed, now unless ``updated`` is among them."""
        return msgspec.structs.replace(self, **{"updated": datetime.now(UTC), **changes})


_decode = msgspec.json.Decoder(Metadata).decode


def decode_metadata(data: bytes, identifier: str) -> Metadata:
    """Read stored metadata."""
    try:
        metadata = _decode(data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise DamageError(f"conversations/{identifier}/conversation.json", str(error)) from None
    if metadata.id != identifier:
        where = f"conversations/{identifier}/conversation.json"
        raise DamageError(where, f"is the metadata of {metadata.id[:64]!r}")
    return metadata


def new_metadata(
    *,
    title: str = "",
    tags: tuple[str, ...] = (),
    profile: str = "archive",
    model: str | None = None,
    parent: str | None = None,
    position: int = 0,
    identifier: str | None = None,
    created: datetime | None = None,
) -> Metadata:
    """The metadata of a new conversation, checked.

    One that began elsewhere says when it was ``created`` there, and is as old in every list.
    """
    for known in PROFILES:
        if profile == known:
            break
    else:
        raise InputError(f"no profile {profile!r}; known: {', '.join(PROFILES)}")
    check_title(title)
    check_tags(tags)
    check_model(model)
    began = created or datetime.now(UTC)
    own = new_identifier() if identifier is None else check_identifier(identifier)
    return Metadata(own, began, began, title, tuple(tags), known, model, parent, position)


def check_title(title: object) -> None:
    """Refuse a title that is not short text."""
    if not isinstance(title, str) or len(title) > _LONGEST_TITLE:
        raise InputError(f"a title is text of at most {_LONGEST_TITLE} characters")
    _check_unicode(title)


def check_tags(tags: object) -> None:
    """Refuse tags that are not words."""
    if not isinstance(tags, tuple) or not all(isinstance(tag, str) and tag for tag in tags):
        raise InputError("tags are a tuple of words")
    for tag in tags:
        _check_unicode(tag)


def check_model(model: object) -> None:
    """Refuse a model that is not named by text."""
    if model is not None and not isinstance(model, str):
        raise InputError(f"a model is named by text, not {type(model).__name__}")
    _check_unicode(model or "")


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError("not valid Unicode: a lone surrogate") from None


def new_identifier() -> str:
    """A new id that sorts by time: 26 characters of 48 bits of milliseconds and 80 random ones."""
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))
