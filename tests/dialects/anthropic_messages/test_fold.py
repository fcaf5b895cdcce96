"""Streams: what they fold to is what the whole answer would have been, and the same dialect gets all of it back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cannery.errors import DialectError
from cannery.messages.events import fold
from cannery.translation import (
    nativize_response,
    normalize_response,
    normalize_stream,
    translate_stream,
)
from tests.oracles.sse import frames

NAME = "anthropic_messages"
Object = dict[str, Any]
USAGE = {"input_tokens": 9, "cache_read_input_tokens": 4, "cache_creation": None}
HEAD: Object = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4-8",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {**USAGE, "output_tokens": 1, "service_tier": "standard"},
    "region": "eu",
}
CITED = {"type": "page_location", "cited_text": "w", "document_index": 0, "file_id": "file_1"}
ENDED: Object = {
    "type": "message_delta",
    "delta": {
        "stop_reason": "refusal",
        "stop_sequence": None,
        "stop_details": {"category": "cyber"},
        "container": {"id": "container_1", "expires_at": "2026-11-18"},
    },
    "usage": {"output_tokens": 30, "server_tool_use": {"web_search_requests": 2}},
    "context_management": {"applied_edits": [{"type": "clear_thinking"}]},
}


def said(*deltas: Object, start: Object | None = None, **beside: Any) -> list[Object]:
    block = start or {"type": "text", "text": ""}
    return [
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": one, **beside} for one in deltas),
        {"type": "content_block_stop", "index": 0},
    ]


def stream(*events: Object) -> bytes:
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )


def answer(*parts: Object, head: Object = HEAD, stop: Object | None = None) -> bytes:
    last = stop or {"type": "message_stop"}
    return stream({"type": "message_start", "message": head}, *parts, ENDED, last)


WHOLE: Object = {
    **HEAD,
    "content": [{"type": "text", "text": "Words", "citations": [CITED]}],
    **ENDED["delta"],
    "context_management": ENDED["context_management"],
    "usage": {**HEAD["usage"], **ENDED["usage"]},
}
CITING = said(
    {"type": "text_delta", "text": "Words"}, {"type": "citations_delta", "citation": CITED}
)


def test_a_stream_folds_to_the_whole_answer_with_everything_around_it():
    folded = fold(normalize_stream([answer(*CITING)], NAME))
    whole = normalize_response(WHOLE, NAME)
    assert json.loads(nativize_response(folded, NAME).body) == WHOLE
    for target in (NAME, "openai_chat", "openai_responses", "gemini_generate"):
        one, other = nativize_response(folded, target), nativize_response(whole, target)
        assert {(loss.code, loss.detail) for loss in one.losses} == {
            (loss.code, loss.detail) for loss in other.losses
        }
    assert folded.usage == whole.usage


def translated(data: bytes) -> list[Object]:
    chunks = b"".join(translate_stream([data], source=NAME, target=NAME))
    return [frame.value for frame in frames(chunks)]


def test_the_same_dialect_keeps_what_later_events_say_beside_their_words():
    metrics = {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"latency": 5}}
    odd = said({"type": "text_delta", "text": "Words", "certainty": 0.5}, trace={"span": 1})
    thought = said(
        {"type": "thinking_delta", "thinking": "Hm", "estimated_tokens": 3},
        start={"type": "thinking", "thinking": "", "signature": ""},
    )
    assert translated(answer(*odd, stop=metrics)) == [
        {"type": "message_start", "message": HEAD},
        *odd,
        ENDED,
        metrics,
    ]
    assert translated(answer(*thought))[2] == thought[1]


WRONG = [
    ({"type": "content_block_start", "index": 1, "content_block": None}, "content_block"),
    ({"type": "content_block_start", "index": 1}, "content_block"),
    ({"type": "content_block_delta", "index": "0", "delta": {"type": "text_delta"}}, "index"),
    ({"type": "content_block_stop"}, "index"),
    ({"type": "content_block_start", "index": 0, "content_block": "text"}, "content_block"),
    ({"type": "content_block_delta", "index": 0, "delta": ["x"]}, "delta"),
    (said({"type": "text_delta", "text": ["x"]})[1], "delta.text"),
    ({"type": "message_delta", "delta": "end_turn"}, "delta"),
    ({"type": "message_delta", "delta": {}, "usage": 5}, "usage"),
]


@pytest.mark.parametrize("event, path", WRONG, ids=[path for _, path in WRONG])
def test_a_wrong_type_in_a_stream_is_an_error_with_its_path(event: Object, path: str):
    data = answer(said()[0], event)
    with pytest.raises(DialectError) as caught:
        list(normalize_stream([data], NAME))
    assert caught.value.path == path
