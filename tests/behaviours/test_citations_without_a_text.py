"""Citations beside an answer that calls, thinks or shows, and says nothing that they could be about."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, PNG, RESPONSES, call, told
from tests.conformance.matrix import DIALECTS

CALL = {"functionCall": {"name": "f", "args": {"city": "Rome"}}}
SAID = {"text": "abcdef"}
THOUGHT = {"text": "t", "thought": True}
PARTS: dict[str, list[dict[str, Any]]] = {
    "call": [CALL],
    "call, text": [CALL, SAID],
    "text, call": [SAID, CALL],
    "thought, call": [THOUGHT, CALL],
    "empty text, call": [{"text": ""}, CALL],
    "empty text, call, text": [{"text": ""}, CALL, SAID],
    "image": [{"inlineData": {"mimeType": "image/png", "data": PNG}}],
    "nothing": [],
}
SOURCES = {"citations": [{"startIndex": 0, "endIndex": 3, "uri": "https://e.org"}]}
CITED = {
    "type": "url_citation",
    "url_citation": {"start_index": 0, "end_index": 1, "title": "T", "url": "https://e.org"},
}


def grounding(**segment: Any) -> dict[str, Any]:
    found = {"startIndex": 0, "endIndex": 3, "text": "abc", **segment}
    return {
        "groundingChunks": [{"web": {"uri": "https://e.org", "title": "T"}}],
        "groundingSupports": [{"segment": found, "groundingChunkIndices": [0]}],
    }


BESIDE: dict[str, tuple[str, Any]] = {
    "citations": ("citationMetadata", SOURCES),
    "grounding": ("groundingMetadata", grounding()),
    "grounding of part 0": ("groundingMetadata", grounding(partIndex=0)),
    "grounding of part 1": ("groundingMetadata", grounding(partIndex=1)),
}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("parts", PARTS)
def test_gemini_cites_no_arguments_of_a_call(parts: str, beside: str):
    key, metadata = BESIDE[beside]
    content = {"role": "model", "parts": PARTS[parts]}
    body = {"candidates": [{"content": content, "finishReason": "STOP", key: metadata}]}
    raw = json.dumps(body).encode()

    response = cannery.normalize_response(raw, GEMINI)
    home = cannery.nativize_response(response, GEMINI, policy="strict")
    assert json.loads(home.body) == body
    cited = [one.text for one in response.canisters if getattr(one.held, "citations", ())]
    assert cited == [SAID["text"]] * (SAID in PARTS[parts])
    for target in (CHAT, CLAUDE, RESPONSES):
        found = told(raw, GEMINI, target, kind="response")
        # Where a text cites all pages, nothing is left to be said.
        is_named = any(path.startswith(f"candidates[0].{key}") for _, path in found.paths)
        assert is_named or cited
    events = list(cannery.normalize_stream([b"data: " + raw + b"\n\n"], GEMINI))
    for target in DIALECTS:
        assert b"".join(cannery.nativize_stream(events, target))


def chat_answer(**message: Any) -> bytes:
    said = {"role": "assistant", **message}
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": "stop"}
    named = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return json.dumps({**named, "choices": [choice]}).encode()


CALLED = {"content": None, "tool_calls": [call("a")]}


@pytest.mark.parametrize("target", [CLAUDE, GEMINI, RESPONSES])
@pytest.mark.parametrize(
    "message",
    [
        {**CALLED, "annotations": [CITED]},
        {**CALLED, "content": "", "annotations": [CITED]},
        {"content": None, "refusal": "no", "annotations": [CITED]},
        {"content": "x", "annotations": {"not": "a list"}},
    ],
)
def test_annotations_that_no_text_carries_are_named(message: dict[str, Any], target: str):
    raw = chat_answer(**message)
    found = told(raw, CHAT, target, kind="response")
    assert ("CITATION_DROPPED", "choices[0].message.annotations") in found.paths
    response = cannery.normalize_response(raw, CHAT)
    assert cannery.nativize_response(response, CHAT, policy="strict").losses == ()


@pytest.mark.parametrize("target", [CLAUDE, GEMINI, RESPONSES])
@pytest.mark.parametrize(
    "message", [{**CALLED, "annotations": []}, {**CALLED, "annotations": None}, CALLED]
)
def test_no_annotations_are_no_loss(message: dict[str, Any], target: str):
    assert not told(chat_answer(**message), CHAT, target, kind="response").losses


def test_annotations_that_a_text_carries_are_not_named_twice():
    raw = chat_answer(**{**CALLED, "content": "hello", "annotations": [CITED]})
    assert not told(raw, CHAT, RESPONSES, kind="response").losses
    assert told(raw, CHAT, CLAUDE, kind="response").paths == {
        ("CITATION_APPROXIMATED", "choices[0].message.annotations")
    }
