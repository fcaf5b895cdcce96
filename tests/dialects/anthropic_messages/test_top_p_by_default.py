"""A ``top_p`` of -1, which clients send to Anthropic for the default, is the default for others too, and not 0."""

from __future__ import annotations

import json

import pytest

import cannery
from tests.behaviours.bodies import CLAUDE, user

BODY = {"model": "claude-3-5-sonnet-20241022", "max_tokens": 64, "messages": [user("q")]}
TARGETS = [
    *("openai_chat", "openai_responses", "gemini_generate", "gemini_interactions"),
    *("bedrock_converse", "mistral_chat", "cohere_chat", "ollama_chat"),
]


@pytest.mark.parametrize("target", TARGETS)
def test_it_is_left_out(target: str):
    without = cannery.translate(BODY, source=CLAUDE, target=target)
    rendered = cannery.translate({**BODY, "top_p": -1}, source=CLAUDE, target=target)
    assert json.loads(rendered.body) == json.loads(without.body)
    assert [(each.code, each.path) for each in rendered.losses if each not in without.losses] == [
        ("DEFAULT_DROPPED", "top_p")
    ]


@pytest.mark.parametrize("value", [-1, 0, 0.5, 1, 2, -0.5, "x", None])
def test_the_same_dialect_gets_it_back(value: object):
    body = {**BODY, "top_p": value}
    rendered = cannery.translate(body, source=CLAUDE, target=CLAUDE)
    assert (json.loads(rendered.body), rendered.losses) == (body, ())


@pytest.mark.parametrize("value, sent", [(0.5, 0.5), (0, 0), (1, 1), (2, 1), (-0.5, 0)])
def test_other_values_are_sent_within_the_range(value: float, sent: float):
    rendered = cannery.translate({**BODY, "top_p": value}, source=CLAUDE, target="openai_chat")
    assert json.loads(rendered.body)["top_p"] == sent
