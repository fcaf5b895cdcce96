"""opencode: the tables ``session``, ``message`` and ``part`` of ``opencode.db``, or the output of ``opencode export``.

Earlier versions stored a session, its messages and their parts in three folders of ``storage``. A session with a parent
is a sub-agent. A part of the type ``tool`` is a call with its state and its result. Parts that only mark steps are
ignored. Seen with opencode 1.18.33.
"""

from __future__ import annotations

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
from cannery.importers.drafts import Draft
from cannery.importers.pieces import (
    json_value,
    moment,
    nodes_with_fields,
    objects,
    text_of,
    unknown_record,
    usage_of,
    whole,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.importers.trees import linear
from cannery.messages import Usage

NAME = "opencode"
# The fields of a message that are read; the others are stored as facts.
_READ = ("id", "sessionID", "role", "time", "modelID", "tokens", "cost")
_MARKS = ("step-start", "step-finish", "snapshot")


def detect(sample: Sample) -> Detection | None:
    """The tables, or an exported session."""
    if sample.has_table("message", "session_id", "data") and sample.has_table(
        "part", "message_id", "data"
    ):
        return Detection(0.95, "its tables are session, message and part")
    for record in sample.objects:
        if text_of(record.get("id")).startswith("ses_") and "projectID" in record:
            return Detection(0.9, "it is a session with a projectID, as older versions keep them")
        info = record.get("info")
        if isinstance(info, dict) and any(map(_is_message, objects(record.get("messages")))):
            return Detection(0.95, "it has the info of a session and messages with parts")
    return None


def _is_message(message: dict[str, Any]) -> bool:
    info = message.get("info")
    return isinstance(info, dict) and "role" in info and isinstance(message.get("parts"), list)


def read(source: Source) -> Iterator[Found]:
    """One conversation per session."""
    sessions = _stored(source) if source.is_database else _exported(source)
    for place, info, messages in sessions:
        if info is None:
            yield unknown_record(UNREADABLE, place, messages)
            continue
        yield from _session(place, info, messages)


def _exported(source: Source) -> Iterator[tuple[str, Any, Any]]:
    for record, value in source.values():
        info = value.get("info") if isinstance(value, dict) else None
        if isinstance(info, dict) and isinstance(value.get("messages"), list):
            yield source.place_of(record), info, objects(value["messages"])
        elif isinstance(value, dict) and "projectID" in value:
            yield source.place_of(record), value, list(_in_files(source, value))
        else:
            yield record.place, None, value


def _in_files(source: Source, session: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The messages of a session from files of their own, with their parts from others."""
    storage = None if source.path is None else source.path.parents[2]
    folder = None if storage is None else storage / "message" / text_of(session.get("id"))
    if storage is None or folder is None or not folder.is_dir():
        return
    found = [(path.stem, objects([_object(path.read_bytes())])) for path in folder.glob("*.json")]
    for name, infos in sorted(found):
        for info in infos:
            parts = sorted((storage / "part" / name).glob("*.json"))
            yield {"info": info, "parts": [_object(path.read_bytes()) for path in parts]}


def _stored(source: Source) -> Iterator[tuple[str, Any, Any]]:
    """The sessions of the database, parents before their sub-agents; one is in memory at a time."""
    with source.database() as connection:
        if connection is None:
            return
        query = (
            "SELECT id, parent_id, title, time_created FROM session"
            " ORDER BY parent_id IS NOT NULL, time_created, id"
        )
        for row in connection.execute(query).fetchall():
            info = {
                "id": row["id"],
                "parentID": row["parent_id"],
                "title": row["title"],
                "time": {"created": row["time_created"]},
            }
            parts: dict[str, list[Any]] = {}
            of_session = (row["id"],)
            for part in connection.execute(
                "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY id", of_session
            ):
                parts.setdefault(part["message_id"], []).append(json_value(part["data"]))
            told = connection.execute(
                "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id",
                of_session,
            )
            messages = [
                {
                    "info": {**_object(each["data"]), "id": each["id"]},
                    "parts": parts.get(each["id"], []),
                }
                for each in told
            ]
            yield f"{source.name}:{row['id']}", info, messages


def _object(text: Any) -> dict[str, Any]:
    value = json_value(text)
    return value if isinstance(value, dict) else {}


def _session(place: str, info: dict[str, Any], messages: list[dict[str, Any]]) -> Iterator[Found]:
    unknown: Counter[str] = Counter()
    turns: list[Turn] = []
    model: str | None = None
    for number, message in enumerate(messages):
        told = message.get("info")
        role = told.get("role") if isinstance(told, dict) else None
        name = text_of(told.get("id")) if isinstance(told, dict) else ""
        if role not in ("user", "assistant") or not isinstance(told, dict):
            above = turns[-1][0] if turns else None
            yield unknown_record(UNREADABLE, f"{place}[{number}]", message, above)
            continue
        draft = Draft(NAME, role, _time(told), unknown)
        for part in objects(message.get("parts")):
            _take(draft, part)
        made_by = text_of(told.get("modelID"))
        model = made_by or model
        said = draft.done(model=made_by, usage=_usage(told.get("tokens")), cost=told.get("cost"))
        turns.append((name or f"#{number}", with_fields(said, NAME, told, *_READ)))
    parent = text_of(info.get("parentID")) or None
    yield Imported(
        text_of(info.get("id")) or place,
        nodes_with_fields(linear(turns), NAME, info, "id", "parentID", "title", "time"),
        text_of(info.get("title")),
        _time(info),
        model=model,
        unknown=dict(unknown),
        tags=("subagent",) if parent else (),
        started_by=parent,
    )


def _take(draft: Draft, part: dict[str, Any]) -> None:
    kind = part.get("type")
    if kind == "text":
        draft.text(part.get("text"))
    elif kind == "reasoning":
        draft.thought(part.get("text"))
    elif kind == "tool":
        state = part.get("state")
        state = state if isinstance(state, dict) else {}
        draft.call(part.get("callID"), part.get("tool"), state.get("input"))
        if state.get("status") == "completed":
            draft.answer(part.get("callID"), state.get("output"))
        elif state.get("status") == "error":
            draft.answer(part.get("callID"), state.get("error"), failed=True)
    elif kind == "file" and part.get("url"):
        draft.media(part["url"], part.get("mime"), part.get("filename"))
    elif kind not in _MARKS:
        draft.strange(kind, part)


def _time(info: dict[str, Any]) -> Any:
    time = info.get("time")
    return moment(time.get("created")) if isinstance(time, dict) else None


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    cache = value.get("cache")
    cache = cache if isinstance(cache, dict) else {}
    thought = value.get("reasoning")
    return usage_of(
        fresh=value.get("input"),
        output=whole(value.get("output")) + whole(thought),
        read=cache.get("read"),
        written=cache.get("write"),
        reasoning=thought,
    )


FORMAT = Format(
    NAME,
    "opencode sessions",
    detect,
    read,
    keys=("session_id", "message_id", "info", "parts", "sessionID", "messageID"),
    folders=(".local/share/opencode/opencode.db", ".local/share/opencode/storage"),
)
