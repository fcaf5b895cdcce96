"""Goose sessions: a header line, then one message per line with typed content; or one session with ``conversation``.

``toolRequest`` and ``toolResponse`` share an id; the result of a tool is ``{"status", "value"}``, the value a list of
contents or an object with them, or ``{"status": "error", "error"}``. As in ``conversation/message.rs`` and
``session/legacy.rs`` of goose (2026-04-03).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from cannery.errors import CanneryError
from cannery.importers.contract import Detection, Format, Found, Imported, Sample
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
from cannery.importers.trees import linear
from cannery.messages import (
    AnyCanister,
    AssistantCanisterClass,
    Base64,
    ImageContentClass,
    InvocationCanisterClass,
    PartsContentClass,
    ReasoningContentClass,
    ResultCanisterClass,
    TextualContentClass,
    UserCanisterClass,
    absent,
)
from cannery.messages.json_text import write_json

NAME = "goose"
_SPOKEN: dict[str, Any] = {"user": UserCanisterClass, "assistant": AssistantCanisterClass}
# The fields of the header that are read; the others are stored as facts.
_READ = ("id", "description", "name", "created_at", "conversation")
_HEADER = frozenset({"working_dir", "message_count", "description", "accumulated_total_tokens"})


def detect(sample: Sample) -> Detection | None:
    """A header, an exported session, or messages of typed content with a time."""
    first = sample.objects[0] if sample.objects else {}
    if "working_dir" in first and ("conversation" in first or len(_HEADER & first.keys()) > 1):
        return Detection(0.9, "it begins with the working_dir of a session")
    if sample.objects and all(_is_message(record) for record in sample.objects):
        return Detection(0.8, "its lines are messages with created and typed content")
    return None


def _is_message(record: dict[str, Any]) -> bool:
    content = record.get("content")
    is_typed = isinstance(content, list) and all(
        isinstance(item, dict) and isinstance(item.get("type"), str) for item in content
    )
    is_timed = isinstance(record.get("created"), int) and "object" not in record
    return text_of(record.get("role")) in _SPOKEN and is_timed and is_typed


def read(source: Source) -> Iterator[Found]:
    """One conversation per file."""
    session = _Session()
    for record, value in source.values():
        if not session.take(value, record.place):
            yield unknown_record("unknown", record.place, value)
    yield session.imported(source.name)


class _Session:
    """The lines of one file."""

    def __init__(self) -> None:
        self._header: dict[str, Any] = {}
        self._turns: list[tuple[str, tuple[AnyCanister, ...]]] = []
        self._unknown: Counter[str] = Counter()

    def take(self, value: Any, place: str) -> bool:
        """Read a line; return whether it is understood."""
        if not isinstance(value, dict):
            return False
        if isinstance(value.get("conversation"), list):
            self._header = value
            taken = [
                self.take(message, f"{place}[{number}]")
                for number, message in enumerate(value["conversation"])
            ]
            return all(taken)
        if "role" not in value and not self._turns and _HEADER & value.keys():
            self._header = value
            return True
        if text_of(value.get("role")) not in _SPOKEN or not isinstance(value.get("content"), list):
            return False
        when = moment(value.get("created"))
        said = with_fields(self._message(value, when), NAME, value, "role", "content", "created")
        self._turns.append((place, said))
        return True

    def _message(self, message: dict[str, Any], when: datetime | None) -> Iterator[AnyCanister]:
        is_first = True
        for item in message["content"]:
            canister = self._canister(item, message["role"], when)
            # Results are separate; the other parts are one message.
            is_result = isinstance(canister, ResultCanisterClass)
            yield canister if is_first or is_result else canister.replace(joined=True)
            is_first = is_result

    def _canister(self, item: Any, role: str, when: datetime | None) -> AnyCanister:
        kind = item.get("type") if isinstance(item, dict) else None
        at = when or absent
        if kind in ("toolRequest", "frontendToolRequest"):
            call = _value(item.get("toolCall"))
            name = text_of(call.get("name")) or "unknown"
            arguments = call.get("arguments")
            return InvocationCanisterClass(
                text_of(item.get("id")),
                name,
                write_json({} if arguments is None else arguments),
                at,
            )
        if kind == "toolResponse":
            return self._result(item, at)
        return _SPOKEN[role](self._content(item, kind), at)  # type: ignore[no-any-return]

    def _content(self, item: Any, kind: Any) -> Any:
        if kind == "text":
            return TextualContentClass(text_of(item.get("text")))
        if kind == "image" and isinstance(item.get("data"), str):
            with contextlib.suppress(CanneryError):
                return ImageContentClass(Base64(item["data"]), text_of(item.get("mimeType")))
        if kind in ("thinking", "reasoning"):
            thought = text_of(item.get("thinking")) or text_of(item.get("text"))
            return ReasoningContentClass((thought,))
        return opaque(NAME, kind, item, self._unknown)

    def _result(self, item: dict[str, Any], at: Any) -> AnyCanister:
        told = item.get("toolResult")
        told = told if isinstance(told, dict) else {}
        value = told.get("value")
        found = objects(value.get("content") if isinstance(value, dict) else value)
        contents = [self._content(each, each.get("type")) for each in found]
        failed = text_of(told.get("error")) or (
            isinstance(value, dict) and value.get("isError") is True
        )
        held = contents[0] if len(contents) == 1 else PartsContentClass(tuple(contents))
        if not contents:
            held = TextualContentClass(text_of(told.get("error")))
        return ResultCanisterClass(text_of(item.get("id")), held, failed or absent, at)

    def imported(self, name: str) -> Imported:
        """The conversation of all lines."""
        header = self._header
        title = text_of(header.get("description")) or text_of(header.get("name"))
        settings = header.get("model_config")
        model = settings.get("model_name") if isinstance(settings, dict) else None
        return Imported(
            text_of(header.get("id")) or name,
            nodes_with_fields(linear(self._turns), NAME, header, *_READ),
            title,
            moment(header.get("created_at")),
            model=model if isinstance(model, str) else None,
            unknown=dict(self._unknown),
        )


def _value(told: Any) -> dict[str, Any]:
    value = told.get("value") if isinstance(told, dict) else None
    return value if isinstance(value, dict) else {}


FORMAT = Format(
    NAME,
    "Goose session",
    detect,
    read,
    keys=("working_dir", "conversation", "toolRequest", "created"),
    folders=(".local/share/goose/sessions",),
)
