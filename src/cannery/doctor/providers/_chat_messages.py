"""What the tables for Chat Completions share."""

from __future__ import annotations

from cannery.doctor.contract import Judged, Object
from cannery.doctor.shared import legal_name
from cannery.doctor.walking import at, objects, put
from cannery.wire.places import Path

PATTERN = r"[A-Za-z0-9_-]+"


def messages_of(judged: Judged) -> list[tuple[Path, Object]]:
    return objects(judged.body.get("messages"), ("messages",))


def rename(judged: Judged, path: Path) -> str | None:
    old = at(judged.body, path)
    put(judged.body, path, legal_name(old, PATTERN, 64))
    return f"renamed {old!r} to {at(judged.body, path)}"
