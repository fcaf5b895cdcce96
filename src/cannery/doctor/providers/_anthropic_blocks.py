"""The blocks of an Anthropic body with their paths: by message, by joined turn, at any depth, or with cache marks."""

from __future__ import annotations

from typing import Any

from cannery.doctor.contract import Object
from cannery.doctor.json_paths import objects, walk
from cannery.wire.places import Path

Block = tuple[Path, Object]
Turn = tuple[str, list[Block]]
# Free-form values of a model or a user, which contain no blocks.
_FREE = ("input", "input_schema", "metadata")


def blocks_of(content: Any, path: Path) -> list[Block]:
    """The blocks of a content; text counts as one block, at the path of the content."""
    if isinstance(content, str):
        return [(path, {"type": "text", "text": content})]
    return objects(content, path)


def message_blocks(message: Any, path: Path) -> list[Block]:
    """The blocks of a message."""
    content = message.get("content") if isinstance(message, dict) else None
    return blocks_of(content, (*path, "content"))


def turns_of(body: Object) -> list[Turn]:
    """The turns as the server joins them: adjacent messages of one role are one turn, system messages are ignored."""
    turns: list[Turn] = []
    for path, message in objects(body.get("messages"), ("messages",)):
        role = str(message.get("role"))
        if role == "system":
            continue
        blocks = message_blocks(message, path)
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, blocks))
    return turns


def of_type(blocks: list[Block], kind: str) -> list[Block]:
    """The blocks of one type."""
    return [(path, block) for path, block in blocks if block.get("type") == kind]


def content_blocks(body: Object) -> list[Block]:
    """The objects of system and messages at any depth, except inside tool inputs."""
    return [
        (path, block)
        for key in ("system", "messages")
        for path, block in walk(body.get(key), (key,), _FREE)
        if path[-1] != "source"
    ]


def marked_blocks(body: Object) -> list[Block]:
    """The objects with a cache mark in the order of the prompt: tools, system, messages, the body itself."""
    marked = [
        (path, block)
        for key in ("tools", "system", "messages")
        for path, block in walk(body.get(key), (key,), _FREE)
        if isinstance(block.get("cache_control"), dict)
    ]
    return [*marked, ((), body)] if isinstance(body.get("cache_control"), dict) else marked
