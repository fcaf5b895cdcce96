"""Streams: any split of the bytes, the same answer as the whole body, and what the official SDK accepts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.messages.absence import absent
from cannery.messages.events import (
    Delta,
    Event,
    Failure,
    Finish,
    PartEnd,
    PartStart,
    Start,
    UsageReport,
    fold,
    unfold,
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
from tests.oracles.corpus import DIALECTS, response_cases, stream_cases
from tests.oracles.sdk_streams import parse_stream
from tests.oracles.sse import frames
from tests.oracles.stream_rules import check_stream_rules

NAME = "gemini_generate"
CASES = stream_cases(NAME)
WHOLE = [case for case in CASES if case.whole_case is not None]
ALL = [case for name in DIALECTS for case in stream_cases(name)]


def split(data: bytes, size: int) -> list[bytes]:
    size = size or len(data) or 1
    return [data[start : start + size] for start in range(0, len(data), size)]


def events_of(data: bytes, size: int = 0) -> list[Any]:
    return list(normalize_stream(split(data, size), NAME))


def chunk(*parts: Any, **facts: Any) -> bytes:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0, **facts}
    return b"data: " + json.dumps({"candidates": [candidate]}).encode() + b"\n\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_any_split_gives_the_same_events_in_order(case):
    expected = events_of(case.data)
    for size in (1, 2, 3, 7):
        assert events_of(case.data, size) == expected
    begun: set[int] = set()
    ended: set[int] = set()
    for event in expected:
        if isinstance(event, PartStart):
            assert event.index not in begun
            begun.add(event.index)
        elif isinstance(event, Delta):
            assert event.index in begun - ended
        elif isinstance(event, PartEnd):
            assert event.index in begun - ended
            ended.add(event.index)
    assert begun == ended
    assert isinstance(expected[-1], Failure if case.ends_in_error else Finish)


@pytest.mark.parametrize("case", WHOLE, ids=lambda case: case.id)
def test_events_fold_to_the_whole_answer(case):
    whole = normalize_response(case.whole_case.raw, NAME)
    folded = fold(events_of(case.data))
    assert folded.canisters == whole.canisters
    facts = ("finish", "usage", "model", "identifier")
    assert [getattr(folded, name) for name in facts] == [getattr(whole, name) for name in facts]
    kept = [one.residue.part for one in whole.canisters if one.residue and one.residue.part]
    assert [one.residue.part for one in folded.canisters if one.residue] == kept


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_list_that_comes_without_sse_is_read_too(case):
    listed = ",\r\n".join(frame.data for frame in frames(case.data))
    for size in (0, 1, 3):
        found = events_of(f"[{listed}\n]\n".encode(), size)
        assert found == events_of(case.data)


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.dialect}-{case.id}")
def test_any_stream_is_one_that_the_sdk_accepts(case):
    written = list(translate_stream([case.data], source=case.dialect, target=NAME))
    if case.ends_in_error:
        assert "error" in json.loads(frames(b"".join(written))[-1].data)
        return
    accumulated = parse_stream(NAME, written)
    if not case.extended:
        assert accumulated.problems == []
        assert check_stream_rules(NAME, b"".join(written)) == []
    assert called(written, NAME) == called([case.data], case.dialect)


def called(chunks: list[bytes], dialect: str) -> list[str]:
    canisters: Any = fold(normalize_stream(chunks, dialect)).canisters
    return [one.name for one in canisters if one.role.value == "invocation"]


@pytest.mark.parametrize("target", [name for name in DIALECTS if name != NAME])
def test_gemini_streams_are_accepted_abroad(target):
    for case in CASES:
        if case.ends_in_error:
            continue
        options = StreamOptions(include_usage=True, model="m")
        written = list(translate_stream([case.data], source=NAME, target=target, options=options))
        assert parse_stream(target, written).problems == [], case.id


@pytest.mark.parametrize("case", response_cases(NAME), ids=lambda case: case.id)
def test_whole_answers_unfold_into_streams_and_fold_again(case):
    response = normalize_response(case.raw, NAME)
    if response.finish is absent:
        return
    folded = fold(normalize_stream(nativize_stream(unfold(response), NAME), NAME))
    assert folded.canisters == response.canisters
    assert folded.finish == response.finish


def test_interleaved_calls_come_out_whole_and_in_order():
    events: list[Event] = [
        Start("id", "m"),
        PartStart(0, "text"),
        PartStart(1, "invocation", "a", "f_1"),
        PartStart(2, "invocation", "b", "g"),
        Delta(2, '{"y"', "arguments"),
        Delta(1, '{"x"', "arguments"),
        Delta(0, "hi"),
        Delta(2, ":2}", "arguments"),
        PartEnd(2),
        Delta(1, ":1}", "arguments"),
        PartEnd(0),
        PartEnd(1),
        UsageReport(Usage(1, 2)),
        Finish(FinishReason.Tool),
    ]
    options = StreamOptions(aliases=Aliases({"f_1": "f 1"}, {"a": "the a"}))
    written = b"".join(nativize_stream(events, NAME, options=options))
    bodies = [json.loads(frame.data) for frame in frames(written)]
    parts = [part for body in bodies for part in body["candidates"][0]["content"]["parts"]]
    assert parts == [
        {"text": "hi"},
        {"functionCall": {"id": "the a", "name": "f 1", "args": {"x": 1}}},
        {"functionCall": {"id": "b", "name": "g", "args": {"y": 2}}},
        {"text": ""},
    ]
    assert bodies[-1]["candidates"][0]["finishReason"] == "STOP"
    assert bodies[-1]["usageMetadata"]["totalTokenCount"] == 3


def test_a_signature_in_an_empty_part_is_kept():
    data = chunk({"text": "a"}) + chunk(
        {"text": "", "thoughtSignature": "c2ln"}, finishReason="STOP"
    )
    again = b"".join(translate_stream([data], source=NAME, target=NAME))
    assert b'{"text":"","thoughtSignature":"c2ln"}' in again


def test_a_stream_that_breaks_off_is_a_failure():
    assert [type(event) for event in events_of(chunk({"text": "a"}))][-2:] == [PartEnd, Failure]
    assert events_of(b"")[-1].kind == "incomplete"
    assert events_of(b"[")[-1].kind == "incomplete"


def test_line_ends_of_unicode_do_not_end_a_frame():
    events: list[Event] = [
        PartStart(0, "text"),
        Delta(0, "a\u2028b\u2029c\x85d"),
        PartEnd(0),
        Finish(FinishReason.Stop),
    ]
    written = list(nativize_stream(events, NAME))
    final = parse_stream(NAME, written).final
    assert final["candidates"][0]["content"]["parts"][0]["text"] == "a\u2028b\u2029c\x85d"


@given(st.data())
def test_random_splits(data):
    case = data.draw(st.sampled_from(CASES))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(case.data)), max_size=6)))
    pieces = [case.data[a:b] for a, b in zip([0, *cuts], [*cuts, len(case.data)], strict=True)]
    assert list(normalize_stream(pieces, NAME)) == events_of(case.data)


def test_a_part_of_which_the_text_is_null_stands_beside_a_text_that_is_grounded():
    chunk = {"web": {"uri": "https://e.org", "title": "T"}}
    support = {"segment": {"startIndex": 0, "endIndex": 2}, "groundingChunkIndices": [0]}
    grounding = {"groundingChunks": [chunk], "groundingSupports": [support]}
    chunks = [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": None}, {"text": "hi"}]}}]},
        {"candidates": [{"finishReason": "STOP", "groundingMetadata": grounding}]},
    ]
    stream = b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    written = b"".join(translate_stream([stream], source=NAME, target=NAME))
    folded = fold(events_of(written))
    assert [one.text for one in folded.canisters if one.content.kind == "text"] == ["hi"]
