"""Shared parts of the tables for Chat Completions and related APIs: messages, and fixes for calls and results."""

from __future__ import annotations

from cannery.doctor.contract import Judged, Object
from cannery.doctor.json_paths import at, objects, remove
from cannery.wire.markers import NO_RESULT, orphan_text
from cannery.wire.places import Path


def messages_of(judged: Judged) -> list[tuple[Path, Object]]:
    """The messages that are objects."""
    return objects(judged.body.get("messages"), ("messages",))


def answer(judged: Judged, path: Path) -> str | None:
    """Add a result for a call, after the other results of its message."""
    name = at(judged.body, path).get("id")
    place = _behind_results(judged, int(path[1]) + 1)
    result = {"role": "tool", "tool_call_id": name, "content": NO_RESULT}
    judged.messages.insert(place, result)
    return f"added a result for the call {name}"


def say_result(judged: Judged, path: Path) -> str | None:
    """Convert a result without a call to a user message, after the adjacent results."""
    message = at(judged.body, path)
    content = message.get("content")
    said = (
        content
        if isinstance(content, str)
        else "".join(str(part.get("text", "")) for _, part in objects(content, ()))
    )
    text = orphan_text(str(message.get("tool_call_id")), said)
    place = _behind_results(judged, int(path[1]))
    judged.messages.insert(place, {"role": "user", "content": text})
    remove(judged.body, path)
    return "turned the result into a user message"


def drop_message(judged: Judged, path: Path) -> str | None:
    """Remove a message."""
    remove(judged.body, path[:2])
    return "removed the message"


def _behind_results(judged: Judged, place: int) -> int:
    messages = judged.messages
    while (
        place < len(messages)
        and isinstance(messages[place], dict)
        and messages[place].get("role") == "tool"
    ):
        place += 1
    return place
