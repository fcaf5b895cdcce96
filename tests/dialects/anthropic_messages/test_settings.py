"""Tools, tool choice and controls, in both directions."""

from __future__ import annotations

import json

import pytest

from cannery.translation import nativize_response, normalize_response, translate
from tests.oracles.sdk_types import validate_request, validate_response
from tests.oracles.server_rules import check_request_rules

NAME = "anthropic_messages"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def from_chat(model="claude-opus-5-5", **settings):
    body = {"model": model, "messages": [{"role": "user", "content": "q"}], **settings}
    rendered = translate(body, source="openai_chat", target=NAME)
    written = json.loads(rendered.body)
    assert validate_request(NAME, written) == []
    assert check_request_rules(NAME, written) == []
    return written, {(loss.code, loss.path) for loss in rendered.losses}


def to_chat(**settings):
    body = {"max_tokens": 9, "messages": [{"role": "user", "content": "q"}], **settings}
    return json.loads(translate(body, source=NAME, target="openai_chat").body)


def test_required_limit_is_filled_in_without_counting_as_a_loss():
    written, losses = from_chat()
    assert written["max_tokens"] == 4096
    assert losses == {("CONTROL_DEFAULTED", "$")}
    rendered = translate(
        {"model": "m", "messages": [{"role": "user", "content": "q"}]},
        source="openai_chat",
        target=NAME,
        policy="strict",
    )
    assert rendered.body


def test_temperature_above_one_is_cut():
    written, losses = from_chat("claude-sonnet-4-5", max_tokens=9, temperature=1.5)
    assert written["temperature"] == 1
    assert losses == {("CONTROL_CHANGED", "temperature")}


@pytest.mark.parametrize(
    "chat, claude",
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ({"type": "function", "function": {"name": "f"}}, {"type": "tool", "name": "f"}),
    ],
)
def test_tool_choice_keeps_its_meaning(chat, claude):
    written, _ = from_chat(max_tokens=9, tools=[TOOL], tool_choice=chat)
    assert written["tool_choice"] == claude
    tool = {"name": "f", "input_schema": {"type": "object"}}
    assert to_chat(tools=[tool], tool_choice=claude)["tool_choice"] == chat


@pytest.mark.parametrize("parallel", [True, False])
def test_parallel_switch_keeps_its_meaning(parallel):
    written, _ = from_chat(max_tokens=9, tools=[TOOL], parallel_tool_calls=parallel)
    assert written["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": not parallel}
    again = to_chat(tools=written["tools"], tool_choice=written["tool_choice"])
    assert again["parallel_tool_calls"] is parallel


def test_choice_among_no_tools_is_dropped():
    written, losses = from_chat(max_tokens=9, tool_choice="required")
    assert "tool_choice" not in written
    assert losses == {("CONTROL_DROPPED", "tool_choice")}


def test_allowed_tools_are_the_only_ones_sent():
    other = {"type": "function", "function": {"name": "g"}}
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    written, losses = from_chat(max_tokens=9, tools=[TOOL, other], tool_choice=choice)
    assert [tool["name"] for tool in written["tools"]] == ["g"]
    assert written["tool_choice"] == {"type": "any"}
    assert ("TOOL_DROPPED", "tools[0]") in losses


def test_strict_and_missing_parameters_of_a_tool():
    tool = {"type": "function", "function": {"name": "f", "strict": True}}
    written, _ = from_chat(max_tokens=9, tools=[tool])
    schema = {"type": "object", "properties": {}}
    assert written["tools"] == [{"name": "f", "input_schema": schema, "strict": True}]


def test_structured_output_survives_both_ways():
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    named = {"name": "output", "schema": schema, "strict": True}
    wanted = {"type": "json_schema", "json_schema": named}
    written, losses = from_chat(max_tokens=9, response_format=wanted)
    assert written["output_config"] == {"format": {"type": "json_schema", "schema": schema}}
    assert losses == set()
    assert to_chat(output_config=written["output_config"])["response_format"] == wanted


def test_the_name_of_a_format_is_told_when_it_is_lost():
    schema = {"name": "weather_report", "schema": {"type": "object"}, "strict": True}
    wanted = {"type": "json_schema", "json_schema": schema}
    _, losses = from_chat(max_tokens=9, response_format=wanted)
    assert losses == {("FORMAT_NAME_DROPPED", "response_format")}


def test_json_without_a_schema_is_named_as_lost():
    _, losses = from_chat(max_tokens=9, response_format={"type": "json_object"})
    assert losses == {("CONTROL_DROPPED", "response_format")}


@pytest.mark.parametrize(
    "model, effort, thinking, config",
    [
        ("claude-opus-5-5", "high", {"type": "adaptive"}, {"effort": "high"}),
        ("claude-opus-5-5", "minimal", {"type": "adaptive"}, {"effort": "low"}),
        ("claude-opus-5-5", "none", {"type": "disabled"}, None),
        ("claude-sonnet-4-5", "low", {"type": "enabled", "budget_tokens": 2048}, None),
    ],
)
def test_effort_becomes_what_the_model_takes(model, effort, thinking, config):
    written, _ = from_chat(model, max_tokens=9000, reasoning_effort=effort)
    assert written["thinking"] == thinking
    assert written.get("output_config") == config


def test_budget_leaves_room_below_the_limit():
    written, _ = from_chat("claude-sonnet-4-5", max_tokens=2000, reasoning_effort="high")
    assert written["thinking"]["budget_tokens"] == 1024
    written, losses = from_chat("claude-sonnet-4-5", max_tokens=100, reasoning_effort="high")
    assert "thinking" not in written
    assert ("CONTROL_DROPPED", "reasoning_effort") in losses


def test_thinking_gives_way_to_a_forced_tool_and_takes_the_temperature_with_it():
    settings = {"max_tokens": 9000, "reasoning_effort": "high", "tools": [TOOL]}
    written, losses = from_chat(**settings, tool_choice="required")
    assert "thinking" not in written
    assert ("CONTROL_DROPPED", "reasoning_effort") in losses
    written, losses = from_chat(**settings, temperature=0.2)
    assert "temperature" not in written
    assert ("CONTROL_DROPPED", "temperature") in losses


def test_user_and_stops_survive_and_the_rest_is_named():
    settings = {"user": "u", "stop": ["x", " "], "seed": 1, "n": 1, "metadata": {"a": "b"}}
    written, losses = from_chat(max_tokens=9, **settings)
    assert written["metadata"] == {"user_id": "u"}
    assert written["stop_sequences"] == ["x"]
    assert losses == {
        ("CONTROL_CHANGED", "stop"),
        ("CONTROL_DROPPED", "seed"),
        ("CONTROL_DROPPED", "metadata"),
        ("DEFAULT_DROPPED", "n"),
    }


def test_unknown_settings_are_named_abroad():
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]}
    body = {**asked, "container": "c", "x_new": 1}
    rendered = translate(body, source=NAME, target="openai_chat")
    assert {loss.path for loss in rendered.losses} == {"container", "x_new"}


def test_cached_tokens_count_as_input_and_are_told_apart_again():
    usage = {"input_tokens": 5, "cache_creation_input_tokens": 128, "cache_read_input_tokens": 2048}
    body = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": []}
    body |= {"stop_reason": "end_turn", "usage": {**usage, "output_tokens": 4}}
    response = normalize_response(body, NAME)
    assert response.usage.input == 2181
    assert json.loads(nativize_response(response, NAME).body)["usage"]["input_tokens"] == 5
    chat = json.loads(nativize_response(response, "openai_chat").body)["usage"]
    assert chat["prompt_tokens"] == 2181


@pytest.mark.parametrize(
    "message, finish, expected",
    [
        ({"content": "a"}, "stop", "end_turn"),
        ({"content": None, "refusal": "no"}, "stop", "refusal"),
        ({"content": "a"}, "length", "max_tokens"),
        ({"content": "a"}, "content_filter", "refusal"),
    ],
)
def test_finish_reason_is_one_that_clients_rely_on(message, finish, expected):
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    body = {"id": "1", "model": "m", "choices": [choice]}
    rendered = translate(body, source="openai_chat", target=NAME, kind="response")
    written = json.loads(rendered.body)
    assert written["stop_reason"] == expected
    assert validate_response(NAME, written) == []
