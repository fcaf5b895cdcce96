"""Writes a conversation in a dialect without additions: no invented turn, no settings."""

from __future__ import annotations

from typing import Any

from cannery.dialects import find_dialect
from cannery.messages import Controls, Conversation, Request, Role, absent, user
from cannery.messages.json_text import decode_json
from cannery.translation import nativize_request
from cannery.wire.contract import Dialect
from cannery.wire.losses import Rendered
from cannery.wire.places import first_key

# Repairs that add content, or drop the last message; a request needs them, an export does not.
_INVENTIONS = ("first_user", "prefill", "unanswered_calls")
# Appended after a final answer for writing, and removed again.
_QUESTION = "?"
# Losses about settings that an export does not have, and about a final answer.
_SETTINGS = ("MODEL_UNKNOWN", "CONTROL_DEFAULTED", "PREFILL_DROPPED")


def conversation_body(
    conversation: Conversation, dialect: str, model: str | None = None
) -> tuple[dict[str, Any], Rendered]:
    """The body of a conversation in a dialect without settings, and the result with losses and repairs."""
    target = find_dialect(dialect)
    # A final answer would be treated as a prefill; with a question after it, it is written unchanged.
    is_closed = _ends_with_answer(conversation) and bool(target.routes and target.messages)
    said = conversation.append(user(_QUESTION)) if is_closed else conversation
    rendered = nativize_request(Request(said, model or absent), target.name, without=_INVENTIONS)
    body: dict[str, Any] = decode_json(rendered.body)
    if is_closed:
        del body[target.messages][-1]
    for key in _settings(target) & body.keys():
        del body[key]
    if model is None and target.names_model:
        body.pop("model", None)
    kept = tuple(each for each in rendered.losses if each.code not in _SETTINGS)
    return body, Rendered(rendered.body, kept, rendered.repairs)


def _settings(target: Dialect) -> set[str]:
    """The top-level fields that contain settings."""
    paths = [
        path
        for paths in target.control_paths.values()
        for path in ((paths,) if isinstance(paths, str) else paths)
    ]
    named = {first_key(path) for path in paths}
    return {*named, *Controls.__struct_fields__, "stream"} - {target.messages, "model"}


def _ends_with_answer(conversation: Conversation) -> bool:
    return bool(conversation) and conversation[-1].role is Role.Assistant
