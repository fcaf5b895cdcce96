"""Token counts add up as Google bills them: prompts of tools are input, thoughts are output."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cannery.messages import absent
from cannery.translation import normalize_response, translate

NAME = "gemini_generate"


def answer(**counts: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": "a"}]}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": counts}


@pytest.mark.parametrize(
    "counts, expected",
    [
        (
            {"promptTokenCount": 94, "toolUsePromptTokenCount": 4610, "candidatesTokenCount": 7},
            (4704, 7),
        ),
        ({"tool_use_prompt_token_count": "12", "prompt_token_count": 3}, (15, 0)),
        ({"candidatesTokenCount": 18, "thoughtsTokenCount": 58}, (0, 76)),
        ({"promptTokenCount": 5, "cachedContentTokenCount": 3}, (5, 0)),
    ],
    ids=str,
)
def test_every_token_is_counted_once(counts, expected):
    body = answer(**counts)
    usage: Any = normalize_response(body, NAME).usage
    assert (usage.input, usage.output) == expected
    found = json.loads(translate(body, source=NAME, target="openai_chat", kind="response").body)
    assert found["usage"]["prompt_tokens"] == expected[0]
    assert found["usage"]["total_tokens"] == sum(expected)
    back = translate(body, source=NAME, target=NAME, kind="response")
    assert json.loads(back.body) == body


def test_prompts_of_tools_are_no_loss():
    body = answer(promptTokenCount=1, toolUsePromptTokenCount=2)
    assert not translate(body, source=NAME, target="openai_chat", kind="response").losses


def test_details_alone_are_no_counts():
    body = answer(promptTokensDetails=[{"modality": "TEXT", "tokenCount": 3}])
    assert normalize_response(body, NAME).usage is absent
