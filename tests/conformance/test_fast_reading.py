"""Reading Messages bodies fast gives what reading them block by block gives, whatever their shape."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from cannery.dialects.anthropic_messages import fast_reading, reading, slicing
from cannery.errors import CanneryError
from tests.conformance.general import the_general_way
from tests.conformance.matrix import DIALECTS, assert_same_json, identify
from tests.oracles.corpus import Case, request_cases
from tests.strategies.agent_bodies import agent_bodies, plain_agent_bodies
from tests.strategies.bodies import requests, typed_requests

NAME = "anthropic_messages"
CASES = request_cases(NAME)
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
COMMON = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 9,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": {"type": "x"}}],
    "metadata": {"user_id": "u"},
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Go."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
                {"type": "tool_use", "id": "t", "name": "f", "input": {"n": 1.0}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                    "is_error": False,
                }
            ],
        },
    ],
}


def _refuse(*_: object) -> None:
    raise fast_reading.OddError


@contextmanager
def block_by_block() -> Iterator[None]:
    """Every message is read by the general reader, with the exact text of its inputs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "read_fast", lambda *_: None)
        patch.setattr(reading, "take_message", _refuse)
        yield


def facts(body: bytes) -> Any:
    """All that a request says, or the error in its words."""
    try:
        request = reading.read_request(body)
    except CanneryError as error:
        return type(error), str(error)
    assert len({canister.timestamp for canister in request.conversation}) <= 1
    canisters = [canister.replace(timestamp=WHEN) for canister in request.conversation]
    kinds = [type(canister.held) for canister in request.conversation]
    return request.replace(conversation=()), canisters, kinds


def assert_same_reading(body: bytes) -> None:
    found = facts(body)
    with block_by_block():
        assert found == facts(body)
    request = cannery.normalize_request(body, NAME)
    assert_same_json(cannery.nativize_request(request, NAME).body, body)
    paths: list[str] = []
    reading.read_request(body, paths)
    assert len(paths) == len(request.conversation)
    assert fast_reading.read_paths(body) in (None, paths)


def assert_same_translation(body: bytes, target: str) -> None:
    fast = cannery.translate(body, source=NAME, target=target)
    with block_by_block(), the_general_way():
        slow = cannery.translate(body, source=NAME, target=target)
    # With the order of keys: bytes do not depend on the way.
    assert json.dumps(json.loads(fast.body)) == json.dumps(json.loads(slow.body))
    assert fast.losses == slow.losses
    assert fast.repairs == slow.repairs
    assert fast.aliases == slow.aliases


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_cases(case: Case):
    assert_same_reading(case.raw)


@given(body=agent_bodies())
@settings(max_examples=300)
def test_what_agents_send(body: bytes):
    assert_same_reading(body)


@given(body=requests(NAME) | typed_requests(NAME))
def test_any_body(body: dict[str, Any]):
    assert_same_reading(json.dumps(body).encode())


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("short", [0, slicing.SHORT])
@given(body=agent_bodies() | plain_agent_bodies())
@settings(max_examples=200)
def test_translations(target: str, short: int, body: bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slicing, "SHORT", short)
        assert_same_translation(body, target)


VALUES = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        1.5,
        10**25,
        "",
        "a",
        "user",
        "text",
        [],
        {},
        [1],
        [[]],
        {"type": "text"},
    ]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path into a JSON value."""
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


@pytest.mark.parametrize("target", DIALECTS)
@given(body=agent_bodies() | plain_agent_bodies(), data=st.data())
@settings(max_examples=150)
def test_broken_bodies(target: str, body: bytes, data: st.DataObject):
    value = json.loads(body)
    *path, key = data.draw(st.sampled_from(list(places(value))))
    parent = value
    for step in path:
        parent = parent[step]
    if data.draw(st.booleans()):
        parent[key] = data.draw(VALUES)
    else:
        del parent[key]
    broken = json.dumps(value).encode()
    found = facts(broken)
    with block_by_block():
        assert found == facts(broken)
    if isinstance(found[0], cannery.Request):
        assert_same_translation(broken, target)


TAGLESS = [
    {"system": [{"text": "a"}]},
    {"messages": [{"role": "user", "content": [{"text": "a"}]}]},
    {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "image", "source": {"media_type": "image/png", "data": "AA"}}],
            }
        ]
    },
]


@pytest.mark.parametrize("fields", TAGLESS)
def test_a_block_without_a_type_is_not_guessed(fields: dict[str, Any]):
    body = json.dumps({**COMMON, **fields}).encode()
    found = facts(body)
    with block_by_block():
        assert found == facts(body)


@pytest.mark.parametrize("target", DIALECTS)
def test_tools_of_one_name(target: str):
    body = {**COMMON, "tools": [COMMON["tools"][0], COMMON["tools"][0]]}
    assert_same_translation(json.dumps(body).encode(), target)


TURNS = st.lists(
    st.tuples(st.sampled_from(["user", "assistant"]), st.sampled_from(["", " ", "a"])), max_size=4
)


@pytest.mark.parametrize("target", DIALECTS)
@given(turns=TURNS, system=st.sampled_from([None, "", " ", "Be brief."]), is_named=st.booleans())
def test_plain_chats(target: str, turns: list[tuple[str, str]], system: str | None, is_named: bool):
    body: dict[str, Any] = {
        "messages": [{"role": role, "content": text} for role, text in turns],
        "max_tokens": 5,
        **({"model": "m", "stream": True, "temperature": 1, "top_p": 0.5} if is_named else {}),
        **({} if system is None else {"system": system}),
    }
    assert_same_translation(json.dumps(body).encode(), target)


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_cases_without_a_shortcut(case: Case):
    assert_same_translation(case.raw, "openai_chat")


@given(body=agent_bodies())
def test_strict_is_strict_on_every_way(body: bytes):
    def refused() -> Any:
        try:
            cannery.translate(body, source=NAME, target="openai_chat", policy="strict")
        except CanneryError as error:
            return type(error), str(error)
        return None

    found = refused()
    with block_by_block(), the_general_way():
        assert found == refused()


@pytest.mark.parametrize("short", [0, slicing.SHORT])
def test_the_shortest_way_takes_what_agents_send(short: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slicing, "SHORT", short)
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {"n": 1.0}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    exchange = [
        {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, call]},
        {"role": "user", "content": [result, {"type": "text", "text": "Go on."}]},
    ]
    body = {"model": "m", "max_tokens": 5, "system": "s", "tools": COMMON["tools"], "messages": []}
    body["messages"] = [{"role": "user", "content": "Go."}, *([] if short else exchange)]
    assert slicing.read_slices(json.dumps(body).encode(), []) is not None


def test_what_agents_send_needs_no_general_reader(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "MessageReader", None)
    assert len(cannery.normalize_request(COMMON, NAME).conversation) == 5


def test_only_an_odd_message_needs_the_general_reader(monkeypatch: pytest.MonkeyPatch):
    seen: list[int] = []
    general = reading.MessageReader.message

    def message(self: Any, item: Any, index: int) -> None:
        seen.append(index)
        general(self, item, index)

    monkeypatch.setattr(reading.MessageReader, "message", message)
    messages = [
        *COMMON["messages"],
        {"role": "assistant", "content": "a", "x": 1},
        *COMMON["messages"][:1],
    ]
    cannery.normalize_request({**COMMON, "messages": messages, "service_tier": "auto"}, NAME)
    assert seen == [3]


@pytest.mark.parametrize(
    "text", ['{"n": 1.10, "m":1e3}', '{ "a" : 1 }', '{"s":"\\u00e9\\/"}', '{"a":1,"a":2}']
)
@pytest.mark.parametrize("odd", ["", ',"x":1'])
def test_arguments_keep_the_spelling_of_the_body(text: str, odd: str):
    call = f'{{"type":"tool_use","id":"t","name":"f","input":{text}}}'
    body = f'{{"model":"m","messages":[{{"role":"assistant","content":[{call}]{odd}}}]}}'
    request = cannery.normalize_request(body, NAME)
    assert request.conversation[1].arguments_text == text


@pytest.mark.parametrize("odd", ["", ',"x":1'])
@pytest.mark.parametrize("gap", ["", " ", "\n  "])
def test_wrapped_arguments_are_unwrapped(odd: str, gap: str):
    wrapped = f'{{{gap}"_raw_arguments":{gap}"not json"{gap}}}'
    call = f'{{"type":"tool_use","id":"t","name":"f","input":{wrapped}}}'
    body = f'{{"model":"m","messages":[{{"role":"assistant","content":[{call}]{odd}}}]}}'
    request = cannery.normalize_request(body, NAME)
    assert request.conversation[1].arguments_text == "not json"
    assert_same_json(cannery.nativize_request(request, NAME).body, body.encode())


@pytest.mark.parametrize("target", [name for name in DIALECTS if name != NAME])
def test_a_result_that_did_not_fail_loses_nothing(target: str):
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x", "is_error": False}
    messages = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    body = {"model": "m", "max_tokens": 5, "messages": messages}
    rendered = cannery.translate(body, source=NAME, target=target, policy="strict")
    assert not rendered.losses


def test_paths_of_what_agents_send_need_no_reader():
    body = json.dumps(COMMON).encode()
    assert fast_reading.read_paths(body) == [
        "system[0]",
        "messages[0].content[0]",
        "messages[1].content[0]",
        "messages[1].content[1]",
        "messages[2].content[0]",
    ]


def test_a_mark_does_not_hold_on_to_the_body():
    request = cannery.normalize_request(COMMON, NAME)
    for canister in request.conversation:
        values = [getattr(canister, name) for name in type(canister).__struct_fields__]
        assert not any(isinstance(value, msgspec.Raw) for value in values)
