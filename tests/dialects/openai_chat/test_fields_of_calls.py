"""Fields of a streamed call that only this dialect knows survive in the same dialect and in the folded answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from cannery.messages import fold

NAME = "openai_chat"
SIGNED = {"google": {"thought_signature": "SIG"}}


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**body, "choices": [choice]}).encode() + b"\n\n"


def called(**more: Any) -> dict[str, Any]:
    function = {"name": "f", "arguments": "{}", "x_inner": 1}
    return {"index": 0, "id": "c1", "type": "function", "function": function, **more}


FIRST = [chunk({"role": "assistant", "tool_calls": [called(extra_content=SIGNED)]})]
LATE = [
    chunk({"role": "assistant", "tool_calls": [called()]}),
    chunk({"tool_calls": [{"index": 0, "extra_content": SIGNED}]}),
]


@pytest.mark.parametrize("chunks", [FIRST, LATE])
def test_a_signature_beside_a_call_is_kept(chunks: list[bytes]):
    raw = [*chunks, chunk({}, "tool_calls"), b"data: [DONE]\n\n"]
    folded = fold(cannery.normalize_stream(raw, NAME))
    message = json.loads(cannery.nativize_response(folded, NAME).body)["choices"][0]["message"]
    [call] = message["tool_calls"]
    assert call["extra_content"] == SIGNED
    assert call["function"] == {"name": "f", "arguments": "{}", "x_inner": 1}
    again = b"".join(cannery.translate_stream(raw, source=NAME, target=NAME))
    assert fold(cannery.normalize_stream([again], NAME)).canisters == folded.canisters
    assert b"SIG" in again


def test_they_are_lost_with_a_word_for_another_dialect():
    raw = [*FIRST, chunk({}, "tool_calls"), b"data: [DONE]\n\n"]
    folded = fold(cannery.normalize_stream(raw, NAME))
    losses = cannery.nativize_response(folded, "anthropic_messages").losses
    assert {loss.code for loss in losses} & {"FIELD_DROPPED", "SIGNATURE_DROPPED"}
