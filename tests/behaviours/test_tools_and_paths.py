"""Tools and settings in old or odd spellings: what is sent is legal, losses lead to the paths of the body."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, chat, told, user
from tests.oracles.sdk_types import validate_request

F: dict[str, Any] = {"name": "f", "parameters": {"type": "object", "properties": {}}}
LARK = {"syntax": "lark", "definition": "start: /x/"}


COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")


@pytest.mark.parametrize("target", [CHAT, RESPONSES, CLAUDE])
@pytest.mark.parametrize("count", COUNTS)
def test_a_count_in_quotes_is_sent_as_a_number_and_not_lost(count: str, target: str):
    field = {"type": "ARRAY", count: "2", "items": {"type": "STRING", count: 3}}
    schema = {"type": "OBJECT", "properties": {"a": field}}
    body = {
        "contents": [{"role": "user", "parts": [{"text": "q"}]}],
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": schema}]}],
        "generationConfig": {"responseMimeType": "application/json", "responseSchema": schema},
    }
    found = told(body, GEMINI, target, model="m")
    # Claude holds no answer to such a count; there it stands in the description.
    assert found.rendered.body.decode().count(f'"{count}":2') == (1 if target == CLAUDE else 2)
    losses = {("CONTROL_CHANGED", "generationConfig.responseMimeType")}
    assert found.paths - {("CONTROL_DEFAULTED", "$")} == (losses if target == CLAUDE else set())
    assert told(body, GEMINI, GEMINI).body == body


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
def test_the_limit_is_named_as_the_body_names_it(key: str):
    found = told(chat(user("q"), **{key: 5}), CHAT, "sharegpt")
    assert ("CONTROL_DROPPED", key) in found.paths


def test_a_format_is_named_as_the_body_names_it():
    schema = {"type": "json_schema", "schema": {"type": "object"}}
    asked = {"model": "claude-opus-5-5", "max_tokens": 5, "messages": [user("q")]}
    found = told({**asked, "output_format": schema}, CLAUDE, "sharegpt")
    assert ("CONTROL_DROPPED", "output_format") in found.paths
    config = {"responseSchema": {"type": "OBJECT"}}
    body = {"contents": [{"role": "user", "parts": [{"text": "q"}]}], "generationConfig": config}
    assert ("CONTROL_DROPPED", "generationConfig.responseSchema") in told(
        body, GEMINI, "sharegpt"
    ).paths


LEGACY = chat(
    user("q"),
    {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "f", "arguments": "{}", "x_call": 1},
    },
    {"role": "function", "name": "f", "content": "r", "x_result": 1},
    user("q"),
    functions=[{**F, "x_tool": 1}],
    function_call={"name": "f", "x_choice": 1},
)


@pytest.mark.parametrize("target", [CLAUDE, GEMINI, RESPONSES])
def test_fields_beside_legacy_calls_are_named_where_they_stand(target: str):
    lost = {path for code, path in told(LEGACY, CHAT, target).paths if code == "FIELD_DROPPED"}
    assert lost == {
        "messages[1].function_call.x_call",
        "messages[2].x_result",
        "functions[0].x_tool",
        "function_call.x_choice",
    }


def test_legacy_fields_come_back():
    request = cannery.normalize_request(LEGACY, CHAT)
    assert json.loads(cannery.nativize_request(request, CHAT).body) == LEGACY


@pytest.mark.parametrize("target", [CLAUDE, GEMINI, RESPONSES])
def test_a_second_tool_of_the_same_name_is_not_sent(target: str):
    tools = [{"type": "function", "function": F}, {"type": "function", "function": F}]
    found = told(chat(user("q"), tools=tools), CHAT, target)
    assert ("TOOL_DROPPED", "tools[1]") in found.paths
    assert json.dumps(found.body["tools"]).count('"f"') == 1


def test_tools_of_the_same_name_come_back():
    tools = [{"type": "function", "function": F}, {"type": "function", "function": F}]
    request = cannery.normalize_request(chat(user("q"), tools=tools), CHAT)
    assert json.loads(cannery.nativize_request(request, CHAT).body)["tools"] == tools


@pytest.mark.parametrize(
    "given, sent",
    [
        ({"type": "text"}, {"type": "text"}),
        ({"type": "grammar", "grammar": LARK}, {"type": "grammar", **LARK}),
        ({"grammar": LARK}, {"type": "grammar", **LARK}),
        ({"type": "grammar", "grammar": {**LARK, "x_new": 1}}, {"type": "grammar", **LARK}),
        ({"type": "grammar", "grammar": {"syntax": "lark"}}, None),
        ({"type": "grammar", "grammar": {**LARK, "syntax": None}}, None),
        ({}, None),
    ],
)
def test_a_custom_tool_has_a_format_that_the_server_takes(given: Any, sent: Any):
    custom = {"type": "custom", "custom": {"name": "c", "format": given}}
    found = told(chat(user("q"), tools=[custom]), CHAT, RESPONSES)
    assert found.body["tools"][0].get("format") == sent
    assert validate_request(RESPONSES, found.body) == []
    is_whole = sent is not None and "x_new" not in json.dumps(given)
    assert found.losses == (set() if is_whole else {"FIELD_DROPPED"})


def test_metadata_of_other_types_becomes_text():
    body = {"model": "m", "input": "q", "metadata": {"a": 1, "b": "c"}}
    found = told(body, RESPONSES, CHAT)
    assert found.body["metadata"] == {"a": "1", "b": "c"}
    assert ("CONTROL_RESPELLED", "metadata") in found.paths


def test_an_image_that_no_server_can_fetch_is_named():
    part = {"type": "input_image", "detail": "auto", "image_url": "ftp://e.org/a.png"}
    found = told({"model": "m", "input": [user([part])]}, RESPONSES, CHAT)
    assert found.losses == {"REFERENCE_UNRESOLVABLE"}


@pytest.mark.parametrize("target", [CHAT, RESPONSES, CLAUDE])
def test_a_model_without_a_name_is_unknown(target: str):
    source = CHAT if target != CHAT else RESPONSES
    body = {"model": "", "input": "q"} if source == RESPONSES else chat(user("q"), model="")
    found = told(body, source, target)
    assert found.body["model"] == "unknown"
    assert "MODEL_UNKNOWN" in found.losses


@pytest.mark.parametrize("target", [RESPONSES, "sharegpt"])
def test_a_request_of_which_nothing_is_left_is_refused(target: str):
    part = {"somethingNew": {"name": "a", "response": {"temp": 3}}}
    body = {"contents": [{"role": "model", "parts": [part]}]}
    with pytest.raises(cannery.EmptyConversationError):
        cannery.translate(body, source=GEMINI, target=target)


@pytest.mark.parametrize("strict", [True, False, None])
def test_a_strict_function_is_a_named_loss_where_no_function_is_strict(strict: Any):
    body = chat(user("q"), tools=[{"type": "function", "function": {**F, "strict": strict}}])
    found = told(body, CHAT, "ollama_chat")
    (tool,) = found.body["tools"]
    assert "strict" not in tool["function"]
    lost = {("FIELD_DROPPED", "tools[0].function.strict")} if strict else set()
    assert found.paths == lost
