"""The path of a loss leads to a place in the source body, spelled as the body spells it."""

from __future__ import annotations

from typing import Any

import pytest

import cannery

GEMINI = {
    "contents": [{"role": "user", "parts": [{"text": "q"}]}],
    "generation_config": {"thinking_config": {"thinking_budget": 300}, "top_k": 4},
    "tools": [
        {"googleSearch": {}},
        {"function_declarations": [{"name": "a"}, {"name": "b.c", "x_new": 1}]},
    ],
}
LEGACY = {
    "model": "m",
    "messages": [{"role": "user", "content": "q"}],
    "functions": [{"name": "f", "x_new": 1}],
}
NOTED = {
    "model": "m",
    "max_tokens": 9,
    "messages": [
        {
            "role": "user",
            "content": [
                {
                    "type": "search_result",
                    "source": "https://example.com",
                    "title": "T",
                    "content": [{"type": "text", "text": "found"}],
                }
            ],
        }
    ],
}
CASES: list[Any] = [
    (
        "gemini_generate",
        GEMINI,
        "openai_chat",
        {
            "$",
            "tools[0]",
            "tools[1].function_declarations[1]",
            "tools[1].function_declarations[1].x_new",
            "generation_config.thinking_config.thinking_budget",
            "generation_config.top_k",
        },
    ),
    (
        "openai_chat",
        LEGACY,
        "anthropic_messages",
        {"functions[0].x_new", "$"},
    ),
    (
        "anthropic_messages",
        NOTED,
        "openai_chat",
        {"messages[0].content[0]", "messages[0].content[0].source"},
    ),
    (
        "anthropic_messages",
        {
            "model": "claude-opus-5",
            "max_tokens": 5,
            "messages": [
                {"role": "user", "content": "q"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "t",
                            "content": NOTED["messages"][0]["content"],
                        }
                    ],
                },
            ],
        },
        "openai_chat",
        {"messages[2].content[0]"},
    ),
]


@pytest.mark.parametrize("source, body, target, expected", CASES)
def test_paths_lead_somewhere(source: str, body: dict[str, Any], target: str, expected: set[str]):
    rendered = cannery.translate(body, source=source, target=target)
    assert {loss.path for loss in rendered.losses} == expected
