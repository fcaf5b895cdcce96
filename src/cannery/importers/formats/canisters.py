"""Cannery's own lines: one canister each, as in ``messages.jsonl`` of a store or an export, with inline content.

An export of several conversations names in each line the conversation that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from cannery.errors import CanneryError
from cannery.importers.contract import UNREADABLE, Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import text_of, unknown_record
from cannery.importers.sources import Source
from cannery.messages import AnyCanister, Role
from cannery.storage import open_store

NAME = "canisters"
_ROLES = {role.value for role in Role}


def detect(sample: Sample) -> Detection | None:
    """Lines with one of the six roles and a typed content, or a call or result."""
    own = [record for record in sample.objects if _is_line(record)]
    if own and len(own) == len(sample.records):
        return Detection(0.9, "each line is a canister")
    return None


def _is_line(record: dict[str, Any]) -> bool:
    if text_of(record.get("role")) not in _ROLES:
        return False
    content = record.get("content")
    is_typed = isinstance(content, dict) and "type" in content
    return "timestamp" in record and (is_typed or content is None)


def read(source: Source) -> Iterator[Found]:
    """One conversation per file, or the conversations named in its lines."""
    conversations: dict[str, list[AnyCanister]] = {}
    with open_store("sqlite::memory:") as store:
        for record, value in source.values():
            name = text_of(value.pop("conversation", None)) if isinstance(value, dict) else ""
            raw = msgspec.json.encode(value) if name else record.raw.strip()
            try:
                found = store.codec("").decoder.decode([raw], hydrate=True)
            except (CanneryError, msgspec.MsgspecError) as error:
                yield unknown_record(UNREADABLE, f"{record.place}: {error}", value)
                continue
            conversations.setdefault(name, []).extend(found)
    for name, canisters in conversations.items() or [("", [])]:
        yield Imported(name or source.name, (Node("lines", None, tuple(canisters)),))


FORMAT = Format(
    NAME, "Cannery canisters", detect, read, keys=("role", "content", "timestamp", "check")
)
