"""Hosted tools in spans: blocks of providers are parts of the conventions, parts of other programs have a meaning."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from cannery.hosting import hosted_uses
from cannery.messages.hosted import (
    Fetch,
    FileQuery,
    HostedUse,
    McpCall,
    Output,
    Run,
    Search,
    Source,
    Sources,
)

from .schema import problems

OTEL, INPUT, OUTPUT = "otel_genai", "gen_ai.input.messages", "gen_ai.output.messages"
Object = dict[str, Any]
CLAUDE_BLOCKS: list[Object] = [
    {"type": "text", "text": "I look."},
    {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "cans"},
    },
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {
                "type": "web_search_result",
                "url": "https://a.example",
                "title": "A",
                "encrypted_content": "x",
                "page_age": None,
            }
        ],
    },
]
GEMINI_PARTS: list[Object] = [
    {"executableCode": {"language": "PYTHON", "code": "1+1"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
]
ITEM: Object = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "cans", "queries": ["cans"]},
}


def parts_of(source: str, body: Object, kind: str = "request") -> list[Object]:
    """The parts of the first message of the model in a span, which is valid and gives the body back."""
    raw = json.dumps(body).encode()
    rendered = cannery.translate(raw, source=source, target=OTEL, kind=kind, policy="strict")
    span = json.loads(rendered.body)
    assert problems(span) == []
    back = cannery.translate(rendered.body, source=OTEL, target=source, kind=kind)
    assert json.loads(back.body) == body
    assert cannery.translate(rendered.body, source=OTEL, target=OTEL, kind=kind).body == (
        rendered.body
    )
    messages = span[OUTPUT if kind == "response" else INPUT]
    return next(each["parts"] for each in messages if each["role"] == "assistant")


def test_a_search_of_claude_is_a_call_and_a_response():
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": CLAUDE_BLOCKS}]
    body = {"model": "claude-opus-4-8", "max_tokens": 9, "messages": messages}
    text, call, response = parts_of("anthropic_messages", body)
    assert text["type"] == "text"
    assert (call["type"], call["id"], call["name"]) == (
        *("server_tool_call", "srvtoolu_1", "web_search"),
    )
    assert call["server_tool_call"] == CLAUDE_BLOCKS[1]
    assert (response["type"], response["id"]) == ("server_tool_call_response", "srvtoolu_1")
    assert response["server_tool_call_response"] == CLAUDE_BLOCKS[2]


def test_blocks_without_a_type_get_one():
    contents = [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": GEMINI_PARTS},
    ]
    call, response = parts_of("gemini_generate", {"contents": contents})
    assert call["server_tool_call"] == {"type": "executableCode", **GEMINI_PARTS[0]}
    assert call["name"] == "executableCode"
    assert response["server_tool_call_response"]["type"] == "codeExecutionResult"


def test_an_item_of_responses_is_a_call_with_what_came_of_it():
    asked = [{"role": "user", "content": "q"}, ITEM]
    (call,) = parts_of("openai_responses", {"model": "gpt-5.5", "input": asked})
    assert (call["id"], call["server_tool_call"]) == ("ws_1", ITEM)


@pytest.mark.parametrize("change", [{"id": "other"}, {"name": "other"}, {"server_tool_call": {}}])
def test_a_call_that_was_edited_in_the_span_is_what_it_says(change: Object):
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": CLAUDE_BLOCKS}]
    body = {"model": "claude-opus-4-8", "max_tokens": 9, "messages": messages}
    rendered = cannery.translate(body, source="anthropic_messages", target=OTEL)
    span = json.loads(rendered.body)
    span[INPUT][1]["parts"][1].update(change)
    again = cannery.translate(span, source=OTEL, target=OTEL)
    assert json.loads(again.body) == span


SHOWN = "https://a.example"
# Parts as other programs write them, and the use that they tell.
TOLD: list[tuple[Object, Object | None, HostedUse]] = [
    (
        {"name": "web_search", "server_tool_call": {"type": "web_search", "query": "cans"}},
        {"type": "web_search", "results": [{"url": SHOWN, "title": "A"}]},
        HostedUse("c1", Search(("cans",)), Sources((Source(SHOWN, "A"),))),
    ),
    (
        {"name": "code_interpreter", "server_tool_call": {"type": "code_interpreter", "code": "1"}},
        {"type": "code_interpreter", "output": [{"type": "text", "text": "1"}]},
        HostedUse("c1", Run("1"), Output("1")),
    ),
    (
        {
            "name": "ask",
            "server_tool_call": {"type": "mcp", "server_name": "wiki", "arguments": {"q": 1}},
        },
        {"type": "mcp", "output": "so"},
        HostedUse("c1", McpCall("wiki", "ask", '{"q":1}'), Output("so")),
    ),
    (
        {
            "name": "web_fetch",
            "server_tool_call": {"type": "web_fetch", "input": {"url": SHOWN}},
        },
        {"type": "web_fetch", "is_error": True},
        HostedUse("c1", Fetch((SHOWN,)), None, "the call failed"),
    ),
    (
        {
            "name": "file_search",
            "server_tool_call": {"type": "file_search", "arguments": '{"queries": ["a", "b"]}'},
        },
        None,
        HostedUse("c1", FileQuery(("a", "b"))),
    ),
]


def told(call: Object, details: Object | None) -> Object:
    parts: list[Object] = [{"type": "server_tool_call", "id": "c1", **call}]
    if details is not None:
        kind = "server_tool_call_response"
        parts.append({"type": kind, "id": "c1", kind: details})
    parts.append({"type": "text", "content": "Done."})
    return {OUTPUT: [{"role": "assistant", "parts": parts, "finish_reason": "stop"}]}


@pytest.mark.parametrize("call, details, use", TOLD)
def test_parts_of_other_programs_have_a_meaning(
    call: Object, details: Object | None, use: HostedUse
):
    body = told(call, details)
    assert problems(body) == []
    response = cannery.normalize_response(json.dumps(body).encode(), OTEL)
    assert hosted_uses(response) == (use,)
    assert json.loads(cannery.nativize_response(response, OTEL).body) == body


@pytest.mark.parametrize("target", ["anthropic_messages", "openai_responses", "gemini_generate"])
def test_a_search_in_a_span_is_a_search_of_the_target(target: str):
    call, details, use = TOLD[0]
    body = json.dumps(told(call, details)).encode()
    rendered = cannery.translate(body, source=OTEL, target=target, kind="response")
    (heard,) = hosted_uses(cannery.normalize_response(rendered.body, target))
    assert heard.call == use.call
    assert "HOSTED_CHANGED" in [loss.code for loss in rendered.losses]


@pytest.mark.parametrize(
    "details", [{"type": "paint"}, {"type": "web_search", "input": [1]}, {}, {"type": 3}, None]
)
def test_a_call_that_says_nothing_known_stays_a_named_loss(details: Any):
    body = json.dumps(told({"name": "x", "server_tool_call": details}, None)).encode()
    rendered = cannery.translate(body, source=OTEL, target="anthropic_messages", kind="response")
    assert f'["{OUTPUT}"][0].parts[0]' in [loss.path for loss in rendered.losses]
    assert json.loads(
        cannery.translate(body, source=OTEL, target=OTEL, kind="response").body
    ) == json.loads(body)
