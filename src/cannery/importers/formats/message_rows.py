"""Data sets of conversations: rows with a list of ``{role, content}`` under ``messages`` or similar, and other columns.

Most conversation data sets are published in this form. A row with the settings of a request is a request, and not read
here; the other columns are stored with the first message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery.importers.api_messages import is_message, read_messages
from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Node,
    Sample,
)
from cannery.importers.pieces import row_digest, text_of, unknown_record, with_fields
from cannery.importers.sources import Source

NAME = "message_rows"
_LISTS = ("messages", "conversations", "conversation", "dialogue", "dialog", "chat", "turns")
_SETTINGS = frozenset(
    {
        "anthropic_version",
        "generationConfig",
        "max_completion_tokens",
        "max_tokens",
        "model",
        "options",
        "stream",
        "stream_options",
        "system",
        "temperature",
        "tool_choice",
        "top_p",
    }
)


def detect(sample: Sample) -> Detection | None:
    """Every row has a list of messages, under one name, and no settings of a request."""
    for key in _LISTS:
        rows = sample.records
        if rows and all(_has(row, key) for row in rows):
            columns = sorted({column for row in rows for column in row} - {key})[:6]
            # A single record may also be a request body or a chat.
            if len(rows) == 1 and key == "messages":
                return None
            beside = f" beside {', '.join(columns)}" if columns else ""
            return Detection(0.55, f"its rows have {key} with role and content{beside}")
    return None


def _has(row: Any, key: str) -> bool:
    if not isinstance(row, dict) or _SETTINGS & row.keys():
        return False
    messages = row.get(key)
    return isinstance(messages, list) and bool(messages) and all(map(is_message, messages))


def read(source: Source) -> Iterator[Found]:
    """One conversation per row."""
    for record, value in source.values():
        key = next((each for each in _LISTS if _has(value, each)), None)
        if key is None:
            yield unknown_record(UNREADABLE, record.place, value)
            continue
        place = source.place_of(record)
        spoken = read_messages(value[key], NAME, place)
        if spoken.unknown:
            yield from spoken.unknown
            continue
        said = [canister for _, canisters in spoken.turns for canister in canisters]
        nodes = (Node("row", None, with_fields(said, NAME, value, key)),)
        title = text_of(value.get("title"))
        yield Imported(place, nodes, title, model=spoken.model, row=row_digest(value))


FORMAT = Format(
    NAME,
    "data set of conversations",
    detect,
    read,
    is_data_set=True,
    keys=("messages", "conversations", "role", "content"),
)
