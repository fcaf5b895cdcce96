"""Plain lists of messages: ``{title?, messages: [{role, content}]}``, a common format of small tools.

Chatbot UI wraps its chats in ``{"version", "history": […]}`` and stores the system text in ``prompt``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery.importers.api_messages import is_message, read_messages, time_of
from cannery.importers.contract import Detection, Format, Found, Imported, Sample
from cannery.importers.pieces import objects, text_of, unknown_record, with_fields
from cannery.importers.sources import Source
from cannery.importers.trees import linear
from cannery.messages import supervisor

NAME = "message_lists"
_TITLES = ("title", "name")
_TAKEN = (*_TITLES, "messages", "prompt", "id", "create_time", "created_at", "createdAt")


def detect(sample: Sample) -> Detection | None:
    """A title and messages, or a history of such chats."""
    for record in sample.objects:
        for chat in objects(record.get("history")) or [record]:
            messages = objects(chat.get("messages"))
            if messages and all(map(is_message, messages)) and _has_title(chat):
                return Detection(0.7, "it has titled lists of messages with role and content")
    return None


def _has_title(chat: dict[str, Any]) -> bool:
    return any(isinstance(chat.get(key), str) for key in _TITLES)


def read(source: Source) -> Iterator[Found]:
    """One conversation per list."""
    for record, value in source.values():
        chats: list[Any] = objects(value.get("history")) if isinstance(value, dict) else []
        if chats:
            # Fields beside the chats are stored with the first of them.
            beside = {key: item for key, item in value.items() if key != "history"}
            chats[0] = {**beside, **chats[0]}
        for number, chat in enumerate(chats or [value]):
            place = f"{source.place_of(record)}#{number}"
            if not isinstance(chat, dict) or not isinstance(chat.get("messages"), list):
                yield unknown_record("no messages", record.place, chat)
            else:
                yield from _conversation(chat, place)


def _conversation(chat: dict[str, Any], place: str) -> Iterator[Found]:
    spoken = read_messages(chat["messages"], NAME, place)
    yield from spoken.unknown
    turns = spoken.turns
    prompt = text_of(chat.get("prompt"))
    if prompt:
        turns = [("prompt", (supervisor(prompt),)), *turns]
    if turns:
        name, first = turns[0]
        turns[0] = name, with_fields(first, NAME, chat, *_TAKEN)
    title = next(filter(None, (text_of(chat.get(key)) for key in _TITLES)), "")
    identifier = text_of(chat.get("id")) or place
    named = chat.get("model")
    named = named.get("id") if isinstance(named, dict) else named
    model = spoken.model or text_of(named) or None
    yield Imported(identifier, linear(turns), title, time_of(chat), model=model)


FORMAT = Format(
    NAME, "lists of messages", detect, read, keys=("title", "messages", "role", "content")
)
