"""Serves media of a conversation by digest, under the type of their bytes, and only types that cannot run code."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cannery.backends import check_digest
from cannery.errors import ContentNotFoundError
from cannery.storage import Store
from cannery.viewer.answers import Answer, Header
from cannery.viewer.contents import PLAYED, SHOWN_IMAGES
from cannery.viewer.safety import MEDIA_POLICY, safe_headers
from cannery.wire.media import sniff

_HEX = re.compile(r"[0-9a-f]{64}")
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def content_answer(store: Store, identifier: str, name: str, headers: Mapping[str, str]) -> Answer:
    """One content of the scope that a conversation belongs to."""
    if not _HEX.fullmatch(name):
        raise ContentNotFoundError(f"sha256:{name[:80]}")
    scope = store.metadata_of(identifier).scope
    etag = f'"{name}"'
    told: list[Header] = [
        *safe_headers(MEDIA_POLICY),
        ("etag", etag),
        ("cache-control", "private, max-age=31536000, immutable"),
        ("accept-ranges", "bytes"),
    ]
    data = store.codec(scope).cache.get(check_digest(f"sha256:{name}"))
    if headers.get("if-none-match") == etag:
        return Answer(304, told, b"")
    found = sniff(data)
    is_shown = found in SHOWN_IMAGES or found in PLAYED
    told.append(("content-type", str(found) if is_shown else "application/octet-stream"))
    if not is_shown:
        ending = {"application/pdf": ".pdf"}.get(str(found), ".bin")
        told.append(("content-disposition", f'attachment; filename="{name[:16]}{ending}"'))
    return _ranged(data, told, headers.get("range", ""))


def _ranged(data: bytes, told: list[Header], wanted: str) -> Answer:
    """The whole content, or the range that a player requests."""
    found = _RANGE.fullmatch(wanted.strip())
    if found is None or not (found[1] or found[2]):
        return Answer(200, told, data)
    first = int(found[1]) if found[1] else max(0, len(data) - int(found[2]))
    last = min(int(found[2]), len(data) - 1) if found[1] and found[2] else len(data) - 1
    if first > last:
        return Answer(416, [*told, ("content-range", f"bytes */{len(data)}")], b"")
    told.append(("content-range", f"bytes {first}-{last}/{len(data)}"))
    return Answer(206, told, data[first : last + 1])
