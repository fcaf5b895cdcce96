"""An answer that goes back as history has nothing in it that only answers may have, and is still exact as an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, call, calls, chat, claude, user
from tests.conformance.matrix import DIALECTS, assert_same_json, identify
from tests.oracles.corpus import Case, response_cases
from tests.oracles.sdk_types import validate_request

ASKED: dict[str, Any] = {
    CHAT: chat(user("q")),
    RESPONSES: {"model": "gpt-5.5", "input": [user("q")]},
    CLAUDE: claude(user("q")),
    GEMINI: {"contents": [{"role": "user", "parts": [{"text": "q"}]}]},
}
ANSWERS = [case for name in DIALECTS for case in response_cases(name) if not case.extended]
CITED = {
    "type": "url_citation",
    "url_citation": {"start_index": 0, "end_index": 1, "title": "T", "url": "https://e.org"},
}


def continued(dialect: str, answer: Any, **asked: Any) -> tuple[dict[str, Any], set[str]]:
    """The next request after an answer, and the codes of its losses."""
    first = ASKED.get(dialect)
    if first is None:
        first = json.loads(cannery.translate(ASKED[CHAT], source=CHAT, target=dialect).body)
    request = cannery.normalize_request({**first, **asked}, dialect)
    said = cannery.normalize_response(answer, dialect).canisters
    results = [
        cannery.result(canister.identifier, "r")
        for canister in said
        if canister.role.value == "invocation"
    ]
    conversation = [*request.conversation, *said, *results, cannery.user("next")]
    rendered = cannery.nativize_request(request.replace(conversation=conversation), dialect)
    return json.loads(rendered.body), {loss.code for loss in rendered.losses}


@pytest.mark.parametrize("case", ANSWERS, ids=identify)
def test_the_next_request_is_valid(case: Case):
    body, _ = continued(case.dialect, case.raw)
    assert validate_request(case.dialect, body, beta=True) == []


def chat_answer(**message: Any) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "x", **message},
        "logprobs": None,
        "finish_reason": "stop",
    }
    named = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return {**named, "choices": [choice]}


@pytest.mark.parametrize(
    "message, sent",
    [
        ({"annotations": []}, {}),
        ({"annotations": [CITED]}, {}),
        ({"annotations": [{"type": "hologram"}], "refusal": None}, {"refusal": None}),
        (
            {"audio": {"id": "a1", "data": "AA==", "expires_at": 5, "transcript": "t"}},
            {"audio": {"id": "a1"}},
        ),
    ],
)
def test_fields_of_chat_answers_stay_there(message: dict[str, Any], sent: dict[str, Any]):
    body, _ = continued(CHAT, chat_answer(**message))
    assert body["messages"][1] == {"role": "assistant", "content": "x", **sent}
    assert_same_json(
        cannery.nativize_response(
            cannery.normalize_response(chat_answer(**message), CHAT), CHAT
        ).body,
        json.dumps(chat_answer(**message)).encode(),
    )


def test_a_new_result_of_a_legacy_call_is_a_function_message():
    old = {"name": "f", "arguments": "{}"}
    body, _ = continued(CHAT, chat_answer(content=None, function_call=old))
    assert body["messages"][1]["function_call"] == old
    assert body["messages"][2] == {"role": "function", "name": "f", "content": "r"}
    assert calls(call("c1")) not in body["messages"]


ITEMS = [
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "f",
        "arguments": "{}",
        "status": "completed",
        "created_by": "u",
    },
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "created_by": "u"},
    {
        "type": "shell_call_output",
        "id": "so_1",
        "call_id": "c2",
        "output": [
            {"stdout": "o", "stderr": "", "outcome": {"type": "timeout"}, "created_by": "u"}
        ],
    },
]


def test_who_created_an_item_is_not_sent_back():
    answer = {"id": "r", "object": "response", "model": "gpt-5.5", "output": ITEMS}
    body, losses = continued(RESPONSES, answer)
    assert "created_by" not in json.dumps(body)
    assert body["input"][1] == ITEMS[0]
    assert not losses
    response = cannery.normalize_response(answer, RESPONSES)
    assert json.loads(cannery.nativize_response(response, RESPONSES).body) == answer


def test_reasoning_that_no_store_has_goes_with_the_ids_of_what_follows_it():
    answer = {"id": "r", "object": "response", "model": "gpt-5.5", "output": ITEMS[:2]}
    body, losses = continued(RESPONSES, answer, store=False)
    assert [item.get("type") for item in body["input"]] == [
        None,
        "function_call",
        "function_call_output",
        None,
    ]
    assert "id" not in body["input"][1]
    assert losses == {"REASONING_DROPPED"}


def test_what_a_client_sends_without_a_store_is_left_as_it_is():
    body = {**ASKED[RESPONSES], "store": False, "input": [user("q"), *ITEMS[:2]]}
    request = cannery.normalize_request(body, RESPONSES)
    assert json.loads(cannery.nativize_request(request, RESPONSES).body) == body


def test_an_answer_that_says_nothing_is_no_turn():
    answer = {"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]}
    body, _ = continued(GEMINI, answer)
    assert [content["role"] for content in body["contents"]] == ["user", "user"]
    response = cannery.normalize_response(answer, GEMINI)
    assert json.loads(cannery.nativize_response(response, GEMINI).body) == answer


@pytest.mark.parametrize(
    "fields", [{}, {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}]
)
def test_a_usual_answer_keeps_its_empty_annotations(fields: dict[str, Any]):
    answer = {**chat_answer(refusal=None, annotations=[]), **fields}
    response = cannery.normalize_response(answer, CHAT)
    assert json.loads(cannery.nativize_response(response, CHAT).body) == answer
