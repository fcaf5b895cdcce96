"""How closely an image is to be looked at is said or named."""

from __future__ import annotations

import json

import pytest

import cannery
from tests.behaviours.bodies import PNG

CHAT = "openai_chat"


def asked(detail: str, *, in_result: bool = False) -> bytes:
    image = {"url": f"data:image/png;base64,{PNG}", "detail": detail}
    parts = [{"type": "text", "text": "See."}, {"type": "image_url", "image_url": image}]
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": parts}]
    if in_result:
        messages[1]["content"] = "q"
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": parts},
        ]
    return json.dumps({"model": "m", "messages": messages}).encode()


@pytest.mark.parametrize("in_result", [False, True])
@pytest.mark.parametrize("target", ["anthropic_messages", "gemini_generate", "openai_responses"])
def test_a_detail_is_said_or_named(target: str, in_result: bool):
    found = cannery.translate(asked("high", in_result=in_result), source=CHAT, target=target)
    lost = {loss.code for loss in found.losses if loss.severity == "lost"}
    is_said = target == "openai_responses" and b'"detail":"high"' in found.body
    assert is_said or lost == {"FIELD_DROPPED"}
    usual = cannery.translate(asked("auto", in_result=in_result), source=CHAT, target=target)
    assert not [loss for loss in usual.losses if loss.severity == "lost"]
