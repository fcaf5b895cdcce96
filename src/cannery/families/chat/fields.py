"""Message fields beside the content, and messages without content."""

from __future__ import annotations

from typing import Any

from cannery.families.chat.reasoning_details import DETAILS, write_detail
from cannery.messages.content import (
    AudioContentClass,
    OpaqueContentClass,
    ReasoningContentClass,
    RefusalContentClass,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.residues import recall

# Forms of a message without content.
EMPTY = frozenset({"absent", "null", "empty"})
# Text fields of a message beside its content, and their content class.
_FIELDS: dict[str, type] = {
    "reasoning_content": ReasoningContentClass,
    "reasoning": ReasoningContentClass,
    DETAILS: ReasoningContentClass,
    "tool_plan": ReasoningContentClass,
    "refusal": RefusalContentClass,
    "audio": AudioContentClass,
    "tool_calls": OpaqueContentClass,
}
_SAYING = ("content", "function_call", *_FIELDS)


def field_of_form(form: str | None, held: Any) -> str | None:
    """The field from which a content was read; none for content that now replaces another one."""
    kind = _FIELDS.get(form or "")
    return form if kind is not None and isinstance(held, kind) else None


def add_thought(
    message: Object, field: str, held: ReasoningContentClass, residue: Residue | None
) -> None:
    """Write a thought into the field from which it was read."""
    if field != DETAILS:
        say_more(message, field, held.shown)
        return
    part = None if residue is None else residue.part
    message.setdefault(field, []).append(recall(write_detail(held), part))


def recalled(message: Object, patch: str | None) -> Object:
    """A message with its original fields; empty ones leave room for text that was added since."""
    if patch is None:
        return message
    restored: Object = recall(message, patch)
    said = {key: message[key] for key in _SAYING if message.get(key) and not restored.get(key)}
    return {**restored, **said} if said else restored


def say_more(message: Object, field: str, text: str) -> None:
    """Add to a field that holds one text."""
    message[field] = f"{message[field]}\n\n{text}" if field in message else text


def as_list(content: Any) -> list[Object]:
    """The parts of a content."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content or [])
