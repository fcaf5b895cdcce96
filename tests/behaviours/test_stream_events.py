"""Every event of the Responses SDK survives; errors, usage and citations reach each target in its own form."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from openai.types.responses import ResponseStreamEvent

import cannery
from cannery.messages import Failure, fold
from cannery.wire.contract import StreamOptions
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES
from tests.conformance.matrix import DIALECTS
from tests.oracles.corpus import response_cases, stream_cases
from tests.oracles.sdk_streams import parse_stream
from tests.oracles.sse import frames
from tests.oracles.stream_rules import check_stream_rules

MODELS = {
    kind: model
    for model in get_args(get_args(ResponseStreamEvent)[0])
    for kind in get_args(model.model_fields["type"].annotation)
}
ENDS = {"response.completed", "response.incomplete", "response.failed", "error"}
# What deltas and finished items say, so that a writer says it of its own accord where it belongs.
MADE_ANEW = (
    "response.created",
    "response.in_progress",
    "response.queued",
    "response.content_part",
    "response.output_item",
    "response.output_text",
    "response.refusal",
    "response.reasoning",
    "response.function_call_arguments",
    "response.custom_tool_call_input",
)
HEAD = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
CALL = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "ok", "annotations": [], "logprobs": []}],
}
EXTRA = {
    "item_id": "ws_1",
    "output_index": 0,
    "content_index": 0,
    "summary_index": 0,
    "delta": "x",
    "code": "",
    "arguments": "",
    "x_new": {"a": [1]},
}


def transcript(*values: dict[str, Any]) -> bytes:
    return b"".join(
        f"event: {value['type']}\ndata: {json.dumps({**value, 'sequence_number': n})}\n\n".encode()
        for n, value in enumerate(values)
    )


def around(kind: str) -> bytes:
    """A stream of a hosted call and a message, with one event more while the call is under way."""
    fields = MODELS[kind].model_fields.keys() | {"x_new"}
    event = {"type": kind, **{key: value for key, value in EXTRA.items() if key in fields}}
    done = {**HEAD, "status": "completed", "output": [CALL, MESSAGE]}
    return transcript(
        {"type": "response.created", "response": {**HEAD, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": CALL},
        event,
        {"type": "response.output_item.done", "output_index": 0, "item": CALL},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {**MESSAGE, "content": []},
        },
        {"type": "response.output_item.done", "output_index": 1, "item": MESSAGE},
        {"type": "response.completed", "response": done},
    )


def said(dialect: str, data: bytes) -> list[Any]:
    response = fold(cannery.normalize_stream([data], dialect))
    return [canister.held for canister in response.canisters if canister.held]


@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind not in ENDS])
def test_an_event_is_read_and_survives(kind: str):
    data = around(kind)
    assert said(RESPONSES, data)[-1] == "ok"
    written = b"".join(cannery.translate_stream([data], source=RESPONSES, target=RESPONSES))
    names = [frame.value["type"] for frame in frames(written)]
    numbers = [frame.value["sequence_number"] for frame in frames(written)]
    assert numbers == list(range(len(names)))
    if not kind.startswith(MADE_ANEW):
        place = names.index(kind)
        if "item_id" in MODELS[kind].model_fields:
            assert names.index("response.output_item.added") < place
            assert names.index("response.output_item.done") > place
        assert frames(written)[place].value["x_new"] == {"a": [1]}
    for target in DIALECTS:
        abroad = b"".join(cannery.translate_stream([data], source=RESPONSES, target=target))
        assert said(target, abroad)[-1] == "ok"
        assert check_stream_rules(target, abroad) == []


@pytest.mark.parametrize("kind", ["response.failed", "error"])
@pytest.mark.parametrize("target", DIALECTS)
def test_an_error_in_mid_stream_is_told_in_the_form_of_the_target(kind: str, target: str):
    error = {"code": "server_error", "message": "it broke"}
    last = (
        {"type": "error", **error, "param": None}
        if kind == "error"
        else {"type": kind, "response": {**HEAD, "status": "failed", "error": error}}
    )
    start = {"type": "response.created", "response": {**HEAD, "status": "in_progress"}}
    data = transcript(start, last)
    written = b"".join(cannery.translate_stream([data], source=RESPONSES, target=target))
    events = list(cannery.normalize_stream([written], target))
    assert isinstance(events[-1], Failure)
    assert events[-1].message == "it broke"


@pytest.mark.parametrize("source", [CLAUDE, GEMINI, RESPONSES])
@pytest.mark.parametrize("is_asked", [True, False])
def test_chat_streams_tell_usage_only_when_asked(source: str, is_asked: bool):
    for case in stream_cases(source):
        if case.ends_in_error:
            continue
        options = StreamOptions(include_usage=is_asked)
        written = b"".join(
            cannery.translate_stream([case.data], source=source, target=CHAT, options=options)
        )
        has_usage = any(
            frame.value.get("usage") for frame in frames(written) if frame.data != "[DONE]"
        )
        assert has_usage is False or is_asked


URL = "https://example.com/euro"


def cited(response: Any) -> list[tuple[Any, ...]]:
    return [
        (citation.url, citation.start, citation.end)
        for canister in response.canisters
        for citation in getattr(canister.held, "citations", ())
    ]


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_grounding_becomes_citations(target: str):
    case = next(c for c in response_cases(GEMINI) if c.id == "streamed_grounding")
    whole = cannery.translate(case.raw, source=GEMINI, target=target, kind="response")
    assert cited(cannery.normalize_response(whole.body, target)) == [(URL, 0, 10)]
    back = cannery.translate(whole.body, source=target, target=GEMINI, kind="response")
    assert cited(cannery.normalize_response(back.body, GEMINI)) == [(URL, 0, 10)]


def test_grounding_is_named_where_a_citation_says_less():
    case = next(c for c in response_cases(GEMINI) if c.id == "streamed_grounding")
    rendered = cannery.translate(case.raw, source=GEMINI, target=CLAUDE, kind="response")
    assert "CITATION_APPROXIMATED" in {loss.code for loss in rendered.losses}


def test_spans_of_grounding_count_bytes():
    segment = {"startIndex": 4, "endIndex": 6, "text": "é"}
    support = {"segment": segment, "groundingChunkIndices": [0]}
    grounding = {"groundingChunks": [{"web": {"uri": URL}}], "groundingSupports": [support]}
    content = {"role": "model", "parts": [{"text": "日 é"}]}
    body = {"candidates": [{"content": content, "groundingMetadata": grounding}]}
    response = cannery.normalize_response(body, GEMINI)
    assert cited(response) == [(URL, 2, 3)]
    assert json.loads(cannery.nativize_response(response, GEMINI).body) == body
    chat = cannery.nativize_response(response, CHAT)
    again = json.loads(
        cannery.translate(chat.body, source=CHAT, target=GEMINI, kind="response").body
    )
    assert again["candidates"][0]["groundingMetadata"]["groundingSupports"][0]["segment"] == segment


def test_grounding_streams():
    case = next(c for c in stream_cases(GEMINI) if c.id == "grounding")
    written = list(cannery.translate_stream([case.data], source=GEMINI, target=RESPONSES))
    final = parse_stream(RESPONSES, written).final
    assert final["output"][0]["content"][0]["annotations"][0]["url"] == URL
    back = list(cannery.translate_stream(written, source=RESPONSES, target=GEMINI))
    assert cited(fold(cannery.normalize_stream(back, GEMINI))) == [(URL, 0, 10)]


def test_a_citation_of_a_whole_block_covers_its_text():
    citation = {
        "type": "web_search_result_location",
        "url": URL,
        "title": "T",
        "cited_text": "c",
        "encrypted_index": "e",
    }
    content = [
        {"type": "text", "text": "One. "},
        {"type": "text", "text": "Two.", "citations": [citation]},
    ]
    body = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    chat = cannery.translate(body, source=CLAUDE, target=CHAT, kind="response")
    message = json.loads(chat.body)["choices"][0]["message"]
    span = message["annotations"][0]["url_citation"]
    assert message["content"][span["start_index"] : span["end_index"]] == "Two."
    assert "CITATION_DROPPED" not in {loss.code for loss in chat.losses}


def test_an_event_that_names_no_type_survives():
    head = {"type": "response.created", "response": {**HEAD, "status": "in_progress"}}
    done = {"type": "response.completed", "response": {**HEAD, "status": "completed"}}
    odd = b'event: odd\ndata: {"x_new":1}\n\n'
    data = transcript(head) + odd + transcript(done)
    written = b"".join(cannery.translate_stream([data], source=RESPONSES, target=RESPONSES))
    assert any(frame.value.get("x_new") == 1 for frame in frames(written))


def test_a_call_of_nothing_in_particular_has_a_name_for_gemini():
    call = {"index": 0, "id": "c1", "type": "function", "function": {"arguments": "{}"}}
    choices = [
        {"index": 0, "delta": {"role": "assistant", "tool_calls": [call]}, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": "tool_calls"},
    ]
    data = b"".join(
        b"data: %b\n\n" % json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode()
        for choice in choices
    )
    written = list(
        cannery.translate_stream([data + b"data: [DONE]\n\n"], source=CHAT, target=GEMINI)
    )
    response = fold(cannery.normalize_stream(written, GEMINI))
    assert [canister.name for canister in response.canisters[1:]] == ["unknown_function"]
