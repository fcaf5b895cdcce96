"""A citation that another dialect can say only in part is named, and one that it can say whole is not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, told

DIALECTS = (CHAT, RESPONSES, CLAUDE, GEMINI)
PAGE: dict[str, Any] = {"url": "https://a.example", "title": "t"}
SPAN = {"start_index": 0, "end_index": 2}
APPROXIMATED, DROPPED = "CITATION_APPROXIMATED", "CITATION_DROPPED"


def _claude(citation: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "m", "type": "message", "role": "assistant", "model": "m", "usage": usage}
    text = {"type": "text", "text": "hello", "citations": [citation]}
    return {**head, "content": [text], "stop_reason": "end_turn", "stop_sequence": None}


def _chat(citation: dict[str, Any]) -> dict[str, Any]:
    annotation = {"type": "url_citation", "url_citation": citation}
    message = {"role": "assistant", "content": "hello", "annotations": [annotation]}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    head = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    return {**head, "choices": [choice]}


def _responses(citation: dict[str, Any]) -> dict[str, Any]:
    part = {"type": "output_text", "text": "hello", "annotations": [citation]}
    head = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant"}
    body = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    return {**body, "output": [{**head, "content": [part]}]}


def _gemini(**support: Any) -> dict[str, Any]:
    segment = {"startIndex": 0, "endIndex": 2, "text": "he"}
    grounding = {
        "groundingChunks": [{"web": {"uri": "https://a.example", "title": "t"}}],
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0], **support}],
    }
    content = {"role": "model", "parts": [{"text": "hello"}]}
    candidate = {"index": 0, "content": content, "groundingMetadata": grounding}
    return {"candidates": [{**candidate, "finishReason": "STOP"}]}


SEARCH = {"type": "web_search_result_location", **PAGE}
WHOLE = {
    CLAUDE: _claude(SEARCH),
    CHAT: _chat({**PAGE, **SPAN}),
    RESPONSES: _responses({"type": "url_citation", **PAGE, **SPAN}),
    GEMINI: _gemini(),
}
RESULT = {"type": "search_result_location", "source": "https://a.example", "title": "t"}
MORE = [
    (CLAUDE, _claude({**SEARCH, "cited_text": "quoted", "encrypted_index": "E"})),
    (CLAUDE, _claude({**SEARCH, "encrypted_index": "E"})),
    (CLAUDE, _claude({**RESULT, "cited_text": "quoted", "search_result_index": 0})),
    (CHAT, _chat({**PAGE, **SPAN, "x_more": 1})),
    (RESPONSES, _responses({"type": "url_citation", **PAGE, **SPAN, "x_more": 1})),
    (GEMINI, _gemini(confidenceScores=[0.5])),
]


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source, body", MORE)
def test_what_a_citation_says_beyond_its_page_vanishes(
    source: str, body: dict[str, Any], target: str
):
    found = told(body, source, target, kind="response")
    cited = {code for code in found.losses if code in (APPROXIMATED, DROPPED)}
    if source == target:
        assert found.body == body
        assert not found.losses
    else:
        assert cited == {APPROXIMATED}


@pytest.mark.parametrize("target", [CHAT, RESPONSES, GEMINI])
@pytest.mark.parametrize("source", WHOLE)
def test_a_citation_that_is_said_whole_is_named(source: str, target: str):
    found = told(WHOLE[source], source, target, kind="response")
    assert not {APPROXIMATED, DROPPED} & found.losses


def test_a_citation_without_a_page_hides_one_that_is_approximated():
    body = _claude({**SEARCH, "cited_text": "quoted"})
    body["content"][0]["citations"].append({"type": "char_location", "cited_text": "c"})
    for target in (CHAT, RESPONSES, GEMINI):
        assert told(body, CLAUDE, target, kind="response").losses == {APPROXIMATED, DROPPED}
