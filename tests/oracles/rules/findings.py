"""What the rule modules share: a finding, and checks that several servers make alike.

A finding reads `path: code: sentence`. Codes are stable; tests match on them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

OPENAI_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_DATA_URL = re.compile(r"data:([^;,]*)((?:;[^;,]*)*?);base64,(.*)", re.DOTALL)
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)


def finding(path: str, code: str, sentence: str) -> str:
    """One broken rule."""
    return f"{path}: {code}: {sentence}"


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; whatever is no list has none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def is_blank(text: Any) -> bool:
    """Whether the text has no visible character."""
    return isinstance(text, str) and not text.strip()


def walk(value: Any, path: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object at any depth with its path."""
    if isinstance(value, dict):
        yield path, value
        for key, item in value.items():
            yield from walk(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from walk(item, f"{path}[{index}]")


def in_range(
    body: Mapping[str, Any], key: str, low: float, high: float, path: str = "$"
) -> Iterator[str]:
    """A number of the body that is outside of its documented range."""
    value = body.get(key)
    if isinstance(value, int | float) and not low <= value <= high:
        yield finding(f"{path}.{key}", "range", f"{value} is not within {low}..{high}")


def names_are_legal(
    named: Iterable[tuple[str, Any]], pattern: re.Pattern[str], code: str = "name-charset"
) -> Iterator[str]:
    """Names that the server's pattern refuses."""
    for path, name in named:
        if not isinstance(name, str) or not pattern.fullmatch(name):
            yield finding(path, code, f"{name!r} does not match {pattern.pattern}")


def names_are_unique(named: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Names that occur twice."""
    seen: set[Any] = set()
    for path, name in named:
        if name in seen:
            yield finding(path, "name-duplicate", f"{name!r} is defined twice")
        seen.add(name)


def metadata_is_small(metadata: Any) -> Iterator[str]:
    """OpenAI: at most 16 pairs, keys up to 64 and values up to 512 characters."""
    if not isinstance(metadata, dict):
        return
    if len(metadata) > 16:
        yield finding("$.metadata", "metadata", "more than 16 pairs")
    for key, value in metadata.items():
        if len(key) > 64 or (isinstance(value, str) and len(value) > 512):
            yield finding(f"$.metadata.{key}", "metadata", "key over 64 or value over 512")


def decode(text: Any, *, urlsafe: bool = False) -> bytes | None:
    """Base64 decoded strictly, or None; `urlsafe` admits that alphabet too."""
    if not isinstance(text, str):
        return None
    if urlsafe:
        text = text.rstrip("=").translate(str.maketrans("-_", "+/"))
        text += "=" * (-len(text) % 4)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def split_data_url(url: str) -> tuple[str, str] | None:
    """The media type and payload of a base64 data URL."""
    found = _DATA_URL.fullmatch(url)
    return (found[1].lower(), found[3]) if found else None


def sniff(data: bytes) -> str | None:
    """The media type that the first bytes prove, if any."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((name for magic, name in _MAGIC if data.startswith(magic)), None)


def media_matches(path: str, declared: Any, data: bytes | None) -> Iterator[str]:
    """Bytes that do not decode, or that prove another media type than the declared one."""
    if data is None:
        yield finding(path, "base64", "the data is no base64 of the allowed alphabet")
        return
    proven = sniff(data)
    if proven and declared != proven:
        yield finding(path, "media-mismatch", f"declared {declared!r}, the bytes are {proven!r}")


def image_url_is_legal(path: str, url: Any) -> Iterator[str]:
    """OpenAI: an http(s) URL, or a base64 data URL of one of four image types."""
    if not isinstance(url, str) or not url:
        yield finding(path, "image-url", "neither a URL nor a data URL")
        return
    if not url.startswith("data:"):
        if not url.startswith(("http://", "https://")):
            yield finding(path, "image-url", f"scheme of {url[:40]!r} cannot be fetched")
        return
    parsed = split_data_url(url)
    if parsed is None:
        yield finding(path, "data-url", "not of the form data:<type>;base64,<payload>")
        return
    if parsed[0] not in IMAGE_TYPES:
        yield finding(path, "media-type", f"{parsed[0]!r} is none of {sorted(IMAGE_TYPES)}")
    yield from media_matches(path, parsed[0], decode(parsed[1]))


def file_data_is_legal(path: str, data: Any) -> Iterator[str]:
    """OpenAI files: base64, bare or in a data URL."""
    parsed = split_data_url(data) if isinstance(data, str) else None
    if decode(parsed[1] if parsed else data) is None:
        yield finding(path, "base64", "file_data is neither base64 nor a base64 data URL")


def count_breakpoints(body: Mapping[str, Any]) -> Iterator[str]:
    """OpenAI: at most four explicit prompt-cache breakpoints."""
    marked = [p for p, item in walk(body) if item.get("prompt_cache_breakpoint") is not None]
    if len(marked) > 4:
        yield finding(marked[4], "cache-marks", f"{len(marked)} breakpoints, 4 are allowed")
