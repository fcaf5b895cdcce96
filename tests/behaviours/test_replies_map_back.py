"""Replies come back in the words of the request: names, ids, and the free text of custom tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from cannery.messages import fold
from cannery.translation import unaliased
from cannery.wire.aliasing import Unaliaser
from cannery.wire.contract import StreamOptions
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, chat, user

CUSTOM = {"type": "custom", "custom": {"name": "run it", "description": "d"}}
SOURCES = [CHAT, RESPONSES]
TARGETS = [CLAUDE, GEMINI]


def asked(source: str) -> dict[str, Any]:
    if source == CHAT:
        return chat(user("q"), tools=[CUSTOM])
    return {"model": "gpt-5.5", "input": "q", "tools": [{"type": "custom", **CUSTOM["custom"]}]}


def reply(target: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if target == CLAUDE:
        block = {"type": "tool_use", "id": "t1", "name": name, "input": arguments}
        fields = {"stop_reason": "tool_use", "stop_sequence": None}
        counted = {"usage": {"input_tokens": 1, "output_tokens": 1}}
        head = {"id": "m1", "type": "message", "role": "assistant", "model": "m"}
        return {**head, "content": [block], **fields, **counted}
    part = {"functionCall": {"id": "t1", "name": name, "args": arguments}}
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}


def called(response: Any) -> Any:
    return next(one for one in response.canisters if one.role.value == "invocation")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"input": "ls -l"}, "ls -l"),
        ({"input": ""}, ""),
        ({"input": 5}, '{"input":5}'),
        ({"other": "x"}, '{"other":"x"}'),
    ],
)
def test_what_a_custom_tool_is_given_is_its_free_text(
    source: str, target: str, arguments: dict[str, Any], text: str
):
    sent = cannery.translate(asked(source), source=source, target=target)
    alias = next(iter(sent.aliases.names))
    response = cannery.normalize_response(reply(target, alias, arguments), target)
    whole = cannery.nativize_response(response, source, aliases=sent.aliases)
    found = called(cannery.normalize_response(whole.body, source))
    assert (found.name, found.is_freeform, found.arguments_text) == ("run it", True, text)
    options = StreamOptions(aliases=sent.aliases)
    streamed = list(cannery.nativize_stream(cannery.unfold(response), source, options=options))
    heard = called(fold(cannery.normalize_stream(streamed, source)))
    assert (heard.name, heard.is_freeform, heard.arguments_text) == ("run it", True, text)


@pytest.mark.parametrize("target", TARGETS)
def test_a_function_with_such_an_argument_is_no_custom_tool(target: str):
    schema = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    sent = cannery.translate(chat(user("q"), tools=[tool]), source=CHAT, target=target)
    response = cannery.normalize_response(reply(target, "f", {"input": "x"}), target)
    whole = json.loads(cannery.nativize_response(response, CHAT, aliases=sent.aliases).body)
    call = whole["choices"][0]["message"]["tool_calls"][0]
    assert call["type"] == "function"
    assert json.loads(call["function"]["arguments"]) == {"input": "x"}


@pytest.mark.parametrize("target", [*TARGETS, RESPONSES])
def test_what_a_caller_does_to_aliases_does_not_come_back_with_the_next_request(target: str):
    tool = {"type": "function", "function": {"name": "any name"}}
    body = json.dumps(chat(user("q"), tools=[tool])).encode()
    first = cannery.translate(body, source=CHAT, target=target)
    assert first.aliases.names
    first.aliases.names.clear()
    assert cannery.translate(body, source=CHAT, target=target).aliases.names


def test_the_signature_on_a_call_of_a_custom_tool_is_kept_for_its_model_and_named_elsewhere():
    model = "gemini-3-pro"
    request = cannery.normalize_request(asked(CHAT), CHAT).replace(model=model)
    sent = cannery.nativize_request(request, GEMINI)
    made = {"name": next(iter(sent.aliases.names)), "args": {"input": "ls -l"}}
    part = {"functionCall": made, "thoughtSignature": "c2ln"}
    content = {"role": "model", "parts": [part]}
    body = {
        "candidates": [{"content": content, "finishReason": "STOP"}],
        "modelVersion": model,
        "responseId": "r",
    }
    response = cannery.normalize_response(body, GEMINI)
    told = cannery.nativize_response(response, CHAT, aliases=sent.aliases)
    assert [loss.code for loss in told.losses] == ["SIGNATURE_DROPPED"]
    stream = [b"data: %s\n\n" % json.dumps(body).encode()]
    unaliaser = Unaliaser(sent.aliases)
    events = [
        each
        for event in cannery.normalize_stream(stream, GEMINI)
        for each in unaliaser.events(event)
    ]
    for heard in (unaliased(response, sent.aliases), fold(events)):
        call = called(heard)
        assert (call.name, call.is_freeform, call.held) == ("run it", True, "ls -l")
        history = request.conversation.append(*heard.canisters, cannery.result(call.identifier))
        again = cannery.nativize_request(request.replace(conversation=history), GEMINI)
        assert json.loads(again.body)["contents"][1] == content
