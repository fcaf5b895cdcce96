"""What was left out without a word, or named by a path that the body does not have."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery

ANSWER: dict[str, Any] = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "hi", "refusal": None},
            "finish_reason": "stop",
        }
    ],
}


def told(rendered: cannery.Rendered) -> set[tuple[str, str]]:
    return {(loss.code, loss.path) for loss in rendered.losses}


@pytest.mark.parametrize("target", ["anthropic_messages", "gemini_generate"])
def test_metadata_of_a_chat_answer_is_named(target: str):
    body = {**ANSWER, "metadata": {"a": "b"}}
    rendered = cannery.translate(body, source="openai_chat", target=target, kind="response")
    assert ("FIELD_DROPPED", "metadata") in told(rendered)


@pytest.mark.parametrize(
    "choices, path",
    [
        ([], "choices"),
        ([{"index": 0, "message": {"role": "assistant", "content": "hi"}}], "choices[0]"),
    ],
)
def test_an_answer_without_an_end_is_told_at_a_path_that_it_has(choices: list[Any], path: str):
    rendered = cannery.translate(
        {**ANSWER, "choices": choices},
        source="openai_chat",
        target="anthropic_messages",
        kind="response",
    )
    assert ("FINISH_CHANGED", path) in told(rendered)


def test_tools_within_one_string_have_its_path():
    tools = [{"name": "a b", "parameters": {}, "extra": 1}]
    record = {"conversations": [{"from": "human", "value": "hi"}], "tools": json.dumps(tools)}
    rendered = cannery.translate(record, source="sharegpt", target="openai_chat")
    assert {("NAME_CHANGED", "tools"), ("FIELD_DROPPED", "tools")} <= told(rendered)
    listed = cannery.translate({**record, "tools": tools}, source="sharegpt", target="openai_chat")
    assert ("FIELD_DROPPED", "tools[0].extra") in told(listed)


@pytest.mark.parametrize("source", ["openai_chat", "anthropic_messages"])
def test_the_id_that_a_client_gave_to_its_message_is_named(source: str):
    body = {
        "model": "m",
        "max_tokens": 5,
        "messages": [
            {"role": "user", "content": "a", "id": "mine"},
            {"role": "assistant", "content": "b", "id": "made"},
            {"role": "user", "content": "c"},
        ],
    }
    rendered = cannery.translate(body, source=source, target="gemini_generate")
    found = [loss for loss in rendered.losses if loss.code == "MESSAGE_ID_DROPPED"]
    assert [(loss.severity, loss.path) for loss in found] == [("info", "messages[0].id")]


def test_citations_of_a_folded_system_text_are_named():
    cited = {
        "type": "text",
        "text": "Be kind.",
        "citations": [
            {
                "type": "char_location",
                "cited_text": "kind",
                "document_index": 0,
                "document_title": "t",
                "start_char_index": 0,
                "end_char_index": 4,
            }
        ],
    }
    body = {
        "model": "m",
        "max_tokens": 5,
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "system", "content": [cited]},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ],
    }
    rendered = cannery.translate(body, source="anthropic_messages", target="gemini_generate")
    assert ("CITATION_DROPPED", "messages[1].content[0]") in told(rendered)


@pytest.mark.parametrize("target", ["openai_chat", "anthropic_messages", "gemini_generate"])
def test_a_reference_alone_gets_no_sentences(target: str):
    body = {"model": "m", "input": [{"type": "item_reference", "id": "msg_1"}]}
    with pytest.raises(cannery.EmptyConversationError):
        cannery.translate(body, source="openai_responses", target=target, policy="allow")
    with pytest.raises(cannery.LossError):
        cannery.translate(body, source="openai_responses", target=target)
