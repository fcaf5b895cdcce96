"""The shortcuts of reading, and of writing answers, give what the general way gives: values, residue and losses.

With a list for the paths a dialect reads in the general way; without one it may take its shortcut.
"""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from cannery import translation
from cannery.dialects import find_dialect
from cannery.errors import CanneryError
from cannery.messages import Request, Response, absent
from cannery.wire.plain import plain_request
from tests.conformance.general import the_general_way
from tests.conformance.matrix import DIALECTS, identify
from tests.oracles.corpus import Case, request_cases, response_cases

CASES = [case for name in DIALECTS for case in response_cases(name)]
ASKED = [case for name in DIALECTS for case in request_cases(name)]
MATRIX = [(case, target) for case in CASES for target in DIALECTS if target != case.dialect]
ONCE = datetime(2026, 1, 1, tzinfo=UTC)
ODD = st.sampled_from(
    [
        "null",
        "true",
        "0",
        "1",
        "-1",
        "1.0",
        '""',
        '" "',
        '"stop"',
        '"é\u2028"',
        "[]",
        "[null]",
        "{}",
    ]
).map(json.loads) | st.just("x" * 80)


def _facts(read: Any) -> Any:
    """All that a read gives, or how it fails; when is no part of it."""
    try:
        response: Request | Response = read()
    except CanneryError as error:
        return type(error), str(error)
    first, *fields = response.__struct_fields__
    canisters: list[Any] = [
        (canister.replace(timestamp=ONCE), canister.joined, canister.residue)
        for canister in getattr(response, first)
    ]
    if isinstance(response, Request):
        # A shortcut keeps the white space of a schema.
        tools = [(tool.replace(schema=absent), tool.parameters) for tool in response.tools]
        response = response.replace(tools=())
        canisters += tools
    return canisters, [(name, getattr(response, name)) for name in fields]


def _assert_read_alike(dialect: str, body: bytes) -> None:
    read = find_dialect(dialect).read_response
    assert _facts(lambda: read(body, None)) == _facts(lambda: read(body, []))


def _rendered(write: Any) -> Any:
    try:
        rendered = write()
    except CanneryError as error:
        return type(error), str(error)
    return json.loads(rendered.body), rendered.losses, rendered.repairs


def _assert_written_alike(response: Response, target: str, policy: str = "warn") -> None:
    fast = _rendered(lambda: cannery.nativize_response(response, target, policy=policy))
    with the_general_way():
        slow = _rendered(lambda: cannery.nativize_response(response, target, policy=policy))
    assert fast == slow


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_corpus_is_read_alike(case: Case):
    _assert_read_alike(case.dialect, case.raw)


def _assert_plain_is_read_alike(dialect: str, body: bytes) -> bool:
    """Whether a body is plain; if it is, both readers give the same request."""
    found = find_dialect(dialect)
    plain = None if found.read_plain is None else found.read_plain(body)
    request = None if plain is None else plain_request(plain, dialect)
    if request is None:
        return False
    assert _facts(lambda: request) == _facts(lambda: found.read_request(body, None))
    return True


def test_plain_requests_of_the_corpus_are_read_alike():
    plain = [_assert_plain_is_read_alike(case.dialect, case.raw) for case in ASKED]
    assert plain.count(True) > 10


@pytest.mark.parametrize("policy", ["warn", "strict"])
@pytest.mark.parametrize("case, target", MATRIX, ids=identify)
def test_corpus_is_written_alike(case: Case, target: str, policy: str):
    response = cannery.normalize_response(case.raw, case.dialect)
    _assert_written_alike(response, target, policy)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value, as what holds it and its key there."""
    found: list[tuple[Any, Any]] = []
    pairs: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in pairs:
        found.append((value, key))
        if isinstance(item, (dict, list)):
            found += _places(item)
    return found


def _shuffled(value: Any, data: st.DataObject) -> Any:
    if isinstance(value, list):
        return [_shuffled(item, data) for item in value]
    if not isinstance(value, dict):
        return value
    keys = data.draw(st.permutations(list(value)))
    return {key: _shuffled(value[key], data) for key in keys}


def _changed(body: Any, data: st.DataObject) -> Any:
    """A body with a few things taken away, put in, replaced or moved."""
    body = copy.deepcopy(body)
    for _ in range(data.draw(st.integers(1, 3))):
        places = _places(body)
        if not places:
            break
        holder, key = data.draw(st.sampled_from(range(len(places))).map(places.__getitem__))
        kind = data.draw(st.sampled_from(["drop", "odd", "add", "again"]))
        if kind == "drop":
            del holder[key]
        elif kind == "odd":
            holder[key] = data.draw(ODD)
        elif kind == "again":
            holder[key] = [holder[key], holder[key]]
        elif isinstance(holder, dict):
            holder["made_up"] = data.draw(ODD)
        else:
            holder.append(data.draw(ODD))
    return _shuffled(body, data) if data.draw(st.booleans()) else body


@pytest.mark.parametrize("dialect", DIALECTS)
def test_changed_bodies_are_read_and_written_alike(dialect: str):
    cases = response_cases(dialect)

    @settings(max_examples=200, deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject):
        case = data.draw(st.sampled_from(cases))
        raw = json.dumps(_changed(case.body, data)).encode()
        _assert_read_alike(dialect, raw)
        try:
            response = cannery.normalize_response(raw, dialect)
        except CanneryError:
            return
        for target in DIALECTS:
            if target != dialect:
                _assert_written_alike(response, target)

    run()


def test_changed_plain_requests_are_read_alike():
    cases = [case for case in ASKED if _assert_plain_is_read_alike(case.dialect, case.raw)]

    @settings(max_examples=300, deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject):
        case = data.draw(st.sampled_from(cases))
        raw = json.dumps(_changed(case.body, data)).encode()
        _assert_plain_is_read_alike(case.dialect, raw)

    run()


PLAIN = {
    "openai_chat": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Let me look.",
                    "refusal": None,
                    "annotations": [],
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "look", "arguments": '{"at":1}'},
                        }
                    ],
                },
                "logprobs": None,
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21},
        "system_fingerprint": None,
    },
    "anthropic_messages": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "text", "text": "Let me look.", "citations": None},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 12},
    },
}


@pytest.mark.parametrize("dialect", PLAIN)
def test_common_shapes_take_the_shortcut(dialect: str, monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("the general way")

    package = f"cannery.dialects.{dialect}"
    monkeypatch.setattr(f"{package}.fast_responses.read_any", refuse)
    response = cannery.normalize_response(PLAIN[dialect], dialect)
    assert [type(canister).__name__ for canister in response.canisters] == [
        "AssistantCanisterClass",
        "InvocationCanisterClass",
    ]
    monkeypatch.setattr(translation, "render", refuse)
    for target in PLAIN.keys() - {dialect}:
        assert cannery.nativize_response(response, target).losses == ()
