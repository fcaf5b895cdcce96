"""Claude Code transcripts: an event a line with ``uuid``, ``parentUuid`` and an API ``message``.

Lines of one API message share its id and are joined. A session that was compacted goes on at ``logicalParentUuid``.
Lines of other types are kept as unknown records; those with a uuid still hold the chain together.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from cannery.errors import InputError
from cannery.importers.contract import UNREADABLE, Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import moment, spoken_by, text_of, unknown_record
from cannery.importers.sources import Source
from cannery.messages import AnyCanister, absent

NAME = "claude_code"
_SPOKEN = ("user", "assistant", "message")


def detect(sample: Sample) -> Detection | None:
    """Lines of a session with messages of the API."""
    for record in sample.objects:
        message = record.get("message")
        if not isinstance(message, dict) or not isinstance(record.get("sessionId"), str):
            continue
        if isinstance(message.get("role"), str) and isinstance(message.get("content"), (str, list)):
            return Detection(0.95, "its lines have a sessionId and a message with role and content")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation a file; sidechains are trees of their own in it."""
    session = _Session()
    for record, value in source.values():
        if not isinstance(value, dict):
            yield unknown_record("no object", record.place, value)
            continue
        problem = session.take(value, record.place)
        if problem is not None:
            yield unknown_record(problem, record.place, value)
    yield session.imported(source.name)


class _Session:
    """The lines of one file."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._messages: dict[str, str] = {}
        self._title = ""
        self._session = ""
        self._model: str | None = None
        self._created: datetime | None = None
        self._last: str | None = None
        self._current: str | None = None

    def take(self, value: dict[str, Any], place: str) -> str | None:
        """Take a line; the kind of record if it is not understood."""
        kind = text_of(value.get("type"))
        when = moment(value.get("timestamp"))
        self._session = self._session or text_of(value.get("sessionId"))
        self._created = self._created or when
        if kind in ("summary", "ai-title", "custom-title"):
            title = value.get("summary") or value.get("aiTitle") or value.get("customTitle")
            self._title = text_of(title) or self._title
            return None
        message = value.get("message")
        if kind not in _SPOKEN or not isinstance(message, dict):
            self._link(value, place, ())
            return kind or "unknown"
        try:
            canisters = self._canisters(message, when)
        except InputError:
            self._link(value, place, ())
            return UNREADABLE
        self._speak(value, place, message, canisters)
        return None

    def _canisters(self, message: dict[str, Any], when: datetime | None) -> list[AnyCanister]:
        turn = {"role": message.get("role"), "content": message.get("content")}
        if isinstance(message.get("model"), str):
            self._model = message["model"]
        model = self._model or "unknown"
        body = {"model": model, "max_tokens": 1, "messages": [turn]}
        return spoken_by("anthropic_messages", body, when)

    def _speak(
        self,
        value: dict[str, Any],
        place: str,
        message: dict[str, Any],
        canisters: list[AnyCanister],
    ) -> None:
        own = text_of(message.get("id"))
        above = self._above(value)
        if own and above is not None and self._messages.get(above) == own and canisters:
            canisters = [each for each in canisters if each.held is not absent] or canisters
            canisters = [canisters[0].replace(joined=True), *canisters[1:]]
        name = self._link(value, place, tuple(canisters))
        if own:
            self._messages[name] = own
        if value.get("isSidechain") is not True:
            self._current = name

    def _above(self, value: dict[str, Any]) -> str | None:
        if "parentUuid" not in value:
            return self._last
        above = text_of(value["parentUuid"]) or text_of(value.get("logicalParentUuid"))
        return above or None

    def _link(self, value: dict[str, Any], place: str, canisters: tuple[AnyCanister, ...]) -> str:
        name = text_of(value.get("uuid"))
        if not name and not canisters:
            return ""
        name = name or place
        self._nodes[name] = Node(name, self._above(value), canisters)
        self._last = name
        return name

    def imported(self, name: str) -> Imported:
        """The conversation of all lines."""
        nodes = tuple(self._nodes.values())
        identifier = self._session or name
        return Imported(identifier, nodes, self._title, self._created, self._current, self._model)


FORMAT = Format(
    NAME,
    "Claude Code transcript",
    detect,
    read,
    "anthropic_messages",
    keys=("sessionId", "parentUuid", "uuid", "message", "isSidechain"),
    folders=(".claude/projects",),
)
