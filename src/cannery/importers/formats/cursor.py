"""Cursor: composers in ``state.vscdb``, and the transcripts of its agent, one message per line.

The database stores values by key: ``composerData:ID`` lists the bubbles of a composer in order, ``bubbleId:ID:BUBBLE``
is one of them, by the user (type 1) or the model (type 2); ``toolFormerData`` in it is a call with its result. Older
composers contain their bubbles; older chats are tabs under one key of ``ItemTable``. Shapes as in public descriptions
of the database (read 2026-11-18). The database may be very large, so it is queried by key.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Any

from cannery.importers.api_messages import Turn
from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Sample,
)
from cannery.importers.drafts import Draft, role_of
from cannery.importers.pieces import (
    json_value,
    moment,
    objects,
    text_of,
    unknown_record,
    usage_of,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.importers.trees import linear

NAME = "cursor"
_ROLES = {1: "user", 2: "assistant", "user": "user", "ai": "assistant"}
# The fields of a bubble that are read; the others are stored as facts.
_READ = ("type", "text", "rawText", "createdAt", "thinking", "modelInfo", "tokenCount", "bubbleId")
_TABS = "workbench.panel.aichat.view.aichat.chatdata"


def detect(sample: Sample) -> Detection | None:
    """The table of keys and values, or lines with a role and a message."""
    if sample.has_table("cursorDiskKV", "key", "value"):
        return Detection(0.95, "its table cursorDiskKV has keys and values")
    lines = [record for record in sample.objects if "role" in record]
    if lines and all(_is_line(record) for record in lines):
        return Detection(0.8, "its lines have a role beside a message with content")
    return None


def _is_line(record: dict[str, Any]) -> bool:
    message = record.get("message")
    is_said = isinstance(message, dict) and isinstance(message.get("content"), (str, list))
    return is_said and "sessionId" not in record and bool(role_of(record.get("role")))


def read(source: Source) -> Iterator[Found]:
    """One conversation per composer, or per file of lines."""
    if not source.is_database:
        yield from _transcript(source)
        return
    with source.database() as connection:
        if connection is None:
            return
        try:
            yield from _composers(connection, source.name)
            yield from _tabs(connection, source.name)
        except sqlite3.Error as error:
            source.problems.append(f"the database cannot be read: {error}")


# --- the database ------------------------------------------------------------------------------


def _composers(connection: sqlite3.Connection, place: str) -> Iterator[Found]:
    query = (
        "SELECT key FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;'"
        " ORDER BY key"
    )
    for (key,) in connection.execute(query).fetchall():
        composer = _value(connection, key)
        if not isinstance(composer, dict):
            continue
        name = text_of(composer.get("composerId")) or key.partition(":")[2]
        bubbles = []
        for header in objects(composer.get("fullConversationHeadersOnly")):
            bubble = _value(connection, f"bubbleId:{name}:{header.get('bubbleId')}")
            bubbles.append(bubble if isinstance(bubble, dict) else header)
        bubbles = bubbles or objects(composer.get("conversation"))
        if bubbles:
            yield from _conversation(name, composer, bubbles, f"{place}:{key}")


def _value(connection: sqlite3.Connection, key: str) -> Any:
    query = "SELECT value FROM cursorDiskKV WHERE key = ?"
    row = connection.execute(query, (key,)).fetchone()
    return None if row is None else json_value(row[0])


def _tabs(connection: sqlite3.Connection, place: str) -> Iterator[Found]:
    """Chats of versions before composers."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'ItemTable'"
    if connection.execute(query).fetchone() is None:
        return
    row = connection.execute("SELECT value FROM ItemTable WHERE key = ?", (_TABS,)).fetchone()
    chats = None if row is None else json_value(row[0])
    for tab in objects(chats.get("tabs")) if isinstance(chats, dict) else ():
        facts = {"name": tab.get("chatTitle"), "createdAt": tab.get("lastSendTime")}
        bubbles = objects(tab.get("bubbles"))
        if bubbles:
            yield from _conversation(text_of(tab.get("tabId")), facts, bubbles, f"{place}:{_TABS}")


def _conversation(
    name: str, composer: dict[str, Any], bubbles: list[dict[str, Any]], place: str
) -> Iterator[Found]:
    unknown: Counter[str] = Counter()
    turns: list[Turn] = []
    settings = composer.get("modelConfig")
    model = text_of(settings.get("modelName")) if isinstance(settings, dict) else ""
    created = moment(composer.get("createdAt"))
    for number, bubble in enumerate(bubbles):
        kind = bubble.get("type")
        role = _ROLES.get(kind) if isinstance(kind, (int, str)) else None
        if role is None:
            above = turns[-1][0] if turns else None
            yield unknown_record(UNREADABLE, f"{place}[{number}]", bubble, above)
            continue
        draft = Draft(NAME, role, moment(bubble.get("createdAt")) or created, unknown)
        _say(draft, bubble)
        info = bubble.get("modelInfo")
        made_by = text_of(info.get("modelName")) if isinstance(info, dict) else ""
        model = made_by or model
        tokens = bubble.get("tokenCount")
        tokens = tokens if isinstance(tokens, dict) else {}
        usage = usage_of(fresh=tokens.get("inputTokens"), output=tokens.get("outputTokens"))
        said = draft.done(model=made_by, usage=usage)
        turns.append((f"#{number}", with_fields(said, NAME, bubble, *_READ)))
    yield Imported(
        name or place,
        linear(turns),
        text_of(composer.get("name")),
        created,
        model=model or None,
        unknown=dict(unknown),
    )


def _say(draft: Draft, bubble: dict[str, Any]) -> None:
    thinking = bubble.get("thinking")
    if isinstance(thinking, dict):
        draft.thought(thinking.get("text"), thinking.get("signature"))
    draft.text(bubble.get("text") or bubble.get("rawText"))
    tool = bubble.get("toolFormerData")
    if isinstance(tool, dict) and tool.get("name"):
        given = tool.get("rawArgs") or tool.get("params")
        draft.call(tool.get("toolCallId"), tool.get("name"), given)
        if tool.get("result") is not None:
            failed = tool.get("status") == "error"
            draft.answer(tool.get("toolCallId"), tool.get("result"), failed=failed)


# --- transcripts of the agent ------------------------------------------------------------------


def _transcript(source: Source) -> Iterator[Found]:
    unknown: Counter[str] = Counter()
    turns: list[Turn] = []
    for number, (record, value) in enumerate(source.values()):
        above = turns[-1][0] if turns else None
        if not isinstance(value, dict) or not _is_line(value):
            kind = value.get("type") if isinstance(value, dict) else None
            yield unknown_record(kind, record.place, value, above)
            continue
        when = moment(value.get("timestamp"))
        draft = Draft(NAME, role_of(value["role"]), when, unknown)
        content = value["message"]["content"]
        for place, part in enumerate(content if isinstance(content, list) else [content]):
            _take(draft, part, f"{number}.{place}")
        said = with_fields(draft.done(), NAME, value, "role", "message", "timestamp")
        turns.append((f"#{number}", said))
    name = source.name.rpartition("/")[2].partition(".")[0]
    yield Imported(name, linear(turns), unknown=dict(unknown))


def _take(draft: Draft, part: Any, place: str) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "tool_use":
        draft.call(part.get("id") or place, part.get("name"), part.get("input"))
    elif kind == "tool_result":
        failed = part.get("is_error") is True
        draft.answer(part.get("tool_use_id"), part.get("content"), failed=failed)
    else:
        draft.part(part)


FORMAT = Format(
    NAME,
    "Cursor chats",
    detect,
    read,
    keys=("cursorDiskKV", "composerData", "bubbleId", "role", "message"),
    folders=(
        ".cursor/projects",
        ".config/Cursor/User/globalStorage/state.vscdb",
        "Library/Application Support/Cursor/User/globalStorage/state.vscdb",
    ),
)
