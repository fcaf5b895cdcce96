"""Media on the wire: data URLs, base64 text, and media types recognised by their first bytes.

Payloads stay text until their bytes are needed; only the first few characters are decoded to check the magic number.
"""

from __future__ import annotations

import base64
import re
from functools import lru_cache
from typing import Any

from cannery.errors import ContentNotFoundError, MessageError
from cannery.messages.content import (
    BinaryContentStruct,
    FileContentClass,
    payload_bytes,
)
from cannery.messages.payload import Base64, Deferred, Location, Payload

_DATA_URL = re.compile(r"data:([^;,]*)((?:;[^;,]*)*?);base64,", re.IGNORECASE)
# Image types that all four providers accept; each has its own signature.
WEB_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
# The type of a file of search result chunks; its context is its source.
SEARCH_RESULT = "text/x-search-result"
# The type of unknown data.
UNKNOWN_TYPE = "application/octet-stream"
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)
_FIRST = frozenset(magic[0] for magic, _ in _MAGIC)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
# Major brands of ISO base media files (registered at mp4ra.org): exact ones, then prefixes of families. Any other
# brand is inconclusive.
_BRANDS = {
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis"), "image/heic"),
    **dict.fromkeys((b"hevc", b"hevx", b"hevm", b"hevs"), "image/heic-sequence"),
    b"mif1": "image/heif",
    b"msf1": "image/heif-sequence",
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"qt  ": "video/quicktime",
}
_BRAND_FAMILIES = {
    **dict.fromkeys((b"M4A", b"M4B", b"M4P", b"F4A", b"F4B"), "audio/mp4"),
    **dict.fromkeys((b"iso", b"mp4", b"M4V", b"F4V", b"avc", b"das", b"MSN", b"mmp"), "video/mp4"),
    b"3gp": "video/3gpp",
    b"3g2": "video/3gpp2",
}
_MP4_SOUND = frozenset({"audio/mp4", "audio/m4a", "audio/x-m4a", "audio/x-m4b", "audio/aac"})
_MP4 = _MP4_SOUND | {"video/mp4", "video/x-m4v", "video/quicktime"}
_HEIF = frozenset({"image/heif", "image/heic", "image/heif-sequence", "image/heic-sequence"})
_AVIF = frozenset({"image/avif", "image/avif-sequence", "image/heif", "image/heif-sequence"})
# Other types with the same first bytes: containers hold audio or video, and rarely declare which.
_ALSO: dict[str, frozenset[str]] = {
    "audio/ogg": frozenset({"video/ogg", "audio/opus", "audio/vorbis", "audio/speex"}),
    "audio/mpeg": frozenset({"audio/aac", "audio/flac", "audio/pcm", "audio/l16", "audio/basic"}),
    "video/webm": frozenset(
        {
            *("audio/webm", "video/x-matroska", "audio/x-matroska"),
            *("video/matroska", "audio/matroska"),
        }
    ),
    "video/x-msvideo": frozenset({"video/avi", "video/msvideo", "video/vnd.avi"}),
    "image/heic": _HEIF,
    "image/heic-sequence": _HEIF,
    "image/heif": _HEIF | _AVIF,
    "image/heif-sequence": _HEIF | _AVIF,
    "image/avif": _AVIF,
    "video/quicktime": frozenset({"video/mov", "video/x-quicktime"}),
    "audio/mp4": _MP4_SOUND,
    "video/mp4": _MP4 | {"video/3gpp", "audio/3gpp", "video/3gpp2", "audio/3gpp2"},
    "video/3gpp": _MP4 | {"audio/3gpp"},
    "video/3gpp2": _MP4 | {"audio/3gpp2"},
}
NOT_BASE64 = "the data are empty or not base64"
_SPELLINGS = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-flac": "audio/flac",
    "application/x-pdf": "application/pdf",
}


def split_data_url(url: str) -> tuple[str, Base64] | None:
    """The MIME type and base64 text of a data URL; None for any other URL."""
    if url[:5].lower() != "data:":
        return None
    found = _DATA_URL.match(url, 0, 512)
    if found is None:
        return None
    return found.group(1).strip().lower(), Base64(url[found.end() :])


def data_url_patch(url: str, mime_type: str, payload: Base64) -> dict[str, Any] | None:
    """The patch that restores a URL from the canonical data URL of its payload; None if it is the canonical one."""
    length = len(payload.text)
    head = url[: len(url) - length]
    return None if head == f"data:{mime_type};base64," else {"p": [0, length, head]}


def read_url(url: str) -> tuple[Payload, str, dict[str, Any] | None]:
    """The payload and type in a URL (a data URL holds both), and the patch of its spelling."""
    inline = split_data_url(url)
    if inline is None:
        return Location("url", url), "", None
    return inline[1], inline[0], data_url_patch(url, *inline)


def data_url(content: BinaryContentStruct, mime_type: str | None = None) -> str:
    """The data URL of inline content."""
    return f"data:{mime_type or content.mime_type};base64,{base64_text(content.payload)}"


def base64_text(payload: Payload) -> str:
    """The base64 text of a payload: the original text if there is one, else in the standard alphabet."""
    if isinstance(payload, Base64):
        return payload.text
    return base64.b64encode(payload_bytes(payload)).decode()


def standard_base64(payload: Payload) -> str:
    """The base64 text of a payload in the standard alphabet with padding, whatever its original form."""
    found = payload.standard if type(payload) is Base64 else None
    return base64.b64encode(payload_bytes(payload)).decode() if found is None else found


def is_broken(content: BinaryContentStruct) -> bool:
    """Whether inline data are empty or not base64, which every provider refuses."""
    payload = content.payload
    if isinstance(payload, Base64):
        return not payload.standard
    if isinstance(payload, Location) or (isinstance(content, FileContentClass) and content.chunks):
        return False
    return not payload if isinstance(payload, bytes) else payload.size == 0


def true_mime_type(content: BinaryContentStruct) -> str:
    """The MIME type in its usual spelling, corrected if the bytes contradict it."""
    declared = content.mime_type
    seen = sniff(content.payload)
    if seen is not None and seen == declared:
        return declared
    declared = declared.partition(";")[0].strip().lower()
    declared = _SPELLINGS.get(declared, declared)
    return declared if _may_be(seen, declared) else str(seen)


def contradiction(declared: str, payload: Payload) -> str | None:
    """The MIME type that the first bytes show, if it contradicts the declared one."""
    seen = sniff(payload)
    return None if _may_be(seen, declared) else seen


def _may_be(seen: str | None, declared: str) -> bool:
    """Whether a file of a declared type may begin with the bytes that were seen."""
    return seen is None or seen == declared or declared in _ALSO.get(seen, ())


def sniff(payload: Payload) -> str | None:
    """The MIME type that the first bytes show, or None; ``contradiction`` knows the other types they may be."""
    if isinstance(payload, Base64):
        return _type_in_base64(payload.head(24))
    return _type_in(_head(payload))


@lru_cache(maxsize=256)
def _type_in_base64(head: str) -> str | None:
    """The same for the first characters of base64, which most files of one type share."""
    try:
        return _type_in(Base64(head).data)
    except MessageError:
        return None


def _type_in(head: bytes) -> str | None:
    if head and head[0] in _FIRST:
        for magic, mime_type in _MAGIC:
            if head.startswith(magic):
                return mime_type
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12]) or _BRAND_FAMILIES.get(head[8:11])
    return "audio/mpeg" if _is_mpeg_sound(head) else None


def _is_mpeg_sound(head: bytes) -> bool:
    """Whether bytes start with an ID3 tag or a layer III frame."""
    if head[:3] == b"ID3":
        return len(head) > 4 and head[3] < 5 and head[4] < 0xFF
    if len(head) < 3 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:
        return False
    return head[2] < 0xF0 and head[2] & 12 != 12


def _head(payload: bytes | Location | Deferred) -> bytes:
    if isinstance(payload, bytes):
        return payload[:16]
    if isinstance(payload, Location):
        return b""
    try:
        return payload.load()[:16]
    except ContentNotFoundError:
        return b""


def is_fetchable(payload: Location) -> bool:
    """Whether a server could fetch content from this location."""
    return payload.kind == "url" and payload.value.lower().startswith(("http://", "https://"))


def is_text_file(content: FileContentClass) -> bool:
    """Whether a file is plain text that may be shown as text, and not an image or PDF by its name."""
    if not content.mime_type.startswith("text/") or isinstance(content.payload, Location):
        return False
    seen = sniff(content.payload) or ""
    return not seen.startswith(("image/", "application/"))


def context_path(content: FileContentClass) -> str:
    """The path of a file's context in its block."""
    return ".source" if content.mime_type == SEARCH_RESULT else ".context"


def describe(content: BinaryContentStruct) -> str:
    """A description for people: kind, name, type and place."""
    name = getattr(content, "name", None)
    what = " ".join(filter(None, [content.kind, repr(name) if name else "", content.mime_type]))
    if isinstance(content.payload, Location):
        return f"{what} at {content.payload.value}"
    return what
