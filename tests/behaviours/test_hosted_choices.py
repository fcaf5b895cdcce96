"""The choice of a hosted tool in every direction: the target's own name for it, or a loss."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES
from tests.oracles.sdk_types import validate_request

INTERACTIONS = "gemini_interactions"
MODELS = {
    CHAT: "gpt-5-search-api",
    CLAUDE: "claude-opus-4-8",
    GEMINI: "gemini-3-pro-preview",
    INTERACTIONS: "gemini-3-pro-preview",
    RESPONSES: "gpt-5.5",
}
Object = dict[str, Any]


def claude(tool: str, name: str) -> Object:
    return {
        "model": MODELS[CLAUDE],
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "q"}],
        "tools": [{"type": tool, "name": name}],
        "tool_choice": {"type": "tool", "name": name},
    }


def responses(tool: Object, choice: Object) -> Object:
    return {"model": MODELS[RESPONSES], "input": "q", "tools": [tool], "tool_choice": choice}


SEARCH = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}
CODE = {"type": "code_interpreter", "container": {"type": "auto"}}
DISPLAY = {"display_width": 10, "display_height": 10, "environment": "linux"}
# The source, its body, and what each target is told; None for a loss.
CHOSEN: dict[str, tuple[str, Object, dict[str, Any]]] = {
    "search of Messages": (
        CLAUDE,
        claude("web_search_20250305", "web_search"),
        {RESPONSES: SEARCH, CHAT: None, GEMINI: None, INTERACTIONS: None},
    ),
    "code of Messages": (
        CLAUDE,
        claude("code_execution_20250825", "code_execution"),
        {RESPONSES: {"type": "code_interpreter"}, CHAT: None, GEMINI: None},
    ),
    "bash of Messages": (
        CLAUDE,
        claude("bash_20250124", "bash"),
        {
            RESPONSES: {"type": "function", "name": "bash"},
            CHAT: {"type": "function", "function": {"name": "bash"}},
        },
    ),
    "search of Responses": (
        RESPONSES,
        responses({"type": "web_search"}, {"type": "web_search"}),
        {CLAUDE: {"type": "tool", "name": "web_search"}, CHAT: None, GEMINI: None},
    ),
    "allowed tools of Responses": (
        RESPONSES,
        responses({"type": "web_search"}, SEARCH),
        {CLAUDE: {"type": "any"}, GEMINI: None},
    ),
    "code of Responses": (
        RESPONSES,
        responses(CODE, {"type": "code_interpreter"}),
        {CLAUDE: {"type": "tool", "name": "code_execution"}, GEMINI: None},
    ),
    "computer of Responses": (
        RESPONSES,
        responses({"type": "computer_use_preview", **DISPLAY}, {"type": "computer_use_preview"}),
        {CHAT: {"type": "function", "function": {"name": "computer"}}},
    ),
    "server of Responses": (
        RESPONSES,
        responses(
            {"type": "mcp", "server_label": "wiki", "server_url": "https://mcp.example"},
            {"type": "mcp", "server_label": "wiki", "name": "ask"},
        ),
        {CLAUDE: None, CHAT: None, INTERACTIONS: None},
    ),
    "a tool that is not offered": (
        RESPONSES,
        responses({"type": "web_search"}, {"type": "file_search"}),
        {CLAUDE: None, CHAT: None, GEMINI: None},
    ),
}
CASES = [(name, target) for name, (_, _, told) in CHOSEN.items() for target in told]


@pytest.mark.parametrize("name, target", CASES)
def test_a_hosted_tool_that_is_chosen(name: str, target: str):
    source, body, told = CHOSEN[name]
    rendered = cannery.translate(body, source=source, target=target, model=MODELS[target])
    written = json.loads(rendered.body)
    choice = written.get("tool_choice")
    assert choice == told[target]
    lost = [loss.path for loss in rendered.losses if loss.code == "CONTROL_DROPPED"]
    assert ("tool_choice" in lost) is (told[target] is None)
    if target != INTERACTIONS:
        validate_request(target, written)


@pytest.mark.parametrize("name", CHOSEN)
def test_the_same_dialect_keeps_the_choice(name: str):
    source, body, _ = CHOSEN[name]
    assert json.loads(cannery.translate(body, source=source, target=source).body) == body


def test_a_function_with_the_name_of_a_hosted_tool_is_no_hosted_tool():
    function = {"type": "function", "name": "web_search", "parameters": {"type": "object"}}
    choice = {"type": "function", "name": "web_search"}
    body = {**responses({"type": "web_search"}, choice)}
    body["tools"].append(function)
    assert json.loads(cannery.translate(body, source=RESPONSES, target=RESPONSES).body) == body
    chat = cannery.translate(body, source=RESPONSES, target=CHAT, model="gpt-5")
    assert json.loads(chat.body)["tool_choice"]["function"] == {"name": "web_search"}
