"""Hosted tools in every direction: definitions, histories, answers and streams, judged by the SDKs' own types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from cannery.dialects import find_dialect
from cannery.errors import InputError
from cannery.hosting import hosted_uses
from cannery.messages.content import OpaqueContentClass
from cannery.messages.events import fold, unfold
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
from cannery.messages.json_text import write_json
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES
from tests.oracles.sdk_streams import parse_stream
from tests.oracles.sdk_types import validate_request, validate_response

Object = dict[str, Any]
DIALECTS = (CHAT, CLAUDE, GEMINI, RESPONSES)
MODELS = {
    CHAT: "gpt-5-search-api",
    CLAUDE: "claude-opus-4-8",
    GEMINI: "gemini-3-pro-preview",
    RESPONSES: "gpt-5.5",
}
ASKED = "What is new?"


def asking(dialect: str, **settings: Any) -> Object:
    """A request of one question."""
    if dialect == GEMINI:
        return {"contents": [{"role": "user", "parts": [{"text": ASKED}]}], **settings}
    body: Object = {"model": MODELS[dialect], **settings}
    if dialect == RESPONSES:
        return {**body, "input": [{"role": "user", "content": ASKED}]}
    body["messages"] = [{"role": "user", "content": ASKED}]
    return {**body, "max_tokens": 99} if dialect == CLAUDE else body


PLACE = {"type": "approximate", "city": "Rome", "country": "IT"}
# How each dialect asks for a tool, as the settings of a request, and where what it asks for stands.
DEFINED: dict[tuple[str, str], tuple[Object, str]] = {
    (CHAT, "web_search"): (
        {"web_search_options": {"search_context_size": "high"}},
        "web_search_options",
    ),
    (CLAUDE, "web_search"): (
        {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]},
        "tools[0]",
    ),
    (GEMINI, "web_search"): ({"tools": [{"google_search": {}}]}, "tools[0].google_search"),
    (RESPONSES, "web_search"): (
        {"tools": [{"type": "web_search", "user_location": PLACE}]},
        "tools[0]",
    ),
    (CLAUDE, "web_fetch"): (
        {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
        "tools[0]",
    ),
    (GEMINI, "web_fetch"): ({"tools": [{"urlContext": {}}]}, "tools[0].urlContext"),
    (CLAUDE, "code_execution"): (
        {"tools": [{"type": "code_execution_20250522", "name": "code_execution"}]},
        "tools[0]",
    ),
    (GEMINI, "code_execution"): ({"tools": [{"codeExecution": {}}]}, "tools[0].codeExecution"),
    (RESPONSES, "code_execution"): (
        {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
        "tools[0]",
    ),
    (CLAUDE, "mcp"): (
        {
            "mcp_servers": [{"type": "url", "name": "wiki", "url": "https://mcp.example/sse"}],
            "tools": [{"type": "mcp_toolset", "mcp_server_name": "wiki"}],
        },
        "mcp_servers[0]",
    ),
    (GEMINI, "mcp"): (
        {
            "tools": [
                {
                    "mcpServers": [
                        {
                            "name": "wiki",
                            "streamableHttpTransport": {"url": "https://mcp.example/sse"},
                        }
                    ]
                }
            ]
        },
        "tools[0].mcpServers[0]",
    ),
    (RESPONSES, "mcp"): (
        {
            "tools": [
                {
                    "type": "mcp",
                    "server_label": "wiki",
                    "server_url": "https://mcp.example/sse",
                    "require_approval": "never",
                }
            ]
        },
        "tools[0]",
    ),
    (RESPONSES, "file_search"): (
        {"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]},
        "tools[0]",
    ),
    (GEMINI, "file_search"): (
        {"tools": [{"fileSearch": {"fileSearchStoreNames": ["fileSearchStores/a"]}}]},
        "tools[0].fileSearch",
    ),
    (RESPONSES, "image_generation"): ({"tools": [{"type": "image_generation"}]}, "tools[0]"),
}
ROUTES = [
    (source, kind, target) for source, kind in DEFINED for target in DIALECTS if target != source
]
# Stores of files are known only to their own provider.
BOUND = "file_search"


def has_like(target: str, kind: str) -> bool:
    return kind != BOUND and (target, kind) in DEFINED


def wants(target: str, body: Object, kind: str) -> bool:
    """Whether a body asks for a kind of tool, in the words of its dialect."""
    if target == CHAT:
        return "web_search_options" in body
    words = {
        CLAUDE: {"mcp": "mcp_toolset"}.get(kind, f"{kind}_20"),
        GEMINI: {
            "web_search": "googleSearch",
            "web_fetch": "urlContext",
            "code_execution": "codeExecution",
            "mcp": "mcpServers",
        }.get(kind, kind),
        RESPONSES: {"code_execution": "code_interpreter"}.get(kind, kind),
    }
    return words[target] in json.dumps(body.get("tools", []))


@pytest.mark.parametrize("source, kind, target", ROUTES)
def test_definitions(source: str, kind: str, target: str):
    settings, place = DEFINED[source, kind]
    body = asking(source, **settings)
    rendered = cannery.translate(body, source=source, target=target, model=MODELS[target])
    written = json.loads(rendered.body)
    assert validate_request(target, written, beta=True) == []
    dropped = [loss for loss in rendered.losses if loss.code == "TOOL_DROPPED"]
    assert wants(target, written, kind) is has_like(target, kind)
    assert [loss.path for loss in dropped] == ([] if has_like(target, kind) else [place])
    again = cannery.translate(body, source=source, target=source)
    assert json.loads(again.body) == body


@pytest.mark.parametrize("source, kind, target", ROUTES)
def test_a_definition_comes_back(source: str, kind: str, target: str):
    if not has_like(target, kind):
        return
    body = asking(source, **DEFINED[source, kind][0])
    there = cannery.translate(body, source=source, target=target, model=MODELS[target])
    back = cannery.translate(there.body, source=target, target=source, model=MODELS[source])
    assert wants(source, json.loads(back.body), kind)


def losses_of(body: Object, source: str, target: str, model: str = "") -> set[tuple[str, str]]:
    model = model or MODELS[target]
    rendered = cannery.translate(body, source=source, target=target, model=model)
    return {(loss.code, loss.path) for loss in rendered.losses if loss.severity != "info"}


def test_each_option_that_the_target_lacks_is_named():
    search = {
        "type": "web_search_20250305",
        "name": "web_search",
        "max_uses": 3,
        "allowed_domains": ["a.example"],
        "user_location": PLACE,
        "cache_control": {"type": "ephemeral"},
        "response_inclusion": "excluded",
    }
    body = asking(CLAUDE, tools=[search])
    assert losses_of(body, CLAUDE, RESPONSES) == {
        ("FIELD_DROPPED", "tools[0].max_uses"),
        ("FIELD_DROPPED", "tools[0].response_inclusion"),
    }
    assert losses_of(body, CLAUDE, GEMINI) == {
        ("FIELD_DROPPED", "tools[0].max_uses"),
        ("FIELD_DROPPED", "tools[0].allowed_domains"),
        ("FIELD_DROPPED", "tools[0].user_location"),
        ("FIELD_DROPPED", "tools[0].response_inclusion"),
    }


def test_options_that_both_have_are_said():
    search = {
        "type": "web_search",
        "filters": {"allowed_domains": ["a.example"]},
        "user_location": PLACE,
        "search_context_size": "medium",
    }
    rendered = cannery.translate(asking(RESPONSES, tools=[search]), source=RESPONSES, target=CLAUDE)
    (tool,) = json.loads(rendered.body)["tools"]
    assert tool["allowed_domains"] == ["a.example"]
    assert tool["user_location"] == PLACE
    assert "lost" not in {loss.severity for loss in rendered.losses}


def test_a_place_stands_a_level_deeper_in_chat():
    search = {"type": "web_search", "user_location": PLACE}
    body = asking(RESPONSES, tools=[search])
    rendered = cannery.translate(body, source=RESPONSES, target=CHAT, model=MODELS[CHAT])
    inner = {"city": "Rome", "country": "IT"}
    place = {"type": "approximate", "approximate": inner}
    assert json.loads(rendered.body)["web_search_options"] == {"user_location": place}
    back = cannery.translate(rendered.body, source=CHAT, target=RESPONSES)
    assert json.loads(back.body)["tools"] == [search]


def test_only_search_models_of_chat_take_a_search():
    body = asking(RESPONSES, tools=[{"type": "web_search"}])
    assert losses_of(body, RESPONSES, CHAT, "gpt-5.5") == {("TOOL_DROPPED", "tools[0]")}


def test_a_server_keeps_its_token_and_the_only_tools_that_may_be_called():
    server = {
        "type": "mcp",
        "server_label": "wiki",
        "server_url": "https://mcp.example/sse",
        "authorization": "secret",
        "allowed_tools": ["ask"],
        "require_approval": "never",
    }
    body = asking(RESPONSES, tools=[server])
    written = json.loads(cannery.translate(body, source=RESPONSES, target=CLAUDE).body)
    assert written["mcp_servers"][0]["authorization_token"] == "secret"
    assert written["tools"][0]["configs"] == {"ask": {"enabled": True}}
    back = json.loads(cannery.translate(written, source=CLAUDE, target=RESPONSES).body)
    assert back["tools"] == [server]
    assert losses_of(body, RESPONSES, GEMINI) == {("FIELD_DROPPED", "tools[0].allowed_tools")}


@pytest.mark.parametrize(
    "model, takes_both", [("gemini-2.5-flash", False), ("gemini-3-flash", True)]
)
def test_gemini_takes_functions_and_a_search_only_with_a_switch(model: str, takes_both: bool):
    function = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    body = asking(RESPONSES, tools=[{"type": "web_search"}, function])
    rendered = cannery.translate(body, source=RESPONSES, target=GEMINI, model=model)
    written = json.loads(rendered.body)
    assert wants(GEMINI, written, "web_search") is takes_both
    switch = written.get("toolConfig", {}).get("includeServerSideToolInvocations", False)
    assert switch is takes_both
    assert [tool for tool in written["tools"] if "functionDeclarations" in tool]
    dropped = {loss.path for loss in rendered.losses if loss.code == "TOOL_DROPPED"}
    assert dropped == (set() if takes_both else {"tools[0]"})


# --- uses ----------------------------------------------------------------------------------------

FOUND = Sources((Source("https://a.example", "A"), Source("https://b.example", "B")))
USES = {
    "web_search": HostedUse("u1", Search(("news",)), FOUND),
    "web_fetch": HostedUse("u2", Fetch(("https://a.example",)), Sources()),
    "code_execution": HostedUse("u3", Run("print(1)"), Output("1\n", "", 0)),
    "failed code": HostedUse("u4", Run("1/0"), Output("", "ZeroDivisionError", 1)),
    "mcp": HostedUse("u5", McpCall("wiki", "ask", '{"q":"x"}'), Output("42")),
    "failed mcp": HostedUse("u6", McpCall("wiki", "ask", "{}"), Output("no"), "the tool failed"),
    "file_search": HostedUse(
        "u7", FileQuery(("x",)), Sources((Source(None, "f", "t", None, "i"),))
    ),
}
SPEAKERS = (CLAUDE, GEMINI, RESPONSES)


def blocks_of(dialect: str, use: HostedUse) -> list[Object] | None:
    write = find_dialect(dialect).hosted.write_use
    assert write is not None
    written = write(use, True)
    return None if written is None else [json.loads(write_json(block)) for _, block in written]


def answering(dialect: str, blocks: list[Object]) -> Object:
    """An answer: a use between two texts."""
    if dialect == CLAUDE:
        texts = [{"type": "text", "text": words} for words in ("One.", "Two.")]
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-8",
            "content": [texts[0], *blocks, texts[1]],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    if dialect == GEMINI:
        parts = [{"text": "One."}, *blocks, {"text": "Two."}]
        content = {"role": "model", "parts": parts}
        return {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "modelVersion": "gemini-3-pro-preview",
            "responseId": "r",
        }
    said = [
        {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": words, "annotations": []}],
        }
        for number, words in enumerate(("One.", "Two."))
    ]
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5.5",
        "status": "completed",
        "output": [said[0], *blocks, said[1]],
    }


ANSWERS = [
    (source, name, target)
    for source in SPEAKERS
    for name, use in USES.items()
    for target in DIALECTS
    if target != source and blocks_of(source, use) is not None
]


def is_beta(body: bytes) -> bool:
    """Calls of MCP servers are in the beta types only."""
    return b"mcp_tool" in body


@pytest.mark.parametrize("source, name, target", ANSWERS)
def test_answers(source: str, name: str, target: str):
    body = answering(source, blocks_of(source, USES[name]) or [])
    (before,) = hosted_uses(cannery.normalize_response(body, source))
    assert before.call == USES[name].call
    rendered = cannery.translate(body, source=source, target=target, kind="response")
    written = json.loads(rendered.body)
    assert validate_response(target, written, beta=is_beta(rendered.body)) == []
    after = hosted_uses(cannery.normalize_response(written, target))
    is_sayable = target != CHAT and blocks_of(target, before) is not None
    assert [use.call for use in after] == ([before.call] if is_sayable else [])
    assert ("OPAQUE_DROPPED" in {loss.code for loss in rendered.losses}) is not is_sayable
    if is_sayable:
        assert after[0].has_failed is before.has_failed


@pytest.mark.parametrize("source, name, target", ANSWERS)
def test_streams_say_what_whole_answers_say(source: str, name: str, target: str):
    body = answering(source, blocks_of(source, USES[name]) or [])
    response = cannery.normalize_response(body, source)
    streamed = [*cannery.nativize_stream(unfold(response), source)]
    chunks = [*cannery.translate_stream(streamed, source=source, target=target)]
    whole = cannery.translate(body, source=source, target=target, kind="response")
    expected = hosted_uses(cannery.normalize_response(whole.body, target))
    folded = fold(cannery.normalize_stream(chunks, target))
    assert hosted_uses(folded.canisters) == expected
    spoken = "".join(getattr(each, "text", "") for each in folded.canisters)
    assert spoken.replace("\n\n", "") == "One.Two."
    heard = parse_stream(target, chunks, beta=is_beta(b"".join(chunks)))
    assert heard.problems == []


@pytest.mark.parametrize("source, name, target", ANSWERS)
def test_with_text_every_use_can_be_read(source: str, name: str, target: str):
    body = answering(source, blocks_of(source, USES[name]) or [])
    (use,) = hosted_uses(cannery.normalize_response(body, source))
    if target != CHAT and blocks_of(target, use) is not None:
        return
    rendered = cannery.translate(body, source=source, target=target, kind="response", hosted="text")
    (words,) = {
        "mcp": ["wiki"],
        "failed mcp": ["wiki"],
        "web_search": ["news"],
        "web_fetch": ["https://a.example"],
        "code_execution": ["print(1)"],
        "failed code": ["1/0"],
        "file_search": ["x"],
    }[name]
    assert words in rendered.body.decode()
    codes = {loss.code for loss in rendered.losses}
    assert "HOSTED_TO_TEXT" in codes
    assert "OPAQUE_DROPPED" not in codes
    response = cannery.normalize_response(body, source)
    streamed = [*cannery.nativize_stream(unfold(response), source)]
    options = cannery.StreamOptions(hosted="text")
    chunks = cannery.translate_stream(streamed, source=source, target=target, options=options)
    folded = fold(cannery.normalize_stream(chunks, target))
    assert any(words in getattr(each, "text", "") for each in folded.canisters)


def test_the_way_has_two_words():
    with pytest.raises(InputError, match="hosted must be one of native, text, got 'words'"):
        cannery.translate(asking(CHAT), source=CHAT, target=CLAUDE, hosted="words")


# --- histories -----------------------------------------------------------------------------------


def history(dialect: str, blocks: list[Object], settings: Object) -> Object:
    """A request whose history has a use between two texts."""
    body = asking(dialect, **settings)
    answer = answering(dialect, blocks)
    if dialect == GEMINI:
        body["contents"] += [answer["candidates"][0]["content"], body["contents"][0]]
    elif dialect == CLAUDE:
        said = {"role": "assistant", "content": answer["content"]}
        body["messages"] += [said, body["messages"][0]]
    else:
        body["input"] += [*answer["output"], body["input"][0]]
    return body


# What can be sent to a server that did not make it itself.
TAKEN = {
    (RESPONSES, "web_search"),
    (RESPONSES, "mcp"),
    (CLAUDE, "code_execution"),
    (CLAUDE, "mcp"),
    (GEMINI, "code_execution"),
}
HISTORIES = [
    (source, kind, target, way)
    for source, kind in DEFINED
    if source != CHAT and kind in USES
    if blocks_of(source, USES[kind]) is not None
    for target in DIALECTS
    if target != source
    for way in ("native", "text")
]


@pytest.mark.parametrize("source, kind, target, way", HISTORIES)
def test_histories(source: str, kind: str, target: str, way: str):
    body = history(source, blocks_of(source, USES[kind]) or [], DEFINED[source, kind][0])
    rendered = cannery.translate(
        body, source=source, target=target, model=MODELS[target], hosted=way
    )
    written = json.loads(rendered.body)
    assert validate_request(target, written, beta=True) == []
    codes = {loss.code for loss in rendered.losses}
    is_said = (target, kind) in TAKEN
    uses = hosted_uses(cannery.normalize_request(written, target).conversation)
    assert [use.call for use in uses] == ([USES[kind].call] if is_said else [])
    assert ("HOSTED_TO_TEXT" in codes) is (way == "text" and not is_said)
    assert ("OPAQUE_DROPPED" in codes) is (way == "native" and not is_said)


def test_a_use_of_a_tool_that_is_not_offered_any_more_is_not_sent():
    blocks = blocks_of(CLAUDE, USES["web_search"]) or []
    rendered = cannery.translate(history(CLAUDE, blocks, {}), source=CLAUDE, target=RESPONSES)
    assert b"web_search_call" not in rendered.body
    assert "OPAQUE_DROPPED" in {loss.code for loss in rendered.losses}


def test_what_only_its_maker_can_read_is_named():
    blocks = blocks_of(CLAUDE, USES["web_search"]) or []
    blocks[1]["content"][0]["encrypted_content"] = "sealed"
    body = history(CLAUDE, blocks, DEFINED[CLAUDE, "web_search"][0])
    rendered = cannery.translate(body, source=CLAUDE, target=RESPONSES)
    place = "messages[1].content[2].content[0].encrypted_content"
    assert ("SIGNATURE_DROPPED", place) in {(loss.code, loss.path) for loss in rendered.losses}
    assert b"sealed" not in rendered.body


def test_an_answer_without_its_end_keeps_the_call():
    call = (blocks_of(CLAUDE, USES["web_search"]) or [])[:1]
    body = answering(CLAUDE, call)
    rendered = cannery.translate(body, source=CLAUDE, target=RESPONSES, kind="response")
    assert b"web_search_call" in rendered.body
    response = cannery.normalize_response(body, CLAUDE)
    streamed = [*cannery.nativize_stream(unfold(response), CLAUDE)]
    chunks = [*cannery.translate_stream(streamed, source=CLAUDE, target=RESPONSES)]
    assert b"web_search_call" in b"".join(chunks)


# --- for all -------------------------------------------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1)
PAGES = st.builds(Source, WORDS, WORDS, st.none(), st.none() | WORDS)
SEARCHES = st.builds(
    HostedUse,
    WORDS,
    st.builds(Search, st.tuples(WORDS)),
    st.builds(Sources, st.lists(PAGES, max_size=3).map(tuple)),
)
RUNS = st.builds(
    HostedUse,
    WORDS,
    st.builds(Run, WORDS),
    st.builds(Output, st.just("") | WORDS, st.just("") | WORDS, st.none() | st.integers(0, 3)),
)
CALLS = st.builds(
    HostedUse,
    WORDS,
    st.builds(McpCall, WORDS, WORDS, st.just('{"a":1}')),
    st.builds(Output, WORDS),
)


def read_back(dialect: str, use: HostedUse) -> HostedUse | None:
    blocks = blocks_of(dialect, use)
    if blocks is None:
        return None
    body = cannery.normalize_response(answering(dialect, blocks), dialect)
    (found,) = hosted_uses(body)
    return found


@given(use=st.one_of(SEARCHES, RUNS, CALLS))
@pytest.mark.parametrize("dialect", SPEAKERS)
def test_what_a_table_writes_it_reads(dialect: str, use: HostedUse):
    found = read_back(dialect, use)
    if found is None:
        assert isinstance(use.call, McpCall)
        return
    assert found.call == use.call
    if isinstance(use.result, Sources) and isinstance(found.result, Sources):
        assert [page.url for page in found.result.items] == [page.url for page in use.result.items]
    elif isinstance(use.result, Output) and isinstance(found.result, Output):
        printed = found.result.text + found.result.errors
        assert printed == use.result.text + use.result.errors


@given(use=st.one_of(SEARCHES, RUNS, CALLS))
@pytest.mark.parametrize("dialect", SPEAKERS)
def test_the_same_dialect_keeps_every_block(dialect: str, use: HostedUse):
    blocks = blocks_of(dialect, use)
    if blocks is None:
        return
    body = answering(dialect, blocks)
    again = cannery.translate(body, source=dialect, target=dialect, kind="response")
    assert json.loads(again.body) == body
    held = [canister.held for canister in cannery.normalize_response(body, dialect).canisters]
    assert any(type(one) is OpaqueContentClass for one in held)
