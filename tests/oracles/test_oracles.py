"""The oracles bite: each kind of mistake, at depth, is found; whatever is valid passes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.oracles.changes import drop, put
from tests.oracles.corpus import DIALECTS, Case, request_cases, response_cases
from tests.oracles.sdk_types import validate_request, validate_response
from tests.oracles.server_rules import check_request_rules

REQUESTS = [case for dialect in DIALECTS for case in request_cases(dialect)]
RESPONSES = [case for dialect in DIALECTS for case in response_cases(dialect)]


def name(case: Case) -> str:
    return f"{case.dialect}-{case.id}"


def body(dialect: str, identifier: str) -> dict[str, Any]:
    case = next(case for case in request_cases(dialect) if case.id == identifier)
    return copy.deepcopy(case.body)


@pytest.mark.parametrize("case", REQUESTS, ids=name)
def test_request_types_agree_with_the_corpus(case: Case):
    problems = validate_request(case.dialect, case.body, beta=case.surface == "beta")
    assert bool(problems) == case.extended, problems


@pytest.mark.parametrize("case", RESPONSES, ids=name)
def test_response_types_agree_with_the_corpus(case: Case):
    problems = validate_response(case.dialect, case.body, beta=case.surface == "beta")
    assert bool(problems) == case.extended, problems


@pytest.mark.parametrize("case", REQUESTS, ids=name)
def test_server_rules_agree_with_the_corpus(case: Case):
    problems = check_request_rules(case.dialect, case.body)
    assert bool(problems) == case.breaks_rules, problems


CHAT, RESPONSES_API = "openai_chat", "openai_responses"
CLAUDE, GEMINI = "anthropic_messages", "gemini_generate"

TYPE_MISTAKES = [
    (CHAT, "parallel_tool_calls", put("messages", 2, "content", 0, "type", value="nope")),
    (CHAT, "parallel_tool_calls", put("messages", 1, "tool_calls", 0, "extra", value=1)),
    (CHAT, "parallel_tool_calls", drop("messages", 1, "tool_calls", 0, "function", "name")),
    (CHAT, "parallel_tool_calls", put("messages", 0, "role", value="boss")),
    (CHAT, "parallel_tool_calls", put("parallel_tool_calls", value="yes")),
    (
        CHAT,
        "image_url_and_data_url",
        put("messages", 0, "content", 2, "image_url", "detail", value=0),
    ),
    (CHAT, "image_url_and_data_url", put("messages", 0, "content", 1, "image_url", value="x")),
    (CHAT, "plain_strings", drop("model")),
    (CHAT, "plain_strings", put("messages", value={"role": "user", "content": "x"})),
    (RESPONSES_API, "custom_tool", put("input", 3, "output", 1, "type", value="input_audio")),
    (RESPONSES_API, "custom_tool", put("input", 3, "output", 0, "note", value="x")),
    (RESPONSES_API, "custom_tool", drop("input", 0, "call_id")),
    (RESPONSES_API, "computer_use", put("input", 0, "action", "button", value="middle")),
    (RESPONSES_API, "shells_and_patch", drop("input", 3, "output", 0, "outcome", "exit_code")),
    (
        CLAUDE,
        "tool_results_every_content",
        put("messages", 2, "content", 1, "content", 1, "type", value="x"),
    ),
    (
        CLAUDE,
        "tool_results_every_content",
        put("messages", 2, "content", 1, "content", 0, "x", value=1),
    ),
    (CLAUDE, "tool_results_every_content", drop("messages", 2, "content", 0, "tool_use_id")),
    (
        CLAUDE,
        "documents_all_sources",
        put("messages", 0, "content", 0, "source", "media_type", value="a/b"),
    ),
    (CLAUDE, "thinking_and_tool_use", put("messages", 1, "content", 3, "input", value="{}")),
    (CLAUDE, "thinking_and_tool_use", drop("messages", 1, "content", 0, "signature")),
    (CLAUDE, "plain_strings", drop("max_tokens")),
    (CLAUDE, "plain_strings", put("temperature", value="hot")),
    (CLAUDE, "plain_strings", put("betas", value=["x"])),
    (CLAUDE, "plain_strings", put("thread", value={"type": "create"})),
    (GEMINI, "inline_media", put("contents", 0, "parts", 0, "inlineData", "data", value="!!")),
    (GEMINI, "inline_media", put("contents", 0, "parts", 0, "inlineData", "size", value=1)),
    (GEMINI, "inline_media", put("contents", 0, "parts", 4, "mediaProcessing", value="FAST")),
    (
        GEMINI,
        "function_call_no_id",
        put("contents", 1, "parts", 0, "functionCall", "args", value="{}"),
    ),
    (
        GEMINI,
        "function_call_no_id",
        put("generationConfig", value={"thinkingConfig": {"level": 1}}),
    ),
    (GEMINI, "function_call_no_id", put("contents", 0, "parts", 0, "text", value=1)),
    (GEMINI, "plain", drop("contents")),
    (GEMINI, "plain", put("model", value="gemini-2.5-pro")),
]


@pytest.mark.parametrize("dialect, identifier, change", TYPE_MISTAKES)
def test_type_mistakes_are_found(dialect: str, identifier: str, change: Any):
    mistaken = body(dialect, identifier)
    assert not validate_request(dialect, mistaken)
    change(mistaken)
    assert validate_request(dialect, mistaken)
