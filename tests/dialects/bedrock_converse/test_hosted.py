"""System tools of Nova, whole and streamed: definitions, calls, results, and citations without words of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from cannery.messages import fold, unfold
from cannery.messages.hosted import HostedUse, Output, Run, Search, Source, Sources
from cannery.wire.framing import AWS_EVENT_STREAM

NAME = "bedrock_converse"
TARGETS = (
    *("openai_chat", "openai_responses", "anthropic_messages", "gemini_generate"),
    *("gemini_interactions", "cohere_chat", "mistral_chat", "ollama_chat"),
)
PAGE = {"location": {"web": {"url": "https://a.example/x", "domain": "a.example"}}}
SEARCH = {"toolUseId": "t1", "name": "nova_grounding", "input": {"query": "tides"}}
CODE = {"toolUseId": "t2", "name": "nova_code_interpreter", "input": {"snippet": "print(2)"}}
PRINTED = {"stdOut": "2\n", "stdErr": "", "exitCode": 0, "isError": False}


def called(call: dict[str, Any], *content: Any, status: str = "success") -> list[Any]:
    name = call["name"]
    result = {"toolUseId": call["toolUseId"], "content": list(content), "status": status}
    return [
        {"toolUse": {**call, "type": "server_tool_use"}},
        {"toolResult": {**result, "type": f"{name}_result"}},
    ]


CONTENT = [
    *called(SEARCH, {"text": "[HIDDEN]"}),
    {"text": "High at noon"},
    {"citationsContent": {"citations": [PAGE]}},
    {"text": "."},
    *called(CODE, {"json": PRINTED}),
    {"text": "Two."},
]


def answer(*content: Any) -> dict[str, Any]:
    return {
        "output": {"message": {"role": "assistant", "content": list(content)}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
        "metrics": {"latencyMs": 0},
    }


def read(*content: Any) -> cannery.Response:
    return cannery.normalize_response(answer(*content), NAME)


def test_uses_are_understood_and_come_home():
    assert cannery.hosted_uses(read(*CONTENT)) == (
        HostedUse("t1", Search(("tides",)), Sources()),
        HostedUse("t2", Run("print(2)"), Output("2\n", "", 0)),
    )
    assert json.loads(cannery.nativize_response(read(*CONTENT), NAME).body) == answer(*CONTENT)


def test_the_output_of_code_may_be_text():
    told = called(CODE, {"text": json.dumps({**PRINTED, "exitCode": 1})}, status="error")
    (use,) = cannery.hosted_uses(read(*told))
    assert (use.result, use.has_failed) == (Output("2\n", "", 1), True)
    (use,) = cannery.hosted_uses(read(*called(CODE, {"text": "no JSON"})))
    assert use.result == Output("no JSON")


@pytest.mark.parametrize(
    "block",
    [
        {"toolUse": {"toolUseId": "t", "name": "new", "input": {}, "type": "server_tool_use"}},
        {"toolUse": {**SEARCH, "input": 5, "type": "server_tool_use"}},
        {"toolResult": {"toolUseId": "t", "content": [], "type": "new_result"}},
        {"toolResult": {"toolUseId": "t", "content": 5, "type": "nova_code_interpreter_result"}},
    ],
)
def test_what_is_not_understood_is_kept_and_named(block: dict[str, Any]):
    body = answer(block, {"text": "x"})
    response = cannery.normalize_response(body, NAME)
    assert json.loads(cannery.nativize_response(response, NAME).body) == body
    rendered = cannery.translate(
        body, source=NAME, target="anthropic_messages", kind="response", policy="allow"
    )
    assert ("OPAQUE_DROPPED", "output.message.content[0]") in [
        (loss.code, loss.path) for loss in rendered.losses
    ]


@pytest.mark.parametrize(
    "cited",
    [
        {"citations": [PAGE]},
        {"citations": [PAGE], "x": 1},
        {"citations": []},
        {"content": []},
        {"content": [{"text": "a"}]},
        {"content": [{"text": "a"}, {"text": "b"}]},
        {"content": [{"text": ""}], "citations": [PAGE]},
        {"content": [], "citations": [PAGE]},
        {"content": [{"text": "a"}], "citations": None},
        {},
        None,
    ],
)
@pytest.mark.parametrize("before", [[], [{"text": "said"}], CONTENT[:2]])
def test_blocks_for_citations_come_home(before: list[Any], cited: Any):
    body = answer(*before, {"citationsContent": cited}, {"citationsContent": cited})
    response = cannery.normalize_response(body, NAME)
    assert json.loads(cannery.nativize_response(response, NAME).body) == body


def test_citations_without_words_are_about_the_text_before_them():
    texts = [one.held for one in read(*CONTENT).canisters if one.text == "High at noon"]
    assert [each.url for each in texts[0].citations] == ["https://a.example/x"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_stream_says_what_the_whole_answer_says(target: str):
    response = read(*CONTENT)
    own = b"".join(cannery.nativize_stream(unfold(response), NAME))
    assert fold(cannery.normalize_stream([own], NAME)).canisters == response.canisters
    split = [own[at : at + 5] for at in range(0, len(own), 5)]
    again = cannery.nativize_stream(cannery.normalize_stream(split, NAME), NAME)
    assert b"".join(again) == own
    streamed = [*cannery.translate_stream(split, source=NAME, target=target)]
    heard = fold(cannery.normalize_stream(streamed, target))
    whole = cannery.nativize_response(response, target, policy="allow").body
    told = cannery.normalize_response(whole, target)
    assert cannery.hosted_uses(heard) == cannery.hosted_uses(told)
    takes_citations = target not in ("mistral_chat", "ollama_chat")
    assert [b"a.example/x" in each for each in (whole, b"".join(streamed))] == [takes_citations] * 2


def cited(response: cannery.Response) -> list[str | None]:
    found = [getattr(one.held, "citations", ()) for one in response.canisters]
    return [each.url for citations in found for each in citations]


def test_words_behind_a_citation_begin_a_text_of_their_own():
    deltas = [(0, {"text": "a"}), (1, {"citation": PAGE}), (1, {"text": "b"})]
    response = fold(cannery.normalize_stream([stream(deltas)], NAME))
    assert [one.text for one in response.canisters] == ["a", "b"]
    assert cited(response) == ["https://a.example/x"]


def stream(deltas: list[tuple[int, Any]]) -> bytes:
    write = AWS_EVENT_STREAM.write
    events = [write("messageStart", {"role": "assistant"})]
    last = 0
    for index, delta in deltas:
        if index != last:
            events.append(write("contentBlockStop", {"contentBlockIndex": last}))
        last = index
        events.append(write("contentBlockDelta", {"contentBlockIndex": index, "delta": delta}))
    events.append(write("contentBlockStop", {"contentBlockIndex": last}))
    events.append(write("messageStop", {"stopReason": "end_turn"}))
    return b"".join(events)


def test_tools_are_offered_as_the_target_has_them():
    tools = [{"systemTool": {"name": name}} for name in (SEARCH["name"], CODE["name"], "new")]
    choice = {"tool": {"name": SEARCH["name"]}}
    body = {
        "messages": [{"role": "user", "content": [{"text": "q"}]}],
        "toolConfig": {"tools": tools, "toolChoice": choice},
    }
    rendered = cannery.translate(body, source=NAME, target="anthropic_messages", policy="allow")
    written = json.loads(rendered.body)
    assert [tool["name"] for tool in written["tools"]] == ["web_search", "code_execution"]
    assert written["tool_choice"] == {"type": "tool", "name": "web_search"}
    dropped = [loss for loss in rendered.losses if loss.code == "TOOL_DROPPED"]
    assert [(loss.path, "'new'" in loss.detail) for loss in dropped] == [
        ("toolConfig.tools[2]", True)
    ]


@pytest.mark.parametrize(
    "model, names",
    [
        ("amazon.nova-2-lite-v1:0", [SEARCH["name"], CODE["name"]]),
        ("us.amazon.nova-premier-v1:0", [SEARCH["name"]]),
        ("amazon.nova-pro-v1:0", []),
        ("anthropic.claude-opus-4-8", []),
    ],
)
def test_only_nova_is_offered_system_tools(model: str, names: list[str]):
    tools = [{"type": "web_search"}, {"type": "code_interpreter", "container": {"type": "auto"}}]
    body = {"model": model, "input": "q", "tools": tools}
    rendered = cannery.translate(body, source="openai_responses", target=NAME, policy="allow")
    config = json.loads(rendered.body).get("toolConfig", {"tools": []})
    assert [tool["systemTool"]["name"] for tool in config["tools"]] == names
    assert [loss.code for loss in rendered.losses].count("TOOL_DROPPED") == 2 - len(names)


def test_clients_are_shown_uses_of_other_providers():
    found = {"type": "web_search_result", "url": "https://a.example", "title": "A"}
    content = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s1",
            "content": [{**found, "encrypted_content": "e", "page_age": "a day"}],
        },
        {"type": "text", "text": "Found."},
    ]
    body = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    rendered = cannery.translate(
        body, source="anthropic_messages", target=NAME, kind="response", policy="allow"
    )
    (use,) = cannery.hosted_uses(cannery.normalize_response(rendered.body, NAME))
    assert use.call == Search(("q",))
    assert use.result == Sources((Source("https://a.example", "A", None, "a day"),))


@pytest.mark.parametrize("target", TARGETS)
def test_a_citation_without_any_words_is_shown_or_named(target: str):
    body = answer(*CONTENT[:2], {"citationsContent": {"citations": [PAGE]}}, {"text": "x"})
    rendered = cannery.translate(body, source=NAME, target=target, kind="response", policy="allow")
    named = [loss.path for loss in rendered.losses if loss.code == "CITATION_DROPPED"]
    assert named == ([] if b"a.example" in rendered.body else ["output.message.content[2]"])
