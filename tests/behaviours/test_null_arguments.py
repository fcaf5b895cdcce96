"""Arguments that are null are arguments that were not given: no object-only target sees them wrapped."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery

CHAT = {
    "model": "m",
    "messages": [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": None}}
            ],
        }
    ],
}
RESPONSES = {
    "model": "m",
    "input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": None}],
}
CLAUDE = {
    "model": "m",
    "max_tokens": 5,
    "messages": [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c", "name": "f", "input": None}],
        }
    ],
}


@pytest.mark.parametrize(
    "dialect, body",
    [("openai_chat", CHAT), ("openai_responses", RESPONSES), ("anthropic_messages", CLAUDE)],
)
def test_null_arguments_mean_none(dialect: str, body: dict[str, Any]):
    request = cannery.normalize_request(body, dialect)
    assert json.loads(cannery.nativize_request(request, dialect).body) == body
    abroad = cannery.translate(body, source=dialect, target="gemini_generate")
    call = json.loads(abroad.body)["contents"][1]["parts"][0]["functionCall"]
    assert call["args"] == {}
    assert "ARGUMENTS_WRAPPED" not in {loss.code for loss in abroad.losses}
