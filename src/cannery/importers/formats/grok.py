"""Grok exports (``prod-grok-backend.json``): ``{conversations: [{conversation, responses: [{response}]}]}``.

A response is a message of either side; ``parent_response_id`` links them to a tree. Times are ISO dates, or those of
MongoDB's extended JSON (``{"$date": {"$numberLong": "…"}}``). Shape as in public converters of these exports (read
2026-11-18).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.drafts import Draft, role_of
from cannery.importers.pieces import (
    moment,
    nodes_with_fields,
    objects,
    text_of,
    unknown_record,
    with_fields,
)
from cannery.importers.sources import Source

NAME = "grok"
_TAKEN = (
    "_id",
    "conversation_id",
    "message",
    "sender",
    "create_time",
    "model",
    "parent_response_id",
)


def detect(sample: Sample) -> Detection | None:
    """Conversations with responses by a sender."""
    for record in sample.objects:
        for chat in _chats(record):
            if any("sender" in each and "message" in each for each in _responses(chat)):
                return Detection(0.95, "its conversations have responses with sender and message")
    return None


def _chats(record: dict[str, Any]) -> list[dict[str, Any]]:
    chats = objects(record.get("conversations")) or [record]
    return [chat for chat in chats if isinstance(chat.get("responses"), list)]


def _responses(chat: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for entry in objects(chat.get("responses")):
        inner = entry.get("response")
        yield inner if isinstance(inner, dict) else entry


def read(source: Source) -> Iterator[Found]:
    """One conversation per entry, with its branches."""
    for record, value in source.values():
        chats = _chats(value) if isinstance(value, dict) else []
        if not chats:
            yield unknown_record("no conversations", record.place, value)
        for number, chat in enumerate(chats):
            yield _conversation(chat, f"{source.place_of(record)}#{number}")


def _conversation(chat: dict[str, Any], place: str) -> Imported:
    unknown: Counter[str] = Counter()
    facts = chat.get("conversation")
    facts = facts if isinstance(facts, dict) else {}
    responses = list(_responses(chat))
    names = [text_of(each.get("_id")) or f"#{number}" for number, each in enumerate(responses)]
    nodes: list[Node] = []
    model: str | None = None
    for name, response in zip(names, responses, strict=True):
        role = role_of(response.get("sender")) or "assistant"
        draft = Draft(NAME, role, _time(response.get("create_time")), unknown)
        draft.text(response.get("message"))
        made_by = text_of(response.get("model")) if role == "assistant" else ""
        model = made_by or model
        above = text_of(response.get("parent_response_id"))
        parent = above if above in names else nodes[-1].identifier if nodes else None
        said = with_fields(draft.done(model=made_by), NAME, response, *_TAKEN)
        nodes.append(Node(name, parent, said))
    return Imported(
        text_of(facts.get("id")) or place,
        nodes_with_fields(nodes, NAME, facts, "id", "title", "create_time"),
        text_of(facts.get("title")),
        _time(facts.get("create_time")),
        names[-1] if names else None,
        model,
        dict(unknown),
    )


def _time(value: Any) -> Any:
    while isinstance(value, dict):
        value = value.get("$date", value.get("$numberLong"))
    return moment(value)


FORMAT = Format(
    NAME,
    "Grok export",
    detect,
    read,
    keys=("conversations", "conversation", "responses", "response", "sender"),
)
