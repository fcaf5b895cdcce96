"""Qwen Code sessions: one event per line with ``uuid`` and ``parentUuid``, and a ``message`` of Gemini's API.

The role inside is ``model`` where the line has ``assistant``; ``tool_result`` lines answer calls. Lines of the type
``system`` are stored as unknown records and link the chain. Seen with Qwen Code 0.15.10.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from cannery.errors import InputError
from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Node,
    Sample,
)
from cannery.importers.pieces import (
    moment,
    spoken_by,
    text_of,
    usage_of,
    whole,
    with_facts,
    with_fields,
)
from cannery.importers.sessions import read_session
from cannery.importers.sources import Source
from cannery.messages import AnyCanister, Usage

NAME = "qwen_code"
# The fields of a line that are read; the others are stored as facts.
_READ = (
    "uuid",
    "parentUuid",
    "sessionId",
    "timestamp",
    "type",
    "message",
    "model",
    "usageMetadata",
)
_ROLES = {"user": "user", "assistant": "model", "tool_result": "user"}


def detect(sample: Sample) -> Detection | None:
    """Lines of a session with parts in their messages."""
    for record in sample.objects:
        message = record.get("message")
        parts = message.get("parts") if isinstance(message, dict) else None
        if isinstance(record.get("sessionId"), str) and isinstance(parts, list):
            return Detection(0.95, "its lines have a sessionId and a message with parts")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per file."""
    yield from read_session(source, _Session())


class _Session:
    """The lines of one file."""

    def __init__(self) -> None:
        self.last: str | None = None
        self._nodes: dict[str, Node] = {}
        self._session = ""
        self._created: datetime | None = None
        self._model: str | None = None
        self._title = ""

    def take(self, value: Any, place: str) -> str | None:
        """Read a line; return the kind of the record if it is unknown."""
        if not isinstance(value, dict):
            return "no object"
        self._session = self._session or text_of(value.get("sessionId"))
        when = moment(value.get("timestamp"))
        self._created = self._created or when
        kind = text_of(value.get("type"))
        message = value.get("message")
        if kind not in _ROLES or not isinstance(message, dict):
            self._link(value, place, ())
            self._title = text_of(value.get("customTitle")) or self._title
            return text_of(value.get("subtype")) or kind or "unknown"
        parts = message.get("parts")
        turn = {"role": _ROLES[kind], "parts": parts if isinstance(parts, list) else []}
        try:
            said = spoken_by("gemini_generate", {"contents": [turn]}, when)
        except InputError:
            self._link(value, place, ())
            return UNREADABLE
        if kind == "assistant":
            self._model = text_of(value.get("model")) or self._model
            usage = _usage(value.get("usageMetadata"))
            said = with_facts(said, NAME, model=value.get("model"), usage=usage)
        self._link(value, place, with_fields(said, NAME, value, *_READ))
        return None

    def _link(self, value: dict[str, Any], place: str, canisters: tuple[AnyCanister, ...]) -> None:
        name = text_of(value.get("uuid")) or place
        above = text_of(value.get("parentUuid")) or None
        self._nodes[name] = Node(name, above if "parentUuid" in value else self.last, canisters)
        self.last = name

    def imported(self, name: str) -> Imported:
        """The conversation of all lines."""
        return Imported(
            self._session or name,
            tuple(self._nodes.values()),
            self._title,
            self._created,
            self.last,
            self._model,
        )


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    read, thought = whole(value.get("cachedContentTokenCount")), value.get("thoughtsTokenCount")
    return usage_of(
        fresh=whole(value.get("promptTokenCount")) - read,
        output=whole(value.get("candidatesTokenCount")) + whole(thought),
        read=read,
        reasoning=thought,
    )


FORMAT = Format(
    NAME,
    "Qwen Code session",
    detect,
    read,
    "gemini_generate",
    keys=("sessionId", "parentUuid", "message", "parts", "usageMetadata"),
    folders=(".qwen/projects", ".qwen/tmp"),
)
