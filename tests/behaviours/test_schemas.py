"""Schemas of tools and answers are what the target's server takes, and say the same on the way back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.lib._parse._transform import transform_schema

from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, chat, claude, told, user

DEFAULTED = ("CONTROL_DEFAULTED", "$")
TEXT: dict[str, Any] = {"type": "string"}
STRICT = {
    "type": "object",
    "properties": {"a": TEXT, "b": {"anyOf": [{"$ref": "#/$defs/c"}, {"type": "null"}]}},
    "required": ["a", "b"],
    "additionalProperties": False,
    "$defs": {
        "c": {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    },
}
OPEN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "array", "items": {"type": "object", "properties": {"b": TEXT}}},
        "c": {"$ref": "#/$defs/d"},
    },
    "$defs": {"d": {"type": ["object", "null"], "properties": {"type": TEXT}}},
}
GEMINI_OPEN = {
    "type": "OBJECT",
    "properties": {"a": {"type": "STRING", "nullable": True}},
    "required": ["a"],
}


def wanted(schema: Any, **facts: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "output", "schema": schema, **facts}}


def asked(schema: Any, source: str) -> dict[str, Any]:
    """A request for an answer of a schema."""
    if source == CHAT:
        return chat(user("q"), response_format=wanted(schema))
    if source == RESPONSES:
        form = {"type": "json_schema", "name": "output", "schema": schema}
        return {"model": "m", "input": "q", "text": {"format": form}}
    config = {"responseMimeType": "application/json", "responseSchema": schema}
    return {"contents": [{"parts": [{"text": "q"}]}], "generationConfig": config}


def held(found: Any) -> Any:
    return found.body["output_config"]["format"]["schema"]


def are_closed(schema: Any) -> bool:
    """Whether every object of a schema is closed, as Claude demands."""
    if not isinstance(schema, dict):
        return True
    kind = schema.get("type")
    is_object = kind == "object" or (isinstance(kind, list) and "object" in kind)
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    inner += [*schema.get("anyOf", ()), schema.get("items")]
    is_closed = not is_object or schema.get("additionalProperties") is False
    return is_closed and all(map(are_closed, inner))


# --- answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("source, schema", [(CHAT, OPEN), (RESPONSES, OPEN), (GEMINI, GEMINI_OPEN)])
def test_every_object_of_an_answer_is_closed_for_claude(source: str, schema: Any):
    found = told(asked(schema, source), source, CLAUDE, model="claude-opus-4-6")
    assert are_closed(held(found))
    assert found.losses == set()


def test_what_claude_does_not_hold_an_answer_to_stands_in_the_description():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 1, "description": "A number"},
            "b": {"type": "string", "format": "phone", "maxLength": 3},
            "c": {"type": "array", "items": TEXT, "minItems": 1},
            "d": {"oneOf": [TEXT, {"type": "null"}]},
        },
        "required": ["a"],
        "additionalProperties": {"type": "string"},
        "$schema": "https://json-schema.org/draft/2020-12/schema",
    }
    found = told(asked(schema, CHAT), CHAT, CLAUDE)
    fields = held(found)["properties"]
    assert fields["a"] == {"type": "integer", "description": "A number\n\n{minimum: 1}"}
    assert fields["b"] == {"type": "string", "description": '{format: "phone", maxLength: 3}'}
    assert fields["c"] == schema["properties"]["c"]  # type: ignore[index]
    assert fields["d"] == {"anyOf": [TEXT, {"type": "null"}]}
    assert are_closed(held(found))
    assert found.losses == {"CONTROL_CHANGED"}
    del schema["$schema"]
    ours, theirs = held(found), transform_schema(schema)
    assert ours.keys() == theirs.keys()
    assert {name: field.keys() for name, field in ours["properties"].items()} == {
        name: field.keys() for name, field in theirs["properties"].items()
    }


@pytest.mark.parametrize("other", [CLAUDE, GEMINI, RESPONSES])
def test_a_strict_answer_is_strict_when_it_comes_back(other: str):
    body = chat(user("q"), response_format=wanted(STRICT, strict=True))
    there = told(body, CHAT, other, model="m")
    assert there.losses == set()
    back = told(there.body, other, CHAT, model="m")
    assert back.body["response_format"] == body["response_format"]


def test_an_answer_is_not_strict_if_its_schema_cannot_be():
    found = told(asked(GEMINI_OPEN, GEMINI), GEMINI, CHAT, model="m")
    assert "strict" not in found.body["response_format"]["json_schema"]
    assert found.losses == set()


# --- tools -------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"description": "none"}])
@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_a_tool_without_properties_says_so_to_openai(schema: dict[str, Any], target: str):
    found = told(claude(user("q"), tools=[{"name": "f", "input_schema": schema}]), CLAUDE, target)
    tool = found.body["tools"][0]
    expected = {**schema, "type": "object", "properties": {}}
    assert (tool.get("function") or tool)["parameters"] == expected
    assert found.losses == set()


@pytest.mark.parametrize("source", [CHAT, RESPONSES, CLAUDE])
@pytest.mark.parametrize("target", [CHAT, RESPONSES, CLAUDE])
@pytest.mark.parametrize("schema", [STRICT, {**STRICT, "required": ["a"]}])
def test_a_strict_tool_stays_strict(source: str, target: str, schema: dict[str, Any]):
    function = {"name": "f", "parameters": schema, "strict": True}
    asked = chat(user("q"), tools=[{"type": "function", "function": function}])
    found = told(told(asked, CHAT, source).body, source, target)
    tool = found.body["tools"][0]
    tool = tool.get("function") or tool
    assert tool["strict"] is True
    assert (tool.get("parameters") or tool["input_schema"]) == schema
    assert found.losses <= {"CONTROL_DEFAULTED"}


@pytest.mark.parametrize("target", [RESPONSES, CLAUDE, GEMINI])
def test_a_format_of_a_function_is_an_unknown_field(target: str):
    function = {"name": "f", "parameters": {"type": "object", "properties": {}}, "format": {"a": 1}}
    found = told(
        chat(user("q"), tools=[{"type": "function", "function": function}]), CHAT, target, model="m"
    )
    assert ("FIELD_DROPPED", "tools[0].function.format") in found.paths


LARK = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /x/"}}


@pytest.mark.parametrize("target", [CLAUDE, GEMINI])
@pytest.mark.parametrize("source", [CHAT, RESPONSES])
def test_the_grammar_of_a_custom_tool_is_named_where_there_are_none(source: str, target: str):
    flat = {"type": "grammar", **LARK["grammar"]}  # type: ignore[dict-item]
    if source == CHAT:
        body = chat(user("q"), tools=[{"type": "custom", "custom": {"name": "k", "format": LARK}}])
    else:
        tools = [{"type": "custom", "name": "k", "format": flat}]
        body = {"model": "m", "input": "q", "tools": tools}
    path = "tools[0].custom.format" if source == CHAT else "tools[0].format"
    found = told(body, source, target, model="m")
    assert found.paths >= {("FREEFORM_WRAPPED", "tools[0]"), ("FIELD_DROPPED", path)}


def test_what_stands_beside_functions_is_named_by_its_own_path():
    group = {"functionDeclarations": [{"name": "f"}], "googleSearch": {}}
    body = {"contents": [{"parts": [{"text": "q"}]}], "tools": [group, {"urlContext": {}}]}
    lost = {("TOOL_DROPPED", "tools[0].googleSearch"), ("TOOL_DROPPED", "tools[1].urlContext")}
    assert told(body, GEMINI, CHAT, model="m").paths == lost


def test_a_format_that_is_no_word_is_said_in_the_description():
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": {"x": 1}}}}
    form = {"type": "json_schema", "name": "n", "schema": schema}
    body = {"model": "m", "input": "q", "text": {"format": form}}
    assert '{\\"x\\":1}' in json.dumps(told(body, RESPONSES, CLAUDE).body)
