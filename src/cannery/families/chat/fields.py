"""Fields of a message beside its content, and messages without content."""

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
# Fields of a message beside its content, and what is said in them.
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
    """The field in which something was said; none for what cannot be said there, since it took the place of another."""
    kind = _FIELDS.get(form or "")
    return form if kind is not None and isinstance(held, kind) else None


def add_thought(
    message: Object, field: str, held: ReasoningContentClass, residue: Residue | None
) -> None:
    """Say a thought in the field from which it was read."""
    if field != DETAILS:
        say_more(message, field, held.shown)
        return
    part = None if residue is None else residue.part
    message.setdefault(field, []).append(recall(write_detail(held), part))


def recalled(message: Object, patch: str | None) -> Object:
    """A message with its fields; those that said nothing leave room for what was added to it since."""
    if patch is None:
        return message
    restored: Object = recall(message, patch)
    said = {key: message[key] for key in _SAYING if message.get(key) and not restored.get(key)}
    return {**restored, **said} if said else restored


def say_more(message: Object, field: str, text: str) -> None:
    """Add to a field that has room for one text."""
    message[field] = f"{message[field]}\n\n{text}" if field in message else text


def as_list(content: Any) -> list[Object]:
    """The parts of a content."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content or [])
