"""Arguments and identifiers of calls, checked without being taken apart."""

from __future__ import annotations

import msgspec
from msgspec import Raw

_EMPTY = Raw(b"{}")
_read_raw = msgspec.json.Decoder(Raw).decode


def object_text(text: str) -> Raw | None:
    """The JSON object that an argument text spells, ready to be written; None if it spells none.

    The empty text spells the empty object.
    """
    if text[:1] != "{":
        return _EMPTY if not text else None
    try:
        return _read_raw(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def is_plain_identifier(text: str) -> bool:
    """Whether every provider takes this as an id and a name: at most 40 letters, digits and underscores."""
    return len(text) <= 40 and text.isascii() and text.isidentifier()
