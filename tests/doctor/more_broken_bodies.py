"""Sound and broken bodies of the dialects that came later: Converse, Interactions, Mistral, Cohere, Ollama."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tests.oracles.changes import add, drop, put
from tests.oracles.test_server_rules import PNG

Change = Callable[[dict[str, Any]], Any]
Cases = list[tuple[str, Change]]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
LONE = "\ud83d"
FUNCTION = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
URL = f"data:image/png;base64,{PNG}"


def update(**fields: Any) -> Change:
    """A change of top-level fields."""
    return lambda body: body.update(copy.deepcopy(fields))


def call(identifier: str, **more: Any) -> dict[str, Any]:
    function = {"name": "look", "arguments": "{}", **more}
    return {"id": identifier, "type": "function", "function": function}


def chat(first: str, second: str, **more: Any) -> dict[str, Any]:
    """A conversation in the shape of Chat: a question, two calls, two results, another question."""
    result = {"role": "tool", "tool_call_id": first, "content": "4"}
    return {
        "model": "m-1",
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": [call(first), call(second)]},
            result,
            {**result, "tool_call_id": second},
            {"role": "assistant", "content": "Four."},
            {"role": "user", "content": "And?"},
        ],
        "tools": [FUNCTION],
        **more,
    }


TWICE = {"role": "tool", "tool_call_id": "abcdefgh1", "content": "5"}
# What all relatives of Chat refuse.
SHARED: Cases = [
    ("surrogate", put("messages", 0, "content", value=f"half {LONE}")),
    ("model-missing", drop("model")),
    ("messages-missing", put("messages", value=[])),
    ("shape", put("messages", 0, value="hi")),
    ("shape", put("messages", 0, "role", value="human")),
    ("shape", put("messages", 0, "content", value=3)),
    ("tools", put("tools", 0, "function", "name", value=3)),
    ("tools", put("tools", 0, value=3)),
    ("name-duplicate", add("tools", value=FUNCTION)),
    ("type", update(stream="yes")),
]
PAIRED: Cases = [
    ("shape", put("messages", 1, "tool_calls", 0, value=3)),
    ("result-orphan", put("messages", 2, "tool_call_id", value="zzzzzzzzz")),
    ("result-duplicate", add("messages", 3, value=TWICE)),
    ("call-unanswered", drop("messages", 3)),
    ("call-unanswered", lambda body: body.update(messages=body["messages"][:2])),
    ("content-missing", put("messages", 4, "content", value="")),
]

MISTRAL: Cases = [
    *SHARED,
    *PAIRED,
    ("system-content", add("messages", 0, value={"role": "system", "content": None})),
    ("order", add("messages", 5, value={"role": "system", "content": "S"})),
    ("last-role", drop("messages", 5)),
    ("prefix", put("messages", 4, "prefix", value=True)),
    ("name-charset", put("messages", 1, "tool_calls", 0, "function", "name", value="a.b")),
    ("name-charset", put("tools", 0, "function", "name", value="x" * 65)),
    ("id-charset", put("messages", 1, "tool_calls", 0, "id", value="call_1")),
    ("tool-choice", update(tool_choice="sometimes")),
    ("tool-choice", update(tool_choice={"type": "function", "function": {"name": "no"}})),
    ("tool-choice", update(tool_choice="any", tools=[])),
    ("range", update(temperature=2)),
    ("field-foreign", update(max_completion_tokens=5)),
    ("field-unknown", update(random_sead=5)),
]
COHERE: Cases = [
    *SHARED,
    *PAIRED,
    ("part-place", put("messages", 4, "content", value=[{"type": "image_url"}])),
    ("field-missing", drop("messages", 2, "tool_call_id")),
    (
        "base64",
        put(
            *("messages", 0, "content"),
            value=[{"type": "image_url", "image_url": {"url": "data:image/png;base64,???"}}],
        ),
    ),
    ("documents", update(documents=[{"id": "1"}])),
    ("documents", update(documents=[3])),
    ("tool-choice", update(tool_choice="any")),
    ("tool-choice", update(tool_choice="NONE", tools=[])),
    ("format", update(response_format={"type": "json_object"})),
    ("stop-limit", update(stop_sequences=list("abcdef"))),
    ("range", update(p=1)),
    ("field-foreign", update(top_p=0.5)),
    ("field-foreign", update(chat_history=[])),
    ("field-unknown", update(priorty=1)),
]
OLLAMA: Cases = [
    *SHARED,
    ("arguments", put("messages", 1, "tool_calls", 0, "function", "arguments", value="{}")),
    ("arguments", put("messages", 1, "tool_calls", 0, "function", value=None)),
    ("base64", put("messages", 0, "images", value=[URL])),
    ("options", update(options={"temperature": "warm"})),
    ("options", update(think="a lot")),
    ("options", update(format="yaml")),
    ("field-ignored", update(temperature=0.5)),
]


def said(*blocks: Any) -> Change:
    """A change of what the user says first."""
    return put("messages", 0, "content", value=list(blocks))


def shown(kind: str, **fields: Any) -> dict[str, Any]:
    return {kind: fields}


def tool_use(identifier: str, **more: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": identifier, "name": "look", "input": {}, **more}}


def result(identifier: str) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": identifier, "content": [{"text": "4"}]}}


SPEC = {"toolSpec": {"name": "look", "inputSchema": {"json": SCHEMA}}}
CONVERSE: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": [{"text": "hi"}]},
        {"role": "assistant", "content": [{"text": "So."}, tool_use("a"), tool_use("b")]},
        {"role": "user", "content": [result("a"), result("b")]},
    ],
    "toolConfig": {"tools": [SPEC]},
}
TEXT = {"text": "see"}
FILE = shown("document", name="a b", format="txt", source={"text": "x"})
IMAGE = shown("image", format="png", source={"bytes": PNG})
BEDROCK: Cases = [
    ("surrogate", said({"text": f"half {LONE}"})),
    ("messages-missing", drop("messages")),
    ("shape", put("messages", 0, value=3)),
    ("shape", put("messages", 0, "role", value="human")),
    ("shape", put("messages", 0, "content", value="hi")),
    ("shape", said({"text": "a", "image": {}})),
    ("blank-text", said({"text": " "})),
    ("blank-text", said(TEXT, {"text": ""})),
    ("blank-text", put("messages", 2, "content", 0, "toolResult", "content", value=[{"text": ""}])),
    ("blank-text", update(system=[{"text": ""}])),
    ("system-place", add("messages", 0, value={"role": "system", "content": [TEXT]})),
    ("part-place", add("messages", 1, "content", 0, value=IMAGE)),
    ("document-alone", said(FILE)),
    ("media-count", said(TEXT, *[IMAGE] * 21)),
    ("result-orphan", put("messages", 2, "content", 0, "toolResult", "toolUseId", value="z")),
    ("result-duplicate", add("messages", 2, "content", 2, value=result("a"))),
    ("call-unanswered", drop("messages", 2, "content", 0)),
    ("id-charset", put("messages", 1, "content", 1, "toolUse", "toolUseId", value="a b")),
    ("name-charset", put("messages", 1, "content", 1, "toolUse", "name", value="a.b")),
    ("name-charset", put("toolConfig", "tools", 0, "toolSpec", "name", value="a b")),
    ("input-object", put("messages", 1, "content", 1, "toolUse", "input", value="{}")),
    ("tools-missing", drop("toolConfig")),
    ("tools-missing", put("toolConfig", "tools", value=[])),
    ("tools", put("toolConfig", "tools", 0, "toolSpec", "description", value="")),
    ("tools", put("toolConfig", "tools", 0, "toolSpec", "inputSchema", value={"json": {}})),
    ("tools", drop("toolConfig", "tools", 0, "toolSpec", "inputSchema")),
    ("name-duplicate", add("toolConfig", "tools", value=SPEC)),
    ("tool-choice", put("toolConfig", "toolChoice", value={"none": {}})),
    ("tool-choice", put("toolConfig", "toolChoice", value={"tool": {"name": "no"}})),
    ("document-name", said(TEXT, shown("document", name="a.pdf", source={"text": "x"}))),
    ("document-name", said(TEXT, shown("document", name="x" * 201, source={"text": "x"}))),
    ("document-twice", said(TEXT, FILE, FILE)),
    ("base64", said(TEXT, shown("image", format="png", source={"bytes": "???"}))),
    ("base64", said(TEXT, shown("document", name="d", format="pdf", source={"bytes": ""}))),
    ("media-mismatch", said(shown("image", format="jpeg", source={"bytes": PNG}))),
    ("cache-marks", said(TEXT, *[shown("cachePoint", type="default")] * 5)),
    ("type", update(system="S")),
    ("inference", update(inferenceConfig={"maxTokens": "5"})),
    ("inference", update(inferenceConfig={"stopSequences": [""]})),
    ("range", update(inferenceConfig={"temperature": 1.5})),
    (
        "thinking-forced",
        lambda body: (
            body["toolConfig"].update(toolChoice={"any": {}}),
            body.update(additionalModelRequestFields={"thinking": {"type": "enabled"}}),
        ),
    ),
    ("metadata", update(requestMetadata={str(number): "x" for number in range(17)})),
    ("field-foreign", update(max_tokens=5)),
    ("field-unknown", update(toolsConfig={})),
]

INTERACTION: dict[str, Any] = {
    "model": "gemini-3.5-flash",
    "input": [
        {"type": "user_input", "content": [{"type": "text", "text": "hi"}]},
        {"type": "function_call", "id": "a", "name": "look", "arguments": {}},
        {"type": "function_result", "call_id": "a", "name": "look", "result": "4"},
        {"type": "user_input", "content": [{"type": "text", "text": "And?"}]},
    ],
    "tools": [{"type": "function", "name": "look", "parameters": SCHEMA}],
}


def spoken(**content: Any) -> Change:
    return put("input", 0, "content", value=[content])


INTERACTIONS: Cases = [
    ("surrogate", spoken(type="text", text=f"half {LONE}")),
    ("model-missing", drop("model")),
    ("input-missing", drop("input")),
    ("shape", put("input", value=3)),
    ("shape", put("input", 0, value=3)),
    ("shape", drop("input", 0, "type")),
    ("shape", spoken(text="no type")),
    ("shape", spoken(type="text")),
    ("empty", put("input", 0, "content", value=[])),
    ("mixed", add("input", value={"type": "text", "text": "x"})),
    ("text-blank", spoken(type="text", text=" ")),
    ("media-source", spoken(type="image", data=PNG, uri="https://x", mime_type="image/png")),
    ("media-source", spoken(type="image")),
    ("media-type", spoken(type="image", data=PNG)),
    ("base64", spoken(type="image", data="???", mime_type="image/png")),
    ("result-orphan", put("input", 2, "call_id", value="z")),
    ("result-duplicate", add("input", 3, value=INTERACTION["input"][2])),
    ("call-unanswered", drop("input", 2)),
    ("call-unanswered", put("input", value=INTERACTION["input"][1])),
    ("result-orphan", put("input", value=INTERACTION["input"][2])),
    ("field-missing", put("input", 1, "name", value="a b")),
    ("field-missing", drop("input", 2, "call_id")),
    ("field-missing", put("input", 1, "arguments", value="{}")),
    ("tools", put("tools", 0, "name", value="1a")),
    ("tools", put("tools", 0, value=3)),
    ("name-duplicate", add("tools", value=INTERACTION["tools"][0])),
    (
        "tool-choice",
        update(generation_config={"tool_choice": {"allowed_tools": {"tools": ["no"]}}}),
    ),
    ("type", update(stream="yes")),
    ("generation-config", update(generation_config={"stop_sequences": list("abcdef")})),
    ("generation-config", update(generation_config={"seed": "x"})),
    ("background", update(background=True, store=False)),
]

_OBJECTS = [call("abcdefgh1", arguments={}), call("abcdefgh2", arguments={})]
MORE_SOUND: dict[str, dict[str, Any]] = {
    "mistral_chat": chat("abcdefgh1", "abcdefgh2"),
    "cohere_chat": chat("abcdefgh1", "abcdefgh2", p=0.5, documents=["one", {"data": {"a": 1}}]),
    "ollama_chat": chat("abcdefgh1", "abcdefgh2", options={"temperature": 0}),
    "bedrock_converse": CONVERSE,
    "gemini_interactions": INTERACTION,
}
MORE_SOUND["ollama_chat"]["messages"][1]["tool_calls"] = _OBJECTS
MORE_CASES: dict[str, Cases] = {
    "mistral_chat": MISTRAL,
    "cohere_chat": COHERE,
    "ollama_chat": OLLAMA,
    "bedrock_converse": BEDROCK,
    "gemini_interactions": INTERACTIONS,
}
