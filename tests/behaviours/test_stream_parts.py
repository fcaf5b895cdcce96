"""Parts of a stream: what starts side by side comes out in order and whole, in every dialect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from cannery.dialects import find_dialect
from cannery.errors import DialectError
from cannery.messages import Finish, FinishReason, PartEnd, PartStart, Start, fold
from cannery.messages.events import Delta, Event
from cannery.wire.sse import data_frame
from tests.conformance.matrix import DIALECTS

CALLING = tuple(name for name in DIALECTS if name != "ollama_generate")
OPTIONS = cannery.StreamOptions(include_usage=True, reasoning=True)


def through(events: list[Event], dialect: str) -> cannery.Response:
    """The answer that a dialect's own reader makes of what its writer says."""
    written = list(cannery.nativize_stream(events, dialect, options=OPTIONS))
    return fold(cannery.normalize_stream(written, dialect))


def said(response: cannery.Response) -> list[str]:
    """All words and arguments of an answer, in their order."""
    return [
        canister.arguments_text
        if isinstance(canister, cannery.InvocationCanister)
        else getattr(canister.held, "text", canister.held)
        for canister in response.canisters
        if canister.held
    ]


def call(index: int) -> list[Event]:
    arguments = f'{{"at":{index}}}'
    return [
        PartStart(index, "invocation", f"call_{index}", "look"),
        *(Delta(index, piece, "arguments") for piece in (arguments[:4], arguments[4:])),
        PartEnd(index),
    ]


def text(index: int) -> list[Event]:
    words = [Delta(index, f"<{index}"), Delta(index, f"{index}>")]
    return [PartStart(index, "text"), *words, PartEnd(index)]


@st.composite
def interleaved(draw: st.DrawFn) -> tuple[list[Event], str, list[str]]:
    """Parts that start in order and go on side by side; what their texts say together, and their calls."""
    kinds = draw(st.lists(st.sampled_from([text, call]), min_size=1, max_size=5))
    waiting = [kind(index) for index, kind in enumerate(kinds)]
    under_way: list[list[Event]] = []
    events: list[Event] = []
    while waiting or under_way:
        if waiting and (not under_way or draw(st.booleans())):
            under_way.append(waiting.pop(0))
        part = draw(st.sampled_from(under_way))
        events.append(part.pop(0))
        if not part:
            under_way.remove(part)
    order = [event.index for event in events if isinstance(event, PartStart)]
    texts = "".join(f"<{index}{index}>" for index in order if kinds[index] is text)
    calls = [f'{{"at":{index}}}' for index in order if kinds[index] is call]
    return [Start("id_1", "m"), *events, Finish(FinishReason.Stop)], texts, calls


@pytest.mark.parametrize("dialect", CALLING)
def test_parts_side_by_side_come_whole_and_in_the_order_of_their_starts(dialect: str):
    @given(interleaved())
    def judge(drawn: tuple[list[Event], str, list[str]]) -> None:
        events, texts, calls = drawn
        found = said(through(events, dialect))
        spoken = [words for words in found if not words.startswith("{")]
        assert "".join("".join(spoken).split()) == texts
        assert [words for words in found if words.startswith("{")] == calls

    judge()


@pytest.mark.parametrize("dialect", CALLING)
def test_a_call_that_never_ended_is_said_with_the_end_of_the_answer(dialect: str):
    start, *deltas, _ = call(0)
    events: list[Event] = [Start("id_1", "m"), start, *deltas, Finish(FinishReason.Tool)]
    assert said(through(events, dialect)) == ['{"at":0}']


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_a_part_says_outside_of_it_is_left_out(dialect: str):
    stray: list[Event] = [Delta(7, "never started"), PartEnd(7)]
    late: list[Event] = [Delta(0, "too late"), PartEnd(0)]
    events: list[Event] = [Start("id_1", "m"), *stray, *text(0), *late, Finish(FinishReason.Stop)]
    assert said(through(events, dialect)) == ["<00>"]


@pytest.mark.parametrize("target", ["anthropic_messages", "bedrock_converse"])
def test_white_space_between_two_texts_is_kept_where_no_text_may_be_blank(target: str):
    texts = ("One.", " ", "Two.")
    parts: list[Event] = [
        event
        for index, words in enumerate(texts)
        for event in (PartStart(index, "text"), Delta(index, words), PartEnd(index))
    ]
    events: list[Event] = [Start("id_1", "m"), *parts, Finish(FinishReason.Stop)]
    assert said(through(events, target)) == ["One.", " Two."]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_events_before_a_broken_frame_are_told_whatever_the_split(dialect: str, size: int):
    events: list[Event] = [Start("id_1", "m"), *text(0), Finish(FinishReason.Stop)]
    framing = find_dialect(dialect).service.streams.framing
    written = list(cannery.nativize_stream(events, dialect))
    data = written[0] + written[1] + framing.write("odd", [1])
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    told = cannery.normalize_stream(chunks, dialect)
    assert isinstance(next(told), Start)
    with pytest.raises(DialectError, match=rf"^{dialect}: \$: expected a JSON object"):
        list(told)


def test_a_reference_of_mistral_comes_back_once():
    def chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return data_frame({"id": "a", "created": 1, "model": "m", "choices": [choice]})

    reference = {"type": "reference", "reference_ids": [1]}
    chunks = [
        chunk({"role": "assistant", "content": [{"type": "text", "text": "So."}]}),
        chunk({"content": [reference]}),
        chunk({"content": ""}, "stop"),
    ]
    target = source = "mistral_chat"
    written = b"".join(cannery.translate_stream(chunks, source=source, target=target))
    assert written.count(b"reference_ids") == 1
