"""The items of a Responses body: their kinds, and whether a part of the conversation is stored on the server."""

from __future__ import annotations

from typing import Any

from cannery.doctor.contract import Judged, Object
from cannery.doctor.json_paths import objects
from cannery.wire.places import Path


def kind_of(item: Object) -> str:
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    return "message" if "role" in item else "item_reference"


def items_of(judged: Judged) -> list[tuple[Path, Object]]:
    return objects(judged.body.get("input"), ("input",))


def key_of(item: Object) -> Any:
    return item.get("id") if kind_of(item).startswith("local_shell") else item.get("call_id")


def has_state(judged: Judged) -> bool:
    """Whether a part of the conversation is stored on the server."""
    body = judged.body
    named = body.get("previous_response_id") or body.get("conversation") or body.get("prompt")
    return bool(named) or any(kind_of(item) == "item_reference" for _, item in items_of(judged))
