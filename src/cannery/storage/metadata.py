"""The metadata of a conversation (section 4 of ``docs/storage-format.md``)."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from msgspec import Struct

from cannery.backends import Metadata, Profile, check_identifier, check_name
from cannery.errors import DamageError, InputError


class Link(Struct, frozen=True):
    """The relation of a conversation to its parent, and the client that held it (``Metadata``)."""

    kind: str = ""
    client: str = ""
    client_version: str = ""
    parent: str | None = None
    began_at: int | None = None
    call: str | None = None


NO_LINK = Link()


class InForce(NamedTuple):
    """Keys of the instructions in force first and last, and of the tools and settings in force.

    Tools and settings are "" if unknown. ``later`` is "+" once something differs from the first version.
    """

    first: str
    setup: str
    tools: str
    settings: str = ""
    later: str = ""

    @classmethod
    def parse(cls, text: str) -> InForce | None:
        """Parse the form that metadata holds (``encode``); None if it is absent."""
        fields = text.split("/")
        # Earlier versions kept no settings.
        return cls(*fields) if len(fields) in {3, len(cls._fields)} else None

    def encode(self) -> str:
        """The form that metadata holds."""
        return "/".join(self)

    @classmethod
    def inherited(cls, text: str) -> str:
        """A fork's value from its parent's: nothing if there were several versions."""
        known = cls.parse(text)
        is_first = known is not None and known.first == known.setup and not known.later
        return text if is_first else ""


PROFILES: tuple[Profile, ...] = ("archive", "chat")
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LONGEST_TITLE = 1000


_decode = msgspec.json.Decoder(Metadata).decode


def decode_metadata(data: bytes, identifier: str) -> Metadata:
    """Read stored metadata."""
    try:
        metadata = _decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise DamageError(f"conversations/{identifier}/conversation.json", str(error)) from None
    if metadata.id != identifier:
        where = f"conversations/{identifier}/conversation.json"
        raise DamageError(where, f"is the metadata of {metadata.id[:64]!r}")
    return metadata


def new_metadata(  # noqa: PLR0913 - what is known about a conversation
    *,
    title: str = "",
    tags: tuple[str, ...] = (),
    profile: str = "archive",
    model: str | None = None,
    parent: str | None = None,
    position: int = 0,
    identifier: str | None = None,
    created: datetime | None = None,
    scope: str = "",
    session: str = "",
    link: Link = NO_LINK,
    setup: str = "",
) -> Metadata:
    """The metadata of a new conversation, checked.

    An imported one has the time ``created`` elsewhere, by which lists order it.
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
    return Metadata(
        own,
        began,
        began,
        title,
        tuple(tags),
        known,
        model,
        parent,
        position,
        scope=check_name(scope, "scope"),
        session=check_name(session, "session"),
        kind=check_name(link.kind, "kind"),
        client=check_name(link.client, "client"),
        client_version=check_name(link.client_version, "client version"),
        began_at=link.began_at,
        call=link.call,
        setup=setup,
    )


def check_title(title: object) -> None:
    """Refuse a title that is not short text."""
    if not isinstance(title, str) or len(title) > _LONGEST_TITLE:
        raise InputError(f"a title is text of at most {_LONGEST_TITLE} characters")
    check_unicode(title)


def check_tags(tags: object) -> None:
    """Refuse tags that are not words."""
    if not isinstance(tags, tuple) or not all(isinstance(tag, str) and tag for tag in tags):
        raise InputError("tags are a tuple of words")
    for tag in tags:
        check_unicode(tag)


def check_model(model: object) -> None:
    """Refuse a model that is not text."""
    if model is not None and not isinstance(model, str):
        raise InputError(f"a model is named by text, not {type(model).__name__}")
    check_unicode(model or "")


def check_unicode(text: str) -> None:
    """Refuse text that cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError("not valid Unicode: a lone surrogate") from None


def new_identifier() -> str:
    """A new id that sorts by time: 26 characters of 48 bits of milliseconds and 80 random bits."""
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))
