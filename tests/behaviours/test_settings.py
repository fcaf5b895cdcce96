"""Settings abroad: a choice among tools that could not be sent, and settings that only their dialect knows."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery

FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
SEARCH = {"type": "web_search"}
TARGETS = ("anthropic_messages", "gemini_generate", "openai_chat")


def translated(target: str, **settings: Any) -> tuple[dict[str, Any], set[tuple[str, str]]]:
    body = {"model": "m", "input": "q", **settings}
    rendered = cannery.translate(body, source="openai_responses", target=target)
    return json.loads(rendered.body), {(loss.code, loss.path) for loss in rendered.losses}


@pytest.mark.parametrize("target", TARGETS)
def test_no_tool_may_be_demanded_when_none_could_be_sent(target: str):
    written, losses = translated(target, tools=[SEARCH], tool_choice="required")
    assert not written.keys() & {"tools", "tool_choice", "toolConfig"}
    assert ("CONTROL_DROPPED", "tool_choice") in losses


@pytest.mark.parametrize("target", TARGETS)
def test_a_chosen_tool_that_is_hosted_is_named_as_lost(target: str):
    written, losses = translated(target, tools=[SEARCH, FUNCTION], tool_choice=SEARCH)
    assert not written.keys() & {"tool_choice", "toolConfig"}
    assert ("CONTROL_DROPPED", "tool_choice") in losses


@pytest.mark.parametrize("source, key", [("anthropic_messages", "tool_choice")])
@pytest.mark.parametrize("target", ["gemini_generate", "openai_chat", "openai_responses"])
def test_a_hosted_tool_is_not_chosen_as_a_function(source: str, key: str, target: str):
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "q"}],
        "tools": [
            {"type": "web_search_20250305", "name": "web_search"},
            {"name": "f", "input_schema": {"type": "object"}},
        ],
        key: {"type": "tool", "name": "web_search"},
    }
    rendered = cannery.translate(body, source=source, target=target)
    assert "web_search" not in rendered.body.decode()
    assert ("CONTROL_DROPPED", key) in {(loss.code, loss.path) for loss in rendered.losses}


def test_calls_need_tools_before_they_can_be_kept_from_running_in_parallel():
    written, losses = translated("openai_chat", parallel_tool_calls=False)
    assert "parallel_tool_calls" not in written
    assert ("CONTROL_DROPPED", "parallel_tool_calls") in losses


def test_an_effort_that_chat_does_not_know_is_changed():
    written, losses = translated("openai_chat", reasoning={"effort": "colossal"})
    assert written["reasoning_effort"] == "medium"
    assert ("CONTROL_CHANGED", "reasoning") in losses


@pytest.mark.parametrize("target", ["anthropic_messages", "gemini_generate", "openai_responses"])
def test_an_output_format_of_the_future_is_named_as_lost(target: str):
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "q"}],
        "response_format": {"type": "haiku", "lines": 3},
    }
    rendered = cannery.translate(body, source="openai_chat", target=target)
    assert ("CONTROL_DROPPED", "response_format") in {(x.code, x.path) for x in rendered.losses}


@pytest.mark.parametrize("broken", [b"\xd6", b"\xed\xa0\x80", rb"\ud800"])
def test_broken_text_in_a_schema_is_replaced(broken: bytes):
    schema = b'{"type":"object","description":"a%sb"}' % broken
    body = (
        b'{"model":"m","messages":[{"role":"user","content":"q"}],'
        b'"tools":[{"type":"function","function":{"name":"f","parameters":%s}}]}' % schema
    )
    request = cannery.normalize_request(body, "openai_chat")
    written = json.loads(cannery.nativize_request(request, "openai_chat").body)
    text = written["tools"][0]["function"]["parameters"]["description"]
    assert set(text[1:-1]) == {"\ufffd"}
    for target in TARGETS:
        cannery.translate(body, source="openai_chat", target=target)
