"""A conversation in a dialect as what was said, and nothing else: no invented turn, no added setting."""

from __future__ import annotations

from typing import Any

from cannery.dialects import find_dialect
from cannery.messages import Controls, Conversation, Request, Role, absent, user
from cannery.messages.json_text import decode_json
from cannery.translation import nativize_request
from cannery.wire.contract import Dialect
from cannery.wire.losses import Rendered
from cannery.wire.places import first_key

# Repairs that say something which was not said, or leave out the last word: a request needs them.
_INVENTIONS = ("first_user", "prefill", "unanswered_calls")
# Stands behind a last answer while it is written, and is taken away again.
_QUESTION = "?"
# What is said about settings that an export does not have, and about a last word that is no question.
_SETTINGS = ("MODEL_UNKNOWN", "CONTROL_DEFAULTED", "PREFILL_DROPPED")


def conversation_body(
    conversation: Conversation, dialect: str, model: str | None = None
) -> tuple[dict[str, Any], Rendered]:
    """The body of a conversation in a dialect, and what it took; the body has no settings."""
    target = find_dialect(dialect)
    # A last answer is no beginning of one: with a question behind it, it is written to the letter.
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
    """The top-level fields that hold settings."""
    paths = [
        path
        for paths in target.control_paths.values()
        for path in ((paths,) if isinstance(paths, str) else paths)
    ]
    named = {first_key(path) for path in paths}
    return {*named, *Controls.__struct_fields__, "stream"} - {target.messages, "model"}


def _ends_with_answer(conversation: Conversation) -> bool:
    return bool(conversation) and conversation[-1].role is Role.Assistant
