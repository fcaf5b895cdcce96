"""Chat Completions responses: fields beyond those of the family (refusals, annotations, log probabilities)."""

from __future__ import annotations

from cannery.dialects.openai_chat.settings import NAME
from cannery.families.chat.answers import answer_annotations
from cannery.families.chat.shape import Shape
from cannery.wire.bodies import Object
from cannery.wire.contract import Piece


def _complete(message: Object, pieces: list[Piece]) -> None:
    """Add the fields that a response's message has and a request's message lacks."""
    if isinstance(message.get("content"), list):
        message["content"] = "".join(part.get("text", "") for part in message["content"])
    if message.get("content") == "" and "tool_calls" in message:
        message["content"] = None
    message.setdefault("refusal", None)
    message["annotations"] = list(answer_annotations(NAME, pieces))


SHAPE = Shape(NAME, "chatcmpl-cannery", _complete, beside={"logprobs": None})
