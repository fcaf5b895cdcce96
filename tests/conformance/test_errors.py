"""Bodies that break their dialect: one error with dialect, path and problem, whatever comes."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from tests.conformance.matrix import DIALECTS
from tests.oracles.corpus import request_cases, response_cases, stream_cases
from tests.oracles.silence import unless_empty

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
ODD_VALUES = (
    None,
    True,
    0,
    -1,
    1.5,
    10**40,
    "",
    "x",
    [],
    {},
    [None],
    {"type": "x"},
    [[]],
    {"a": {}},
)


def attempt(read: Any, body: bytes, dialect: str) -> None:
    """Reading either works, and then writing does, or raises the one error."""
    try:
        value = read(body, dialect)
    except cannery.DialectError as error:
        refusal = error
    else:
        refusal = None
    if refusal is not None:
        assert refusal.dialect == dialect
        assert refusal.path
        assert refusal.problem
        return
    if read is cannery.normalize_response:
        for target in DIALECTS:
            cannery.nativize_response(value, target, policy="allow")
        return
    cannery.nativize_request(value, dialect, policy="allow")
    for target in DIALECTS:
        write = partial(cannery.nativize_request, value, target, policy="allow")
        unless_empty(write, dialect, json.loads(body, parse_int=float))


def mutate(body: Any, rng: random.Random) -> Any:
    """The body with one value somewhere replaced, removed or renamed."""
    body = copy.deepcopy(body)
    spots = list(_spots(body))
    parent, key = rng.choice(spots)
    action = rng.randrange(4)
    if action == 0 and isinstance(parent, dict):
        del parent[key]
    elif action == 1 and isinstance(parent, dict):
        parent[f"{key}_x"] = parent.pop(key)
    else:
        parent[key] = copy.deepcopy(rng.choice(ODD_VALUES))
    return body


def _spots(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield value, key
        if isinstance(item, (dict, list)):
            yield from _spots(item)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_mutated_requests(dialect: str):
    for case in request_cases(dialect):
        rng = random.Random(case.id)
        for _ in range(40):
            body = json.dumps(mutate(case.body, rng)).encode()
            attempt(cannery.normalize_request, body, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_mutated_responses(dialect: str):
    for case in response_cases(dialect):
        rng = random.Random(case.id)
        for _ in range(40):
            body = json.dumps(mutate(case.body, rng)).encode()
            attempt(cannery.normalize_response, body, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_mutated_streams(dialect: str):
    for case in stream_cases(dialect):
        rng = random.Random(case.id)
        for _ in range(30):
            data = bytearray(case.data)
            for _ in range(rng.randrange(1, 6)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            with contextlib.suppress(cannery.DialectError):
                list(cannery.normalize_stream([bytes(data)], dialect))


def mutate_event(data: bytes, rng: random.Random) -> bytes | None:
    """A stream of lines with one value in one of its events replaced; None for one of another framing."""
    lines = data.split(b"\n")
    heads = {at: line.find(b"{") for at, line in enumerate(lines) if line[:6] in _HEADS}
    heads = {at: start for at, start in heads.items() if 0 <= start < 8}
    if not heads:
        return None
    at = rng.choice(sorted(heads))
    event = mutate(json.loads(lines[at][heads[at] :]), rng)
    lines[at] = lines[at][: heads[at]] + json.dumps(event).encode()
    return b"\n".join(lines)


_HEADS = (b"data: ", b"data:{", b'{"mode')


@pytest.mark.parametrize("dialect", DIALECTS)
def test_streams_with_mutated_events(dialect: str):
    for case in stream_cases(dialect):
        rng = random.Random(case.id)
        for _ in range(30):
            data = mutate_event(case.data, rng)
            if data is None:
                break
            with contextlib.suppress(cannery.DialectError, cannery.UpstreamError):
                events = list(cannery.normalize_stream([data], dialect))
                b"".join(cannery.nativize_stream(events, dialect))
                b"".join(cannery.nativize_stream(events, "openai_chat"))


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=150)
@given(value=JSON)
def test_random_json(dialect: str, value: Any):
    body = json.dumps(value).encode()
    attempt(cannery.normalize_request, body, dialect)
    attempt(cannery.normalize_response, body, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(body=st.binary(max_size=200))
def test_random_bytes(dialect: str, body: bytes):
    attempt(cannery.normalize_request, body, dialect)
    attempt(cannery.normalize_response, body, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("depth", [50, 400, 900, 5000, 200_000])
def test_deep_nesting(dialect: str, depth: int):
    key = {"gemini_generate": "contents", "openai_responses": "input"}.get(dialect, "messages")
    deep = b"[" * depth + b"]" * depth
    objects = b'{"a":' * depth + b"1" + b"}" * depth
    for inner in (deep, objects):
        attempt(cannery.normalize_request, b'{"%s":%s}' % (key.encode(), inner), dialect)
        turn = b'{"role":"user","content":"x","parts":[{"text":"x"}],"z":%s}' % inner
        body = b'{"%s":[%s],"max_tokens":1}' % (key.encode(), turn)
        attempt(cannery.normalize_request, body, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_huge_numbers(dialect: str):
    for number in (b"1e999", b"-1e999", b"9" * 5000, b"0." + b"1" * 5000, b"NaN", b"Infinity"):
        body = b'{"messages":[],"input":[],"contents":[],"max_tokens":1,"x":%s}' % number
        attempt(cannery.normalize_request, body, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_body_of_fifty_megabytes(dialect: str):
    text = "a" * (50 * 1024 * 1024)
    short = {"model": "m", "messages": [{"role": "user", "content": "SHORT"}]}
    written = cannery.translate(short, source="openai_chat", target=dialect).body
    request = cannery.normalize_request(written.replace(b"SHORT", text.encode()), dialect)
    assert len(request.conversation[0].text) == len(text)


def test_an_unknown_dialect_is_named_with_a_suggestion():
    with pytest.raises(cannery.UnknownDialectError, match="openai_chat"):
        cannery.normalize_request(b"{}", "openai-chat")


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="strict"):
        cannery.translate(b"{}", source="openai_chat", target="openai_chat", policy="loose")
