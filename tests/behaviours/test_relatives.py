"""Dialects of one family judge alike: Messages and Converse, Google's two APIs, and the relatives of Chat."""

from __future__ import annotations

import json
from typing import Any

import msgspec
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


SHAPE = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.mark.parametrize("source", ["openai_chat", "mistral_chat"])
@pytest.mark.parametrize(
    "target, path",
    [
        ("gemini_generate", ("generationConfig", "responseJsonSchema")),
        ("ollama_chat", ("format",)),
        ("openai_responses", ("text", "format", "schema")),
        ("cohere_chat", ("response_format", "json_schema")),
    ],
)
def test_a_schema_beside_json_object_is_the_schema_of_the_output(
    source: str, target: str, path: tuple[str, ...]
):
    body: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": "q"}],
        "response_format": {"type": "json_object", "schema": SHAPE, "x_own": 1},
    }
    found = rendered(body, source, target)
    written = json.loads(found.body)
    for key in path:
        written = written[key]
    assert written == SHAPE
    assert losses(found) == [("FIELD_DROPPED", "response_format.x_own")]
    assert json.loads(rendered(body, source, source).body) == body
    request = cannery.normalize_request(json.dumps(body).encode(), source)
    closed = {**SHAPE, "additionalProperties": False}
    output = msgspec.structs.replace(request.controls.output, schema=json.dumps(closed))
    controls = msgspec.structs.replace(request.controls, output=output)
    edited = cannery.nativize_request(msgspec.structs.replace(request, controls=controls), source)
    assert json.loads(edited.body)["response_format"]["schema"] == closed
