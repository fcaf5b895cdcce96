"""Losses are told by paths and names that the caller's own body has."""

from __future__ import annotations

from typing import Any

import pytest

from cannery.translation import translate

NAME = "gemini_generate"


def has(body: Any, path: str) -> bool:
    held = body
    for step in path.replace("[", ".[").split("."):
        try:
            held = held[int(step[1:-1])] if step.startswith("[") else held[step]
        except (KeyError, IndexError, TypeError):
            return False
    return True


CONFIG = {
    "candidate_count": 3,
    "topK": 5,
    "seed": 7,
    "thinking_config": {"thinkingLevel": "LOW", "include_thoughts": True},
    "response_mime_type": "application/json",
    "responseSchema": {"type": "OBJECT", "title": "t"},
}
CHOICE = {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["gone"]}}
REQUEST = {
    "contents": [
        {"parts": {"text": "q", "video_metadata": {"fps": 2}}},
        {"role": "model", "parts": [{"function_call": {"name": "f", "x": 1}, "zz": 2}]},
        {"parts": [{"function_response": {"name": "f", "response": {}, "will_continue": True}}]},
    ],
    "system_instruction": [{"text": "s", "zz": 1}],
    "generation_config": CONFIG,
    "tool_config": CHOICE,
    "tools": {"function_declarations": [{"name": "g", "behavior": "x"}], "google_search": {}},
}


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "anthropic_messages"])
def test_paths_of_a_request_lead_somewhere(target):
    losses = translate(REQUEST, source=NAME, target=target).losses
    told = [loss for loss in losses if loss.severity == "lost"]
    assert told
    assert [loss for loss in told if not has(REQUEST, loss.path)] == []
    assert [loss for loss in losses if "'candidates'" in loss.detail] == []


@pytest.mark.parametrize(
    "candidate, path",
    [
        ({"content": {"parts": [{"text": "a"}]}}, "candidates[0]"),
        ({"content": {"parts": [{"text": "a"}]}, "finish_reason": "OTHER"}, "candidates[0].finish_reason"),
    ],
    ids=str,
)  # fmt: skip
def test_the_path_of_an_ending_is_the_body_s_own(candidate, path):
    body = {"candidates": [candidate]}
    losses = translate(body, source=NAME, target="anthropic_messages", kind="response").losses
    assert [loss.path for loss in losses if loss.code == "FINISH_CHANGED"] == [path]
