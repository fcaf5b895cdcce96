"""Dialects of one family judge alike: Messages and Converse, and Google's two APIs."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from cannery.messages import supervisor

BLOCKS = ("anthropic_messages", "bedrock_converse")
GOOGLE = ("gemini_generate", "gemini_interactions")
CITATION = {
    "type": "char_location",
    "cited_text": "it",
    "document_index": 0,
    "document_title": None,
    "start_char_index": 0,
    "end_char_index": 2,
}
CITED = {"type": "text", "text": "So it is.", "citations": [CITATION]}


def rendered(body: dict[str, Any], source: str, target: str) -> cannery.Rendered:
    return cannery.translate(body, source=source, target=target, policy="allow")


def losses(found: cannery.Rendered) -> list[tuple[str, str]]:
    return [(loss.code, loss.path) for loss in found.losses]


@pytest.mark.parametrize("target", BLOCKS)
def test_a_turn_of_which_nothing_can_be_said_does_not_join_its_neighbours(target: str):
    messages = [
        {"role": "user", "content": "Say hi"},
        {"role": "assistant", "audio": {"id": "audio_1"}},
        {"role": "user", "content": "Slower."},
    ]
    found = rendered({"model": "gpt-5", "messages": messages}, "openai_chat", target)
    written = json.loads(found.body)["messages"]
    assert [message["role"] for message in written] == ["user", "assistant", "user"]
    assert "[audio omitted]" in json.dumps(written[1])
    assert "messages[1].audio" in [path for _, path in losses(found)]


@pytest.mark.parametrize("target", BLOCKS)
def test_a_turn_of_thoughts_alone_is_left_out_and_its_neighbours_are_one_message(target: str):
    contents = [
        {"role": "user", "parts": [{"text": "a"}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}]},
        {"role": "user", "parts": [{"text": "b"}]},
    ]
    found = rendered({"contents": contents}, "gemini_generate", target)
    (message,) = json.loads(found.body)["messages"]
    assert [block["text"] for block in message["content"]] == ["a", "b"]
    assert "alternation" in [repair.name for repair in found.repairs]


@pytest.mark.parametrize("target", [*BLOCKS, *GOOGLE])
def test_a_developer_who_was_added_to_a_conversation_is_told_to_be_lowered(target: str):
    body = {
        "model": "claude-opus-4-8",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "a"}],
    }
    own = rendered(body, "anthropic_messages", target).body
    request = cannery.normalize_request(own, target)
    conversation = (supervisor("Be brief.", rank="developer"), *request.conversation)
    changed = request.replace(conversation=cannery.Conversation(conversation))
    found = cannery.nativize_request(changed, target, policy="allow")
    assert "RANK_LOWERED" in [loss.code for loss in found.losses]


@pytest.mark.parametrize("target", GOOGLE)
def test_citations_of_a_system_instruction_are_told_as_lost(target: str):
    body = {
        "model": "claude-opus-4-8",
        "max_tokens": 9,
        "system": [CITED],
        "messages": [{"role": "user", "content": "a"}],
    }
    assert ("CITATION_DROPPED", "system[0]") in losses(rendered(body, "anthropic_messages", target))


@pytest.mark.parametrize("target", GOOGLE)
def test_citations_in_chunks_of_a_document_are_told_as_lost(target: str):
    document = {"type": "document", "source": {"type": "content", "content": [CITED]}}
    body = {
        "model": "claude-opus-4-8",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": [document]}],
    }
    found = rendered(body, "anthropic_messages", target)
    assert ("CITATION_DROPPED", "messages[0].content[0]") in losses(found)
