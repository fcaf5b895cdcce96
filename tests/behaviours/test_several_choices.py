"""An answer carries one choice, and says of itself all that it says: what is left out is named one by one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, told

DIALECTS = (CHAT, RESPONSES, CLAUDE, GEMINI)


def _choice(index: int, words: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": words, "refusal": None}
    return {"index": index, "message": message, "logprobs": None, "finish_reason": "stop"}


def _candidate(index: int, words: str) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": words}]}
    return {"index": index, "content": content, "finishReason": "STOP"}


def _chat(*choices: dict[str, Any]) -> dict[str, Any]:
    head = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    return {**head, "choices": list(choices)}


def _failed(error: Any) -> dict[str, Any]:
    head = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "failed"}
    return {**head, "error": error, "output": [], "usage": None, "incomplete_details": None}


SEVERAL = {
    CHAT: (_chat(*[_choice(index, str(index)) for index in range(3)]), "choices"),
    GEMINI: ({"candidates": [_candidate(index, str(index)) for index in range(3)]}, "candidates"),
}


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", SEVERAL)
def test_the_whole_list_of_choices_is_named_as_lost(source: str, target: str):
    body, key = SEVERAL[source]
    found = told(body, source, target, kind="response")
    if source == target:
        assert found.body == body
        assert found.losses == set()
        return
    dropped = [(loss.code, loss.path) for loss in found.rendered.losses]
    assert dropped == [("CHOICE_DROPPED", f"{key}[1]"), ("CHOICE_DROPPED", f"{key}[2]")]


def test_what_the_first_of_several_choices_loses_is_not_named():
    first = {**_choice(0, "a"), "logprobs": {"content": [], "refusal": [1]}}
    found = told(_chat(first, _choice(1, "b")), CHAT, CLAUDE, kind="response")
    assert found.paths == {
        ("FIELD_DROPPED", "choices[0].logprobs"),
        ("CHOICE_DROPPED", "choices[1]"),
    }


@pytest.mark.parametrize("target", [CHAT, CLAUDE, GEMINI])
@pytest.mark.parametrize("code", ["server_error", "rate_limit_exceeded"])
def test_the_code_of_a_failure_disappears_in_silence(code: str, target: str):
    body = _failed({"code": code, "message": "the model gave up"})
    found = told(body, RESPONSES, target, kind="response")
    assert {("FIELD_DROPPED", "error.code"), ("FIELD_DROPPED", "error.message")} <= found.paths


ERRORS = (
    None,
    {"code": "server_error", "message": "the model gave up"},
    {"code": None, "message": "m"},
    {"message": "m", "param": None},
    {},
)


@pytest.mark.parametrize("error", ERRORS)
def test_a_failure_does_not_come_home(error: Any):
    assert told(_failed(error), RESPONSES, RESPONSES, kind="response").body == _failed(error)
