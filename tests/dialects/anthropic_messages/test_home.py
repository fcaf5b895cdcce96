"""Messages at home: every body comes back as it was, also after its neighbours have changed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cannery.messages.builders import user
from cannery.messages.conversation import Conversation
from cannery.messages.role import Role
from cannery.translation import (
    nativize_request,
    nativize_response,
    normalize_request,
    normalize_response,
)
from tests.oracles.corpus import request_cases, response_cases
from tests.oracles.json_values import same
from tests.strategies.bodies import requests, responses

NAME = "anthropic_messages"
# Half of a surrogate pair is no Unicode text: it becomes U+FFFD before anything is hashed or sent.
CASES = [case for case in request_cases(NAME) if case.id != "lone_surrogate"]


def again(body):
    return json.loads(nativize_request(normalize_request(body, NAME), NAME).body)


def asking(*messages, **more):
    return {"model": "claude-opus-5-5", "max_tokens": 9, "messages": list(messages), **more}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_request_comes_back(case):
    rendered = nativize_request(normalize_request(case.raw, NAME), NAME)
    assert same(json.loads(rendered.body), case.body)
    assert rendered.losses == ()
    assert rendered.repairs == ()


@pytest.mark.parametrize("case", response_cases(NAME), ids=lambda case: case.id)
def test_response_comes_back(case):
    rendered = nativize_response(normalize_response(case.raw, NAME), NAME)
    assert same(json.loads(rendered.body), case.body)
    assert rendered.losses == ()


@settings(max_examples=25)
@given(requests(NAME))
def test_any_request_comes_back(body):
    assert same(again(json.dumps(body)), _clean(body))


@settings(max_examples=25)
@given(responses(NAME))
def test_any_response_comes_back(body):
    rendered = nativize_response(normalize_response(json.dumps(body), NAME), NAME)
    assert same(json.loads(rendered.body), _clean(body))


@settings(max_examples=25)
@given(st.data())
def test_what_stays_is_untouched_when_a_neighbour_goes(data):
    case = data.draw(st.sampled_from(CASES))
    request = normalize_request(case.raw, NAME)
    turns = request.conversation.turns()
    gone = data.draw(st.integers(0, len(turns) - 1))
    kept = [canister for index, turn in enumerate(turns) if index != gone for canister in turn]
    changed = request.replace(conversation=Conversation(kept))
    messages = json.loads(nativize_request(changed, NAME).body)["messages"]
    assert all(message in case.body["messages"] for message in messages)


def test_inserted_message_leaves_the_others_as_they_were():
    body = asking({"role": "user", "content": [{"type": "text", "text": "a", "x": 1}], "y": 2})
    request = normalize_request(body, NAME)
    changed = request.replace(conversation=request.conversation.append(user("b")))
    written = json.loads(nativize_request(changed, NAME).body)["messages"]
    assert written == [*body["messages"], {"role": "user", "content": "b"}]


@pytest.mark.parametrize(
    "system",
    [
        "S",
        "",
        [{"type": "text", "text": "S"}],
        [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        [{"type": "text", "text": "a"}, {"type": "hologram", "beam": 1}],
        [],
        None,
    ],
)
def test_system_field_keeps_its_shape(system):
    body = asking({"role": "user", "content": "q"}, system=system)
    assert same(again(body), body)


@pytest.mark.parametrize("content", ["x", [{"type": "text", "text": "x"}], []])
def test_leading_system_message_does_not_become_the_system_field(content):
    body = asking({"role": "system", "content": content}, {"role": "user", "content": "q"})
    assert same(again(body), body)
    assert same(again({**body, "system": "S"}), {**body, "system": "S"})
    roles = [canister.role for canister in normalize_request(body, NAME).conversation]
    assert roles == [Role.Supervisor, Role.User]


@pytest.mark.parametrize(
    "content", [{}, {"content": ""}, {"content": []}, {"content": None}, {"content": "r"}]
)
@pytest.mark.parametrize("flag", [{}, {"is_error": True}, {"is_error": False}, {"is_error": None}])
def test_result_keeps_its_content_and_flag(content, flag):
    result = {"type": "tool_result", "tool_use_id": "t", **content, **flag}
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    body = asking({"role": "assistant", "content": [call]}, {"role": "user", "content": [result]})
    assert same(again(body), body)


@pytest.mark.parametrize(
    "value", [{}, {"_raw_arguments": "{"}, {"_raw_arguments": "{}"}, {"input": "x"}, None, [1], "x"]
)
def test_any_input_of_a_call_comes_back(value):
    call = {"type": "tool_use", "id": "t", "name": "f", "input": value}
    body = asking({"role": "user", "content": "q"}, {"role": "assistant", "content": [call]})
    assert same(again(body), body)


def test_block_that_looks_like_text_is_not_written_as_a_string():
    body = asking({"role": "user", "content": [{"type": "hologram", "text": "x"}]})
    assert same(again(body), body)


def test_long_document_is_kept_once():
    text = "words " * 1000
    source = {"type": "content", "content": text}
    blocks = [
        {"type": "document", "source": source, "x": 1},
        {"type": "search_result", "source": "s", "title": "t", "content": [_text(text)], "x": 1},
    ]
    body = asking({"role": "user", "content": blocks})
    for canister in normalize_request(body, NAME).conversation:
        assert len(canister.residue.part) < 100
    assert same(again(body), body)


def _text(text):
    return {"type": "text", "text": text}


def _clean(value):
    if isinstance(value, str):
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in value)
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list) else value
