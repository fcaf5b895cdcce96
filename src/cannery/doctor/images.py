"""Reads the type and size in pixels of base64 images from their first bytes only.

PNG, GIF and WebP have their size in the first 30 bytes, JPEG in a frame header after any number of other segments.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, NamedTuple

_DATA_URL = re.compile(r"data:([^;,]*)((?:;[^;,]*)*?);base64,", re.IGNORECASE)
_HEAD = 64
_PLENTY = 400_000
# Frame headers of JPEG; the others in this range are tables.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class Picture(NamedTuple):
    """An image: the media type according to its bytes, width and height; None if unknown."""

    media_type: str | None
    width: int | None
    height: int | None

    @property
    def longest(self) -> int:
        """The longer edge in pixels, 0 if it is unknown."""
        return max(self.width or 0, self.height or 0)


def split_data_url(url: Any) -> tuple[str, str] | None:
    """The media type and the base64 text of a data URL; None for anything else."""
    found = _DATA_URL.match(url, 0, 512) if isinstance(url, str) else None
    return None if found is None else (found[1].strip().lower(), url[found.end() :])


def decoded(text: Any, *, urlsafe: bool = False, limit: int | None = None) -> bytes | None:
    """Decode base64 text, or its first characters; None if it is invalid. Line breaks are ignored."""
    if not isinstance(text, str):
        return None
    cut = text if limit is None else text[:limit]
    cut = "".join(cut.split()) if any(mark in cut for mark in " \r\n\t") else cut
    if urlsafe:
        cut = cut.translate(str.maketrans("-_", "+/"))
    if limit is not None or urlsafe:
        cut = cut.rstrip("=")
        # The first characters of a longer text may end within a group.
        cut = cut[: len(cut) - (limit is not None and len(cut) % 4 == 1)]
        cut += "=" * (-len(cut) % 4)
    try:
        return base64.b64decode(cut, validate=True)
    except (binascii.Error, ValueError):
        return None


def read_image(text: Any, *, urlsafe: bool = False) -> Picture:
    """Read type and size of a base64 image."""
    head = decoded(text, urlsafe=urlsafe, limit=_HEAD) or b""
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return Picture("image/png", _big(head[16:20]), _big(head[20:24]))
    if head[:6] in (b"GIF87a", b"GIF89a") and len(head) >= 10:
        return Picture("image/gif", _little(head[6:8]), _little(head[8:10]))
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP" and len(head) >= 30:
        return Picture("image/webp", *_webp(head))
    if head.startswith(b"\xff\xd8\xff"):
        data = decoded(text, urlsafe=urlsafe, limit=_PLENTY) or head
        size = _jpeg(data)
        if size is None and len(text) > _PLENTY:
            size = _jpeg(decoded(text, urlsafe=urlsafe) or b"")
        return Picture("image/jpeg", *(size or (None, None)))
    if head.startswith(b"%PDF-"):
        return Picture("application/pdf", None, None)
    return Picture(None, None, None)


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _webp(head: bytes) -> tuple[int | None, int | None]:
    kind = head[12:16]
    if kind == b"VP8X":
        return _little(head[24:27]) + 1, _little(head[27:30]) + 1
    if kind == b"VP8L":
        bits = _little(head[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        return _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF
    return None, None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    place = 2
    while place + 9 <= len(data):
        if data[place] != 0xFF:
            return None
        marker = data[place + 1]
        if marker == 0xFF:
            place += 1
        elif marker in _FRAMES:
            return _big(data[place + 7 : place + 9]), _big(data[place + 5 : place + 7])
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:
            place += 2
        else:
            place += 2 + max(_big(data[place + 2 : place + 4]), 2)
    return None
