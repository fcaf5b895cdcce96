"""Tools that Mistral runs: their definitions in other dialects, and calls that no client has to answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mistralai.client import models

import cannery
from cannery.hosting import hosted_uses
from cannery.messages.canisters import InvocationCanisterClass
from cannery.messages.hosted import HostedUse, McpCall, Output

Object = dict[str, Any]
CALL = {
    "id": "abcdefghi",
    "type": "function",
    "function": {"name": "image_generation", "arguments": '{"prompt": "a cat"}'},
}
OWN_CALL = {**CALL, "id": "jklmnopqr", "function": {"name": "paint", "arguments": "{}"}}
SHOWN = '{"url": "https://files.example/cat.png"}'
RAN: list[Object] = [
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "abcdefghi", "content": SHOWN},
]
SAID = {"role": "assistant", "content": "Here is your cat."}
USE = HostedUse(
    "abcdefghi", McpCall("mistral", "image_generation", '{"prompt": "a cat"}'), Output(SHOWN)
)
HEAD = {"id": "cmpl_1", "model": "mistral-medium-latest", "created": 1763500000}


def answer(*messages: Object) -> bytes:
    choice = {"index": 0, "finish_reason": "stop", "messages": messages}
    usage = {"prompt_tokens": 31, "completion_tokens": 12, "total_tokens": 43}
    body = {**HEAD, "object": "chat.completion", "choices": [choice], "usage": usage}
    models.ChatCompletionResponse.model_validate(body)
    return json.dumps(body).encode()


def stream(*messages: Object) -> bytes:
    deltas: list[tuple[Object, str | None]] = [
        ({**message, "index": index}, None) for index, message in enumerate(messages)
    ]
    chunks = [
        {
            **HEAD,
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }
        for delta, finish in [*deltas, ({"content": ""}, "stop")]
    ]
    for chunk in chunks:
        models.CompletionChunk.model_validate(chunk)
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def offered(source: str, target: str, tool: Object, model: str = "m") -> tuple[Any, list[Any]]:
    asked = "input" if source == "openai_responses" else "messages"
    body = {"model": "m", asked: [{"role": "user", "content": "q"}], "tools": [tool]}
    rendered = cannery.translate(body, source=source, target=target, model=model)
    losses = [(loss.code, loss.path, loss.detail) for loss in rendered.losses]
    return json.loads(rendered.body).get("tools"), losses


def test_images_are_offered_where_the_target_makes_them():
    tool = {"type": "image_generation"}
    assert offered("mistral_chat", "openai_responses", tool) == ([tool], [])
    written, losses = offered("openai_responses", "mistral_chat", {**tool, "size": "1536x1024"})
    assert written == [tool]
    assert [(code, path) for code, path, _ in losses] == [("FIELD_DROPPED", "tools[0].size")]
    models.ImageGenerationTool.model_validate(written[0])


def test_what_configures_a_tool_of_mistral_is_named():
    tool = {"type": "image_generation", "tool_configuration": {"exclude": ["edit"]}}
    written, losses = offered("mistral_chat", "openai_responses", tool)
    assert written == [{"type": "image_generation"}]
    path = "tools[0].tool_configuration.exclude[0]"
    assert [(code, path) for code, path, _ in losses] == [("FIELD_DROPPED", path)]


@pytest.mark.parametrize("target", ["openai_responses", "gemini_generate", "gemini_interactions"])
def test_a_library_of_documents_is_bound_to_mistral(target: str):
    tool = {"type": "document_library", "library_ids": ["a"]}
    written, losses = offered("mistral_chat", target, tool, "gemini-3-pro")
    assert not written
    detail = "its libraries of documents are known only to Mistral"
    assert losses == [("TOOL_DROPPED", "tools[0]", detail)]


@pytest.mark.parametrize("kind", ["web_search", "code_interpreter"])
def test_a_tool_that_only_conversations_take_is_a_named_loss(kind: str):
    written, losses = offered("openai_responses", "mistral_chat", {"type": kind})
    assert not written
    assert [(code, path) for code, path, _ in losses] == [("TOOL_DROPPED", "tools[0]")]


def test_a_call_that_the_server_ran_is_nothing_for_the_client_to_answer():
    response = cannery.normalize_response(answer(*RAN, SAID), "mistral_chat")
    assert [canister.held for canister in response.canisters] == ["Here is your cat."]
    assert hosted_uses(response) == (USE,)
    for target in ("openai_chat", "gemini_generate"):
        rendered = cannery.nativize_response(response, target)
        assert b"image_generation" not in rendered.body
        assert [loss.path for loss in rendered.losses] == ["choices[0].messages"]


def test_a_call_that_the_server_ran_is_one_of_a_server_elsewhere():
    response = cannery.normalize_response(answer(*RAN, SAID), "mistral_chat")
    rendered = cannery.nativize_response(response, "openai_responses")
    _, call = json.loads(rendered.body)["output"]
    assert (call["type"], call["name"], call["output"]) == ("mcp_call", "image_generation", SHOWN)
    assert [loss.code for loss in rendered.losses] == ["HOSTED_CHANGED"]


def read(body: bytes) -> Any:
    return cannery.normalize_response(body, "mistral_chat")


def folded(body: bytes) -> Any:
    return cannery.fold(cannery.normalize_stream([body], "mistral_chat"))


@pytest.mark.parametrize("made, heard", [(answer, read), (stream, folded)])
def test_a_call_of_the_client_beside_one_that_the_server_ran_stays_a_call(made: Any, heard: Any):
    response = heard(made(*RAN, {**SAID, "tool_calls": [OWN_CALL]}))
    calls = [each for each in response.canisters if isinstance(each, InvocationCanisterClass)]
    assert [(call.name, call.identifier) for call in calls] == [("paint", "jklmnopqr")]


def test_a_streamed_result_is_nothing_that_the_model_says():
    events = [*cannery.normalize_stream([stream(*RAN, SAID)], "mistral_chat")]
    response = cannery.fold(events)
    assert [canister.held for canister in response.canisters] == ["Here is your cat."]
    assert hosted_uses(response) == (USE,)


def test_a_stream_says_what_the_server_ran_as_other_dialects_do():
    written = b"".join(
        cannery.translate_stream(
            [stream(*RAN, SAID)], source="mistral_chat", target="openai_responses"
        )
    )
    response = cannery.fold(cannery.normalize_stream([written], "openai_responses"))
    ((_, result),) = [(use.call, use.result) for use in hosted_uses(response)]
    assert result == Output(SHOWN)


def test_a_stream_of_several_messages_stays_what_it_was_in_the_same_dialect():
    written = b"".join(
        cannery.translate_stream([stream(*RAN, SAID)], source="mistral_chat", target="mistral_chat")
    )
    again = cannery.fold(cannery.normalize_stream([written], "mistral_chat"))
    assert [canister.held for canister in again.canisters] == ["Here is your cat."]
    assert b'"tool_call_id":"abcdefghi"' in written
    assert written.count(b"image_generation") == 1
