"""Google's server takes one object where a list is usual: tools and declarations given so are read like any others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cannery.translation import nativize_request, normalize_request, translate
from tests.oracles.json_values import same

NAME = "gemini_generate"
FUNCTION = {"name": "f", "description": "d", "parametersJsonSchema": {"type": "object"}}
OWN = {"name": "g", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}}
SHAPES: list[Any] = [
    {"functionDeclarations": [FUNCTION, OWN]},
    {"function_declarations": [FUNCTION], "googleSearch": {}},
    {"functionDeclarations": FUNCTION},
    [{"function_declarations": OWN}, {"functionDeclarations": [FUNCTION]}],
]


def body_of(tools: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": "q"}]}], "tools": tools}


@pytest.mark.parametrize("tools", SHAPES, ids=str)
def test_they_come_back(tools):
    body = body_of(tools)
    assert same(json.loads(translate(body, source=NAME, target=NAME).body), body)


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "anthropic_messages"])
@pytest.mark.parametrize("tools", SHAPES, ids=str)
def test_no_function_is_lost(tools, target):
    written = json.loads(translate(body_of(tools), source=NAME, target=target).body)
    groups = tools if isinstance(tools, list) else [tools]
    declared = [
        item
        for group in groups
        for key in group.keys() & {"functionDeclarations", "function_declarations"}
        for item in (group[key] if isinstance(group[key], list) else [group[key]])
    ]
    names = {tool.get("function", tool).get("name") for tool in written["tools"]}
    assert names - {None, "web_search"} == {item["name"] for item in declared}


def test_losses_name_the_place():
    tools = {"functionDeclarations": [{**FUNCTION, "behavior": "BLOCKING"}], "googleSearch": {}}
    found = translate(body_of(tools), source=NAME, target="openai_chat")
    assert {loss.path for loss in found.losses if loss.severity == "lost"} == {
        "tools.functionDeclarations[0].behavior",
        "tools.googleSearch",
    }


def test_a_schema_kept_to_the_letter_gives_way_to_a_new_one():
    odd = {"type": "OBJECT", "properties": {"a": {"type": "string", "min_length": "3"}}}
    body = body_of([{"functionDeclarations": [{"name": "f", "parameters": odd}]}])
    request = normalize_request(body, NAME)
    assert same(json.loads(nativize_request(request, NAME).body), body)
    changed = request.tools[0].replace(schema={"type": "object", "properties": {}})
    edited = request.replace(tools=(changed,))
    (group,) = json.loads(nativize_request(edited, NAME).body)["tools"]
    assert group["functionDeclarations"][0]["parameters"] == {"type": "OBJECT", "properties": {}}
