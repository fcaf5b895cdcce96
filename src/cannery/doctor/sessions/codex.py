"""Codex' rollouts: lines of ``{timestamp, type, payload}``, of which a ``response_item`` is an item of Responses.

On resuming, the agent sends the items since the last compaction, including those stored in it, without the turns that
were rolled back. Older rollouts have the bare items as lines. Seen with Codex 0.169.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery.doctor.contract import Object
from cannery.doctor.sessions.contract import Line, Session, line_bytes, text_of

_ITEMS = ("message", "reasoning")
_ENDINGS = ("_call", "_output")


class Rollout(Session):
    """A rollout of Codex."""

    dialect = "openai_responses"
    key = "input"

    def history(self) -> Iterator[tuple[Any, Line]]:
        """The items that the agent would send, each with its line."""
        found: list[tuple[Any, Line]] = []
        for line in self.lines:
            kind, payload = line.object.get("type"), line.object.get("payload")
            if kind == "response_item" and isinstance(payload, dict):
                found.append((payload, line))
            elif "payload" not in line.object and _is_item(line.object):
                found.append((line.object, line))
            elif kind == "compacted" and isinstance(payload, dict):
                kept = payload.get("replacement_history")
                found = [(item, line) for item in kept or () if isinstance(item, dict)]
            elif kind == "event_msg" and isinstance(payload, dict):
                found = _rolled_back(found, payload)
        yield from found

    def model(self) -> str | None:
        """The model of the last turn."""
        models = [
            text_of(line.object["payload"].get("model"))
            for line in self.lines
            if line.object.get("type") == "turn_context"
            and isinstance(line.object.get("payload"), dict)
        ]
        return next(filter(None, reversed(models)), None)

    def makers(self) -> dict[int, str]:
        """The model of the turn that each item belongs to."""
        made_by: dict[int, str] = {}
        model = ""
        for line in self.lines:
            payload = line.object.get("payload")
            if line.object.get("type") == "turn_context" and isinstance(payload, dict):
                model = text_of(payload.get("model")) or model
            made_by[line.number] = model
        return {
            index: made_by[line.number]
            for index, (_, line) in enumerate(self.said)
            if made_by[line.number]
        }

    def new_line(self, message: Any, behind: Line | None) -> bytes:
        """A line in the form of the one before it."""
        before = behind.object if behind is not None else {}
        if behind is not None and "payload" not in before:
            return line_bytes(message)
        value: Object = {"timestamp": before.get("timestamp"), "type": "response_item"}
        return line_bytes({**value, "payload": message})

    def written(self) -> bytes:
        """The file; items of a compaction are changed in place."""
        for line in self.lines:
            payload = line.object.get("payload")
            if line.object.get("type") == "compacted" and isinstance(payload, dict):
                self._compact(payload)
        return super().written()

    def _compact(self, payload: Object) -> None:
        """Update the items of a compaction: its remaining ones, and those added among them."""
        kept = payload.get("replacement_history")
        own = {id(item) for item in kept or ()}
        if not own or not any(id(message) in own for message, _ in self.said):
            return
        known = {id(message) for message, _ in self.said}
        mine: list[Any] = []
        others: list[Any] = []
        is_inside = True
        for message in self.body[self.key]:
            is_inside = id(message) in own or (is_inside and id(message) not in known)
            (mine if is_inside else others).append(message)
        payload["replacement_history"] = mine
        self.said = [(message, line) for message, line in self.said if id(message) not in own]
        self.body[self.key] = others


def _is_item(value: Object) -> bool:
    kind = text_of(value.get("type"))
    return kind in _ITEMS or kind.endswith(_ENDINGS)


def _rolled_back(found: list[tuple[Any, Line]], event: Object) -> list[tuple[Any, Line]]:
    turns = event.get("num_turns")
    if event.get("type") != "thread_rolled_back" or not isinstance(turns, int) or turns < 1:
        return found
    asked = [index for index, (item, _) in enumerate(found) if item.get("role") == "user"]
    return found[: asked[-min(turns, len(asked))]] if asked else found


def open_session(data: bytes) -> Session:
    """Open a rollout."""
    return Rollout(data)
