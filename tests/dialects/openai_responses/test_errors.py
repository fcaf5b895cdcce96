"""A body that breaks the dialect is refused with its place; nothing else is ever raised."""

from __future__ import annotations

import copy
import json
import random
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.dialects import find_dialect
from cannery.errors import DialectError
from cannery.translation import (
    nativize_request,
    nativize_response,
    normalize_request,
    normalize_response,
    normalize_stream,
    translate,
)
from cannery.wire.contract import WireError
from tests.oracles.corpus import request_cases, response_cases, stream_cases
from tests.oracles.silence import unless_empty

NAME = "openai_responses"
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1e300,
    "",
    "x",
    [],
    {},
    [None],
    [[]],
    {"type": 5},
    {"type": "message"},
]


@pytest.mark.parametrize(
    "body, path",
    [
        ({"input": 5}, "input"),
        ({"input": ["x"]}, "input[0]"),
        ({"input": [{}]}, "input[0].type"),
        ({"input": [{"type": 5}]}, "input[0].type"),
        ({"input": [{"type": "message"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": 5}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [5]}]}, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [{}]}]}, "input[0].content[0].type"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text"}]}]},
            "input[0].content[0].text",
        ),
        ({"input": [{"type": "function_call", "call_id": "c"}]}, "input[0].name"),
        ({"input": [{"type": "function_call_output", "output": 5}]}, "input[0].output"),
    ],
)
def test_the_place_of_a_mistake_is_named(body, path):
    with pytest.raises(DialectError) as refused:
        normalize_request({"model": "m", **body}, NAME)

    assert refused.value.dialect == NAME
    assert refused.value.path == path


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b'{"input":' + b"[" * 100_000, b"\xff"])
def test_what_is_no_body_is_refused(body):
    for read in (normalize_request, normalize_response):
        with pytest.raises(DialectError):
            read(body, NAME)


def mutated(body, seed):
    """A copy with one or two odd values in random places."""
    chance = random.Random(seed)
    body = copy.deepcopy(body)
    for _ in range(chance.choice((1, 2))):
        target, key = body, None
        while (
            isinstance(target, (dict, list)) and target and (key is None or chance.random() < 0.8)
        ):
            holder = target
            keys = list(holder) if isinstance(holder, dict) else range(len(holder))
            key = chance.choice(list(keys))
            target = holder[key]
        if key is not None:
            holder[key] = copy.deepcopy(chance.choice(ODD))
    return body


@given(st.sampled_from(request_cases(NAME)), st.integers(0, 10**6))
def test_a_mutated_request_is_refused_or_comes_back(case, seed):
    body = json.loads(json.dumps(mutated(case.body, seed)).encode("utf-8", "replace"))
    try:
        request = normalize_request(body, NAME)
        how = {"source": NAME, "target": "openai_chat", "policy": "allow"}
        unless_empty(partial(translate, body, **how), NAME, body)
    except DialectError:
        return
    if case.id != "lone_surrogate":
        assert json.loads(nativize_request(request, NAME).body) == body


@given(st.sampled_from(response_cases(NAME)), st.integers(0, 10**6))
def test_a_mutated_response_is_refused_or_comes_back(case, seed):
    body = mutated(case.body, seed)
    try:
        response = normalize_response(body, NAME)
        translate(body, source=NAME, target="openai_chat", kind="response")
    except DialectError:
        return
    assert json.loads(nativize_response(response, NAME).body) == body


@given(st.sampled_from(stream_cases(NAME)), st.integers(0, 10**6))
def test_a_mutated_stream_gives_events_or_is_refused(case, seed):
    frames = [frame.partition(b"data: ")[2] for frame in case.data.split(b"\n\n") if frame]
    at = seed % len(frames)
    frames[at] = json.dumps(mutated(json.loads(frames[at]), seed)).encode()
    try:
        events = list(normalize_stream([b"data: " + frame + b"\n\n" for frame in frames], NAME))
    except DialectError:
        return
    assert type(events[-1]).__name__ in ("Finish", "Failure")


def test_errors_are_spelled_as_openai_spells_them():
    dialect = find_dialect(NAME)
    error = WireError(429, "slow down", code="rate_limited", parameter="input")

    body = dialect.write_error(error)

    assert json.loads(body)["error"]["type"] == "rate_limit_error"
    assert dialect.read_error(429, body).message == "slow down"
    assert dialect.read_error(500, b"<html>").message == "<html>"
