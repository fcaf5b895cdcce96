"""The path of a loss leads to a place in the source body, spelled as the body spells it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

import cannery
from tests.conformance.matrix import DIALECTS
from tests.oracles.corpus import Case, request_cases, response_cases

GEMINI = {
    "contents": [{"role": "user", "parts": [{"text": "q"}]}],
    "generation_config": {"thinking_config": {"thinking_budget": 300}, "top_k": 4},
    "tools": [
        {"googleSearch": {}},
        {"function_declarations": [{"name": "a"}, {"name": "b.c", "x_new": 1}]},
    ],
}
LEGACY = {
    "model": "m",
    "messages": [{"role": "user", "content": "q"}],
    "functions": [{"name": "f", "x_new": 1}],
}
NOTED = {
    "model": "m",
    "max_tokens": 9,
    "messages": [
        {
            "role": "user",
            "content": [
                {
                    "type": "search_result",
                    "source": "https://example.com",
                    "title": "T",
                    "content": [{"type": "text", "text": "found"}],
                }
            ],
        }
    ],
}
CASES: list[Any] = [
    (
        "gemini_generate",
        GEMINI,
        "openai_chat",
        {
            "$",
            "tools[0].googleSearch",
            "tools[1].function_declarations[1]",
            "tools[1].function_declarations[1].x_new",
            "generation_config.thinking_config.thinking_budget",
            "generation_config.top_k",
        },
    ),
    (
        "openai_chat",
        LEGACY,
        "anthropic_messages",
        {"functions[0].x_new", "$"},
    ),
    (
        "anthropic_messages",
        NOTED,
        "openai_chat",
        {"messages[0].content[0]", "messages[0].content[0].source"},
    ),
    (
        "anthropic_messages",
        {
            "model": "claude-opus-5",
            "max_tokens": 5,
            "messages": [
                {"role": "user", "content": "q"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "t",
                            "content": NOTED["messages"][0]["content"],
                        }
                    ],
                },
            ],
        },
        "openai_chat",
        {"messages[2].content[0]"},
    ),
]


@pytest.mark.parametrize("source, body, target, expected", CASES)
def test_paths_lead_somewhere(source: str, body: dict[str, Any], target: str, expected: set[str]):
    rendered = cannery.translate(body, source=source, target=target)
    assert {loss.path for loss in rendered.losses} == expected


def steps(path: str) -> list[str]:
    return [] if path == "$" else re.findall(r"[^.\[\]]+", path)


def is_there(body: Any, path: str) -> bool:
    """Whether a path leads somewhere in a body."""
    for step in steps(path):
        if isinstance(body, list):
            body = dict(enumerate(body))
        key = int(step) if step.isdecimal() else step
        if not isinstance(body, dict) or key not in body:
            return False
        body = body[key]
    return True


def strays(case: Case, kind: str, targets: Iterable[str]) -> list[tuple[str, str, str]]:
    """The paths of losses and repairs of a case that lead nowhere."""
    found = []
    for target in targets:
        how = {"source": case.dialect, "target": target, "kind": kind, "policy": "allow"}
        try:
            rendered = cannery.translate(case.raw, **how)
        except cannery.EmptyConversationError:
            continue
        told = (*rendered.losses, *rendered.repairs)
        found += [
            (case.id, target, each.path) for each in told if not is_there(case.body, each.path)
        ]
    return found


@pytest.mark.parametrize("source", DIALECTS)
def test_every_path_is_one_of_the_body(source: str):
    for kind, cases in (("request", request_cases), ("response", response_cases)):
        for case in cases(source):
            assert strays(case, kind, [name for name in DIALECTS if name != source]) == []


FOUND = {"searchResult": {"source": "s", "title": "t", "content": [{"text": "found"}]}}
DOCUMENT = {"document": {"name": "n", "format": "txt", "source": {"text": "t"}}}
RESULT = {"toolUseId": "c", "content": [{"json": {"a": 1}}, FOUND]}
ASKED = {"role": "user", "content": [{"text": "q"}]}
SPEC = {"name": "f", "strict": True, "inputSchema": {"json": {"type": "object"}}}
STRICT_TOOLS = [
    {
        "type": "function",
        "function": {"name": "f", "strict": True, "parameters": {"type": "object"}},
    }
]
LONELY: list[Any] = [
    (
        "a strict tool of a record",
        "openai_finetuning",
        {
            "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
            "tools": STRICT_TOOLS,
        },
    ),
    (
        "a search result within a result",
        "bedrock_converse",
        {"messages": [ASKED, {"role": "user", "content": [{"toolResult": RESULT}]}]},
    ),
    (
        "a strict tool of Converse",
        "bedrock_converse",
        {"messages": [ASKED], "toolConfig": {"tools": [{"toolSpec": SPEC}]}},
    ),
    (
        "an effort without a switch",
        "bedrock_converse",
        {
            "messages": [ASKED],
            "outputConfig": {"effort": "high"},
            "inferenceConfig": {"maxTokens": 9},
        },
    ),
    (
        "a block with a key beside its document",
        "bedrock_converse",
        {"messages": [{"role": "user", "content": [{"text": "q"}, {**DOCUMENT, "x_new": 1}]}]},
    ),
    (
        "summaries without a level",
        "gemini_interactions",
        {"model": "m", "input": "q", "generation_config": {"thinking_summaries": "auto"}},
    ),
    (
        "all tools strict at once",
        "cohere_chat",
        {
            "model": "m",
            "messages": [{"role": "user", "content": "q"}],
            "tools": STRICT_TOOLS,
            "strict_tools": True,
        },
    ),
    (
        "a strict tool behind one that is none",
        "ollama_chat",
        {
            "model": "m",
            "messages": [{"role": "user", "content": "q"}],
            "tools": [
                {"function": ""},
                {"function": {"name": "f", "strict": True}},
                {"function": {"name": "g"}},
            ],
        },
    ),
]


@pytest.mark.parametrize(
    "source, body", [row[1:] for row in LONELY], ids=[row[0] for row in LONELY]
)
def test_paths_of_what_stands_alone_lead_somewhere(source: str, body: dict[str, Any]):
    case = Case("lonely", source, "request", body)
    assert strays(case, "request", [name for name in DIALECTS if name != source]) == []


@pytest.mark.parametrize(
    "dialect, body",
    [
        (
            "ollama_chat",
            {"model": "m", "message": {"role": "assistant", "content": "a"}, "done": True},
        ),
        ("cohere_chat", {"id": "i", "message": {"role": "assistant", "content": "a"}}),
    ],
)
def test_an_answer_that_does_not_say_why_it_ended_has_no_path_for_it(dialect: str, body: Any):
    case = Case("unended", dialect, "response", body)
    assert strays(case, "response", [name for name in DIALECTS if name != dialect]) == []


@pytest.mark.parametrize("target", ["openai_responses", "anthropic_messages"])
def test_a_field_of_a_hosted_tool_of_gemini_is_told_where_it_stands(target: str):
    tools = [{"google_search": {"futureField": 1}}]
    body = {"contents": [{"role": "user", "parts": [{"text": "q"}]}], "tools": tools}
    rendered = cannery.translate(body, source="gemini_generate", target=target)
    paths = {loss.path for loss in rendered.losses if loss.code == "FIELD_DROPPED"}
    assert paths == {"tools[0].google_search.futureField"}
