"""Bodies with values of the wrong type: refused with their path, or kept as they are; never taken for nothing."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from cannery.errors import DialectError
from cannery.translation import nativize_request, normalize_request, translate

NAME = "anthropic_messages"
ASKED = {"role": "user", "content": "Hi"}

WRONG = [
    ({"messages": [ASKED], "tools": {"name": "f"}}, "tools"),
    ({"messages": [ASKED], "tools": "f"}, "tools"),
    ({"messages": [ASKED], "tools": ["f"]}, "tools[0]"),
    ({"messages": {"role": "user", "content": "Hi"}}, "messages"),
    ({"messages": ["Hi"]}, "messages[0]"),
    ({"messages": [ASKED], "system": True}, "system"),
    ({"messages": [ASKED], "system": {"type": "text", "text": "S"}}, "system"),
    ({"messages": [ASKED], "system": ["S"]}, "system[0]"),
    ({"messages": [{"role": "user", "content": {"type": "text"}}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ({"messages": [ASKED, {"role": "assistant", "content": True}]}, "messages[1].content"),
    ({"messages": [ASKED, {"role": "assistant", "content": [1]}]}, "messages[1].content[0]"),
]


@pytest.mark.parametrize("body, path", WRONG, ids=[path for _, path in WRONG])
def test_a_wrong_type_is_an_error_with_its_path(body: dict[str, Any], path: str):
    with pytest.raises(DialectError) as caught:
        normalize_request({"max_tokens": 5, **body}, NAME)
    assert caught.value.path == path


KEPT = [
    {"temperature": "hot"},
    {"stop_sequences": None},
    {"stop_sequences": "END"},
    {"tools": []},
    {"tools": None},
    {"system": None},
    {"system": []},
    {"metadata": "me"},
    {"metadata": {"user_id": 5}},
    {"metadata": {"user_id": "u", "more": 1}},
    {"tool_choice": {"type": "none", "disable_parallel_tool_use": True}},
    {"tool_choice": {"type": "later", "disable_parallel_tool_use": True}},
    {"thinking": {"type": "adaptive", "budget_tokens": 3, "display": "omitted"}},
    {"thinking": {"type": "dreaming"}},
    {"output_config": {"effort": "high", "more": 1}},
    {"output_config": {"effort": 3}},
    {"output_config": {"format": {"type": "json_schema", "schema": {}, "name": "n"}, "z": 1}},
    {"output_config": {"format": "text"}, "output_format": {"type": "json_schema", "schema": {}}},
    {"output_format": {"type": "json_schema", "schema": {}}},
    {"output_format": {"type": "json_schema", "schema": {}}, "output_config": {"effort": "low"}},
    {"output_format": {"type": "json_schema", "schema": {}}, "output_config": {"z": 1}},
    {"output_format": {"type": "json_schema", "schema": {}}, "output_config": None},
]


@pytest.mark.parametrize("settings", KEPT, ids=repr)
def test_the_same_dialect_gets_its_settings_back(settings: dict[str, Any]):
    body = {"model": "claude-opus-4-8", "max_tokens": 5, "messages": [ASKED], **settings}
    assert orjson.loads(nativize_request(normalize_request(body, NAME), NAME).body) == body


LOST = [
    ({"temperature": "hot"}, "temperature"),
    ({"stop_sequences": "END"}, "stop_sequences"),
    ({"metadata": "me"}, "metadata"),
    ({"metadata": {"user_id": 5}}, "metadata.user_id"),
    ({"metadata": {"user_id": "u", "more": 1}}, "metadata.more"),
    ({"stream": "yes"}, "stream"),
    ({"tool_choice": "auto"}, "tool_choice"),
    ({"thinking": "on"}, "thinking"),
    ({"output_config": "high"}, "output_config"),
    ({"output_config": {"effort": 3}}, "output_config.effort"),
    ({"output_config": {"effort": "high", "more": 1}}, "output_config.more"),
]


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "gemini_generate"])
@pytest.mark.parametrize("settings, path", LOST, ids=[path for _, path in LOST])
def test_a_setting_that_is_not_read_is_named(settings: dict[str, Any], path: str, target: str):
    body = {"model": "m", "max_tokens": 5, "messages": [ASKED], **settings}
    losses = translate(body, source=NAME, target=target, model="gpt-5").losses
    assert path in {loss.path for loss in losses if loss.severity == "lost"}


def test_a_usage_that_is_not_read_is_named():
    body = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": [],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": "many",
    }
    rendered = translate(body, source=NAME, target="openai_chat", kind="response")
    assert [loss.path for loss in rendered.losses] == ["usage"]
    assert orjson.loads(translate(body, source=NAME, target=NAME, kind="response").body) == body


def test_values_in_schemas_and_inputs_keep_their_spelling():
    body = (
        b'{"max_tokens":5,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":'
        b'[{"type":"tool_use","id":"t","name":"f","input":{ "x": 1.10 }}]},{"role":"user",'
        b'"content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]}],'
        b'"tools":[{"name":"f","input_schema":{"type": "object", "maximum": 1.10}}]}'
    )
    rendered = translate(body, source=NAME, target="openai_chat", model="gpt-5").body
    assert rb'"arguments":"{\"x\":1.10}"' in rendered
    again = translate(body, source=NAME, target=NAME).body
    assert b'"input":{"x":1.10}' in again
    assert b'"input_schema":{"type":"object","maximum":1.10}' in again


@pytest.mark.parametrize(
    "given, arguments",
    [
        ({"input": "x"}, "x"),
        ({"input": [1]}, "[1]"),
        ({"input": 5}, "5"),
        ({"input": None}, "{}"),
        ({}, "{}"),
        ({"input": {}}, "{}"),
    ],
)
def test_an_input_of_any_type_is_said_and_not_lost(given: dict[str, Any], arguments: str):
    called = {"type": "tool_use", "id": "t", "name": "f", **given}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "r"}
    turns = [{"role": "assistant", "content": [called]}, {"role": "user", "content": [result]}]
    body = {"model": "m", "max_tokens": 5, "messages": [ASKED, *turns]}
    assert orjson.loads(translate(body, source=NAME, target=NAME).body) == body
    rendered = translate(body, source=NAME, target="openai_chat", model="gpt-5")
    [call] = orjson.loads(rendered.body)["messages"][1]["tool_calls"]
    assert call["function"]["arguments"] == arguments
    assert rendered.losses == ()


def test_a_lone_surrogate_in_an_input_is_mended():
    body = (
        rb'{"max_tokens":5,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":'
        rb'[{"type":"tool_use","id":"t","name":"f","input":{"x":"\ud800"}}]}]}'
    )
    request = normalize_request(body, NAME)
    assert request.conversation[-1].arguments == {"x": "\ufffd"}
