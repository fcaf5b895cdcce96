"""What the tables for Chat Completions share."""

from __future__ import annotations

from cannery.doctor.contract import Judged, Object
from cannery.doctor.walking import objects
from cannery.wire.places import Path


def messages_of(judged: Judged) -> list[tuple[Path, Object]]:
    return objects(judged.body.get("messages"), ("messages",))
