"""The shortcuts for streams: whole frames give the events that single bytes give, and words are written as ever."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cannery.dialects import find_dialect
from cannery.errors import CanneryError
from cannery.messages import Delta, PartStart, Start
from cannery.wire.contract import StreamOptions
from cannery.wire.sse import FrameReader
from tests.conformance.matrix import DIALECTS, identify
from tests.oracles.corpus import StreamCase, stream_cases

CASES = [case for name in DIALECTS for case in stream_cases(name)]


def _events(dialect: str, chunks: list[bytes]) -> list[Any]:
    """The events of a stream, and how it fails if it does."""
    reader = find_dialect(dialect).stream_reader()
    found: list[Any] = []
    try:
        for chunk in chunks:
            found.extend(reader.feed(chunk))
        found.extend(reader.close())
    except CanneryError as error:
        found.append((type(error), str(error)))
    return found


def _frames(data: bytes) -> list[bytes]:
    return [frame + b"\n\n" for frame in data.split(b"\n\n") if frame]


def _bytes(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_whole_frames_are_read_like_single_bytes(case: StreamCase):
    data = case.data.replace(b"\r\n", b"\n")
    data = data if data.endswith(b"\n\n") else data + b"\n\n"
    slow = _events(case.dialect, _bytes(data))
    assert _events(case.dialect, _frames(data)) == slow
    assert _events(case.dialect, [data]) == slow
    returns = [frame.replace(b"\n", b"\r\n") for frame in _frames(data)]
    assert _events(case.dialect, returns) == _events(case.dialect, _bytes(b"".join(returns)))


JSON = st.sampled_from(
    ["null", '"x"', '""', "0", "1", '"\\ud800"', '{"message":"m"}', '[{"index":0,"function":{}}]']
)
KEYS = ("content", "refusal", "reasoning", "tool_calls", "function_call", "role", "made_up")


@given(
    deltas=st.lists(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=3), max_size=5),
    around=st.dictionaries(st.sampled_from(["index", "finish_reason", "logprobs"]), JSON),
    outside=st.dictionaries(st.sampled_from(["usage", "error", "id"]), JSON, max_size=1),
)
@settings(max_examples=300, deadline=None)
def test_odd_chunks_of_chat_are_read_alike(
    deltas: list[dict[str, str]], around: dict[str, str], outside: dict[str, str]
):
    frames = [b'data: {"choices":[{"delta":{"content":"first"}}]}\n\n']
    for number, delta in enumerate(deltas):
        choice = _object({"delta": _object(delta), **(around if number else {})})
        body = _object({"choices": f"[{choice}]", **(outside if number == 2 else {})})
        frames.append(f"data: {body}\n\n".encode())
    frames.append(b"data: [DONE]\n\n")
    data = b"".join(frames)
    assert _events("openai_chat", frames) == _events("openai_chat", _bytes(data))


PART_KEYS = ("text", "thought", "thoughtSignature", "functionCall", "made_up")
CANDIDATE_KEYS = ("index", "finishReason", "finish_reason", "citationMetadata", "made_up")
CHUNK_KEYS = (
    "usageMetadata",
    "usage_metadata",
    "modelVersion",
    "error",
    "promptFeedback",
    "made_up",
)
GEMINI = st.sampled_from(
    (
        *("null", '"x"', '""', "0", "1", "true", "false", '"STOP"', '"\\ud800"', '{"message":"m"}'),
        *('{"promptTokenCount":1}', '{"name":"f"}', "[]"),
    )
)


@given(
    parts=st.lists(st.dictionaries(st.sampled_from(PART_KEYS), GEMINI, max_size=2), max_size=6),
    around=st.dictionaries(st.sampled_from(CANDIDATE_KEYS), GEMINI, max_size=1),
    outside=st.dictionaries(st.sampled_from(CHUNK_KEYS), GEMINI, max_size=2),
)
@settings(max_examples=300, deadline=None)
def test_odd_chunks_of_gemini_are_read_alike(
    parts: list[dict[str, str]], around: dict[str, str], outside: dict[str, str]
):
    frames = [b'data: {"candidates":[{"content":{"parts":[{"text":"first"}]}}]}\n\n']
    for number, part in enumerate(parts):
        content = _object({"parts": f"[{_object(part)}]", "role": '"model"'})
        candidate = _object({"content": content, **(around if number == 3 else {})})
        body = _object({"candidates": f"[{candidate}]", **(outside if number % 2 else {})})
        frames.append(f"data: {body}\n\n".encode())
    data = b"".join(frames)
    assert _events("gemini_generate", frames) == _events("gemini_generate", _bytes(data))


EVENT_KEYS = ("output_index", "content_index", "delta", "error", "logprobs", "response", "type")


@given(
    deltas=st.lists(st.dictionaries(st.sampled_from(EVENT_KEYS), GEMINI, max_size=2), max_size=6)
)
@settings(max_examples=300, deadline=None)
def test_odd_events_of_responses_are_read_alike(deltas: list[dict[str, str]]):
    part = '{"type":"output_text","text":""}'
    message = '{"type":"message","id":"m","role":"assistant","content":[]}'
    begun = [
        '{"type":"response.created","response":{"id":"r","model":"m"}}',
        f'{{"type":"response.output_item.added","output_index":0,"item":{message}}}',
        f'{{"type":"response.content_part.added","output_index":0,"content_index":0,"part":{part}}}',
    ]
    usual = {"type": '"response.output_text.delta"', "output_index": "0", "content_index": "0"}
    said = [_object({**usual, "delta": '"word"', **delta}) for delta in deltas]
    frames = [f"data: {event}\n\n".encode() for event in (*begun, *said)]
    data = b"".join(frames)
    assert _events("openai_responses", frames) == _events("openai_responses", _bytes(data))


def _object(fields: dict[str, str]) -> str:
    return "{" + ",".join(f'"{key}":{value}' for key, value in fields.items()) + "}"


@pytest.mark.parametrize("dialect", DIALECTS)
@given(texts=st.lists(st.text(min_size=1) | st.sampled_from(['"', "\u2028", "\n\n", "\x85"])))
def test_words_are_one_line_of_json_whatever_they_are(dialect: str, texts: list[str]):
    writer = find_dialect(dialect).stream_writer(StreamOptions(model='m"{"content":""}'))
    writer.write(Start("id", "m", source=dialect))
    writer.write(PartStart(0, "text"))
    for words in texts:
        written = writer.write(Delta(0, words))
        assert written.decode().splitlines() == written.decode().split("\n")[:-1]
        frames = list(FrameReader().feed(written))
        assert len(frames) == 1
        assert words in _strings(json.loads(frames[0].data))


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in _strings(item)]
