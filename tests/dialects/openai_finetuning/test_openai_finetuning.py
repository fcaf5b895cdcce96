"""Fine-tuning examples: Chat messages without a model, with weights."""

from __future__ import annotations

import json
from typing import Any

import cannery

NAME = "openai_finetuning"
EXAMPLE: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "Hi", "name": "bob"},
        {"role": "assistant", "content": "No", "weight": 0},
        {"role": "user", "content": "Again"},
        {"role": "assistant", "content": "Yes", "weight": 1},
    ],
}


def test_weights_and_names_stay_at_home_and_are_named_abroad():
    request = cannery.normalize_request(EXAMPLE, NAME)
    assert json.loads(cannery.nativize_request(request, NAME).body) == EXAMPLE
    rendered = cannery.translate(EXAMPLE, source=NAME, target="openai_chat")
    assert {(loss.code, loss.path) for loss in rendered.losses} == {
        ("MODEL_UNKNOWN", "$"),
        ("FIELD_DROPPED", "messages[0].name"),
        ("FIELD_DROPPED", "messages[1].weight"),
        ("FIELD_DROPPED", "messages[3].weight"),
    }


def test_a_chat_becomes_an_example_without_its_settings():
    chat = {
        **EXAMPLE,
        "model": "m",
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "stream": True,
    }
    rendered = cannery.translate(chat, source="openai_chat", target=NAME)
    body = json.loads(rendered.body)
    assert body.keys() == {"messages", "parallel_tool_calls"}
    assert {loss.code for loss in rendered.losses} == {
        "MODEL_DROPPED",
        "CONTROL_DROPPED",
        "FIELD_DROPPED",
    }


def test_the_same_call_id_in_every_example_is_fine():
    call = {"id": "call_id", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    answer = {"role": "tool", "tool_call_id": "call_id", "content": "1"}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    example = {"messages": [{"role": "user", "content": "?"}, asked, answer, asked, answer]}
    rendered = cannery.translate(example, source=NAME, target="openai_chat")
    assert [message["role"] for message in json.loads(rendered.body)["messages"]] == [
        "user", "assistant", "tool", "assistant", "tool",
    ]  # fmt: skip
