"""The three roles of a stored chat record, validated exactly.

Storage returns exactly what it was given, so nothing is folded here: ``User`` is refused like any other unknown role.
The system prompt is ephemeral and never a record.
"""

from __future__ import annotations

import enum

from cannery.roles.refusal import refuse_role
from cannery.roles.vocabularies import CHAT_STORAGE

_PROMPT_NAMES = frozenset({"system", "developer"})
_PROMPT_REASON = "The system prompt is not persisted as a message."


class MessageRole(enum.StrEnum):
    """The role of a stored chat record."""

    User = "user"
    Assistant = "assistant"
    Tool = "tool"


_MEMBERS = {member.value: member for member in MessageRole}


def validate_message_role(value: object, *, path: str | None = None) -> MessageRole:
    """Return the member with exactly this value, or raise a RoleError."""
    is_text = isinstance(value, str)
    member = _MEMBERS.get(str(value)) if is_text else None
    if member is not None:
        return member
    is_prompt = is_text and str(value).strip().lower() in _PROMPT_NAMES
    raise refuse_role(
        value,
        [(spelling,) for spelling in CHAT_STORAGE.spellings],
        path=path,
        is_exact=True,
        reason=_PROMPT_REASON if is_prompt else "",
    )
