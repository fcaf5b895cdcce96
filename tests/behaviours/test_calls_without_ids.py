"""Calls without an id get one that no other call of the body has, so that results answer their own calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from tests.conformance.matrix import assert_same_json

QUESTION = "Compare the two."


def responses(*items: dict[str, Any]) -> dict[str, Any]:
    return {"model": "gpt-5", "input": [{"role": "user", "content": QUESTION}, *items]}


def called(identifier: str, kind: str = "function_call") -> dict[str, Any]:
    given = {"arguments": "{}"} if kind == "function_call" else {"input": "x"}
    return {"type": kind, "call_id": identifier, "name": "look", **given}


def answered(identifier: str, said: str, kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": identifier, "output": said}


MESSAGES = {
    "model": "claude-opus-4-8",
    "max_tokens": 9,
    "messages": [
        {"role": "user", "content": QUESTION},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "", "name": "look", "input": {}},
                {"type": "tool_use", "id": "call_1", "name": "look", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "second"}],
        },
    ],
}
INTERACTION = {
    "model": "gemini-3.5-flash",
    "input": [
        {"type": "user_input", "content": [{"type": "text", "text": QUESTION}]},
        {"type": "function_call", "name": "peek", "arguments": {}},
        {"type": "function_call", "id": "call_1", "name": "look", "arguments": {}},
        {"type": "function_result", "name": "peek", "result": "first"},
        {"type": "function_result", "call_id": "call_1", "name": "look", "result": "second"},
    ],
}
SPAN = {
    "gen_ai.input.messages": [
        {"role": "user", "parts": [{"type": "text", "content": QUESTION}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "tool_call", "name": "look", "arguments": {}},
                {"type": "tool_call", "id": "call_1", "name": "look", "arguments": {}},
            ],
        },
        {
            "role": "tool",
            "parts": [
                {"type": "tool_call_response", "response": "first"},
                {"type": "tool_call_response", "id": "call_1", "response": "second"},
            ],
        },
    ]
}
BODIES = {
    "openai_responses": responses(
        called(""), called("call_1"), answered("", "first"), answered("call_1", "second")
    ),
    "anthropic_messages": MESSAGES,
    "gemini_interactions": INTERACTION,
    "otel_genai": SPAN,
}


def results(body: bytes) -> dict[str, str]:
    """What each call of a Chat request was answered, by the id of the call."""
    return {
        message["tool_call_id"]: message["content"]
        for message in json.loads(body)["messages"]
        if message["role"] == "tool"
    }


@pytest.mark.parametrize("dialect", BODIES)
def test_a_made_id_is_unlike_those_that_the_body_gives(dialect: str):
    raw = json.dumps(BODIES[dialect]).encode()
    rendered = cannery.translate(raw, source=dialect, target="openai_chat")
    assert not [repair for repair in rendered.repairs if repair.name == "call_ids"]
    told = results(rendered.body)
    assert told.pop("call_1") == "second"
    # Messages has no way to answer a call without an id.
    (first,) = told.values()
    assert first == "first" or dialect == "anthropic_messages"
    assert_same_json(cannery.translate(raw, source=dialect, target=dialect).body, raw)


def test_results_without_an_id_answer_calls_of_their_kind_in_order():
    raw = json.dumps(
        responses(
            called(""),
            called("", "custom_tool_call"),
            called(""),
            answered("", "typed", "custom_tool_call_output"),
            answered("", "one"),
            answered("", "two"),
        )
    ).encode()
    rendered = cannery.translate(raw, source="openai_responses", target="openai_chat")
    assert not rendered.losses
    assert [*results(rendered.body).values()] == ["one", "typed", "two"]
    same = cannery.translate(raw, source="openai_responses", target="openai_responses")
    assert_same_json(same.body, raw)
