"""Facts about an encrypted store that need no key: the marker, and the catalogue entries of its lines.

Nothing here needs the encryption library, so that every store is opened in the same way.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

from cannery.backends._contract import ContentTable, Describe, Entry, Metadata
from cannery.errors import DamageError

MARKER = "cannery-encryption"
"""The conversation that marks a store as encrypted."""

KEY_PREFIX = "cannery-key-"
KIND = "encryption"
HOW_TO_SAY = (
    "encryption_key=… in Python, --encryption-key or CANNERY_ENCRYPTION_KEY on the command line,"
    " recording.encryption_key in the gateway's file"
)
BEGIN = b'{"encrypted":1,'


def is_reserved(identifier: str) -> bool:
    """Whether a conversation is one of those that hold keys."""
    return identifier == MARKER or identifier.startswith(KEY_PREFIX)


def is_marker(raw: bytes | None) -> bool:
    """Whether metadata is the marker, and not that of a conversation with the same id."""
    if raw is None:
        return False
    try:
        return msgspec.json.decode(raw, type=Metadata).kind == KIND
    except msgspec.MsgspecError:
        return False


class Clear(Struct):
    """The clear fields of a line."""

    encrypted: int
    role: str
    said: str
    own: str | UnsetType = UNSET
    call: str | UnsetType = UNSET
    answers: str | UnsetType = UNSET
    setup: bool | UnsetType = UNSET
    contents: list[str] | UnsetType = UNSET


_decode = msgspec.json.Decoder(Clear).decode


def read_clear(line: bytes) -> Entry:
    """The catalogue entry of a stored line."""
    try:
        clear = _decode(line)
        own = None if clear.own is UNSET else base64.b64decode(clear.own, validate=True)
    except (msgspec.MsgspecError, ValueError) as error:
        raise DamageError("line", f"not an encrypted line: {error}") from None
    return Entry(
        clear.role,
        clear.said,
        own,
        None if clear.call is UNSET else clear.call,
        None if clear.answers is UNSET else clear.answers,
        no_words,
        clear.setup is True,
    )


def no_words() -> str:
    """The inner backend indexes no words of an encrypted line."""
    return ""


def describing(describe: Describe) -> Describe:
    """The function that derives catalogue entries, for an encrypted or a plain store."""

    def both(contents: ContentTable, lines: Sequence[bytes]) -> Sequence[Entry]:
        if not any(line.startswith(BEGIN) for line in lines):
            return describe(contents, lines)
        entries: list[Entry] = []
        for line in lines:
            is_clear = line.startswith(BEGIN)
            entries += (read_clear(line),) if is_clear else describe(contents, [line])
        return entries

    return both
