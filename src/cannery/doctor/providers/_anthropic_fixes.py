"""Fixes of an Anthropic body at one path; each describes its change, or returns None if it changed nothing."""

from __future__ import annotations

import json
from typing import Any

from cannery.doctor.contract import Judged, Object
from cannery.doctor.images import read_image
from cannery.doctor.json_paths import at, objects, put, remove
from cannery.doctor.shared import legal_name
from cannery.wire.markers import NO_RESULT, orphan_text, system_envelope
from cannery.wire.places import Path

_PATTERN = r"[A-Za-z0-9_-]+"


def drop_block(judged: Judged, path: Path) -> str | None:
    """Remove a block, and its message if it becomes empty."""
    block = at(judged.body, path)
    remove(judged.body, path)
    named = block.get("type") if isinstance(block, dict) else "text"
    rest = at(judged.body, path[:-1])
    if path[0] == "messages" and len(path) == 4 and not rest:
        remove(judged.body, path[:2])
        return f"removed the {named} block and its message, which had nothing else"
    return f"removed the {named} block"


def drop_message(judged: Judged, path: Path) -> str | None:
    """Remove a message."""
    remove(judged.body, path[:2])
    return "removed the message"


def answer_call(judged: Judged, path: Path) -> str | None:
    """Add a result for an unanswered call, after the message with the call."""
    messages = judged.messages
    call = at(judged.body, path)
    result = {
        "type": "tool_result",
        "tool_use_id": call.get("id"),
        "content": NO_RESULT,
        "is_error": True,
    }
    place = int(path[1]) + 1
    while place < len(messages) and _is_same(messages[place - 1], messages[place]):
        place += 1
    behind = messages[place] if place < len(messages) else None
    if _role(behind) == "user" and _is_made(behind):
        behind["content"].insert(0, result)  # type: ignore[index]
    else:
        messages.insert(place, {"role": "user", "content": [result]})
    return f"added an error result for the call {call.get('id')}"


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None


def _is_same(one: Any, other: Any) -> bool:
    """Whether two messages are parts of one answer, which a transcript stores in several lines."""
    both = _role(one) == _role(other) == "assistant"
    return both and one.get("id") is not None and one["id"] == other.get("id")


def _is_made(message: Any) -> bool:
    """Whether a message contains only results that were added here."""
    content = message.get("content")
    return isinstance(content, list) and all(
        isinstance(block, dict) and block.get("content") == NO_RESULT for block in content
    )


def say_result(judged: Judged, path: Path) -> str | None:
    """Convert a result without its call to text."""
    block = at(judged.body, path)
    said = block.get("content")
    parts = [{"type": "text", "text": said}] if isinstance(said, str) else list(said or ())
    text = "".join(part.get("text", "") for part in parts if isinstance(part, dict))
    words = {"type": "text", "text": orphan_text(str(block.get("tool_use_id")), text)}
    media = [part for part in parts if isinstance(part, dict) and part.get("type") != "text"]
    holder, index = at(judged.body, path[:-1]), int(path[-1])
    holder[index : index + 1] = [words, *media]
    return "turned the result into text"


def move_result(judged: Judged, path: Path) -> str | None:
    """Move the results of a message to its beginning, or after the results of the preceding messages of its turn."""
    messages, place = judged.messages, int(path[1])
    content = messages[place]["content"]
    results = [block for block in content if _is_result(block)]
    others = [block for block in content if not _is_result(block)]
    start = place
    while start and _role(messages[start - 1]) == "user":
        start -= 1
    if start == place:
        if content == [*results, *others]:
            return None
        content[:] = [*results, *others]
        return "put the results first"
    first = messages[start]
    if isinstance(first.get("content"), str):
        first["content"] = [{"type": "text", "text": first["content"]}]
    before = sum(map(_is_result, first["content"]))
    first["content"][before:before] = results
    content[:] = others
    if not others:
        remove(judged.body, path[:2])
    return "moved the results to the beginning of their turn"


def _is_result(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def rename_id(judged: Judged, path: Path) -> str | None:
    """Replace the id of a call and of its results by a legal one, which is the same for the same id."""
    old = at(judged.body, path)
    new = legal_name(old, _PATTERN, 64)
    put(judged.body, path, new)
    return f"renamed the id {old!r} to {new}"


def rename_call(judged: Judged, path: Path) -> str | None:
    """Replace the name of a called tool by a legal one."""
    old = at(judged.body, path)
    put(judged.body, path, legal_name(old, _PATTERN, 128))
    return f"renamed {old!r} to {at(judged.body, path)}"


def rename_tool(judged: Judged, path: Path) -> str | None:
    """Replace the name of a tool by a legal one, also in tool_choice."""
    old = at(judged.body, path)
    done = rename_call(judged, path)
    choice = judged.body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("name") == old:
        choice["name"] = at(judged.body, path)
    return done


def wrap_input(judged: Judged, path: Path) -> str | None:
    """Convert an input to an object: decode text that is one, wrap anything else."""
    given = at(judged.body, path)
    value = given
    if isinstance(given, str):
        try:
            value = json.loads(given) if given.strip() else {}
        except ValueError:
            value = given
    if given is None:
        value = {}
    is_read = isinstance(value, dict)
    put(judged.body, path, value if is_read else {"input": given})
    return "read the input as the object it spells" if is_read else "wrapped the input in an object"


def replace_media(judged: Judged, path: Path) -> str | None:
    """Replace an image or a file that cannot be sent by a line of text."""
    block = at(judged.body, path)
    source = block.get("source") or {}
    picture = read_image(source.get("data"))
    kind = source.get("media_type") or picture.media_type or "unknown type"
    size = f", {picture.width}×{picture.height} pixels" if picture.width else ""
    note: Object = {"type": "text", "text": f"[{block.get('type')} left out: {kind}{size}]"}
    if isinstance(block.get("cache_control"), dict):
        note["cache_control"] = block["cache_control"]
    put(judged.body, path, note)
    return f"replaced the {block.get('type')} by a line of text"


def correct_media_type(judged: Judged, path: Path) -> str | None:
    """Set the media type of an image to the one of its bytes."""
    source = at(judged.body, path)["source"]
    proven = read_image(source.get("data")).media_type
    if at(judged.body, path)["type"] == "image" and not str(proven).startswith("image/"):
        return replace_media(judged, path)
    source["media_type"] = proven
    return f"declared the media type as {proven}"


def fold_system(judged: Judged, path: Path) -> str | None:
    """Move a system message into a user turn, inside a marked envelope."""
    message = at(judged.body, path)
    content = message.get("content")
    blocks = (
        [{"text": content}] if isinstance(content, str) else [b for _, b in objects(content, ())]
    )
    text = "".join(str(block.get("text", "")) for block in blocks)
    if not text.strip():
        return drop_message(judged, path)
    message.clear()
    message.update(role="user", content=[{"type": "text", "text": system_envelope(text)}])
    return "said the system message in a user turn, inside a marked envelope"


def name_object(judged: Judged, path: Path) -> str | None:
    """Set the type of a schema to object."""
    schema = at(judged.body, path[:-1])
    if not isinstance(schema, dict) or schema.get("type") not in (None, "object"):
        return None
    schema["type"] = "object"
    return "set the type of the schema to object"
