"""What Chat cannot say in its order, and where it starts anew, is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, claude, told, user

USE = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
MORE = {"type": "tool_use", "id": "b", "name": "f", "input": {}}
SAID = {"type": "text", "text": "Wait."}


def answered(*calls: dict[str, Any]) -> dict[str, Any]:
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "1"} for call in calls]
    return user(results)


@pytest.mark.parametrize("blocks", [[USE, SAID], [USE, SAID, MORE]])
def test_words_behind_a_call_are_told_where_they_move(blocks: list[Any]):
    calls = [block for block in blocks if block["type"] == "tool_use"]
    body = claude(user("q"), {"role": "assistant", "content": blocks}, answered(*calls))
    found = told(body, CLAUDE, CHAT)
    assert found.paths == {("ORDER_CHANGED", "messages[1].content[1]")}
    assert found.body["messages"][1]["content"] == "Wait."
    for target in (GEMINI, RESPONSES):
        assert "ORDER_CHANGED" not in told(body, CLAUDE, target).losses


@pytest.mark.parametrize("blocks", [[USE, SAID], [USE, SAID, MORE], [SAID, USE]])
def test_words_behind_a_call_of_an_answer_are_told(blocks: list[Any]):
    answer = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-8",
        "content": blocks,
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    rendered = cannery.translate(answer, source=CLAUDE, target=CHAT, kind="response")
    expected = [] if blocks[0] is SAID else [("ORDER_CHANGED", "content[1]")]
    assert [(loss.code, loss.path) for loss in rendered.losses] == expected


@pytest.mark.parametrize("source", [CLAUDE, RESPONSES, GEMINI])
def test_a_prefill_is_told_from_every_dialect_to_chat(source: str):
    body = claude(user("q"), {"role": "assistant", "content": "The answer is"})
    given = told(body, CLAUDE, source, without={"prefill"}).body if source != CLAUDE else body
    raw = json.dumps(given).encode()
    found = cannery.translate(raw, source=source, target=CHAT, model="m")
    assert [loss.code for loss in found.losses] == ["PREFILL_DROPPED"]
    request = cannery.normalize_request(raw, source).replace(model="m")
    for _ in range(2):
        rendered = cannery.nativize_request(request, CHAT)
        assert [loss.code for loss in rendered.losses] == ["PREFILL_DROPPED"]


def test_a_record_of_a_data_set_ends_with_an_answer():
    turns = [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]
    rendered = cannery.translate({"conversations": turns}, source="sharegpt", target=CHAT)
    assert {loss.code for loss in rendered.losses} == {"MODEL_UNKNOWN"}
