"""Settings that say only what is usual: no target misses them, and each is named as a note."""

from __future__ import annotations

from typing import Any

import pytest

import cannery
from cannery.dialects import dialect_names, find_dialect

Object = dict[str, Any]
WHOLE = [name for name in dialect_names() if find_dialect(name).routes]
# Controls that change nothing, in the words of a dialect.
NEUTRAL: dict[str, Object] = {
    "openai_chat": {
        "frequency_penalty": 0,
        "presence_penalty": 0.0,
        "parallel_tool_calls": True,
        "temperature": 1,
        "top_p": 1.0,
        "n": 1,
        "stop": [],
        "user": "",
    },
    "mistral_chat": {"frequency_penalty": 0, "presence_penalty": 0, "parallel_tool_calls": True},
    "cohere_chat": {"frequency_penalty": 0.0, "presence_penalty": 0.0, "k": 0},
    "openai_responses": {"temperature": 1, "top_p": 1, "parallel_tool_calls": True},
    "gemini_generate": {
        "generationConfig": {"presencePenalty": 0, "frequencyPenalty": 0, "candidateCount": 1}
    },
}


def asking(dialect: str, settings: Object) -> Object:
    """A request of one question."""
    asked: Object = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
    if dialect == "gemini_generate":
        asked = {"contents": [{"role": "user", "parts": [{"text": "q"}]}]}
    elif dialect == "bedrock_converse":
        asked = {"messages": [{"role": "user", "content": [{"text": "q"}]}]}
    elif dialect in ("openai_responses", "gemini_interactions"):
        asked = {"model": "m", "input": "q"}
    elif dialect == "ollama_generate":
        asked = {"model": "m", "prompt": "q"}
    elif dialect == "anthropic_messages":
        asked["max_tokens"] = 99
    return {**asked, **settings}


def nested(path: str, value: Any) -> Object:
    for key in reversed(path.split(".")):
        value = {key: value}
    return value  # type: ignore[no-any-return]


USUAL = [
    (name, path, value)
    for name in WHOLE
    for path, values in find_dialect(name).defaults.items()
    for value in values
]


@pytest.mark.parametrize("source, path, value", USUAL)
def test_a_default_is_a_note_and_no_loss(source: str, path: str, value: Any):
    body = asking(source, nested(path, value))
    is_named = False
    for target in WHOLE:
        if target == source:
            continue
        rendered = cannery.translate(body, source=source, target=target, model="m")
        told = [loss for loss in rendered.losses if loss.path == path]
        assert all(loss.severity == "info" for loss in told), (target, told)
        is_named = is_named or bool(told)
    assert is_named


@pytest.mark.parametrize("source, path, value", USUAL)
def test_what_is_not_the_default_is_a_loss(source: str, path: str, value: Any):
    body = asking(source, nested(path, {"never": "heard"} if type(value) is dict else "never"))
    rendered = cannery.translate(body, source=source, target="sharegpt", policy="allow")
    assert [loss.severity for loss in rendered.losses if loss.path.startswith(path)] == ["lost"]


@pytest.mark.parametrize("target", WHOLE)
@pytest.mark.parametrize("source", NEUTRAL)
def test_a_control_that_changes_nothing_is_no_loss(source: str, target: str):
    model = "claude-opus-4-8" if target == "anthropic_messages" else "m"
    body = asking(source, NEUTRAL[source])
    rendered = cannery.translate(body, source=source, target=target, model=model)
    assert [loss for loss in rendered.losses if loss.code == "CONTROL_DROPPED"] == []
