"""One sound body a dialect, and for each rule of its table a change that breaks it."""

from __future__ import annotations

import base64
import copy
import struct
from collections.abc import Callable
from typing import Any

from tests.doctor.more_broken_bodies import MORE_CASES, MORE_SOUND
from tests.oracles.changes import add, drop, put
from tests.oracles.test_server_rules import CHAT, CLAUDE, GEMINI, PNG, RESPONSES, image, picture

Change = Callable[[dict[str, Any]], Any]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
LONE = "\ud83d"
FERNET = "gAAAAABoxC3jL8rEbUKD8lpf1c"


def png(width: int, height: int) -> str:
    """The base64 of a file that begins as a PNG of this size."""
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)
    return base64.b64encode(head + bytes(40)).decode()


def update(**fields: Any) -> Change:
    """A change of top-level fields."""
    return lambda body: body.update(copy.deepcopy(fields))


def ask(*blocks: Any) -> Change:
    """A change of what the user says first."""

    def change(body: dict[str, Any]) -> None:
        if "messages" in body:
            body["messages"][0]["content"] = list(blocks)
        elif "input" in body:
            body["input"][0]["content"] = list(blocks)
        else:
            body["contents"][0]["parts"] = list(blocks)

    return change


def think(block: Any) -> Change:
    return lambda body: body["messages"][1]["content"].insert(0, block)


def config(**fields: Any) -> Change:
    return lambda body: body.update(generationConfig=fields)


SOUND = {
    "anthropic_messages": CLAUDE,
    "openai_chat": CHAT,
    "openai_responses": RESPONSES
    | {
        "input": [
            RESPONSES["input"][0],
            {**RESPONSES["input"][1], "encrypted_content": FERNET},
            *RESPONSES["input"][2:],
        ]
    },
    "gemini_generate": GEMINI,
    **MORE_SOUND,
}

SIGNED = base64.b64encode(b"\x12\x90" + bytes(60)).decode()
MARK = {"cache_control": {"type": "ephemeral"}}
BIG = picture("image/png", png(100, 100))
BIG["source"]["data"] = BIG["source"]["data"].rstrip("=")[:84] + "A" * (5 << 20)
CLAUDE_TOOL = CLAUDE["tools"][0]
HOSTED = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}

ANTHROPIC: list[tuple[str, Change]] = [
    ("field-foreign", update(stop="x")),
    ("field-unknown", put("messages", 0, "name", value="me")),
    ("surrogate", put("messages", 0, "content", value=f"half {LONE}")),
    ("messages-missing", put("messages", value=[])),
    ("messages-missing", drop("messages")),
    ("shape", put("messages", 0, "role", value="human")),
    ("shape", put("messages", 0, "content", value=3)),
    ("shape", ask("just text")),
    ("shape", ask({"text": "no type"})),
    ("field-missing", ask({"type": "text"})),
    ("field-missing", ask({"type": "image", "source": {"type": "base64", "data": PNG}})),
    ("field-missing", drop("messages", 1, "content", 1, "name")),
    ("field-missing", drop("messages", 2, "content", 0, "tool_use_id")),
    ("id-charset", put("messages", 1, "content", 1, "id", value="call:1")),
    ("id-duplicate", put("messages", 1, "content", 2, "id", value="a")),
    ("name-charset", put("messages", 1, "content", 1, "name", value="a.b")),
    ("input-object", put("messages", 1, "content", 1, "input", value='{"a": 1}')),
    ("input-object", drop("messages", 1, "content", 1, "input")),
    (
        "result-duplicate",
        add("messages", 2, "content", 1, value=CLAUDE["messages"][2]["content"][0]),
    ),
    ("result-orphan", put("messages", 2, "content", 0, "tool_use_id", value="z")),
    ("results-first", add("messages", 2, "content", 0, value={"type": "text", "text": "x"})),
    ("call-unanswered", drop("messages", 2, "content", 0)),
    ("call-unanswered", drop("messages", 2)),
    ("server-result-orphan", think(HOSTED)),
    ("media-type", ask(picture("image/tiff", PNG))),
    (
        "media-type",
        ask(
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "text/csv", "data": "eA=="},
            }
        ),
    ),
    ("base64", ask(picture("image/png", "data:x"))),
    ("base64", ask(picture("image/png", ""))),
    ("media-mismatch", ask(picture("image/jpeg", PNG))),
    ("image-bytes", ask(BIG)),
    ("image-pixels", ask(picture("image/png", png(8001, 10)))),
    ("image-pixels", ask(*[picture("image/png", png(2001, 10))] * 21)),
    (
        "image-pixels",
        put("messages", 2, "content", 0, "content", value=[picture("image/png", png(10, 9000))]),
    ),
    (
        "image-count",
        lambda b: (b.update(model="claude-haiku-4-5"), ask(*[picture("image/png", PNG)] * 101)(b)),
    ),
    ("image-count", ask(*[picture("image/png", PNG)] * 601)),
    ("signature-missing", think({"type": "thinking", "thinking": "hm"})),
    ("signature-missing", think({"type": "thinking", "thinking": "hm", "signature": ""})),
    ("block-role", ask({"type": "tool_use", "id": "x", "name": "look", "input": {}})),
    ("block-role", put("messages", 4, "content", value=[picture("image/png", PNG)])),
    ("signature-odd", think({"type": "thinking", "thinking": "hm", "signature": "c2lnc2ln"})),
    ("signature-shape", think({"type": "thinking", "thinking": "hm", "signature": "a-real-one"})),
    ("signature-shape", think({"type": "thinking", "thinking": "hm", "signature": FERNET})),
    ("signature-shape", think({"type": "thinking", "thinking": "hm", "signature": "not base64!"})),
    ("system-model", put("model", value="claude-sonnet-4-5")),
    ("system-place", add("messages", 0, value={"role": "system", "content": "x"})),
    ("system-place", drop("messages", 4)),
    ("cache-place", think({"type": "thinking", "thinking": "x", "signature": SIGNED, **MARK})),
    ("cache-place", put("system", value=[{"type": "text", "text": "", **MARK}])),
    ("blank-text", put("messages", 2, "content", 2, "text", value=" \n")),
    ("blank-text", put("system", value=[{"type": "text", "text": " "}])),
    ("empty", put("messages", 5, "content", value=[])),
    ("empty", put("messages", 0, "content", value="\t")),
    ("cache-marks", put("system", value=[{"type": "text", "text": "x", **MARK}] * 5)),
    (
        "cache-order",
        put(
            "system",
            value=[
                {"type": "text", "text": "x", **MARK},
                {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            ],
        ),
    ),
    ("tool-fields", put("tools", 0, value={"name": "look"})),
    ("tool-name", put("tools", 0, "name", value="look at")),
    ("tool-duplicate", add("tools", value=CLAUDE_TOOL)),
    ("schema-type", put("tools", 0, "input_schema", value={"properties": {}})),
    ("schema-type", put("tools", 0, "input_schema", value={"type": "string"})),
    ("schema-union", put("tools", 0, "input_schema", value={"type": "object", "anyOf": [{}]})),
    ("model-missing", drop("model")),
    ("type", put("max_tokens", value="many")),
    ("type", put("stream", value="yes")),
    ("type", put("tools", value={})),
    ("max-tokens", drop("max_tokens")),
    ("max-tokens", put("max_tokens", value=0)),
    ("max-tokens-model", put("max_tokens", value=200_000)),
    ("max-tokens-model", update(model="claude-3-haiku-20240307", max_tokens=4097)),
    (
        "thinking-model",
        update(
            model="claude-3-5-haiku-latest", thinking={"type": "enabled", "budget_tokens": 1024}
        ),
    ),
    ("thinking-model", put("thinking", value={"type": "enabled", "budget_tokens": 1024})),
    ("thinking-model", update(model="claude-sonnet-4-5", thinking={"type": "adaptive"})),
    ("thinking-model", update(model="claude-fable-5", thinking={"type": "disabled"})),
    (
        "budget",
        update(
            model="claude-3-7-sonnet-latest", thinking={"type": "enabled", "budget_tokens": 4096}
        ),
    ),
    (
        "budget",
        update(model="claude-sonnet-4-5", thinking={"type": "enabled", "budget_tokens": 512}),
    ),
    ("budget", update(model="claude-sonnet-4-5", thinking={"type": "enabled"})),
    (
        "budget",
        update(
            model="claude-sonnet-4-5",
            tools=None,
            thinking={"type": "enabled", "budget_tokens": 2048},
        ),
    ),
    ("sampling-model", put("temperature", value=0.5)),
    ("sampling-model", update(model="claude-sonnet-4-5", temperature=0.5, top_p=0.9)),
    (
        "thinking-sampling",
        update(model="claude-sonnet-4-6", thinking={"type": "adaptive"}, temperature=0.5),
    ),
    (
        "thinking-sampling",
        update(model="claude-sonnet-4-6", thinking={"type": "adaptive"}, top_k=4),
    ),
    (
        "thinking-forced",
        update(
            model="claude-sonnet-4-5",
            thinking={"type": "enabled", "budget_tokens": 1024},
            tool_choice={"type": "any"},
        ),
    ),
    (
        "thinking-first",
        lambda b: b.update(
            model="claude-sonnet-4-5",
            thinking={"type": "enabled", "budget_tokens": 1024},
            messages=b["messages"][:3],
        ),
    ),
    ("effort", put("output_config", value={"effort": "enormous"})),
    ("effort", update(model="claude-opus-4-6", output_config={"effort": "xhigh"})),
    ("prefill", add("messages", value={"role": "assistant", "content": "So"})),
    ("prefill-space", add("messages", value={"role": "assistant", "content": "So "})),
    ("range", put("top_p", value=1.5)),
    ("tool-choice", put("tool_choice", value={"type": "tool", "name": "no"})),
    ("tool-choice", update(tools=[], tool_choice={"type": "any"})),
    ("tool-choice", put("tool_choice", value={"type": "required"})),
    ("stop", put("stop_sequences", value=["\n"])),
    (
        "schema-open",
        put(
            "output_config",
            value={
                "format": {"type": "json_schema", "schema": {"type": "object", "properties": {}}}
            },
        ),
    ),
    ("metadata", put("metadata", value={"user_id": "u" * 600})),
]

CHAT_FUNCTION = CHAT["tools"][0]["function"]


def with_schema(schema: Any, **more: Any) -> Change:
    def change(body: dict[str, Any]) -> None:
        held = body["tools"][0]
        held = held.get("function", held)
        held.update(parameters=schema, **more)

    return change


AUDIO = {"type": "input_audio", "input_audio": {"data": "eA==", "format": "wav"}}
CHAT_CASES: list[tuple[str, Change]] = [
    ("surrogate", put("messages", 4, "content", value=LONE)),
    ("model-missing", drop("model")),
    ("messages-missing", put("messages", value=[])),
    ("message-count", put("messages", value=[{"role": "user", "content": "x"}] * 2049)),
    ("type", put("temperature", value="hot")),
    ("field-foreign", update(top_k=5)),
    ("field-unknown", update(max_token=5)),
    ("type", put("max_completion_tokens", value="all")),
    ("shape", put("messages", 0, "role", value="human")),
    ("shape", ask({"text": "no type"})),
    ("shape", put("messages", 0, "content", value=None)),
    ("field-missing", ask({"type": "text"})),
    ("field-missing", drop("messages", 2, "tool_call_id")),
    ("field-missing", drop("messages", 1, "tool_calls", 0, "function", "name")),
    ("arguments", put("messages", 1, "tool_calls", 0, "function", "arguments", value={"a": 1})),
    ("empty", put("messages", 0, "content", value=[])),
    ("empty", put("messages", 4, "tool_calls", value=[])),
    ("content-missing", put("messages", 4, "content", value=None)),
    ("result-duplicate", add("messages", 4, value=CHAT["messages"][2])),
    ("result-orphan", put("messages", 2, "tool_call_id", value="z")),
    ("call-unanswered", drop("messages", 2)),
    ("call-unanswered", add("messages", 3, value={"role": "user", "content": "wait"})),
    ("id-duplicate", put("messages", 1, "tool_calls", 1, "id", value="a")),
    ("id-length", put("messages", 1, "tool_calls", 0, "id", value="i" * 41)),
    ("name-charset", put("messages", 1, "tool_calls", 0, "function", "name", value="a b")),
    ("speaker-name", put("messages", 0, "name", value="Ann B")),
    ("part-place", put("messages", 2, "content", value=[image("https://a.b/c.png")])),
    ("part-place", put("messages", 4, "content", value=[image("https://a.b/c.png")])),
    ("audio", ask(AUDIO)),
    ("image-url", ask(image("file:///x.png"))),
    ("image-url", ask(image("data:image/png,abc"))),
    ("media-type", ask(image("data:image/tiff;base64,eA=="))),
    ("media-type", ask(image("data:image/png;base64,UGxlYXNlIHNldA=="))),
    ("base64", ask(image("data:image/png;base64,%%"))),
    (
        "file-type",
        ask(
            {"type": "file", "file": {"file_data": "data:audio/mpeg;base64,eA==", "filename": "a"}}
        ),
    ),
    ("file-base64", ask({"type": "file", "file": {"file_data": "%%%", "filename": "a"}})),
    ("file-source", ask({"type": "file", "file": {"filename": "a"}})),
    ("text-length", put("messages", 4, "content", value="x" * (10 * 1024 * 1024 + 1))),
    ("cache-marks", ask(*[{"type": "text", "text": "x", "prompt_cache_breakpoint": {}}] * 5)),
    (
        "tool-count",
        put(
            "tools", value=[{"type": "function", "function": {"name": f"f{n}"}} for n in range(129)]
        ),
    ),
    ("tool-fields", put("tools", 0, value={"type": "function"})),
    ("tool-fields", put("tools", value=[])),
    ("tool-name", put("tools", 0, "function", "name", value="n" * 65)),
    ("tool-duplicate", add("tools", value=CHAT["tools"][0])),
    ("schema-type", with_schema({"type": "array", "items": {}})),
    ("schema-type", with_schema({"properties": {}})),
    ("schema-items", with_schema({"type": "object", "properties": {"a": {"type": "array"}}})),
    ("schema-open", with_schema({"type": "object", "properties": {}}, strict=True)),
    (
        "schema-required",
        with_schema(
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {"a": {"type": "string"}},
            },
            strict=True,
        ),
    ),
    ("tool-choice", put("tool_choice", value={"type": "function", "function": {"name": "no"}})),
    ("tool-choice", update(tools=None, tool_choice="auto")),
    ("limit", put("max_tokens", value=10)),
    ("limit", put("max_completion_tokens", value=0)),
    ("setting-model", update(model="gpt-5", temperature=0.2)),
    ("setting-model", update(model="o3", stop="x")),
    ("setting-model", update(model="gpt-4o", web_search_options={})),
    ("setting-model", update(model="gpt-5.5", reasoning_effort="high", top_p=0.5)),
    ("setting-model", update(model="gpt-4o", reasoning_effort="low")),
    (
        "role-model",
        lambda b: b.update(model="o1-mini", messages=[{"role": "system", "content": "x"}]),
    ),
    ("stop-count", update(model="gpt-4o", stop=list("abcde"))),
    ("logprobs", update(model="gpt-4o", top_logprobs=3)),
    ("stream-options", put("stream_options", value={"include_usage": True})),
    ("range", put("temperature", value=-1)),
    ("metadata", put("metadata", value={"k": "v" * 513})),
    ("format", put("response_format", value={"type": "json_object"})),
    ("format", put("response_format", value={"type": "json_schema"})),
    ("blank-text", put("messages", 0, "content", value=" ")),
]


def shown(url: str) -> dict[str, Any]:
    return {"type": "input_image", "detail": "auto", "image_url": url}


RESPONSES_CASES: list[tuple[str, Change]] = [
    ("surrogate", put("input", 4, "content", value=LONE)),
    ("model-missing", drop("model")),
    ("messages-missing", put("input", value=[])),
    ("type", put("max_output_tokens", value="all")),
    ("field-foreign", update(max_tokens=5)),
    ("field-unknown", update(odd=5)),
    ("shape", put("input", 0, "role", value="human")),
    ("field-missing", drop("input", 3, "output")),
    ("field-missing", ask({"type": "input_text"})),
    ("arguments", put("input", 2, "arguments", value={})),
    ("id-length", put("input", 2, "call_id", value="c" * 65)),
    ("id-prefix", put("input", 2, "id", value="toolu_1")),
    ("id-duplicate", add("input", 3, value=RESPONSES["input"][2])),
    ("name-charset", put("input", 2, "name", value="a.b")),
    ("result-duplicate", add("input", value=RESPONSES["input"][3])),
    ("result-orphan", drop("input", 2)),
    ("call-unanswered", drop("input", 3)),
    ("reasoning-detached", add("input", 2, value={"role": "user", "content": "wait"})),
    (
        "reasoning-unknown",
        lambda b: (b.update(store=False), b["input"][1].pop("encrypted_content")),
    ),
    ("signature-shape", put("input", 1, "encrypted_content", value="EqQBCgIYAhIk")),
    ("signature-odd", put("input", 1, "encrypted_content", value="c2lnc2ln")),
    ("part-role", put("input", 4, "content", value=[{"type": "input_text", "text": "x"}])),
    ("image-url", ask(shown("file:///x.png"))),
    ("image-url", ask({"type": "input_image", "detail": "auto"})),
    ("media-type", ask(shown("data:image/bmp;base64,eA=="))),
    ("base64", ask(shown("data:image/png;base64,%%"))),
    ("file-type", ask({"type": "input_file", "file_data": "data:audio/mpeg;base64,eA=="})),
    ("file-type", ask({"type": "input_file", "file_url": "https://a.b/c.mp3"})),
    ("file-base64", ask({"type": "input_file", "file_data": "%%"})),
    ("file-source", ask({"type": "input_file"})),
    ("compaction", add("input", 0, value={"type": "compaction_trigger"})),
    ("cache-marks", ask(*[{"type": "input_text", "text": "x", "prompt_cache_breakpoint": {}}] * 5)),
    ("state-twice", update(previous_response_id="r", conversation="c")),
    ("tool-count", put("tools", value=[{"type": "function", "name": f"f{n}"} for n in range(129)])),
    ("tool-fields", put("tools", 0, value={"name": "look"})),
    ("tool-name", put("tools", 0, "name", value="look at")),
    ("tool-duplicate", add("tools", value=RESPONSES["tools"][0])),
    ("schema-type", with_schema({"type": "string"})),
    ("schema-items", with_schema({"type": "object", "properties": {"a": {"type": "array"}}})),
    ("schema-open", with_schema({"type": "object", "properties": {}}, strict=True)),
    (
        "schema-required",
        with_schema(
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {"a": {"type": "string"}},
            },
            strict=True,
        ),
    ),
    ("tool-choice", put("tool_choice", value={"type": "function", "name": "no"})),
    ("tool-choice", update(tools=[], tool_choice="required")),
    ("setting-model", update(model="gpt-5", temperature=0.2)),
    ("setting-model", update(model="gpt-4.1", reasoning={"effort": "low"})),
    ("limit", put("max_output_tokens", value=15)),
    ("stream-options", put("stream_options", value={})),
    ("range", put("top_p", value=1.5)),
    ("metadata", put("metadata", value={str(n): "x" for n in range(17)})),
    ("format", put("text", value={"format": {"type": "json_schema", "name": "a b"}})),
    ("format", put("text", value={"format": {"type": "json_object"}})),
]

MODEL = {"role": "model", "parts": [{"text": "x"}]}
RESPONSE = GEMINI["contents"][2]["parts"][0]
GEMINI_CASES: list[tuple[str, Change]] = [
    ("surrogate", put("contents", 0, "parts", 0, "text", value=LONE)),
    ("messages-missing", put("contents", value=[])),
    ("role", put("contents", 0, "role", value="assistant")),
    ("field-foreign", update(max_tokens=5)),
    ("field-foreign", config(stop="x")),
    ("field-unknown", config(max_output_token=5)),
    ("part-union", put("contents", 0, "parts", 0, value={})),
    ("part-union", put("contents", 0, "parts", 0, value={"text": "a", "inlineData": {"data": ""}})),
    ("blank-text", ask({"text": ""})),
    ("empty", put("contents", 0, "parts", value=[])),
    ("input-object", put("contents", 1, "parts", 0, "functionCall", "args", value="{}")),
    ("input-object", drop("contents", 2, "parts", 0, "functionResponse", "response")),
    ("name-charset", put("contents", 1, "parts", 0, "functionCall", "name", value="1 a")),
    ("result-duplicate", add("contents", 2, "parts", value=RESPONSE)),
    (
        "result-orphan",
        lambda b: b["contents"].extend(
            [copy.deepcopy(MODEL), {"role": "user", "parts": [copy.deepcopy(RESPONSE)]}]
        ),
    ),
    ("call-unanswered", drop("contents", 2, "parts", 0)),
    ("call-unanswered", drop("contents", 2)),
    ("call-first", drop("contents", 0)),
    ("signature-missing", put("model", value="gemini-3-pro")),
    ("signature-shape", put("contents", 1, "parts", 0, "thoughtSignature", value=FERNET)),
    ("signature-shape", put("contents", 1, "parts", 0, "thoughtSignature", value="no base64!")),
    ("media-type", ask({"inlineData": {"data": "eA=="}})),
    ("image-type", ask({"inlineData": {"mimeType": "image/svg+xml", "data": "eA=="}})),
    ("base64", ask({"inlineData": {"mimeType": "image/png", "data": "%"}})),
    ("file-source", ask({"fileData": {}})),
    ("tool-name", put("tools", 0, "functionDeclarations", 0, "name", value="1a")),
    ("tool-duplicate", put("tools", 0, "functionDeclarations", 1, "name", value="look")),
    (
        "tool-count",
        put("tools", 0, "functionDeclarations", value=[{"name": f"f{n}"} for n in range(513)]),
    ),
    ("schema", put("tools", 0, "functionDeclarations", 0, "parameters", value={"type": "STRING"})),
    (
        "schema-keyword",
        put("tools", 0, "functionDeclarations", 0, "parameters", value={**SCHEMA, "$schema": "x"}),
    ),
    (
        "schema-keyword",
        config(
            responseMimeType="application/json", responseSchema={"type": "STRING", "const": "x"}
        ),
    ),
    (
        "schema",
        put(
            "tools",
            0,
            "functionDeclarations",
            0,
            "parameters",
            value={"type": "OBJECT", "properties": {"a": {"type": "ARRAY"}}},
        ),
    ),
    (
        "tool-choice",
        put(
            "toolConfig",
            value={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["no"]}},
        ),
    ),
    ("type", put("generationConfig", value=3)),
    ("type", put("contents", value=3)),
    ("range", config(temperature=1000)),
    ("stop-count", config(stopSequences=list("abcdef"))),
    ("schema-mime", config(responseJsonSchema=SCHEMA)),
    (
        "budget",
        lambda b: b.update(
            model="gemini-2.5-pro", generationConfig={"thinkingConfig": {"thinkingBudget": 0}}
        ),
    ),
    (
        "budget",
        lambda b: b.update(
            model="gemini-2.5-flash",
            generation_config={"thinking_config": {"thinking_budget": 99_999}},
        ),
    ),
    (
        "budget",
        lambda b: b.update(
            model="gemini-2.5-flash", generationConfig={"thinkingConfig": {"thinkingLevel": "LOW"}}
        ),
    ),
    (
        "json-tools",
        lambda b: b.update(
            model="gemini-2.5-flash", generationConfig={"responseMimeType": "application/json"}
        ),
    ),
    (
        "prefill",
        lambda b: (
            b.update(model="gemini-3.6-flash", tools=[]),
            b.update(contents=[b["contents"][0], MODEL]),
        ),
    ),
    ("instruction", update(model="gemma-3-27b-it", systemInstruction={"parts": [{"text": "x"}]})),
]

CASES = {
    "anthropic_messages": ANTHROPIC,
    "openai_chat": CHAT_CASES,
    "openai_responses": RESPONSES_CASES,
    "gemini_generate": GEMINI_CASES,
    **MORE_CASES,
}
# Rules that no single body can break: by size, or by who made a message.
APART = {"request-size", "signature-model"}
