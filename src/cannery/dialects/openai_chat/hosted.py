"""Hosted tools of Chat Completions: web search is a request field, and responses only cite the results.

Written against the types of openai 3.49.0 (2026-11-15).
"""

from __future__ import annotations

from typing import Any

from cannery.messages.hosted import UserLocation, WebSearch
from cannery.wire.bodies import Object
from cannery.wire.hosted import LOCATION, TEXT, Form, HostedTable, Setting, ToolRow

_FIELD = "web_search_options"


def _read_place(value: Any) -> UserLocation | None:
    """Take a location, which is one level deeper than in other dialects."""
    inner = value.get(LEVEL) if type(value) is dict else None
    location: UserLocation | None = LOCATION.read(inner)
    if location is not None and not inner:
        del value[LEVEL]
        if value.get("type") == LEVEL:
            del value["type"]
    return location


def _write_place(location: UserLocation) -> Object:
    inner = LOCATION.write(location)
    del inner["type"]
    return {"type": LEVEL, LEVEL: inner}


LEVEL = "approximate"
ROWS = (
    ToolRow(
        WebSearch,
        (_FIELD,),
        {
            "location": ("user_location", Form(_read_place, _write_place)),
            "context_size": ("search_context_size", TEXT),
        },
        quiet={"search_context_size": "medium"},
        # No other model accepts the field (https://platform.openai.com/docs/guides/tools-web-search, 2026-11-18).
        models="search|sonar",
    ),
)
HOSTED = HostedTable(
    rows=ROWS,
    settings={_FIELD: Setting(_FIELD)},
    place=lambda tag, value: (None, {tag: value}),
)
