"""The stream oracles: SDKs take the transcripts in any split, and broken ones are found."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.oracles.corpus import DIALECTS, Case, StreamCase, response_cases, stream_cases
from tests.oracles.sdk_streams import StreamRefusedError, parse_stream, parse_whole
from tests.oracles.server_rules import codes
from tests.oracles.sse import Frame, frames, render
from tests.oracles.stream_rules import check_stream_rules

STREAMS = [case for dialect in DIALECTS for case in stream_cases(dialect)]
WHOLES = [case for dialect in DIALECTS for case in response_cases(dialect)]
FINISHED = [case for case in STREAMS if not case.ends_in_error]
Frames = list[Frame]


def name(case: StreamCase | Case) -> str:
    return f"{case.dialect}-{case.id}"


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def said(value: Any) -> Any:
    """A JSON value without what the SDKs add or drop: nulls, and Gemini's `finishMessage`."""
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key != "finishMessage"}
        return {key: said(item) for key, item in kept.items() if item is not None}
    return [said(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", STREAMS, ids=name)
def test_a_transcript_keeps_the_rules(case: StreamCase):
    assert check_stream_rules(case.dialect, case.data) == []


@pytest.mark.parametrize("case", FINISHED, ids=name)
def test_an_sdk_takes_a_transcript(case: StreamCase):
    accumulated = parse_stream(case.dialect, [case.data])
    assert accumulated.events
    assert bool(accumulated.problems) == case.extended, accumulated.problems


@pytest.mark.parametrize("case", FINISHED, ids=name)
def test_the_split_of_the_bytes_does_not_matter(case: StreamCase):
    whole = parse_stream(case.dialect, [case.data])
    for size in (1, 7):
        assert parse_stream(case.dialect, pieces(case.data, size)) == whole


@pytest.mark.parametrize("case", FINISHED, ids=name)
def test_a_stream_adds_up_to_its_whole_body(case: StreamCase):
    whole = case.whole_case
    if whole is None:
        assert case.extended
        return
    final = parse_stream(case.dialect, [case.data]).final
    if not case.extended:
        assert said(final) == said(whole.body)


@pytest.mark.parametrize("case", [case for case in STREAMS if case.ends_in_error], ids=name)
def test_an_error_reaches_the_sdk_user(case: StreamCase):
    try:
        final = parse_stream(case.dialect, [case.data]).final
    except StreamRefusedError:
        return
    assert final["status"] == "failed"


@pytest.mark.parametrize("case", WHOLES, ids=name)
def test_an_sdk_takes_a_whole_response(case: Case):
    read = parse_whole(case.dialect, case.body)
    if not case.extended:
        assert said(read) == said(case.body)


def transcript(dialect: str, identifier: str) -> Frames:
    case = next(case for case in stream_cases(dialect) if case.id == identifier)
    return frames(case.data)


def edit(index: int, /, **changes: Any) -> Callable[[Frames], None]:
    """Change top-level keys of one event."""

    def change(found: Frames) -> None:
        frame = found[index]
        found[index] = Frame(frame.event, json.dumps(frame.value | changes))

    return change


def cut(start: int, stop: int | None = None) -> Callable[[Frames], None]:
    """Remove events."""

    def change(found: Frames) -> None:
        del found[start:stop]

    return change


def swap(one: int, other: int) -> Callable[[Frames], None]:
    """Exchange two events."""

    def change(found: Frames) -> None:
        found[one], found[other] = found[other], found[one]

    return change


def again(index: int, at: int) -> Callable[[Frames], None]:
    """Repeat an event elsewhere."""

    def change(found: Frames) -> None:
        found.insert(at, found[index])

    return change


CHAT, RESPONSES = "openai_chat", "openai_responses"
CLAUDE, GEMINI = "anthropic_messages", "gemini_generate"
BREAKS = [
    (CHAT, "plain_text", "done", cut(-1)),
    (CHAT, "plain_text", "done", again(-1, 0)),
    (CHAT, "plain_text", "identity", edit(1, id="other")),
    (CHAT, "plain_text", "finish", cut(-2, -1)),
    (CHAT, "plain_text", "finish", again(-2, -1)),
    (CHAT, "plain_text", "after-end", again(1, -1)),
    (CHAT, "plain_text", "role", cut(0, 1)),
    (CHAT, "usage_chunk", "usage", swap(-2, -3)),
    (CHAT, "parallel_tools_sequential", "call-again", again(3, 5)),
    (CHAT, "parallel_tools_sequential", "call-start", cut(3, 4)),
    (CHAT, "parallel_tools_sequential", "call-index", swap(0, 3)),
    (CLAUDE, "plain_text", "start", cut(0, 1)),
    (CLAUDE, "plain_text", "end", cut(-1)),
    (CLAUDE, "plain_text", "end", cut(-2, -1)),
    (CLAUDE, "plain_text", "block-delta", again(4, -2)),
    (CLAUDE, "plain_text", "block-open", cut(-3, -2)),
    (CLAUDE, "plain_text", "event-name", edit(0, type="message_begin")),
    (CLAUDE, "parallel_tools", "block-start", edit(5, index=3)),
    (CLAUDE, "parallel_tools", "block-start", swap(4, 5)),
    (CLAUDE, "parallel_tools", "arguments", cut(8, 9)),
    (CLAUDE, "parallel_tools", "delta-kind", edit(7, delta={"type": "text_delta", "text": "x"})),
    (GEMINI, "plain_text", "finish", cut(-1)),
    (GEMINI, "plain_text", "after-end", again(0, 3)),
    (RESPONSES, "plain_text", "sequence", cut(1, 2)),
    (RESPONSES, "plain_text", "start", cut(0, 1)),
    (RESPONSES, "plain_text", "end", cut(-1)),
    (RESPONSES, "plain_text", "item-start", cut(2, 3)),
    (RESPONSES, "plain_text", "item-open", cut(-2, -1)),
    (RESPONSES, "plain_text", "part-delta", cut(3, 4)),
    (RESPONSES, "plain_text", "part-open", cut(-3, -2)),
    (RESPONSES, "plain_text", "sum", cut(5, 6)),
    (RESPONSES, "plain_text", "after-end", again(5, -1)),
    (RESPONSES, "plain_text", "item-id", edit(5, item_id="msg_other")),
    (RESPONSES, "plain_text", "output", edit(-2, item={"type": "message"})),
    (RESPONSES, "parallel_tools", "item-index", edit(8, output_index=7)),
]


@pytest.mark.parametrize("dialect, identifier, code, change", BREAKS)
def test_a_broken_transcript_is_found(dialect: str, identifier: str, code: str, change: Any):
    found = transcript(dialect, identifier)
    change(found)
    broken = b"".join(map(render, found))
    assert code in codes(check_stream_rules(dialect, broken))


@pytest.mark.parametrize(
    "dialect, identifier, change",
    [
        (CHAT, "plain_text", cut(-2, -1)),
        (CLAUDE, "plain_text", cut(-1)),
        (CLAUDE, "plain_text", cut(1, 2)),
        (RESPONSES, "plain_text", cut(-1)),
        (RESPONSES, "plain_text", cut(0, 1)),
        (RESPONSES, "plain_text", cut(2, 3)),
        (GEMINI, "plain_text", cut(0)),
    ],
)
def test_an_sdk_refuses_a_broken_transcript(dialect: str, identifier: str, change: Any):
    found = transcript(dialect, identifier)
    change(found)
    with pytest.raises(StreamRefusedError):
        parse_stream(dialect, [b"".join(map(render, found))])


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("data", [b"", b"data: {nope\n\n"])
def test_an_sdk_refuses_what_is_no_stream(dialect: str, data: bytes):
    with pytest.raises(StreamRefusedError):
        parse_stream(dialect, [data])


def test_frames_follow_the_specification():
    data = b"\xef\xbb\xbf: hi\r\nevent: a\rdata: 1\ndata:2\n\ndata\n\nid: 3\n\ndata: lost"
    assert frames(data) == [Frame("a", "1\n2"), Frame(None, "")]
