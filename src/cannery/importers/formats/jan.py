"""Jan threads: ``messages.jsonl`` with one ``thread.message`` per line, and ``thread.json`` with the title.

Calls are in the content with their results (``tool_call``), or, in older threads, in ``metadata.tool_calls``. As in
``core/src/types/message/messageEntity.ts`` of jan (2026-08-05).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from cannery.errors import CanneryError
from cannery.importers.contract import UNREADABLE, Detection, Format, Found, Imported, Sample
from cannery.importers.pieces import (
    joined,
    moment,
    objects,
    opaque,
    spoken_by,
    text_of,
    unknown_record,
    with_fields,
)
from cannery.importers.source_files import open_sources
from cannery.importers.sources import Source
from cannery.importers.trees import linear
from cannery.messages import (
    AnyCanister,
    AssistantCanisterClass,
    InvocationCanisterClass,
    ReasoningContentClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    TextualContentClass,
    UserCanisterClass,
    absent,
)
from cannery.messages.json_text import write_json

NAME = "jan"
_SPOKEN: dict[str, Any] = {
    "user": UserCanisterClass,
    "assistant": AssistantCanisterClass,
    "system": SupervisorCanisterClass,
}
# The fields of a message that are read; the others are stored as facts.
_READ = ("id", "object", "thread_id", "role", "content", "created_at", "created", "model")
_MEDIA = ("image_url", "input_audio")


def detect(sample: Sample) -> Detection | None:
    """Messages of a thread, or the thread itself."""
    for record in sample.objects:
        if record.get("object") == "thread.message" and isinstance(record.get("content"), list):
            return Detection(0.95, "its lines are messages of a thread")
        if record.get("object") == "thread" and objects(record.get("messages")):
            return Detection(0.9, "it is a thread with its messages")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per file of messages; a thread without messages gives none."""
    thread = _Thread()
    for record, value in source.values():
        if not isinstance(value, dict) or value.get("object") not in ("thread", "thread.message"):
            yield unknown_record("no message", record.place, value)
        elif value["object"] == "thread":
            thread.head = value
            thread.take_all(objects(value.get("messages")))
        elif not thread.take(value, record.place):
            yield unknown_record(UNREADABLE, record.place, value)
    if thread.turns:
        yield thread.imported(source)


class _Thread:
    """The messages of one thread."""

    def __init__(self) -> None:
        self.head: dict[str, Any] = {}
        self.turns: list[tuple[str, tuple[AnyCanister, ...]]] = []
        self._unknown: Counter[str] = Counter()
        self._model: str | None = None
        self._name = ""

    def take_all(self, messages: list[dict[str, Any]]) -> None:
        """Read the messages inside a thread."""
        for number, message in enumerate(messages):
            self.take(message, f"messages[{number}]")

    def take(self, message: dict[str, Any], place: str) -> bool:
        """Read a message; return whether it is understood."""
        role, content = message.get("role"), message.get("content")
        if not isinstance(content, list) or role not in (*_SPOKEN, "tool"):
            return False
        when = moment(message.get("created_at")) or moment(message.get("created"))
        if isinstance(message.get("model"), str):
            self._model = message["model"]
        self._name = self._name or text_of(message.get("thread_id"))
        found = with_fields(self._canisters(message, role, when), NAME, message, *_READ)
        self.turns.append((text_of(message.get("id")) or place, found))
        return True

    def _canisters(
        self, message: dict[str, Any], role: str, when: datetime | None
    ) -> Iterator[AnyCanister]:
        at = when or absent
        if role == "tool":
            for item in message["content"]:
                yield ResultCanisterClass(
                    text_of(message.get("tool_call_id")), self._content(item, when), absent, at
                )
            return
        said, answers = [], []
        for item in message["content"]:
            if isinstance(item, dict) and item.get("type") == "tool_call":
                call, answer = _call(item, at)
                said.append(call)
                answers += answer
            elif not _is_blank(item) or len(message["content"]) == 1:
                said.append(_SPOKEN[role](self._content(item, when), at))
        metadata = message.get("metadata")
        older = objects(metadata.get("tool_calls")) if isinstance(metadata, dict) else []
        for each in older:
            call, answer = _call(_as_content(each), at)
            said.append(call)
            answers += answer
        yield from joined(said)
        yield from answers

    def _content(self, item: Any, when: datetime | None) -> Any:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind in ("text", "reasoning"):
            text = item.get("text")
            words = text_of(text.get("value") if isinstance(text, dict) else text)
            return TextualContentClass(words) if kind == "text" else ReasoningContentClass((words,))
        if kind in _MEDIA:
            with contextlib.suppress(CanneryError):
                body = {"messages": [{"role": "user", "content": [item]}]}
                return spoken_by("openai_chat", body, when)[0].held
        return opaque(NAME, kind, item, self._unknown)

    def imported(self, source: Source) -> Imported:
        """The conversation of all messages."""
        head = self.head or _beside(source)
        assistants = objects(head.get("assistants"))
        model = next((each.get("model") for each in assistants), None)
        if isinstance(model, dict):
            model = model.get("id")
        return Imported(
            text_of(head.get("id")) or self._name or source.name,
            linear(self.turns),
            text_of(head.get("title")) or text_of(head.get("summary")),
            moment(head.get("created")),
            model=self._model or (model if isinstance(model, str) else None),
            unknown=dict(self._unknown),
        )


def _is_blank(item: Any) -> bool:
    """Whether a content is the empty text beside calls."""
    text = item.get("text") if isinstance(item, dict) and item.get("type") == "text" else None
    return isinstance(text, dict) and text.get("value") == ""


def _as_content(call: dict[str, Any]) -> dict[str, Any]:
    """A call of an older thread in the form of newer ones."""
    tool = call.get("tool")
    tool = tool if isinstance(tool, dict) else {}
    function = tool.get("function")
    function = function if isinstance(function, dict) else {}
    response = call.get("response")
    parts = objects(response.get("content")) if isinstance(response, dict) else []
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return {
        "tool_call_id": tool.get("id"),
        "tool_name": function.get("name"),
        "input": function.get("arguments"),
        "output": "\n".join(texts) if parts and len(texts) == len(parts) else response,
    }


def _call(item: dict[str, Any], at: Any) -> tuple[AnyCanister, list[AnyCanister]]:
    """A call, and its result if there is one."""
    name, given, gave = text_of(item.get("tool_call_id")), item.get("input"), item.get("output")
    arguments = given if isinstance(given, str) else write_json({} if given is None else given)
    call = InvocationCanisterClass(name, text_of(item.get("tool_name")) or "unknown", arguments, at)
    if gave is None:
        return call, []
    words = gave if isinstance(gave, str) else write_json(gave)
    return call, [ResultCanisterClass(name, TextualContentClass(words), absent, at)]


def _beside(source: Source) -> dict[str, Any]:
    """The thread in the same folder."""
    path = None if source.path is None else source.path.with_name("thread.json")
    if path is None or not path.is_file():
        return {}
    for _, value in open_sources(path)[0].values():
        return value if isinstance(value, dict) else {}
    return {}


FORMAT = Format(
    NAME, "Jan thread", detect, read, keys=("object", "thread_id", "role", "content", "created_at")
)
