"""Drawn sessions with hosted calls, functions and texts: there and back again, with every loss named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from cannery.hosting import hosted_uses
from cannery.messages.canisters import InvocationCanisterClass, ResultCanisterClass
from cannery.messages.content import OpaqueContentClass
from cannery.messages.hosted import HostedUse, McpCall, Output, Run, Search, Source, Sources
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES
from tests.behaviours.test_hosted_tools import DEFINED, blocks_of
from tests.oracles.sdk_types import validate_request

Object = dict[str, Any]
INTERACTIONS = "gemini_interactions"
MODELS = {
    CHAT: "gpt-5-search-api",
    CLAUDE: "claude-opus-4-8",
    GEMINI: "gemini-3-pro-preview",
    INTERACTIONS: "gemini-3-pro-preview",
    RESPONSES: "gpt-5.5",
    "bedrock_converse": "anthropic.claude-opus-4-8",
    "mistral_chat": "mistral-large-latest",
}
SOURCES = (CLAUDE, GEMINI, RESPONSES)
KINDS = ("web_search", "code_execution", "mcp")
FUNCTION = {"type": "object", "properties": {"a": {"type": "string"}}}

WORD = st.text("abcdefghij", min_size=6, max_size=12)
USE = st.one_of(
    st.builds(
        HostedUse,
        WORD,
        st.builds(Search, st.tuples(WORD)),
        st.builds(Sources, st.tuples(st.builds(Source, WORD.map("https://a.example/".__add__)))),
    ),
    st.builds(HostedUse, WORD, st.builds(Run, WORD), st.builds(Output, WORD)),
    st.builds(
        HostedUse,
        WORD,
        st.builds(McpCall, st.just("wiki"), WORD, st.just('{"q":"x"}')),
        st.builds(Output, WORD),
    ),
)
# What the model does in a turn: it says something, lets a tool run, or calls a function.
STEP = st.one_of(WORD, USE, st.tuples(WORD))
SESSION = st.lists(st.lists(STEP, min_size=1, max_size=4), min_size=1, max_size=3)


def tools(dialect: str) -> Object:
    """All kinds of tools, as settings of a request."""
    settings: Object = {"tools": []}
    for kind in KINDS:
        for key, held in DEFINED[dialect, kind][0].items():
            settings[key] = [*settings.get(key, []), *held]
    if dialect == GEMINI:
        function = {"name": "f", "parametersJsonSchema": FUNCTION}
        settings["tools"].append({"functionDeclarations": [function]})
        settings["toolConfig"] = {"includeServerSideToolInvocations": True}
    elif dialect == CLAUDE:
        settings["tools"].append({"name": "f", "input_schema": FUNCTION})
    else:
        named = {"type": "function", "name": "f", "parameters": FUNCTION, "strict": False}
        settings["tools"].append(named)
    return settings


def spoken(dialect: str, text: str) -> Object:
    if dialect == RESPONSES:
        return {"role": "assistant", "content": text}
    return {"text": text} if dialect == GEMINI else {"type": "text", "text": text}


def called(dialect: str, name: str, given: str) -> tuple[Object, Object]:
    """A call and its result."""
    if dialect == GEMINI:
        call = {"id": name, "name": "f", "args": {"a": given}}
        result = {"id": name, "name": "f", "response": {"output": given}}
        return {"functionCall": call}, {"functionResponse": result}
    if dialect == CLAUDE:
        call = {"type": "tool_use", "id": name, "name": "f", "input": {"a": given}}
        return call, {"type": "tool_result", "tool_use_id": name, "content": given}
    arguments = json.dumps({"a": given})
    call = {"type": "function_call", "call_id": name, "name": "f", "arguments": arguments}
    return call, {"type": "function_call_output", "call_id": name, "output": given}


def session(dialect: str, turns: list[list[Any]]) -> Object:
    """A request with a history: in each turn the calls of functions stand last, and are answered."""
    messages: list[Object] = []
    count = 0
    for number, turn in enumerate(turns):
        asked, results = [], []
        blocks: list[Object] = []
        for step in turn:
            if isinstance(step, HostedUse):
                blocks += blocks_of(dialect, step) or []
            elif isinstance(step, str):
                blocks.append(spoken(dialect, step))
            else:
                count += 1
                call, result = called(dialect, f"call_{count}", step[0])
                asked.append(call)
                results.append(result)
        question, parts = f"question {number}", [*blocks, *asked]
        if dialect == RESPONSES:
            messages += [{"role": "user", "content": question}, *parts, *results]
            continue
        key, role = ("parts", "model") if dialect == GEMINI else ("content", "assistant")
        told: Any = [{"text": question}] if dialect == GEMINI else question
        messages += [{"role": "user", key: told}, {"role": role, key: parts}]
        if results:
            messages.append({"role": "user", key: results})
    ended: Any = [{"text": "and now?"}] if dialect == GEMINI else "and now?"
    last = {"role": "user", "parts" if dialect == GEMINI else "content": ended}
    field = {GEMINI: "contents", CLAUDE: "messages", RESPONSES: "input"}[dialect]
    body: Object = {field: [*messages, last], **tools(dialect)}
    if dialect != GEMINI:
        body["model"] = MODELS[dialect]
    return {**body, "max_tokens": 99} if dialect == CLAUDE else body


def functions(conversation: Any) -> list[tuple[str, str]]:
    """The calls of functions and their results, in order."""
    return [
        ("call", json.dumps(dict(one.arguments))) if isinstance(one, InvocationCanisterClass)
        # One dialect wraps a text, others do not.
        else ("result", str(one.text).replace('{"output":"', "").replace('"}', ""))
        for one in conversation
        if isinstance(one, (InvocationCanisterClass, ResultCanisterClass))
    ]  # fmt: skip


def words(conversation: Any) -> str:
    """All that was said in plain text."""
    calls = InvocationCanisterClass
    said = [one.held for one in conversation if not isinstance(one, calls)]
    return " ".join(held for held in said if isinstance(held, str))


def key_word(use: HostedUse) -> str:
    call = use.call
    match call:
        case Search():
            return call.queries[0]
        case Run():
            return call.code
        case McpCall():
            return call.name
    raise AssertionError(call)


@settings(max_examples=8)
@given(st.data())
@pytest.mark.parametrize("target", MODELS)
@pytest.mark.parametrize("source", SOURCES)
def test_there_and_back(source: str, target: str, data: Any):
    if source == target:
        return
    turns = data.draw(SESSION)
    way = data.draw(st.sampled_from(["native", "text"]))
    body = session(source, turns)
    there = cannery.translate(body, source=source, target=target, model=MODELS[target], hosted=way)
    if target in (CHAT, CLAUDE, GEMINI, RESPONSES):
        assert validate_request(target, json.loads(there.body), beta=True) == []
    back = cannery.translate(
        there.body, source=target, target=source, model=MODELS[source], hosted=way
    )
    was = cannery.normalize_request(body, source).conversation
    now = cannery.normalize_request(back.body, source).conversation
    assert functions(now) == functions(was)
    for turn in turns:
        assert all(step in words(now) for step in turn if isinstance(step, str))
    uses = hosted_uses(was)
    if way == "text":
        text = back.body.decode()
        assert all(key_word(use) in text for use in uses)
        return
    # What is not there any more was named on one of the two ways.
    told = {key_word(use) for use in hosted_uses(now)}
    blocks = [index for index, one in enumerate(was) if isinstance(one.held, OpaqueContentClass)]
    if any(key_word(use) not in told for use in uses):
        codes = {loss.code for loss in (*there.losses, *back.losses)}
        assert blocks
        assert "OPAQUE_DROPPED" in codes
