"""Claude.ai exports: an array of ``{uuid, name, chat_messages: [{uuid, sender, text, content, parent_message_uuid}]}``.

``text`` repeats ``content`` and is read only if that is missing. Calls and results are in the assistant's message.
``parent_message_uuid`` links branches; older exports have none, and their messages form one chain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import (
    moment,
    nodes_with_fields,
    objects,
    opaque,
    text_of,
    unknown_record,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.messages import (
    AnyCanister,
    AssistantCanisterClass,
    DocumentCanisterClass,
    FileContentClass,
    InvocationCanisterClass,
    Location,
    OpaqueContentClass,
    ReasoningContentClass,
    ResultCanisterClass,
    TextualContentClass,
    UserCanisterClass,
    absent,
)
from cannery.messages.json_text import write_json

NAME = "claude_ai"
# The fields of a conversation and of a message that are read; the others are stored as facts.
_TAKEN = ("uuid", "name", "chat_messages", "created_at", "current_leaf_message_uuid")
_READ = (
    "uuid",
    "text",
    "content",
    "sender",
    "role",
    "created_at",
    "attachments",
    "files",
    "parent_message_uuid",
    "model",
)
_USERS = ("human", "user")


def detect(sample: Sample) -> Detection | None:
    """Lists of chat messages by a sender."""
    senders = {
        text_of(message.get("sender", message.get("role")))
        for record in sample.objects
        for message in objects(record.get("chat_messages"))
        if "text" in message or "content" in message
    }
    if not senders:
        return None
    return Detection(0.95, f"its conversations have chat_messages by {', '.join(sorted(senders))}")


def read(source: Source) -> Iterator[Found]:
    """One conversation per entry, with its branches."""
    for record, value in source.values():
        if not isinstance(value, dict) or not isinstance(value.get("chat_messages"), list):
            yield unknown_record("no chat_messages", record.place, value)
            continue
        yield _Chat(value, source.place_of(record)).read()


class _Chat:
    """One conversation."""

    def __init__(self, value: dict[str, Any], place: str) -> None:
        self._value = value
        self._place = place
        self._created = moment(value.get("created_at"))
        self._unknown: Counter[str] = Counter()
        self._model: str | None = None
        self._last_call = ""

    def read(self) -> Imported:
        nodes: list[Node] = []
        messages = objects(self._value["chat_messages"])
        names = [text_of(message.get("uuid")) or f"#{n}" for n, message in enumerate(messages)]
        is_tree = any(message.get("parent_message_uuid") in names for message in messages)
        for name, message in zip(names, messages, strict=True):
            above = nodes[-1].identifier if nodes else None
            if is_tree:
                above = text_of(message.get("parent_message_uuid")) or None
            said = with_fields(self._canisters(name, message), NAME, message, *_READ)
            said = with_fields(said, NAME, _beside(message, said))
            nodes.append(Node(name, above, said))
        value = self._value
        return Imported(
            text_of(value.get("uuid")) or self._place,
            nodes_with_fields(nodes, NAME, value, *_TAKEN),
            text_of(value.get("name")),
            self._created,
            text_of(value.get("current_leaf_message_uuid")) or (names[-1] if names else None),
            self._model,
            dict(self._unknown),
        )

    def _canisters(self, name: str, message: dict[str, Any]) -> Iterator[AnyCanister]:
        when = moment(message.get("created_at")) or self._created
        sender = message.get("sender", message.get("role"))
        if isinstance(message.get("model"), str):
            self._model = message["model"]
        is_user = sender in _USERS
        if not is_user and sender != "assistant":
            self._unknown[f"sender {sender}"] += 1
        if is_user:
            yield from self._attachments(message, when)
        is_first = True
        for content in self._contents(name, message):
            canister = _canister(content, when, is_user=is_user)
            can_join = not is_first and not isinstance(canister, ResultCanisterClass)
            yield canister.replace(joined=True) if can_join else canister
            is_first = isinstance(canister, ResultCanisterClass)

    def _attachments(self, message: dict[str, Any], when: datetime | None) -> Iterator[AnyCanister]:
        for attachment in objects(message.get("attachments")):
            words = TextualContentClass(text_of(attachment.get("extracted_content")))
            title = text_of(attachment.get("file_name")) or absent
            yield DocumentCanisterClass(words, when or absent, title=title)
        for file in objects(message.get("files")):
            name = text_of(file.get("file_name")) or "file"
            place = Location("file", text_of(file.get("file_uuid")) or name)
            yield UserCanisterClass(FileContentClass(place, name=name), when or absent)

    def _contents(self, name: str, message: dict[str, Any]) -> Iterator[Any]:
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        if not blocks:
            words = content if isinstance(content, str) else text_of(message.get("text"))
            if words:
                yield TextualContentClass(words)
            return
        for number, block in enumerate(blocks):
            kind = block.get("type") if isinstance(block, dict) else None
            if kind == "text" and isinstance(block.get("text"), str):
                yield TextualContentClass(block["text"])
            elif kind == "thinking" and isinstance(block.get("thinking"), str):
                yield ReasoningContentClass((block["thinking"],))
            elif kind == "tool_use" and text_of(block.get("name")):
                self._last_call = text_of(block.get("id")) or f"{name}:{number}"
                arguments = write_json(block.get("input") or {})
                yield InvocationCanisterClass(self._last_call, block["name"], arguments)
            elif kind == "tool_result":
                yield self._result(block, f"{name}:{number}")
            else:
                yield opaque(NAME, kind, block, self._unknown)

    def _result(self, block: dict[str, Any], place: str) -> ResultCanisterClass:
        call = text_of(block.get("tool_use_id")) or self._last_call or place
        content = block.get("content")
        parts = objects(content)
        if isinstance(content, str):
            words: Any = TextualContentClass(content)
        elif parts and all(isinstance(part.get("text"), str) for part in parts):
            words = TextualContentClass("".join(part["text"] for part in parts))
        elif content is None or content == []:
            words = TextualContentClass("")
        else:
            words = OpaqueContentClass(NAME, "tool_result", write_json(content))
        return ResultCanisterClass(call, words, True if block.get("is_error") is True else absent)


def _beside(message: dict[str, Any], said: Iterable[AnyCanister]) -> dict[str, Any]:
    """Other facts of a message: those about its files, and a text that its content does not repeat."""
    words = "".join(getattr(each, "text", "") for each in said)
    text = text_of(message.get("text")).strip()
    listed = {
        key: [
            {k: v for k, v in file.items() if k != "extracted_content"} for file in objects(files)
        ]
        for key in ("attachments", "files")
        if (files := message.get(key))
    }
    return {**listed, "text": None if text in words else text}


def _canister(content: Any, when: datetime | None, *, is_user: bool) -> Any:
    if isinstance(content, (InvocationCanisterClass, ResultCanisterClass)):
        return content if when is None else content.replace(timestamp=when)
    make: Any = UserCanisterClass if is_user else AssistantCanisterClass
    return make(content, when or absent)


FORMAT = Format(
    NAME,
    "Claude.ai export",
    detect,
    read,
    "anthropic_messages",
    keys=("chat_messages", "sender", "text", "uuid"),
)
