"""Hosted tools of Interactions in every direction: definitions, histories, answers and streams."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from cannery.hosting import hosted_uses
from cannery.messages.hosted import Fetch, McpCall, Output, Run, Search
from tests.oracles.sdk_types import validate_request, validate_response

NAME = "gemini_interactions"
MODEL = "gemini-3.5-flash"
ASKED = {"model": MODEL, "input": "What is new?"}
MCP = {
    "type": "mcp_server",
    "name": "srv",
    "url": "https://example.com/mcp",
    "headers": {"Authorization": "Bearer t"},
    "allowed_tools": [{"tools": ["a", "b"]}],
}


@pytest.mark.parametrize(
    "tool, target, expected",
    [
        ({"type": "google_search"}, "openai_responses", {"type": "web_search"}),
        ({"type": "google_search"}, "gemini_generate", {"googleSearch": {}}),
        ({"type": "code_execution"}, "gemini_generate", {"codeExecution": {}}),
        ({"type": "url_context"}, "gemini_generate", {"urlContext": {}}),
    ],
)
def test_a_definition_is_said_elsewhere_and_comes_back(tool: Any, target: str, expected: Any):
    there = cannery.translate({**ASKED, "tools": [tool]}, source=NAME, target=target)
    written = json.loads(there.body)
    assert [each.items() >= expected.items() for each in written["tools"]] == [True]
    assert [loss.code for loss in there.losses if loss.severity != "info"] == []
    back = json.loads(cannery.translate(there.body, source=target, target=NAME).body)
    assert back["tools"] == [tool]
    assert validate_request(NAME, {"model": MODEL, **back}) == []


def test_an_mcp_server_keeps_its_key_and_its_tools():
    there = cannery.translate({**ASKED, "tools": [MCP]}, source=NAME, target="openai_responses")
    (tool,) = json.loads(there.body)["tools"]
    assert (tool["server_label"], tool["authorization"]) == ("srv", "t")
    assert tool["allowed_tools"] == ["a", "b"]
    back = cannery.translate(there.body, source="openai_responses", target=NAME)
    assert json.loads(back.body)["tools"] == [MCP]


STEPS = [
    {"type": "google_search_call", "id": "s", "arguments": {"queries": ["q"]}, "signature": "c2ln"},
    {"type": "google_search_result", "call_id": "s", "result": [{"search_suggestions": "<p>"}]},
    {"type": "url_context_call", "id": "u", "arguments": {"urls": ["https://e.org"]}},
    {"type": "url_context_result", "call_id": "u", "result": [{"url": "https://e.org"}]},
    {"type": "code_execution_call", "id": "c", "arguments": {"code": "1", "language": "python"}},
    {"type": "code_execution_result", "call_id": "c", "result": "1\n"},
    {
        "type": "mcp_server_tool_call",
        "id": "m",
        "name": "run",
        "server_name": "srv",
        "arguments": {"a": 1},
    },
    {"type": "mcp_server_tool_result", "call_id": "m", "name": "run", "result": "ok"},
]
ANSWER = {
    "id": "v1_a",
    "status": "completed",
    "object": "interaction",
    "model": MODEL,
    "steps": [*STEPS, {"type": "model_output", "content": [{"type": "text", "text": "Done."}]}],
}


def test_steps_have_a_meaning():
    uses = hosted_uses(cannery.normalize_response(ANSWER, NAME).canisters)
    assert [use.call for use in uses] == [
        Search(("q",)),
        Fetch(("https://e.org",)),
        Run("1"),
        McpCall("srv", "run", '{"a":1}'),
    ]
    assert uses[2].result == Output("1\n")
    assert uses[3].result == Output("ok")


@pytest.mark.parametrize(
    "target", ["openai_responses", "anthropic_messages", "gemini_generate", NAME]
)
def test_an_answer_with_uses_is_valid_elsewhere_and_shown_again(target: str):
    rendered = cannery.translate(ANSWER, source=NAME, target=target, kind="response")
    body = json.loads(rendered.body)
    assert validate_response(target, body, beta=True) == []
    if target == NAME:
        assert body == ANSWER
        return
    back = cannery.translate(body, source=target, target=NAME, kind="response")
    written = json.loads(back.body)
    assert validate_response(NAME, written) == []
    assert "Done." in back.body.decode()
    kinds = {step["type"] for step in written["steps"]}
    assert {"google_search_call", "google_search_result", "code_execution_call"} <= kinds


def test_code_of_another_history_is_sent_where_it_is_offered():
    parts = [
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
        {"text": "1"},
    ]
    body = {
        "contents": [
            {"role": "user", "parts": [{"text": "Run it"}]},
            {"role": "model", "parts": parts},
            {"role": "user", "parts": [{"text": "Again"}]},
        ],
        "tools": [{"codeExecution": {}}],
    }
    written = json.loads(cannery.translate(body, source="gemini_generate", target=NAME).body)
    kinds = [step["type"] for step in written["input"]]
    assert kinds == [
        *(
            "user_input",
            "code_execution_call",
            "code_execution_result",
            "model_output",
            "user_input",
        )
    ]
    assert validate_request(NAME, {"model": MODEL, **written}) == []
