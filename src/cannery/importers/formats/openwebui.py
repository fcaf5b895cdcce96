"""Open WebUI: exports of ``{chat: {history: {messages, currentId}, messages}}``, or the table ``chat`` of ``webui.db``.

The tree in ``history`` is preferred; the list ``messages`` only repeats its current branch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from cannery.importers.api_messages import read_usage
from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import (
    joined,
    json_value,
    moment,
    nodes_with_fields,
    objects,
    opaque,
    text_of,
    unknown_record,
    with_facts,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.messages import (
    AnyCanister,
    AssistantCanisterClass,
    SupervisorCanisterClass,
    TextualContentClass,
    UserCanisterClass,
    absent,
)

NAME = "openwebui"
# The fields of a chat and of a message that are read; the others are stored as facts.
_TAKEN = ("id", "title", "chat", "created_at", "history", "messages", "models", "timestamp")
_READ = ("id", "parentId", "childrenIds", "role", "content", "timestamp", "model", "usage")
_MAKERS = {
    "user": UserCanisterClass,
    "assistant": AssistantCanisterClass,
    "system": SupervisorCanisterClass,
}


def detect(sample: Sample) -> Detection | None:
    """A chat with a history, or the database."""
    if sample.has_table("chat", "id", "title", "chat"):
        return Detection(0.95, "its table chat has the columns id, title and chat")
    for record in sample.objects:
        if any("role" in message and "content" in message for message in _messages(record)):
            return Detection(0.95, "its records have a chat of messages with role and content")
    return None


def _messages(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of a chat, from its tree or its list."""
    chat = record.get("chat")
    chat = chat if isinstance(chat, dict) else {}
    history = chat.get("history")
    tree = history.get("messages") if isinstance(history, dict) else None
    return objects(list(tree.values()) if isinstance(tree, dict) else chat.get("messages"))


def read(source: Source) -> Iterator[Found]:
    """One conversation per chat, with its branches."""
    rows: Iterator[Any] = _rows(source) if source.is_database else source.values()
    for place, value in rows:
        chat = value.get("chat") if isinstance(value, dict) else None
        if not isinstance(chat, dict):
            yield unknown_record("no chat", str(place), value)
            continue
        yield _conversation(value, chat, f"{source.name}:{place}")


def _rows(source: Source) -> Iterator[tuple[Any, Any]]:
    """The chats of the database."""
    query = "SELECT id, title, chat, created_at FROM chat ORDER BY created_at, id"
    for number, (name, title, chat, created) in enumerate(source.rows(query)):
        row = {"id": name, "title": title, "chat": json_value(chat), "created_at": created}
        yield f"chat[{number}]", row


def _conversation(value: dict[str, Any], chat: dict[str, Any], place: str) -> Imported:
    unknown: Counter[str] = Counter()
    history = chat.get("history")
    tree = history.get("messages") if isinstance(history, dict) else None
    models = chat.get("models")
    model = models[0] if isinstance(models, list) and models else None
    if isinstance(tree, dict) and tree:
        nodes = [
            Node(name, text_of(message.get("parentId")) or None, _kept(message, unknown))
            for name, message in tree.items()
            if isinstance(message, dict)
        ]
        current = text_of(history.get("currentId")) or None  # type: ignore[union-attr]
    else:
        nodes, current = [], None
        for number, message in enumerate(objects(chat.get("messages"))):
            above = nodes[-1].identifier if nodes else None
            nodes.append(Node(f"#{number}", above, _kept(message, unknown)))
    return Imported(
        text_of(value.get("id")) or place,
        nodes_with_fields(nodes, NAME, {**value, **chat}, *_TAKEN),
        text_of(value.get("title")) or text_of(chat.get("title")),
        moment(value.get("created_at")) or moment(chat.get("timestamp")),
        current,
        model if isinstance(model, str) else None,
        dict(unknown),
    )


def _kept(message: dict[str, Any], unknown: Counter[str]) -> tuple[AnyCanister, ...]:
    """The canisters of a message, with its model, tokens and other fields."""
    said = _canisters(message, unknown)
    if message.get("role") == "assistant":
        usage = read_usage(message.get("usage"))
        said = tuple(with_facts(said, NAME, model=message.get("model"), usage=usage))
    return with_fields(said, NAME, message, *_READ)


def _canisters(message: dict[str, Any], unknown: Counter[str]) -> tuple[AnyCanister, ...]:
    role = message.get("role")
    make: Any = _MAKERS.get(text_of(role))
    when = moment(message.get("timestamp")) or absent
    content = message.get("content")
    if make is None:
        return (UserCanisterClass(opaque(NAME, role, message, unknown), when),)
    if isinstance(content, str):
        return (make(TextualContentClass(content), when),) if content else ()
    contents = [
        TextualContentClass(part["text"])
        if part.get("type") == "text" and isinstance(part.get("text"), str)
        else opaque(NAME, part.get("type"), part, unknown)
        for part in objects(content)
    ]
    return joined([make(each, when) for each in contents])


FORMAT = Format(
    NAME,
    "Open WebUI chats",
    detect,
    read,
    keys=("chat", "history", "currentId", "parentId", "childrenIds"),
)
