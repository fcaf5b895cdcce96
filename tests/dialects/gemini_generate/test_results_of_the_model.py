"""Results in the model's turns, as Google's SDK keeps those of its automatic calls, are results for every dialect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cannery

NAME = "gemini_generate"
ASKED: dict[str, Any] = {"role": "user", "parts": [{"text": "q"}]}
CALL = {"functionCall": {"name": "f", "args": {"a": 1}}}
RESULT = {"functionResponse": {"name": "f", "response": {"output": "42"}}}
TEXT = {"text": "done"}


def said(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": [*parts]}


TURNS = [
    [said(CALL), said(RESULT), said(TEXT)],
    [said(CALL, RESULT, TEXT)],
    [said(CALL, RESULT), said(TEXT)],
    [said(CALL), said(RESULT, TEXT)],
    [said(TEXT, CALL, RESULT, TEXT, CALL, RESULT, TEXT)],
    [said(CALL, CALL, RESULT, RESULT, TEXT)],
    [said(CALL, RESULT, CALL, RESULT)],
]


def body(turns: list[Any]) -> dict[str, Any]:
    return {"contents": [ASKED, *turns, ASKED]}


@pytest.mark.parametrize("turns", TURNS)
def test_a_result_in_a_turn_of_the_model_answers_its_call(turns: list[Any]):
    rendered = cannery.translate(body(turns), source=NAME, target="openai_chat")
    messages = json.loads(rendered.body)["messages"]
    asked = [call["id"] for each in messages for call in each.get("tool_calls", ())]
    answered = [each["tool_call_id"] for each in messages if each["role"] == "tool"]
    assert asked == answered != []
    assert {each["content"] for each in messages if each["role"] == "tool"} == {"42"}
    assert [loss.code for loss in rendered.losses] == ["MODEL_UNKNOWN"]
    assert rendered.repairs == ()


@pytest.mark.parametrize("turns", TURNS)
def test_it_stays_in_that_turn_for_its_own_dialect(turns: list[Any], tmp_path: Path):
    rendered = cannery.translate(body(turns), source=NAME, target=NAME)
    assert json.loads(rendered.body) == body(turns)
    assert (rendered.losses, rendered.repairs) == ((), ())
    request = cannery.normalize_request(body(turns), NAME)
    with cannery.open_store(tmp_path / "store") as store:
        kept = store.create(canisters=request.conversation)
        loaded = request.replace(conversation=store.get(kept.identifier).hydrate())
    assert json.loads(cannery.nativize_request(loaded, NAME).body) == body(turns)
    spans = cannery.translate(body(turns), source=NAME, target="otel_genai", policy="allow")
    again = cannery.translate(spans.body, source="otel_genai", target=NAME)
    assert json.loads(again.body) == body(turns)


@pytest.mark.parametrize("turns", TURNS)
def test_a_conversation_that_grows_keeps_its_contents_whole(turns: list[Any]):
    long = [ASKED, *turns, ASKED, *turns, ASKED, *turns]
    request = cannery.normalize_request({"contents": long}, NAME)
    for end in range(1, len(request.conversation) + 1):
        grown = request.replace(conversation=request.conversation[:end])
        fresh = cannery.normalize_request({"contents": long}, NAME)
        fresh = fresh.replace(conversation=fresh.conversation[:end])
        one, other = (cannery.nativize_request(each, NAME).body for each in (grown, fresh))
        assert one == other


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "anthropic_messages"])
def test_one_without_its_call_is_text_of_the_user(target: str):
    rendered = cannery.translate({"contents": [said(RESULT)]}, source=NAME, target=target)
    assert b"42" in rendered.body
    assert "orphaned_results" in {repair.name for repair in rendered.repairs}
    home = cannery.translate({"contents": [said(RESULT)]}, source=NAME, target=NAME)
    assert json.loads(home.body) == {"contents": [said(RESULT)]}
