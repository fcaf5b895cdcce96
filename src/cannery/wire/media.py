"""Media on the wire: data URLs, base64 text, and the types that bytes give away.

Payloads stay text until somebody asks for bytes; only the first few characters are decoded to look at the magic number.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from cannery.errors import ContentNotFoundError, MessageError
from cannery.messages.content import (
    AudioContentClass,
    BinaryContentStruct,
    FileContentClass,
    ImageContentClass,
    VideoContentClass,
    new_audio,
    new_image,
    new_video,
    payload_bytes,
)
from cannery.messages.payload import Base64, Location, Payload

_DATA_URL = re.compile(r"data:([^;,]*)((?:;[^;,]*)*?);base64,", re.IGNORECASE)
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
# Less than what is left of long base64 when it is cut out of a body.
_CLOSELY = 4_000
NOT_BASE64 = "the data are empty or not base64"
_SPELLINGS = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "application/x-pdf": "application/pdf",
}
_MAKERS: dict[str, tuple[type[Any], Any]] = {
    "image": (ImageContentClass, new_image),
    "audio": (AudioContentClass, new_audio),
    "video": (VideoContentClass, new_video),
}


def split_data_url(url: str) -> tuple[str, Base64] | None:
    """The MIME type and base64 text of a data URL; None for any other URL."""
    if url[:5].lower() != "data:":
        return None
    found = _DATA_URL.match(url, 0, 512)
    if found is None:
        return None
    return found.group(1).strip().lower(), Base64(url[found.end() :])


def data_url(content: BinaryContentStruct, mime_type: str | None = None) -> str:
    """The data URL of inline content."""
    return f"data:{mime_type or content.mime_type};base64,{base64_text(content.payload)}"


def base64_text(payload: Payload) -> str:
    """The base64 text of a payload: as it came where it came as text, else the standard alphabet."""
    if isinstance(payload, Base64):
        return payload.text
    return base64.b64encode(payload_bytes(payload)).decode()


def standard_base64(payload: Payload) -> str:
    """The base64 text of a payload in the standard alphabet with padding, whatever it came as."""
    if isinstance(payload, Base64) and is_standard_base64(payload.text):
        return payload.text
    return base64.b64encode(payload_bytes(payload)).decode()


def sound_base64(payload: Payload) -> str | None:
    """The same; None if the data are empty or not base64."""
    if isinstance(payload, Base64):
        text = payload.text
        if text and is_standard_base64(text):
            return text
        data = payload.read()
    else:
        data = payload_bytes(payload)
    return base64.b64encode(data).decode() if data else None


def is_standard_base64(text: str) -> bool:
    """Whether a text passes as base64 in the standard alphabet with padding.

    Of a long one only the beginning and the end are looked at closely: reading all of it costs more than sending it.
    """
    if len(text) % 4 or not text.isascii() or "-" in text or "_" in text or "\n" in text:
        return False
    end = text[-4:].rstrip("=")
    closely = text[: min(_CLOSELY, len(text) - 4)] + end
    return not text or (len(end) > 1 and not closely.encode().translate(None, _ALPHABET))


def is_broken(content: BinaryContentStruct) -> bool:
    """Whether inline data are empty or not base64, which no provider takes."""
    payload = content.payload
    if isinstance(payload, Base64):
        is_sound = payload.head(1) and is_standard_base64(payload.text)
        return not (is_sound or payload.read())
    if isinstance(payload, Location) or (isinstance(content, FileContentClass) and content.chunks):
        return False
    return not payload if isinstance(payload, bytes) else payload.size == 0


def true_mime_type(content: BinaryContentStruct) -> str:
    """The MIME type in its usual spelling, corrected where the bytes say otherwise."""
    declared = content.mime_type.partition(";")[0].strip().lower()
    declared = _SPELLINGS.get(declared, declared)
    if isinstance(content.payload, Location):
        return declared
    return sniff(content.payload) or declared


def sniff(payload: Payload) -> str | None:
    """The MIME type that the first bytes give away, or None."""
    head = _head(payload)
    for magic, mime_type in _MAGIC:
        if head.startswith(magic):
            return mime_type
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        return "audio/mp4" if head[8:11] == b"M4A" else "video/mp4"
    if len(head) > 2 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2:
        return "audio/mpeg"
    return None


def _head(payload: Payload) -> bytes:
    if isinstance(payload, bytes):
        return payload[:16]
    if isinstance(payload, Base64):
        try:
            return Base64(payload.head(24)).data
        except MessageError:
            return b""
    if isinstance(payload, Location):
        return b""
    try:
        return payload.load()[:16]
    except ContentNotFoundError:
        return b""


def is_fetchable(payload: Location) -> bool:
    """Whether a server could fetch what lies elsewhere."""
    return payload.kind == "url" and payload.value.lower().startswith(("http://", "https://"))


def is_text_file(content: FileContentClass) -> bool:
    """Whether a file is plain text that may be shown as such, and no picture or PDF by that name."""
    if not content.mime_type.startswith("text/") or isinstance(content.payload, Location):
        return False
    seen = sniff(content.payload) or ""
    return not seen.startswith(("image/", "application/"))


def describe(content: BinaryContentStruct) -> str:
    """What a person would call this: kind, name, type and place."""
    name = getattr(content, "name", None)
    what = " ".join(filter(None, [content.kind, repr(name) if name else "", content.mime_type]))
    if isinstance(content.payload, Location):
        return f"{what} at {content.payload.value}"
    return what
