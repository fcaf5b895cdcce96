"""OpenAI Agents SDK: the tables ``agent_sessions`` and ``agent_messages`` of an ``SQLiteSession``; items of Responses.

Seen with openai-agents 0.24.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from cannery.errors import InputError
from cannery.importers.api_messages import Turn
from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Sample,
)
from cannery.importers.pieces import json_value, moment, spoken_by, unknown_record
from cannery.importers.sources import Source
from cannery.importers.trees import linear

NAME = "openai_agents"


def detect(sample: Sample) -> Detection | None:
    """The tables of a session."""
    if sample.has_table("agent_messages", "session_id", "message_data"):
        return Detection(0.95, "its table agent_messages has session_id and message_data")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per session."""
    with source.database() as connection:
        if connection is None:
            return
        try:
            names = connection.execute(
                "SELECT session_id FROM agent_messages GROUP BY session_id ORDER BY min(id)"
            ).fetchall()
            for (name,) in names:
                yield from _session(connection, name, source.name)
        except sqlite3.Error as error:
            source.problems.append(f"the database cannot be read: {error}")


def _session(connection: sqlite3.Connection, name: Any, place: str) -> Iterator[Found]:
    turns: list[Turn] = []
    created = None
    rows = connection.execute(
        "SELECT id, message_data, created_at FROM agent_messages WHERE session_id = ? ORDER BY id",
        (name,),
    )
    for row in rows:
        when = moment(row["created_at"])
        created = created or when
        item = json_value(row["message_data"])
        try:
            said = spoken_by("openai_responses", {"model": "unknown", "input": [item]}, when)
        except InputError as error:
            above = turns[-1][0] if turns else None
            where = f"{place}:agent_messages[{row['id']}]: {error}"
            yield unknown_record(UNREADABLE, where, item, above)
            continue
        turns.append((f"#{row['id']}", tuple(said)))
    yield Imported(str(name), linear(turns), created=created)


FORMAT = Format(
    NAME,
    "OpenAI Agents session",
    detect,
    read,
    "openai_responses",
    keys=("agent_sessions", "agent_messages", "session_id", "message_data"),
)
