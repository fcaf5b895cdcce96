"""Alpaca: instruction, input and output as a conversation, and conversations as that."""

from __future__ import annotations

import json
from typing import Any

import cannery

NAME = "alpaca"


def texts(record: dict[str, Any]) -> list[tuple[str, str]]:
    found: list[Any] = list(cannery.normalize_request(record, NAME).conversation)
    return [(canister.role.value, canister.text) for canister in found]


def test_instruction_and_input_are_one_prompt():
    record = {"instruction": "Translate.", "input": "chat", "output": "cat"}
    assert texts(record) == [("user", "Translate.\nchat"), ("assistant", "cat")]
    assert texts({**record, "input": ""}) == [("user", "Translate."), ("assistant", "cat")]


def test_history_and_system_come_first():
    record = {
        "instruction": "c",
        "input": "",
        "output": "d",
        "history": [["a", "b"]],
        "system": "s",
    }
    assert texts(record) == [
        ("supervisor", "s"), ("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"),
    ]  # fmt: skip


def test_a_chat_becomes_history_and_the_last_exchange():
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
        {"role": "assistant", "content": "e"},
    ]
    rendered = cannery.translate(
        {"model": "m", "messages": messages}, source="openai_chat", target=NAME
    )
    assert json.loads(rendered.body) == {
        "system": "s", "instruction": "d", "input": "", "output": "e", "history": [["a\n\nb", "c"]],
    }  # fmt: skip
    assert [repair.name for repair in rendered.repairs] == ["alternation"]


def test_calls_cannot_be_said_and_are_named():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
        {"role": "assistant", "content": "b"},
    ]
    rendered = cannery.translate(
        {"model": "m", "messages": messages}, source="openai_chat", target=NAME
    )
    assert json.loads(rendered.body) == {"instruction": "a", "input": "", "output": "b"}
    assert {(loss.code, loss.path) for loss in rendered.losses} == {
        ("MODEL_DROPPED", "model"),
        ("CALL_DROPPED", "messages[1].tool_calls[0]"),
        ("RESULT_DROPPED", "messages[2]"),
    }
