"""Streams that are spelled in odd ways, or meant to do harm: nothing is lost, torn or taken too long."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterable
from typing import Any

import pytest

import cannery
from cannery.dialects import find_dialect
from cannery.errors import DialectError
from cannery.messages import Failure, Finish, FinishReason, Start, fold
from cannery.messages.events import Event
from cannery.wire.framing import AWS_EVENT_STREAM, NDJSON
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES
from tests.conformance.matrix import DIALECTS
from tests.oracles.sdk_streams import parse_stream
from tests.oracles.sse import frames
from tests.oracles.stream_rules import check_stream_rules


def chunk(delta: dict[str, Any], finish: str | None = None, **around: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, **around}
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**head, "choices": [choice]}


def chat(*chunks: dict[str, Any]) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(c).encode() for c in chunks) + b"data: [DONE]\n\n"


def named(*events: dict[str, Any]) -> bytes:
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )


def gemini(*parts: dict[str, Any], finish: str | None = None) -> bytes:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    body = {"candidates": [candidate], "responseId": "r", "modelVersion": "g"}
    return b"data: %b\n\n" % json.dumps(body).encode()


def calling(arguments: Any) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": function}]}


def events(data: bytes, dialect: str) -> list[Event]:
    return list(cannery.normalize_stream([data], dialect))


def translated(data: bytes, source: str, target: str) -> bytes:
    return b"".join(cannery.translate_stream([data], source=source, target=target))


def arguments_of(data: bytes, dialect: str) -> list[str]:
    response = fold(cannery.normalize_stream([data], dialect))
    return [c.held for c in response.canisters if c.role.value == "invocation"]


# --- what is written -----------------------------------------------------------------------------


@pytest.mark.parametrize("line_end", ["\n", "\r", "\r\n", "\u2028"])
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_line_ends_in_arguments_do_not_tear_a_frame(source: str, target: str, line_end: str):
    spelled = '{"city":"a\u2028b"}' if line_end == "\u2028" else f'{{{line_end}"city": "Paris"}}'
    data = chat(chunk(calling(spelled)), chunk({}, "tool_calls"))
    data = data if source == CHAT else translated(data, CHAT, source)
    written = translated(data, source, target)
    if find_dialect(target).service.streams.framing.boundaries:
        assert all(
            line.startswith((b"data: ", b"event: ", b"{")) or not line
            for line in written.split(b"\n")
        )
        assert b"\r" not in written
    assert [json.loads(said) for said in arguments_of(written, target)] == [json.loads(spelled)]
    parse_stream(target, [written])


@pytest.mark.parametrize("dialect", [CLAUDE, RESPONSES])
@pytest.mark.parametrize("end", ["\n", "\r", "\u2028", "\n\ndata: {}\n\n"])
def test_a_line_end_in_the_name_of_an_event_stays_in_the_data(dialect: str, end: str):
    odd = {"type": f"x{end}y", "v": 1}
    head = {"type": "response.created", "response": {"id": "r", "model": "m"}}
    start = named(head if dialect == RESPONSES else {"type": "message_start", "message": {}})
    written = translated(start + b"data: %b\n\n" % json.dumps(odd).encode(), dialect, dialect)
    assert [frame.value["v"] for frame in frames(written) if "v" in frame.value] == [1]
    assert b"event: x" not in written


# --- errors --------------------------------------------------------------------------------------

TOLD = {
    "rate_limit_exceeded": ("rate_limit_error", "rate_limit_exceeded", 429),
    "too_many_requests": ("rate_limit_error", "rate_limit_exceeded", 429),
    "insufficient_quota": ("rate_limit_error", "rate_limit_exceeded", 429),
    "server_error": ("api_error", "server_error", 500),
    "invalid_request_error": ("invalid_request_error", "invalid_prompt", 400),
    "invalid_prompt": ("invalid_request_error", "invalid_prompt", 400),
    429: ("rate_limit_error", "rate_limit_exceeded", 429),
    "429": ("rate_limit_error", "rate_limit_exceeded", 429),
    502: ("api_error", "server_error", 502),
    503: ("overloaded_error", "server_error", 503),
    400: ("invalid_request_error", "invalid_prompt", 400),
}


def errors(word: Any) -> Iterable[tuple[str, bytes]]:
    error = {"code": word, "message": "No", "param": None}
    yield CHAT, b"data: %b\n\n" % json.dumps({"error": error}).encode()
    yield RESPONSES, named({"type": "error", "sequence_number": 0, **error})
    yield RESPONSES, named({"type": "error", "error": {"type": "other", **error}})
    yield RESPONSES, named({"type": "response.failed", "response": {"id": "r", "error": error}})
    by_type = {"type": word, "code": None, "message": "No"}
    yield RESPONSES, named({"type": "error", "error": by_type})
    yield CHAT, b"data: %b\n\n" % json.dumps({"error": by_type}).encode()


@pytest.mark.parametrize("word", TOLD)
def test_an_error_in_mid_stream_keeps_its_kind(word: Any):
    kind, code, status = TOLD[word]
    for source, data in errors(word):
        [error] = [frame.value["error"] for frame in frames(translated(data, source, CLAUDE))]
        assert error == {"type": kind, "message": "No"}
        [error] = [frame.value["error"] for frame in frames(translated(data, source, GEMINI))]
        assert (error["code"], error["message"]) == (status, "No")
        if source == CHAT:
            last = frames(translated(data, source, RESPONSES))[-1].value["response"]["error"]
            assert (last["code"], last["message"]) == (code, "No")


@pytest.mark.parametrize("dialect", [CHAT, CLAUDE, GEMINI])
def test_an_error_comes_home_as_it_was(dialect: str):
    error = {"type": "odd", "code": 418, "message": "No", "details": [{"a": 1}]}
    told = {"type": "error", "error": error, "request_id": "q"}
    data = named(told) if dialect == CLAUDE else b"data: %b\n\n" % json.dumps(told).encode()
    assert frames(translated(data, dialect, dialect))[-1].value == told


def test_an_error_of_responses_comes_home_with_its_code():
    error = {"code": "odd", "message": "No", "param": "input"}
    data = named({"type": "error", "error": error})
    told = frames(translated(data, RESPONSES, RESPONSES))[-1].value["response"]["error"]
    assert told.items() >= error.items()


@pytest.mark.parametrize("dialect", [CHAT, CLAUDE, RESPONSES])
def test_an_error_may_be_a_text(dialect: str):
    [failure] = events(b'data: {"type":"error","error":"boom"}\n\n', dialect)
    assert isinstance(failure, Failure)
    assert failure.message == "boom"


# --- Chat ----------------------------------------------------------------------------------------

FILTERED = {
    "choices": [],
    "created": 0,
    "id": "",
    "model": "",
    "object": "",
    "prompt_filter_results": [{"prompt_index": 0}],
}


def test_the_filter_of_azure_does_not_take_the_answer_its_name():
    call = {"index": 0, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    rest = (chunk({"role": "assistant"}), chunk({"tool_calls": [call]}), chunk({}, "tool_calls"))
    found = events(chat(FILTERED, *rest), CHAT)
    assert isinstance(found[0], Start)
    assert (found[0].identifier, found[0].model, found[0].created) == ("c1", "m", 1)
    assert found[1:-1] == events(chat(*rest), CHAT)[1:-1]


def test_a_server_that_names_nothing_is_read_all_the_same():
    found = events(chat({**chunk({"content": "x"}, "stop"), "id": "", "model": ""}), CHAT)
    assert found[0] == Start("", "", 1, CHAT)
    assert found[-1].reason is FinishReason.Stop
    assert isinstance(events(chat(FILTERED), CHAT)[0], Start)


def test_events_before_the_answer_do_not_take_it_its_name():
    head = {"id": "r1", "object": "response", "created_at": 1, "model": "m", "output": []}
    data = named(
        {"type": "keepalive"},
        {"type": "codex.rate_limits", "limit": 1},
        {"type": "response.created", "response": {**head, "status": "in_progress"}},
        {"type": "response.completed", "response": {**head, "status": "completed"}},
    )
    assert events(data, RESPONSES)[0] == Start("r1", "m", 1, RESPONSES)
    written = [frame.value for frame in frames(translated(data, RESPONSES, RESPONSES))]
    assert written[0]["response"]["id"] == "r1"
    assert [value["type"] for value in written].count("codex.rate_limits") == 1


@pytest.mark.parametrize("target", DIALECTS)
def test_arguments_may_be_an_object(target: str):
    data = chat(chunk(calling({"a": 1})), chunk({}, "tool_calls"))
    written = translated(data, CHAT, target)
    assert [json.loads(said) for said in arguments_of(written, target)] == [{"a": 1}]


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_a_call_without_arguments_has_none(source: str, target: str):
    if source == GEMINI:
        data = gemini({"functionCall": {"name": "f"}}, finish="STOP")
    else:
        data = chat(chunk(calling("")), chunk({}, "tool_calls"))
        data = data if source == CHAT else translated(data, CHAT, source)
    written = translated(data, source, target)
    parsed = parse_stream(target, [written]).final
    if target == CHAT:
        function = parsed["choices"][0]["message"]["tool_calls"][0]["function"]
        assert function["arguments"] == "{}"
    elif target == RESPONSES:
        assert parsed["output"][0]["arguments"] == "{}"
    assert check_stream_rules(target, written) == []


def test_an_empty_finish_reason_is_none():
    pieces = [{"tool_calls": [{"index": 0, "function": {"arguments": said}}]} for said in '{"a":1}']
    data = chat(chunk(calling(""), ""), *(chunk(p, "") for p in pieces), chunk({}, "tool_calls"))
    assert arguments_of(data, CHAT) == ['{"a":1}']
    assert events(data, CHAT)[-1].reason is FinishReason.Tool
    words = gemini({"text": "a"}, finish="") + gemini({"text": "b"}, finish="MAX_TOKENS")
    assert events(words, GEMINI)[-1] == Finish(FinishReason.Length)


def test_choices_and_probabilities_come_home():
    tokens = {"content": [{"token": "x", "logprob": -1.0, "bytes": None, "top_logprobs": []}]}
    other = {"index": 1, "delta": {"content": "y"}, "finish_reason": None}
    both = chunk({"content": "x"}, logprobs=tokens)
    both["choices"].append(other)
    end = chunk({}, "stop")
    end["choices"].append({"index": 1, "delta": {}, "finish_reason": "length"})
    data = chat(chunk({"role": "assistant", "content": "w"}), both, end)
    final = parse_stream(CHAT, [translated(data, CHAT, CHAT)]).final
    first, second = final["choices"]
    assert first["message"]["content"] == "wx"
    assert first["logprobs"]["content"] == tokens["content"]
    assert (second["message"]["content"], second["finish_reason"]) == ("y", "length")
    for target in DIALECTS:
        response = fold(cannery.normalize_stream([translated(data, CHAT, target)], target))
        assert [canister.held for canister in response.canisters] == ["wx"]


def test_what_a_delta_says_that_nobody_knows_comes_home():
    data = chat(chunk({"content": "x", "audio": {"id": "a", "data": "AA=="}}), chunk({}, "stop"))
    written = [f.value for f in frames(translated(data, CHAT, CHAT)) if f.data != "[DONE]"]
    deltas = [value["choices"][0]["delta"] for value in written]
    assert {"audio": {"id": "a", "data": "AA=="}} in deltas


# --- Anthropic and Gemini ------------------------------------------------------------------------


def test_a_later_count_does_not_take_the_finish_back():
    data = named(
        {"type": "message_start", "message": {"id": "m", "model": "c", "usage": {}}},
        {"type": "message_delta", "delta": {"stop_reason": "stop_sequence", "stop_sequence": "S"}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 3}},
        {"type": "message_delta", "delta": {"stop_reason": None, "stop_sequence": None}},
        {"type": "message_stop"},
    )
    assert events(data, CLAUDE)[-1] == Finish(FinishReason.StopSequence, "S")


def streamed_call(*leaves: dict[str, Any]) -> bytes:
    begun = gemini({"functionCall": {"name": "f", "willContinue": True}, "thoughtSignature": "AA"})
    more = (
        gemini({"functionCall": {"partialArgs": [leaf], "willContinue": True}}) for leaf in leaves
    )
    return begun + b"".join(more) + gemini({"functionCall": {}})


def test_streamed_arguments_are_folded():
    leaves = (
        {"jsonPath": "$.place.city", "stringValue": "New", "willContinue": True},
        {"jsonPath": "$.place.city", "stringValue": " York"},
        {"jsonPath": "$.days[0]", "numberValue": 3},
        {"jsonPath": "$.days[1]['a b']", "boolValue": True},
        {"json_path": "$.none", "null_value": "NULL_VALUE"},
        {"jsonPath": "$..odd", "stringValue": "kept"},
        {"jsonPath": "$.far[7]", "numberValue": 1},
    )
    said = {
        "place": {"city": "New York"},
        "days": [3, {"a b": True}],
        "none": None,
        "$..odd": "kept",
        "$.far[7]": 1,
    }
    data = streamed_call(*leaves) + streamed_call() + gemini({"text": ""}, finish="STOP")
    for target in DIALECTS:
        written = translated(data, GEMINI, target)
        assert [json.loads(text) for text in arguments_of(written, target)] == [said, {}]
        parse_stream(target, [written])
    assert b'"thoughtSignature":"AA"' in translated(data, GEMINI, GEMINI)
    assert events(data, GEMINI)[-1] == Finish(FinishReason.Tool)


def test_a_streamed_call_that_is_cut_off_is_told():
    begun = streamed_call({"jsonPath": "$.a", "stringValue": "x"}).removesuffix(
        gemini({"functionCall": {}})
    )
    assert arguments_of(begun + gemini({"text": ""}, finish="STOP"), GEMINI) == ['{"a":"x"}']
    assert isinstance(events(begun, GEMINI)[-1], Failure)


# --- harm ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_deep_events_are_refused_like_any_other(dialect: str):
    for depth in (100, 500, *range(900, 1000, 7), 100_000):
        deep = b'{"a":' * depth + b"1" + b"}" * depth
        around = b'data: {"id":"c","type":"zz","v":%b,"choices":[{"index":1,"v":%b}]}\n\n'
        try:
            translated(around % (deep, deep), dialect, dialect)
        except DialectError as error:
            assert error.dialect == dialect  # noqa: PT017 - shallow ones are no error


def test_blank_bytes_do_not_add_up():
    begun = time.process_time()
    for dialect in DIALECTS:
        # Where there are no lines, a blank one is damage.
        if find_dialect(dialect).service.streams.framing.boundaries:
            list(cannery.normalize_stream((b"\n" for _ in range(100_000)), dialect))
    assert time.process_time() - begun < 10


def grown(dialect: str, count: int) -> list[bytes]:
    """A stream of one thing in so many pieces, on the way that is not a shortcut."""
    words = "w" * 50
    if find_dialect(dialect).service.streams.framing is NDJSON:
        return [NDJSON.write("", {"message": {"content": words}, "done": False})] * count
    if find_dialect(dialect).service.streams.framing is AWS_EVENT_STREAM:
        piece = {"contentBlockIndex": 0, "delta": {"text": words}}
        return [AWS_EVENT_STREAM.write("contentBlockDelta", piece)] * count
    if dialect == CHAT:
        piece = {"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": words}}]}
        return [chat(chunk(piece)).removesuffix(b"data: [DONE]\n\n")] * count
    if dialect == GEMINI:
        return [gemini({"text": words}, finish="")] * count
    if dialect == CLAUDE:
        block = {"type": "odd", "text": ""}
        start = named({"type": "content_block_start", "index": 0, "content_block": block})
        delta = {"type": "text_delta", "text": words}
        return [
            start,
            *[named({"type": "content_block_delta", "index": 0, "delta": delta})] * count,
        ]
    item = {"type": "function_call", "id": "i", "call_id": "c", "name": "f", "arguments": ""}
    start = named({"type": "response.output_item.added", "output_index": 0, "item": item})
    more = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": words}
    return [start, *[named(more)] * count]


def spent(stream: Iterable[bytes]) -> float:
    """CPU time of a stream; without the garbage collector, which walks everything that earlier tests left, too."""
    gc.disable()
    try:
        begun = time.thread_time()
        for _ in stream:
            pass
        return time.thread_time() - begun
    finally:
        gc.enable()


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_many_pieces_take_their_time_and_no_more(source: str, target: str):
    def took(count: int) -> float:
        pieces = grown(source, count)
        return spent(cannery.translate_stream(pieces, source=source, target=target))

    few, many = min(took(3_000), took(3_000)), took(24_000)
    assert many < max(24 * few, 1.0)


def message(index: int) -> dict[str, Any]:
    item = {"type": "message", "id": f"m{index}", "role": "assistant", "content": []}
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def more(index: int) -> dict[str, Any]:
    place = {"output_index": index, "content_index": 0, "delta": "w"}
    return {"type": "response.output_text.delta", **place}


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_many_items_that_wait_take_their_time_and_no_more(target: str, is_reversed: bool):
    def took(count: int) -> float:
        order = range(count - 1, -1, -1) if is_reversed else range(count)
        data = named(*map(message, order), *map(more, order), *[more(0)] * count)
        return spent(cannery.translate_stream([data], source=RESPONSES, target=target))

    few, many = min(took(1_000), took(1_000)), took(8_000)
    assert many < max(24 * few, 1.0)
