"""How an answer ended: said in the target's words, and named where the source said something else or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, call, told


def chat_answer(reason: Any, **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi", **message}}
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return {**head, "choices": [{**choice, "finish_reason": reason}]}


def responses_answer(status: Any, *more: dict[str, Any]) -> dict[str, Any]:
    text = {"type": "output_text", "text": "hi", "annotations": []}
    said = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    head = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": status}
    return {**head, "output": [{**said, "content": [text]}, *more]}


def gemini_answer(reason: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": "hi"}]}
    return {"candidates": [{"content": content, "finishReason": reason}]}


@pytest.mark.parametrize("target", [RESPONSES, CLAUDE])
@pytest.mark.parametrize("word", ["model_length", "abort", "error"])
def test_a_word_of_a_compatible_server_is_no_plain_end(word: str, target: str):
    found = told(chat_answer(word), CHAT, target, kind="response")
    assert found.paths == {("FINISH_CHANGED", "choices[0].finish_reason")}
    assert told(chat_answer(word), CHAT, GEMINI, kind="response").body["candidates"][0][
        "finishReason"
    ] == ("OTHER")
    assert told(chat_answer(word), CHAT, CHAT, kind="response").body == chat_answer(word)


@pytest.mark.parametrize("target", [CHAT, CLAUDE])
@pytest.mark.parametrize("status", ["in_progress", "queued", "not_yet_invented"])
def test_an_answer_under_way_is_not_silently_complete(status: str, target: str):
    found = told(responses_answer(status), RESPONSES, target, kind="response")
    assert found.paths == {("FINISH_CHANGED", "status")}
    silent = told(responses_answer(status), RESPONSES, GEMINI, kind="response")
    assert "finishReason" not in silent.body["candidates"][0]
    assert silent.losses == set()


@pytest.mark.parametrize("thought", [False, True])
def test_calls_show_in_the_finish_reason_of_chat(thought: bool):
    called = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}"}
    reasoning = {"type": "reasoning", "id": "rs", "summary": []}
    items = [reasoning, called] if thought else [called]
    body = responses_answer("in_progress", *items)
    found = told(body, RESPONSES, CHAT, kind="response")
    assert found.body["choices"][0]["finish_reason"] == "tool_calls"
    ended = told(chat_answer("stop", tool_calls=[call("c")]), CHAT, CHAT, kind="response")
    assert ended.body["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("word", ["MODEL_ARMOR", "ESCALATION", "SAFETY"])
def test_what_google_filters_is_filtered_elsewhere(word: str):
    found = told(gemini_answer(word), GEMINI, CHAT, kind="response")
    assert found.body["choices"][0]["finish_reason"] == "content_filter"
    assert found.losses == set()


def test_the_stop_sequence_of_an_answer_without_words_is_named():
    body = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "c",
        "content": [],
        "stop_reason": "stop_sequence",
        "stop_sequence": "END",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    for target in (CHAT, RESPONSES, GEMINI):
        found = told(body, CLAUDE, target, kind="response")
        assert found.paths == {("FIELD_DROPPED", "stop_sequence")}, target


FILTERED = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-35-turbo",
    "choices": [{"index": 0, "finish_reason": "content_filter", "content_filter_results": {}}],
}


@pytest.mark.parametrize("target", [CHAT, CLAUDE, GEMINI, RESPONSES])
def test_an_answer_that_a_filter_stopped_may_have_no_message(target: str):
    rendered = cannery.translate(FILTERED, source=CHAT, target=target, kind="response")
    if target == CHAT:
        assert json.loads(rendered.body) == FILTERED
    response = cannery.normalize_response(rendered.body, target)
    assert list(response.canisters) == []
    # Anthropic has one word for both.
    assert response.finish in (cannery.FinishReason.Filter, cannery.FinishReason.Refusal)
