"""Messages streams: any split, the same as the whole body, and written strictly one block at a time."""

from __future__ import annotations

import json

import pytest

from cannery.dialects import dialect_names
from cannery.messages.content import Citation, Origin
from cannery.messages.events import (
    Delta,
    Failure,
    Finish,
    PartEnd,
    PartStart,
    Start,
    UsageReport,
    fold,
)
from cannery.messages.requests import FinishReason, Usage
from cannery.translation import (
    nativize_stream,
    normalize_response,
    normalize_stream,
    translate_stream,
)
from cannery.wire.contract import StreamOptions
from cannery.wire.losses import Aliases
from tests.oracles.corpus import DIALECTS, stream_cases
from tests.oracles.sdk_streams import parse_stream
from tests.oracles.sse import frames
from tests.oracles.stream_rules import check_stream_rules

NAME = "anthropic_messages"
STREAMS = stream_cases(NAME)
FINISHED = [case for case in STREAMS if not case.ends_in_error]
ALL = [case for name in DIALECTS if name in dialect_names() for case in stream_cases(name)]


def facts(response):
    kept = ("canisters", "finish", "usage", "model", "identifier", "stop_sequence")
    return {name: getattr(response, name) for name in kept}


def written(*events, **options):
    data = b"".join(nativize_stream(events, NAME, options=StreamOptions(**options)))
    assert check_stream_rules(NAME, data) == []
    return [frame.value for frame in frames(data)]


def answer(*events):
    stream = (Start("msg_1", "m"), *events, UsageReport(Usage(3, 2)), Finish(FinishReason.Stop))
    data = list(nativize_stream(stream, NAME))
    assert check_stream_rules(NAME, b"".join(data)) == []
    accumulated = parse_stream(NAME, data)
    assert accumulated.problems == []
    return accumulated.final


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.id)
def test_split_of_the_bytes_does_not_matter(case, size):
    pieces = [case.data[start : start + size] for start in range(0, len(case.data), size)]
    assert list(normalize_stream(pieces, NAME)) == list(normalize_stream([case.data], NAME))


@pytest.mark.parametrize(
    "case", [case for case in FINISHED if case.whole], ids=lambda case: case.id
)
def test_stream_folds_into_the_whole_answer(case):
    folded = fold(normalize_stream([case.data], NAME))
    whole = normalize_response(case.whole_case.raw, NAME)
    assert facts(folded) == facts(whole)
    residues = [[canister.residue for canister in one.canisters] for one in (folded, whole)]
    assert residues[0] == residues[1]


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.dialect}-{case.id}")
def test_stream_of_any_dialect_is_one_that_the_sdk_takes(case):
    data = list(translate_stream([case.data], source=case.dialect, target=NAME))
    assert check_stream_rules(NAME, b"".join(data)) == []
    if not case.ends_in_error:
        accumulated = parse_stream(NAME, data)
        assert case.extended or accumulated.problems == []


@pytest.mark.parametrize("case", FINISHED, ids=lambda case: case.id)
def test_stream_written_at_home_says_the_same(case):
    data = list(translate_stream([case.data], source=NAME, target=NAME))
    folded = [fold(normalize_stream(stream, NAME)) for stream in ([case.data], data)]
    assert facts(folded[0]) == facts(folded[1])


def test_interleaved_calls_are_written_one_after_the_other():
    final = answer(
        PartStart(0, "invocation", "a", "f"),
        PartStart(1, "invocation", "b", "g"),
        Delta(1, '{"n":', "arguments"),
        Delta(0, '{"m":', "arguments"),
        Delta(1, "2}", "arguments"),
        PartEnd(1),
        Delta(0, "1}", "arguments"),
        PartEnd(0),
    )
    assert [block["input"] for block in final["content"]] == [{"m": 1}, {"n": 2}]
    assert final["stop_reason"] == "tool_use"


def test_arguments_that_are_no_object_are_wrapped():
    final = answer(
        PartStart(0, "invocation", "a", "f"),
        Delta(0, "{oops", "arguments"),
        PartEnd(0),
        PartStart(1, "invocation", "b", "g", is_freeform=True),
        Delta(1, "select 1", "arguments"),
        PartEnd(1),
    )
    inputs = [block["input"] for block in final["content"]]
    assert inputs == [{"_raw_arguments": "{oops"}, {"input": "select 1"}]


def test_signature_is_written_before_the_end_and_only_for_its_origin():
    own, other = Origin(NAME, "m"), Origin("gemini_generate", "m")
    final = answer(
        PartStart(0, "reasoning", origin=own),
        Delta(0, "sig", "signature"),
        Delta(0, "hm"),
        PartEnd(0),
        PartStart(1, "reasoning", origin=own),
        Delta(1, "sealed", "encrypted"),
        PartEnd(1),
        PartStart(2, "reasoning", origin=other),
        Delta(2, "oh", "summary"),
        Delta(2, "well", "summary", 1),
        Delta(2, "theirs", "signature"),
        PartEnd(2),
        PartStart(3, "reasoning", origin=other),
        Delta(3, "theirs", "encrypted"),
        PartEnd(3),
    )
    assert final["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "sealed"},
        {"type": "thinking", "thinking": "oh\n\nwell", "signature": ""},
    ]


def test_citation_of_somebody_else_is_left_out():
    raw = '{"type":"url_citation"}'
    foreign = Delta(0, "", "citation", citation=Citation("openai_chat", raw))
    final = answer(PartStart(0, "text"), Delta(0, "a"), foreign, PartEnd(0))
    assert final["content"] == [{"type": "text", "text": "a"}]


def test_names_and_ids_map_back():
    aliases = Aliases({"x_y_1": "x.y"}, {"a_1": "a:1"})
    call = (PartStart(0, "invocation", "a_1", "x_y_1"), PartEnd(0))
    events = written(*call, Finish(FinishReason.Tool), aliases=aliases)
    block = events[1]["content_block"]
    assert (block["id"], block["name"]) == ("a:1", "x.y")


def test_usage_is_in_the_first_and_the_last_events():
    events = written(
        Start("i", "m"),
        UsageReport(Usage(30, 1, cache_read=10)),
        PartStart(0, "text"),
        PartEnd(0),
        UsageReport(Usage(30, 7, cache_read=10)),
        Finish(FinishReason.StopSequence, "x"),
    )
    usage = {"input_tokens": 20, "cache_read_input_tokens": 10, "output_tokens": 1}
    assert events[0]["message"]["usage"] == usage
    assert events[-2]["usage"] == {**usage, "output_tokens": 7}
    assert events[-2]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "x"}


def test_error_in_mid_stream_is_passed_on_in_this_dialects_words():
    events = written(Start(), PartStart(0, "text"), Failure("busy", "rate_limit_error"), PartEnd(0))
    error = {"type": "rate_limit_error", "message": "busy"}
    assert events[-1] == {"type": "error", "error": error}
    events = written(Failure("oops", "server_error"))
    assert events == [{"type": "error", "error": {"type": "api_error", "message": "oops"}}]


@pytest.mark.parametrize("case", FINISHED, ids=lambda case: case.id)
def test_stream_cut_short_is_incomplete(case):
    cut = case.data[: case.data.rindex(b"event: message_delta")]
    events = list(normalize_stream([cut], NAME))
    assert isinstance(events[-1], Failure)
    assert events[-1].kind == "incomplete"


def test_deltas_after_the_end_and_without_a_start_do_no_harm():
    frame = "event: x\ndata: {}\n\n"
    values = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "b"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    data = "".join(frame.replace("{}", json.dumps(value)) for value in values).encode()
    assert fold(normalize_stream([data], NAME)).canisters[0].text == "a"
