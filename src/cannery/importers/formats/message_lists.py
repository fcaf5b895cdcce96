"""Plain lists of messages: ``{title?, messages: [{role, content}]}``, as many small tools write them.

Chatbot UI wraps its chats in ``{"version", "history": […]}`` and keeps the system text in ``prompt``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery.errors import InputError
from cannery.importers.contract import UNREADABLE, Detection, Format, Found, Imported, Sample
from cannery.importers.pieces import moment, objects, spoken_by, text_of, unknown_record
from cannery.importers.sources import Source
from cannery.importers.trees import linear
from cannery.messages import AnyCanister, supervisor

NAME = "message_lists"
_TITLES = ("title", "name")
_TIMES = ("create_time", "created_at", "createdAt", "timestamp")


def detect(sample: Sample) -> Detection | None:
    """A title beside messages, or a history of such chats."""
    for record in sample.objects:
        for chat in objects(record.get("history")) or [record]:
            messages = objects(chat.get("messages"))
            if messages and all("role" in message for message in messages) and _has_title(chat):
                return Detection(0.7, "it has titled lists of messages")
    return None


def _has_title(chat: dict[str, Any]) -> bool:
    return any(isinstance(chat.get(key), str) for key in _TITLES)


def read(source: Source) -> Iterator[Found]:
    """One conversation a list."""
    for record, value in source.values():
        chats: list[Any] = objects(value.get("history")) if isinstance(value, dict) else []
        for number, chat in enumerate(chats or [value]):
            place = f"{source.place_of(record)}#{number}"
            if not isinstance(chat, dict) or not isinstance(chat.get("messages"), list):
                yield unknown_record("no messages", record.place, chat)
            else:
                yield from _conversation(chat, place)


def _conversation(chat: dict[str, Any], place: str) -> Iterator[Found]:
    turns: list[tuple[str, tuple[AnyCanister, ...]]] = []
    prompt = text_of(chat.get("prompt"))
    if prompt:
        turns.append(("prompt", (supervisor(prompt),)))
    model = chat.get("model")
    for number, message in enumerate(objects(chat["messages"])):
        model = message.get("model") or model
        kept = {key: message[key] for key in ("role", "content") if key in message}
        try:
            said = spoken_by("openai_chat", {"messages": [kept]}, _time(message))
        except InputError:
            yield unknown_record(UNREADABLE, f"{place}[{number}]", message)
            continue
        turns.append((f"#{number}", tuple(said)))
    title = next(filter(None, (text_of(chat.get(key)) for key in _TITLES)), "")
    identifier = text_of(chat.get("id")) or place
    known = model if isinstance(model, str) else None
    yield Imported(identifier, linear(turns), title, _time(chat), model=known)


def _time(value: dict[str, Any]) -> Any:
    return next(filter(None, (moment(value.get(key)) for key in _TIMES)), None)


FORMAT = Format(NAME, "lists of messages", detect, read, keys=("title", "messages", "role"))
