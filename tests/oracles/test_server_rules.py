"""Each server rule bites: one tame body per dialect, one change, one expected code."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.oracles.changes import Change, add, drop, put
from tests.oracles.sdk_types import validate_request
from tests.oracles.server_rules import UNCONFIRMED, check_request_rules, codes, confirmed

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


def chat_call(identifier: str) -> dict[str, Any]:
    function = {"name": "look", "arguments": "{}"}
    return {"id": identifier, "type": "function", "function": function}


CHAT: dict[str, Any] = {
    "model": "gpt-5.5",
    "tools": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": None, "tool_calls": [chat_call("a"), chat_call("b")]},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "assistant", "content": "done"},
    ],
}
RESPONSES: dict[str, Any] = {
    "model": "gpt-5.5",
    "tools": [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}],
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "eA=="},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"role": "assistant", "content": "done"},
    ],
}
CLAUDE: dict[str, Any] = {
    "model": "claude-opus-5-5",
    "max_tokens": 2048,
    "tools": [{"name": "look", "input_schema": SCHEMA}],
    "messages": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "ok"},
                {"type": "tool_use", "id": "a", "name": "look", "input": {}},
                {"type": "tool_use", "id": "b", "name": "look", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "b", "content": "2"},
                {"type": "tool_result", "tool_use_id": "a", "content": ""},
                {"type": "text", "text": "thanks"},
            ],
        },
        {"role": "system", "content": "be brief"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "bye"},
    ],
}
GEMINI: dict[str, Any] = {
    "tools": [{"functionDeclarations": [{"name": "look"}, {"name": "see"}]}],
    "contents": [
        {"role": "user", "parts": [{"text": "hi"}]},
        {
            "role": "model",
            "parts": [
                {"functionCall": {"name": "look", "args": {}}},
                {"functionCall": {"name": "see", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "look", "response": {}}},
                {"functionResponse": {"name": "see", "response": {}}},
            ],
        },
    ],
}
TAME: dict[str, dict[str, Any]] = {
    "openai_chat": CHAT,
    "openai_responses": RESPONSES,
    "anthropic_messages": CLAUDE,
    "gemini_generate": GEMINI,
}

MARK = {"mode": "explicit"}
CACHED = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
LONG = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}}


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def shown(url: str) -> dict[str, Any]:
    return {"type": "input_image", "detail": "auto", "image_url": url}


def picture(media_type: str, data: str) -> dict[str, Any]:
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


CHAT_BREAKS = [
    ("empty", put("messages", value=[])),
    ("empty", put("messages", 0, "content", value=[])),
    ("empty", put("messages", 4, "tool_calls", value=[])),
    ("model", drop("model")),
    ("call-unanswered", drop("messages", 2)),
    ("call-unanswered", add("messages", 3, value={"role": "user", "content": "wait"})),
    ("result-orphan", put("messages", 2, "tool_call_id", value="z")),
    ("result-duplicate", add("messages", 4, value=copy.deepcopy(CHAT["messages"][2]))),
    ("id-length", put("messages", 1, "tool_calls", 0, "id", value="i" * 41)),
    ("id-duplicate", put("messages", 1, "tool_calls", 1, "id", value="a")),
    ("name-charset", put("messages", 1, "tool_calls", 0, "function", "name", value="a b")),
    ("name-charset", put("tools", 0, "function", "name", value="n" * 65)),
    ("name-duplicate", add("tools", value=copy.deepcopy(CHAT["tools"][0]))),
    ("content-missing", put("messages", 4, "content", value=None)),
    ("image-url", put("messages", 0, "content", value=[image("file:///x.png")])),
    ("data-url", put("messages", 0, "content", value=[image("data:image/png,abc")])),
    (
        "media-type",
        put("messages", 0, "content", value=[image("data:application/pdf;base64,eA==")]),
    ),
    (
        "media-mismatch",
        put("messages", 0, "content", value=[image("data:image/gif;base64," + PNG)]),
    ),
    ("base64", put("messages", 0, "content", value=[image("data:image/png;base64,__8=")])),
    ("file-source", put("messages", 0, "content", value=[{"type": "file", "file": {}}])),
    ("tools-missing", lambda b: b.update(tools=None, tool_choice="auto")),
    ("tool-choice", put("tool_choice", value={"type": "function", "function": {"name": "no"}})),
    ("stop-limit", put("stop", value=list("abcde"))),
    ("stream-options", put("stream_options", value={"include_usage": True})),
    ("range", put("temperature", value=2.5)),
    ("metadata", put("metadata", value={"k": "v" * 513})),
    (
        "cache-marks",
        put(
            "messages",
            0,
            "content",
            value=[{"type": "text", "text": "x", "prompt_cache_breakpoint": MARK}] * 5,
        ),
    ),
    (
        "refusal-alone",
        put(
            "messages",
            4,
            "content",
            value=[{"type": "text", "text": "x"}, {"type": "refusal", "refusal": "no"}],
        ),
    ),
]
RESPONSES_BREAKS = [
    ("empty", put("input", value=[])),
    ("model", drop("model")),
    ("call-unanswered", drop("input", 3)),
    ("result-orphan", drop("input", 2)),
    ("result-duplicate", add("input", value=copy.deepcopy(RESPONSES["input"][3]))),
    ("reasoning-detached", add("input", 2, value={"role": "user", "content": "wait"})),
    ("id-length", put("input", 2, "call_id", value="c" * 65)),
    ("id-prefix", put("input", 2, "id", value="toolu_1")),
    ("id-duplicate", add("input", value=copy.deepcopy(RESPONSES["input"][2]))),
    ("name-charset", put("input", 2, "name", value="a.b")),
    ("state-twice", lambda b: b.update(previous_response_id="r", conversation="c")),
    ("trigger-last", add("input", 0, value={"type": "compaction_trigger"})),
    ("part-role", put("input", 4, "content", value=[{"type": "input_text", "text": "x"}])),
    ("image-source", add("input", 0, "content", value={"type": "input_image", "detail": "auto"})),
    ("file-source", add("input", 0, "content", value={"type": "input_file"})),
    ("tool-choice", put("tool_choice", value={"type": "function", "name": "no"})),
    ("tools-missing", lambda b: b.update(tools=[], tool_choice="required")),
    ("name-duplicate", add("tools", value=copy.deepcopy(RESPONSES["tools"][0]))),
    ("image-url", add("input", 0, "content", value=shown("file:///x.png"))),
    ("media-type", add("input", 0, "content", value=shown("data:text/plain;base64,eA=="))),
    ("media-mismatch", add("input", 0, "content", value=shown("data:image/gif;base64," + PNG))),
    ("format-name", put("text", value={"format": {"type": "json_schema", "name": "a b"}})),
    ("range", put("top_p", value=1.5)),
]
CLAUDE_BREAKS = [
    ("empty", put("messages", value=[])),
    ("empty", put("messages", 5, "content", value=[])),
    ("empty", put("messages", 0, "content", value=" \n")),
    ("max-tokens", drop("max_tokens")),
    ("system-place", add("messages", 0, value={"role": "system", "content": "x"})),
    ("system-place", add("messages", 5, value={"role": "system", "content": "x"})),
    ("system-place", drop("messages", 4)),
    ("call-unanswered", drop("messages", 2, "content", 0)),
    ("result-orphan", put("messages", 2, "content", 0, "tool_use_id", value="z")),
    ("result-duplicate", put("messages", 2, "content", 0, "tool_use_id", value="a")),
    ("results-first", add("messages", 2, "content", 0, value={"type": "text", "text": "x"})),
    ("id-charset", put("messages", 1, "content", 1, "id", value="call:1")),
    ("id-duplicate", put("messages", 1, "content", 2, "id", value="a")),
    ("name-charset", put("messages", 1, "content", 1, "name", value="a.b")),
    ("input-object", put("messages", 1, "content", 1, "input", value=[])),
    ("blank-text", put("messages", 2, "content", 2, "text", value=" ")),
    ("cache-marks", put("system", value=[CACHED] * 5)),
    ("cache-order", put("system", value=[CACHED, LONG])),
    ("cache-empty", put("system", value=[{**CACHED, "text": ""}])),
    ("media-mismatch", add("messages", 2, "content", value=picture("image/jpeg", PNG))),
    ("media-type", add("messages", 2, "content", value=picture("image/jpg", "eA=="))),
    ("base64", add("messages", 2, "content", value=picture("image/png", "data:x"))),
    ("tool-choice", put("tool_choice", value={"type": "tool", "name": "no"})),
    ("name-duplicate", add("tools", value=copy.deepcopy(CLAUDE["tools"][0]))),
    ("tools-missing", lambda b: b.update(tools=[], tool_choice={"type": "any"})),
    ("prefill-space", add("messages", value={"role": "assistant", "content": "so "})),
    ("range", put("temperature", value=1.5)),
    ("budget", put("thinking", value={"type": "enabled", "budget_tokens": 4096})),
    (
        "thinking-forced",
        lambda b: b.update(
            thinking={"type": "enabled", "budget_tokens": 1024}, tool_choice={"type": "any"}
        ),
    ),
    ("stop-blank", put("stop_sequences", value=["\n"])),
    (
        "server-result-orphan",
        add(
            "messages",
            1,
            "content",
            0,
            value={"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        ),
    ),
]
GEMINI_BREAKS = [
    ("empty", put("contents", value=[])),
    ("empty", put("contents", 0, "parts", value=[])),
    ("role", put("contents", 2, "role", value="function")),
    ("part-union", put("contents", 0, "parts", 0, value={})),
    ("part-union", put("contents", 0, "parts", 0, "inline_data", value={"data": ""})),
    ("call-place", drop("contents", 0)),
    ("call-role", put("contents", 1, "role", value="user")),
    ("response-role", put("contents", 2, "role", value="model")),
    ("call-unanswered", drop("contents", 2, "parts", 0)),
    ("call-unanswered", drop("contents", 2)),
    ("result-duplicate", add("contents", 2, "parts", value=GEMINI["contents"][2]["parts"][0])),
    ("result-order", lambda b: b["contents"][2]["parts"].reverse()),
    (
        "result-orphan",
        lambda b: b["contents"].extend(
            [{"role": "model", "parts": [{"text": "x"}]}, copy.deepcopy(GEMINI["contents"][2])]
        ),
    ),
    ("name-charset", drop("contents", 2, "parts", 0, "functionResponse", "name")),
    ("name-charset", put("tools", 0, "functionDeclarations", 0, "name", value="1a")),
    ("input-object", put("contents", 1, "parts", 0, "functionCall", "args", value="{}")),
    ("vertex-only", put("contents", 1, "parts", 0, "functionCall", "willContinue", value=True)),
    ("response-object", drop("contents", 2, "parts", 0, "functionResponse", "response")),
    ("media-type", put("contents", 0, "parts", 0, value={"inlineData": {"data": "eA=="}})),
    ("file-source", put("contents", 0, "parts", 0, value={"fileData": {}})),
    ("name-duplicate", put("tools", 0, "functionDeclarations", 1, "name", value="look")),
    (
        "base64",
        put(
            "contents", 0, "parts", 0, value={"inlineData": {"mimeType": "image/gif", "data": "%"}}
        ),
    ),
    ("ends-on-model", add("contents", value={"role": "model", "parts": [{"text": "x"}]})),
    ("system-text", put("systemInstruction", value={"parts": [{"fileData": {"fileUri": "x"}}]})),
    (
        "tool-choice",
        put(
            "toolConfig",
            value={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["no"]}},
        ),
    ),
    (
        "allowed-mode",
        put(
            "toolConfig",
            value={"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["look"]}},
        ),
    ),
    ("schema-mime", put("generationConfig", value={"responseJsonSchema": SCHEMA})),
    ("stop-limit", put("generationConfig", value={"stopSequences": list("abcdef")})),
]
BREAKS = [
    (dialect, code, change)
    for dialect, table in zip(
        TAME, (CHAT_BREAKS, RESPONSES_BREAKS, CLAUDE_BREAKS, GEMINI_BREAKS), strict=True
    )
    for code, change in table
]


@pytest.mark.parametrize("dialect", TAME)
def test_a_tame_body_breaks_nothing(dialect: str):
    assert validate_request(dialect, TAME[dialect]) == []
    assert check_request_rules(dialect, TAME[dialect]) == []


@pytest.mark.parametrize("dialect, code, change", BREAKS)
def test_a_broken_rule_is_found(dialect: str, code: str, change: Change):
    broken = copy.deepcopy(TAME[dialect])
    change(broken)
    assert code in codes(check_request_rules(dialect, broken))


# Servers were recorded taking bodies of these shapes.
SEARCHED = [
    {"type": "tool_search_call", "call_id": "s", "arguments": {}, "execution": "client"},
    {"type": "function_call_output", "call_id": "s", "output": "one"},
]
TAKEN: list[tuple[str, Change]] = [
    ("openai_responses", lambda b: b["input"].extend(SEARCHED)),
    ("anthropic_messages", add("messages", 0, value={"role": "assistant", "content": "Hello."})),
    (
        "anthropic_messages",
        lambda b: b["messages"].extend(copy.deepcopy(CLAUDE["messages"][1:3])),
    ),
    ("anthropic_messages", put("messages", 1, "content", 0, "text", value=" ")),
    (
        "anthropic_messages",
        lambda b: b.update(thinking={"type": "adaptive"}, tool_choice={"type": "any"}),
    ),
    (
        "anthropic_messages",
        lambda b: b.update(
            model="claude-3-5-sonnet-20240620",
            messages=[{"role": "user", "content": [picture("image/jpeg", PNG)]}],
        ),
    ),
    (
        "gemini_generate",
        put(
            "contents", 0, "parts", 0, value={"inlineData": {"mimeType": "image/gif", "data": PNG}}
        ),
    ),
    (
        "gemini_generate",
        lambda b: b["contents"].insert(
            3, {"role": "user", "parts": [b["contents"][2]["parts"].pop()]}
        ),
    ),
    (
        "gemini_generate",
        lambda b: b["contents"].insert(
            2, {"role": "model", "parts": [b["contents"][1]["parts"].pop()]}
        ),
    ),
]


@pytest.mark.parametrize("dialect, change", TAKEN)
def test_what_servers_take_breaks_no_rule(dialect: str, change: Change):
    taken = copy.deepcopy(TAME[dialect])
    change(taken)
    assert check_request_rules(dialect, taken) == []


@pytest.mark.parametrize("dialect", TAME)
def test_unconfirmed_rules_are_rules_and_can_be_left_out(dialect: str):
    assert UNCONFIRMED[dialect] <= {code for name, code, _ in BREAKS if name == dialect}
    doubtful, sure = "$: name-duplicate: twice", "$: call-unanswered: no result"
    assert confirmed(dialect, [doubtful, sure]) == [sure]


def test_newer_gemini_models_need_signatures():
    assert "signature-missing" in codes(
        check_request_rules("gemini_generate", GEMINI, model="gemini-3-pro")
    )
    assert check_request_rules("gemini_generate", GEMINI, model="gemini-2.5-pro") == []


@pytest.mark.parametrize("dialect", TAME)
@pytest.mark.parametrize("body", [None, [], {}, {"messages": 3, "input": 4, "contents": {}}])
def test_rules_survive_any_json(dialect: str, body: Any):
    assert check_request_rules(dialect, body)
