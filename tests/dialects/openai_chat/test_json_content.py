"""An answer whose content is an object, as Cloudflare gives it in JSON mode, says the JSON text of that object."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery

NAME = "openai_chat"
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def answer(**message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {"id": "i", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


@pytest.mark.parametrize(
    "more", [{}, {"refusal": None}, {"reasoning_content": "hm"}, {"tool_calls": [CALL]}]
)
@pytest.mark.parametrize("content", [{}, {"title": "T", "pages": [1, None]}])
def test_an_object_as_content_comes_back(content: Any, more: dict[str, Any]):
    body = answer(content=content, **more)
    rendered = cannery.translate(body, source=NAME, target=NAME, kind="response")
    assert (json.loads(rendered.body), rendered.losses) == (body, ())


@pytest.mark.parametrize(
    "target", ["openai_responses", "anthropic_messages", "gemini_generate", "ollama_chat"]
)
def test_an_object_as_content_is_text_for_others(target: str):
    body = answer(content={"title": "T", "pages": [1, None]})
    rendered = cannery.translate(body, source=NAME, target=target, kind="response")
    again = cannery.normalize_response(rendered.body, target)
    assert [json.loads(each.text) for each in again.canisters] == [
        {"title": "T", "pages": [1, None]}
    ]
    assert not [loss for loss in rendered.losses if loss.severity != "info"]


def test_in_a_request_it_is_text():
    said = cannery.normalize_response(answer(content={"a": 1}), NAME).canisters
    asked = cannery.Conversation([cannery.user("q"), *said, cannery.user("go on")])
    request = cannery.Request(asked, model="m", source=NAME)
    messages = json.loads(cannery.nativize_request(request, NAME).body)["messages"]
    assert messages[1] == {"role": "assistant", "content": '{"a":1}'}


@pytest.mark.parametrize("content", [True, 3])
def test_other_values_are_refused(content: Any):
    with pytest.raises(cannery.CanneryError, match=r"choices\[0\]\.message\.content"):
        cannery.normalize_response(answer(content=content), NAME)


def test_cohere_answers_with_no_object():
    message = {"role": "assistant", "content": {"a": 1}}
    body = {"id": "i", "message": message, "finish_reason": "COMPLETE"}
    with pytest.raises(cannery.CanneryError, match=r"message\.content"):
        cannery.normalize_response(body, "cohere_chat")


def test_an_object_in_a_request_is_refused():
    body = {"model": "m", "messages": [{"role": "assistant", "content": {"a": 1}}]}
    with pytest.raises(cannery.CanneryError, match=r"messages\[0\]\.content"):
        cannery.normalize_request(body, NAME)
