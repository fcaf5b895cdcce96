"""pi sessions: a header line, then entries with ``id`` and ``parentId``: a tree; some entries are messages.

A message has a role (``user``, ``assistant``, ``toolResult``), parts, and for an answer its model, usage and cost.
Entries of other types are stored as unknown records and link the tree. Seen with pi 0.73.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from cannery.importers.api_messages import read_usage
from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.drafts import Draft
from cannery.importers.pieces import (
    moment,
    nodes_with_fields,
    text_of,
    with_fields,
)
from cannery.importers.sessions import read_session
from cannery.importers.sources import Source
from cannery.messages import AnyCanister

NAME = "pi"
# The fields of a message that are read; the others are stored as facts.
_READ = ("role", "content", "toolCallId", "isError", "timestamp", "model", "usage")
_ROLES = {"user": "user", "assistant": "assistant", "toolResult": "user"}


def detect(sample: Sample) -> Detection | None:
    """The header of a session, or its messages."""
    for record in sample.objects:
        message = record.get("message")
        if record.get("type") == "session" and "cwd" in record and "version" in record:
            return Detection(0.9, "it begins with the header of a session (version, cwd)")
        if record.get("type") == "message" and isinstance(message, dict) and "parentId" in record:
            return Detection(0.85, "its lines are entries with a parentId and a message")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per file, with its branches."""
    yield from read_session(source, _Session())


class _Session:
    """The lines of one file."""

    def __init__(self) -> None:
        self.last: str | None = None
        self._nodes: dict[str, Node] = {}
        self._header: dict[str, Any] = {}
        self._unknown: Counter[str] = Counter()
        self._model: str | None = None
        self._title = ""

    def take(self, value: Any, place: str) -> str | None:
        """Read a line; return the kind of the record if it is unknown."""
        if not isinstance(value, dict):
            return "no object"
        kind = text_of(value.get("type"))
        if kind == "session":
            self._header = self._header or value
            return None
        if kind == "session_info":
            self._title = text_of(value.get("name")) or self._title
        message = value.get("message")
        when = moment(value.get("timestamp"))
        role = text_of(message.get("role")) if isinstance(message, dict) else ""
        if kind != "message" or not isinstance(message, dict) or role not in _ROLES:
            self._link(value, place, ())
            return kind or "unknown"
        self._link(value, place, self._canisters(message, when))
        return None

    def _link(self, value: dict[str, Any], place: str, canisters: tuple[AnyCanister, ...]) -> None:
        name = text_of(value.get("id")) or place
        above = text_of(value.get("parentId")) or None
        self._nodes[name] = Node(name, above if "parentId" in value else self.last, canisters)
        self.last = name

    def _canisters(self, message: dict[str, Any], when: datetime | None) -> tuple[AnyCanister, ...]:
        role = message["role"]
        draft = Draft(NAME, _ROLES[role], when, self._unknown)
        content = message.get("content")
        if role == "toolResult":
            failed = message.get("isError") is True
            draft.answer(message.get("toolCallId"), content, failed=failed)
            return with_fields(draft.done(), NAME, message, *_READ)
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, dict) and part.get("type") == "toolCall":
                draft.call(part.get("id"), part.get("name"), part.get("arguments"))
            else:
                draft.part(_as_api(part))
        self._model = text_of(message.get("model")) or self._model
        usage = message.get("usage")
        cost = usage.get("cost") if isinstance(usage, dict) else None
        said = draft.done(
            model=message.get("model"),
            usage=read_usage(usage),
            cost=cost.get("total") if isinstance(cost, dict) else None,
        )
        return with_fields(said, NAME, message, *_READ)

    def imported(self, name: str) -> Imported:
        """The conversation of all lines."""
        return Imported(
            text_of(self._header.get("id")) or name,
            nodes_with_fields(self._nodes.values(), NAME, self._header, "type", "id", "timestamp"),
            self._title,
            moment(self._header.get("timestamp")),
            self.last,
            self._model,
            dict(self._unknown),
        )


def _as_api(part: Any) -> Any:
    """An image in the spelling of Anthropic's API."""
    if isinstance(part, dict) and part.get("type") == "image" and "data" in part:
        source = {"type": "base64", "media_type": part.get("mimeType"), "data": part["data"]}
        return {"type": "image", "source": source}
    return part


FORMAT = Format(
    NAME,
    "pi session",
    detect,
    read,
    keys=("type", "id", "parentId", "message", "cwd"),
    folders=(".pi/agent/sessions",),
)
