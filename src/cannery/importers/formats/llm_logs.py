"""simonw's llm: ``logs.db`` of both generations, and the output of ``llm logs --json``.

Newer databases store messages as a tree by hash, ``threads`` refer to the last message of each conversation, and
``turns`` have the usage of answers; long text is in ``fragments``, to which ``text_ref`` refers. Older ones store a
prompt and its response per row, as in the output of ``llm logs --json``. Seen with llm 0.36.
"""

from __future__ import annotations

import base64
import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Any

from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Node,
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

NAME = "llm_logs"
# The fields of a row and of a turn that are read; the others are stored as facts.
_READ = (
    "id",
    "prompt",
    "system",
    "response",
    "reasoning",
    "conversation_id",
    "conversation_name",
    "datetime_utc",
    "input_tokens",
    "output_tokens",
    "attachments",
    "prompt_fragments",
    "tool_calls",
    "tool_results",
)
_TURN = (
    "id",
    "thread_id",
    "parent_message_hash",
    "tip_message_hash",
    "datetime_utc",
    "input_tokens",
    "output_tokens",
)
_OLD = ("prompt", "response", "conversation_id", "datetime_utc")


def detect(sample: Sample) -> Detection | None:
    """The tables, or rows of a prompt and a response with a conversation_id."""
    if sample.has_table("parts", "message_hash", "type") and sample.has_table("threads", "id"):
        return Detection(0.95, "its tables are messages, parts and threads")
    if sample.has_table("responses", *_OLD):
        return Detection(0.95, "its table responses has prompt, response and conversation_id")
    if sample.objects and all(set(_OLD) <= record.keys() for record in sample.objects):
        return Detection(0.95, "its rows have prompt, response, conversation_id and datetime_utc")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per thread, or per ``conversation_id``."""
    if not source.is_database:
        rows = []
        for record, value in source.values():
            if isinstance(value, dict) and set(_OLD) <= value.keys():
                rows.append(value)
            else:
                yield unknown_record(UNREADABLE, record.place, value)
        yield from _conversations(rows)
        return
    with source.database() as connection:
        if connection is None:
            return
        try:
            yield from _threads(connection)
            yield from _conversations(_responses(connection))
        except sqlite3.Error as error:
            source.problems.append(f"the database cannot be read: {error}")


# --- a prompt and its response a row -----------------------------------------------------------


def _responses(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """The rows of an older database with their calls, results and attachments."""
    if not _has(connection, "responses"):
        return []
    rows = [dict(row) for row in connection.execute("SELECT * FROM responses ORDER BY id")]
    by_name = {row["id"]: row for row in rows}
    names = {
        row["id"]: row["name"] for row in connection.execute("SELECT id, name FROM conversations")
    }
    for row in rows:
        row["conversation_name"] = names.get(row["conversation_id"])
    for key in ("tool_calls", "tool_results"):
        if _has(connection, key):
            for found in connection.execute(f"SELECT * FROM {key} ORDER BY id"):  # noqa: S608 - ours
                row = by_name.get(found["response_id"], {})
                row.setdefault(key, []).append(dict(found))
    if _has(connection, "prompt_attachments"):
        query = (
            "SELECT p.response_id, a.* FROM prompt_attachments p "
            'JOIN attachments a ON a.id = p.attachment_id ORDER BY p."order"'
        )
        for found in connection.execute(query):
            by_name.get(found["response_id"], {}).setdefault("attachments", []).append(dict(found))
    return rows


def _has(connection: sqlite3.Connection, table: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(query, (table,)).fetchone() is not None


def _conversations(rows: list[dict[str, Any]]) -> Iterator[Found]:
    chats: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        name = text_of(row.get("conversation_id")) or text_of(row.get("id"))
        chats.setdefault(name, []).append(row)
    for name, turns in chats.items():
        turns.sort(key=lambda row: text_of(row.get("datetime_utc")))
        yield _conversation(name, turns)


def _conversation(name: str, rows: list[dict[str, Any]]) -> Imported:
    unknown: Counter[str] = Counter()
    turns = []
    system = ""
    for row in rows:
        when = moment(row.get("datetime_utc"))
        told = text_of(row.get("system"))
        if told and told != system:
            system = told
            draft = Draft(NAME, "system", when, unknown)
            draft.text(told)
            turns.append((f"{row.get('id')}:system", draft.done()))
        asked = Draft(NAME, "user", when, unknown)
        for result in objects(row.get("tool_results")):
            failed = result.get("exception")
            asked.answer(result.get("tool_call_id"), result.get("output"), failed=failed)
        fragments = row.get("prompt_fragments")
        for fragment in fragments if isinstance(fragments, list) else ():
            if isinstance(fragment, str):
                asked.text(fragment)
            else:
                asked.strange("fragment", fragment)
        for attachment in objects(row.get("attachments")):
            _attach(asked, attachment)
        asked.text(row.get("prompt"))
        turns.append((f"{row.get('id')}:prompt", asked.done()))
        answer = Draft(NAME, "assistant", when, unknown)
        answer.thought(row.get("reasoning"))
        answer.text(row.get("response"))
        for call in objects(row.get("tool_calls")):
            answer.call(call.get("tool_call_id"), call.get("name"), call.get("arguments"))
        usage = usage_of(fresh=row.get("input_tokens"), output=row.get("output_tokens"))
        model = row.get("resolved_model") or row.get("model")
        said = with_fields(answer.done(model=model, usage=usage), NAME, row, *_READ)
        turns.append((f"{row.get('id')}:response", said))
    return Imported(
        name,
        linear(turns),
        text_of(rows[0].get("conversation_name")),
        moment(rows[0].get("datetime_utc")),
        model=text_of(rows[-1].get("model")) or None,
        unknown=dict(unknown),
    )


def _attach(draft: Draft, attachment: dict[str, Any]) -> None:
    content, kind = attachment.get("content"), attachment.get("type")
    if isinstance(content, bytes):
        data = base64.b64encode(content).decode()
        draft.media(f"data:{text_of(kind)};base64,{data}", kind)
    elif attachment.get("url") or attachment.get("path"):
        draft.media(attachment.get("url") or attachment.get("path"), kind)
    else:
        draft.strange("attachment", {key: str(value) for key, value in attachment.items()})


# --- messages by their hashes ------------------------------------------------------------------


def _threads(connection: sqlite3.Connection) -> Iterator[Found]:
    if not _has(connection, "threads"):
        return
    models: dict[str, str] = {}
    threads = connection.execute("SELECT * FROM threads ORDER BY datetime_utc, id").fetchall()
    for thread in threads:
        unknown: Counter[str] = Counter()
        turns = connection.execute("SELECT * FROM turns WHERE thread_id = ?", (thread["id"],))
        took = {turn["tip_message_hash"]: dict(turn) for turn in turns}
        nodes = _chain(connection, thread["tip_message_hash"], took, unknown)
        named = [text_of(turn.get("model")) for turn in took.values()]
        models[thread["id"]] = next(filter(None, reversed(named)), "")
        times = [moment(turn.get("datetime_utc")) for turn in took.values()]
        yield Imported(
            thread["id"],
            nodes,
            text_of(thread["name"]),
            min(filter(None, times), default=moment(thread["datetime_utc"])),
            model=models[thread["id"]] or None,
            unknown=dict(unknown),
        )


def _chain(
    connection: sqlite3.Connection,
    tip: Any,
    took: dict[str, dict[str, Any]],
    unknown: Counter[str],
) -> tuple[Node, ...]:
    """The messages up to the last one, oldest first."""
    query = (
        "WITH RECURSIVE chain (hash, parent_hash, role, depth) AS ("
        " SELECT hash, parent_hash, role, 0 FROM messages WHERE hash = ? UNION"
        " SELECT m.hash, m.parent_hash, m.role, depth + 1 FROM messages m"
        " JOIN chain ON m.hash = chain.parent_hash)"
        " SELECT * FROM chain ORDER BY depth DESC"
    )
    nodes = []
    for row in connection.execute(query, (tip,)).fetchall():
        turn = took.get(row["hash"], {})
        when = moment(turn.get("datetime_utc"))
        role = "user" if row["role"] == "tool" else role_of(row["role"]) or "user"
        draft = Draft(NAME, role, when, unknown)
        for part in connection.execute(
            "SELECT * FROM parts WHERE message_hash = ? ORDER BY position", (row["hash"],)
        ).fetchall():
            _take(connection, draft, part)
        usage = usage_of(fresh=turn.get("input_tokens"), output=turn.get("output_tokens"))
        model = turn.get("resolved_model") or turn.get("model")
        said = with_fields(draft.done(model=model, usage=usage), NAME, turn, *_TURN)
        nodes.append(Node(row["hash"], row["parent_hash"], said))
    return tuple(nodes)


def _take(connection: sqlite3.Connection, draft: Draft, part: sqlite3.Row) -> None:
    payload = json_value(part["payload"]) if part["payload"] else {}
    payload = payload if isinstance(payload, dict) else {}
    kind = part["type"]
    if kind in ("text", "reasoning"):
        text = part["text"] or _referred(connection, payload.get("text_ref"))
        draft.text(text) if kind == "text" else draft.thought(text)
    elif kind == "tool_call":
        draft.call(payload.get("tool_call_id"), payload.get("name"), payload.get("arguments"))
    elif kind == "tool_result":
        failed = payload.get("exception")
        draft.answer(payload.get("tool_call_id"), payload.get("output"), failed=failed)
    elif kind == "attachment" and _has(connection, "part_attachments"):
        query = (
            "SELECT a.* FROM part_attachments p JOIN attachments a ON a.id = p.attachment_id"
            ' WHERE p.part_id = ? ORDER BY p."order"'
        )
        for attachment in connection.execute(query, (part["id"],)).fetchall():
            _attach(draft, dict(attachment))
    else:
        draft.strange(kind, payload)


def _referred(connection: sqlite3.Connection, pieces: Any) -> str:
    """The text of a list of literals and references to fragments."""
    found = []
    query = "SELECT content FROM fragments WHERE id = ?"
    for piece in objects(pieces):
        if "literal" in piece:
            found.append(text_of(piece["literal"]))
            continue
        row = connection.execute(query, (piece.get("fragment"),)).fetchone()
        found.append("" if row is None else row["content"])
    return "".join(found)


FORMAT = Format(
    NAME,
    "llm logs",
    detect,
    read,
    keys=("prompt", "response", "conversation_id", "datetime_utc", "message_hash"),
    folders=(
        ".config/io.datasette.llm/logs.db",
        "Library/Application Support/io.datasette.llm/logs.db",
    ),
)
