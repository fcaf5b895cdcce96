"""Streamed calls of servers that only resemble OpenAI's: each call is told apart, named and identified."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

import cannery

Fragment = dict[str, Any]


def _fragment(name: str | None, arguments: str | None, **own: Any) -> Fragment:
    function = {"name": name, "arguments": arguments}
    said = {key: item for key, item in function.items() if item is not None}
    return {"type": "function", "function": said, **own}


def _stream(*deltas: list[Fragment], identifier: str = "chatcmpl-1") -> bytes:
    head = {"id": identifier, "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices: list[Fragment] = [{"index": 0, "delta": {"tool_calls": calls}} for calls in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    chunks = [b"data: %s\n\n" % orjson.dumps({**head, "choices": [choice]}) for choice in choices]
    return b"".join(chunks) + b"data: [DONE]\n\n"


def _calls(stream: bytes) -> list[tuple[str, str, str]]:
    response = cannery.fold(cannery.normalize_stream([stream], "openai_chat"))
    calls = [canister for canister in response.canisters if hasattr(canister, "identifier")]
    return [(call.identifier, call.name, call.held) for call in calls]


TWO = [("a", "look", '{"x":1}'), ("b", "find", '{"y":2}')]
QUIRKS = {
    "interleaved": [
        [_fragment("look", "", index=0, id="a"), _fragment("find", "", index=1, id="b")],
        [_fragment(None, '{"y":', index=1), _fragment(None, '{"x":1}', index=0)],
        [_fragment(None, "2}", index=1)],
    ],
    "every call has index 0": [
        [_fragment("look", '{"x":1}', index=0, id="a")],
        [_fragment("find", '{"y":2}', index=0, id="b")],
    ],
    "no index, one chunk": [
        [_fragment("look", '{"x":1}', id="a"), _fragment("find", '{"y":2}', id="b")]
    ],
    "no index, a chunk each": [
        [_fragment("look", '{"x":', id="a")],
        [_fragment(None, "1}", id="a")],
        [_fragment("find", '{"y":', id="b")],
        [_fragment(None, "2}")],
    ],
    "a new id for each fragment": [
        [_fragment("look", "", index=0, id="a"), _fragment("find", "", index=1, id="b")],
        [_fragment(None, '{"x":1}', index=0, id="made-1")],
        [_fragment(None, '{"y":2}', index=1, id="made-2")],
    ],
    "id and name said again": [
        [_fragment("look", '{"x":', index=0, id="a")],
        [_fragment("look", "1}", index=0, id="a")],
        [_fragment("find", '{"y":', index=1, id="b")],
        [_fragment("find", "2}", index=1, id="")],
    ],
    "the name comes late": [
        [_fragment(None, None, index=0, id="a"), _fragment(None, "", index=1, id="b")],
        [_fragment("look", '{"x":1}', index=0)],
        [_fragment(None, '{"y":', index=1), _fragment("find", "2}", index=1)],
    ],
}


@pytest.mark.parametrize("deltas", QUIRKS.values(), ids=QUIRKS)
def test_every_call_is_told_apart(deltas: list[list[Fragment]]) -> None:
    assert _calls(_stream(*deltas)) == TWO


def test_calls_with_one_id_are_told_apart_by_index() -> None:
    """Some servers make an id of the function's name."""
    twice = [_fragment("f", "{}", index=0, id="f"), _fragment("f", "[]", index=1, id="f")]
    assert _calls(_stream(twice)) == [("f", "f", "{}"), ("f", "f", "[]")]


def test_calls_without_index_and_id_begin_with_their_name() -> None:
    calls = _calls(_stream([_fragment("look", "{}")], [_fragment("find", "[]")]))
    assert [call[1:] for call in calls] == [("look", "{}"), ("find", "[]")]
    assert calls[0][0] != calls[1][0]


@pytest.mark.parametrize("own", [{}, {"id": None}, {"id": ""}])
def test_made_ids_are_the_same_whole_and_streamed_and_differ_between_answers(
    own: dict[str, Any],
) -> None:
    streams = [_stream([_fragment("f", "{}", index=0, **own)], identifier=name) for name in "ab"]
    first, second = (_calls(stream)[0][0] for stream in streams)
    message = {"role": "assistant", "content": None, "tool_calls": [_fragment("f", "{}", **own)]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = {"id": "a", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    response = cannery.normalize_response(orjson.dumps(body), "openai_chat")
    assert response.canisters[-1].identifier == first != second
    home = cannery.nativize_response(response, "openai_chat")
    assert orjson.loads(home.body) == body


def test_a_call_that_nobody_names_still_ends() -> None:
    assert _calls(_stream([_fragment(None, "{}", index=0, id="a")])) == [("a", "", "{}")]
