"""Turns of which nothing can be said: one rule for every target.

A question stays a question, with a word for what is missing. A turn of the model is left out, since nothing is put into
its mouth, but for a picture that the user saw. A conversation of which nothing is left is refused.
"""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai.lib.streaming.responses._responses import ResponseStreamState

import cannery

TARGETS = (
    "anthropic_messages",
    "bedrock_converse",
    "cohere_chat",
    "gemini_generate",
    "gemini_interactions",
    "mistral_chat",
    "ollama_chat",
    "openai_chat",
    "openai_responses",
)


def translated(body: Any, source: str, target: str, **more: Any) -> Any:
    return cannery.translate(json.dumps(body).encode(), source=source, target=target, **more)


def codes(rendered: Any) -> set[str]:
    return {loss.code for loss in rendered.losses}


@pytest.mark.parametrize("target", sorted({*TARGETS} - {"openai_chat"}))
def test_a_question_that_is_only_a_file_out_of_reach_says_so(target: str) -> None:
    file = {"type": "file", "file": {"file_id": "file_of_another"}}
    body = {"model": "m", "messages": [{"role": "user", "content": [file]}]}
    rendered = translated(body, "openai_chat", target)
    assert b"[file omitted]" in rendered.body
    assert codes(rendered) & {"REFERENCE_UNRESOLVABLE", "MEDIA_DROPPED"}


@pytest.mark.parametrize("target", sorted({*TARGETS} - {"openai_responses"}))
def test_an_unknown_part_of_a_question_says_so(target: str) -> None:
    part = {"type": "strange", "x": 1}
    body = {"model": "m", "input": [{"type": "message", "role": "user", "content": [part]}]}
    rendered = translated(body, "openai_responses", target)
    assert b"[block omitted]" in rendered.body
    assert "OPAQUE_DROPPED" in codes(rendered)


@pytest.mark.parametrize("target", sorted({*TARGETS} - {"openai_responses"}))
def test_an_unknown_item_alone_is_an_empty_conversation(target: str) -> None:
    body = {"model": "m", "input": [{"type": "strange", "x": 1}]}
    with pytest.raises(cannery.EmptyConversationError):
        translated(body, "openai_responses", target)


@pytest.mark.parametrize("target", sorted({*TARGETS} - {"openai_responses"}))
def test_an_unknown_item_of_the_model_is_left_out(target: str) -> None:
    asked = [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]
    body = {"model": "m", "input": [asked[0], {"type": "strange", "x": 1}, asked[1]]}
    rendered = translated(body, "openai_responses", target)
    assert b"omitted" not in rendered.body
    assert b"assistant" not in rendered.body.replace(b'"model"', b"")
    assert [loss.path for loss in rendered.losses if loss.code == "OPAQUE_DROPPED"] == ["input[1]"]


@pytest.mark.parametrize("target", ["openai_chat", "ollama_chat", "cohere_chat", "mistral_chat"])
def test_an_empty_answer_is_still_one_where_a_server_takes_it(target: str) -> None:
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]
    body = {"model": "m", "max_tokens": 9, "messages": [*said, {"role": "user", "content": "b"}]}
    rendered = translated(body, "anthropic_messages", target)
    roles = [message["role"] for message in json.loads(rendered.body)["messages"]]
    assert roles.count("assistant") == (target in ("openai_chat", "ollama_chat"))


# --- two calls with one id ---------------------------------------------------------------------


def calls(*names: str) -> list[Any]:
    return [
        {"id": "x", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in names
    ]


@pytest.mark.parametrize("target", sorted({*TARGETS} - {"openai_chat"}))
def test_two_calls_of_an_answer_with_one_id_are_told_apart(target: str) -> None:
    message = {"role": "assistant", "content": None, "tool_calls": calls("a", "b", "b")}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    rendered = translated(body, "openai_chat", target, kind="response")
    again = cannery.normalize_response(rendered.body, target)
    found = [each.identifier for each in again.canisters if hasattr(each, "identifier")]
    assert found == ["x", "x_2", "x_3"]
    repaired = [each.path for each in rendered.repairs if each.name == "call_ids"]
    assert repaired == [f"choices[0].message.tool_calls[{index}]" for index in (1, 2)]


@pytest.mark.parametrize("target", sorted({*TARGETS} - {"openai_responses"}))
def test_a_call_of_an_answer_without_a_name_gets_one(target: str) -> None:
    """Readers of Gemini and Interactions refuse an empty name, and no client can call it."""
    call = {"type": "function_call", "id": "i", "call_id": "c", "name": "", "arguments": "{}"}
    body = {"id": "r", "object": "response", "status": "completed", "model": "m", "output": [call]}
    rendered = translated(body, "openai_responses", target, kind="response")
    again = cannery.normalize_response(rendered.body, target).canisters
    assert [each.name for each in again if hasattr(each, "name")] == ["unknown_function"]
    assert [(one.name, one.path) for one in rendered.repairs] == [("function_names", "output[0]")]


def test_two_calls_of_a_stream_with_one_id_are_read_by_the_sdk() -> None:
    deltas: list[Any] = [
        {"tool_calls": [{"index": n, **call}]} for n, call in enumerate(calls("a", "a"))
    ]
    chunks = [
        {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [choice],
        }
        for choice in (
            *({"index": 0, "delta": delta, "finish_reason": None} for delta in deltas),
            {"index": 0, "delta": {}, "finish_reason": "tool_calls"},
        )
    ]
    sent = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    written = b"".join(
        cannery.translate_stream(
            [*sent, b"data: [DONE]\n\n"], source="openai_chat", target="openai_responses"
        )
    )
    state: Any = ResponseStreamState(input_tools=openai.omit, text_format=openai.omit)
    events = [line[6:] for line in written.decode().splitlines() if line.startswith("data: ")]
    adapter = _events()
    for event in events:
        state.handle_event(adapter.validate_json(event))
    final = adapter.validate_json(events[-1]).response
    assert [item.call_id for item in final.output] == ["x", "x_2"]
    assert len({item.id for item in final.output}) == 2


def _events() -> Any:
    from openai.types.responses import ResponseStreamEvent
    from pydantic import TypeAdapter

    return TypeAdapter(ResponseStreamEvent)


# --- other roles -----------------------------------------------------------------------------------

UNKNOWN = [{"type": "x_new", "a": 1}]


@pytest.mark.parametrize("target", TARGETS)
def test_instructions_of_nothing_but_a_thought_are_an_empty_message(target: str) -> None:
    thought = cannery.ReasoningContentClass(("I think.",))
    for speaker in (cannery.supervisor(thought), cannery.user(thought)):
        history = (cannery.user("q"), cannery.assistant("a"), speaker, cannery.user("r"))
        request = cannery.Request(cannery.Conversation(history), "m")
        rendered = cannery.nativize_request(request, target)
        assert '""' not in rendered.body.decode()
        is_said = b"I think." in rendered.body
        assert is_said is not ("conversation[2]" in {loss.path for loss in rendered.losses})


@pytest.mark.parametrize("target", sorted({*TARGETS} - {"anthropic_messages"}))
def test_instructions_of_an_unknown_block_are_an_empty_message(target: str) -> None:
    body = {"model": "m", "max_tokens": 64, "system": UNKNOWN}
    body["messages"] = [{"role": "user", "content": "q"}]
    rendered = cannery.translate(body, source="anthropic_messages", target=target)
    assert '""' not in rendered.body.decode()
    assert "system[0]" in {loss.path for loss in rendered.losses}


# Blocks that a server refuses where they stand, and their paths.
MISPLACED: dict[str, tuple[str, dict[str, Any], str]] = {
    "result of Messages": (
        "anthropic_messages",
        {
            "model": "m",
            "max_tokens": 64,
            "messages": [
                {
                    "role": "assistant",
                    "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}],
                }
            ],
        },
        "messages[0].content[0]: 'tool_result'",
    ),
    "result of Converse": (
        "bedrock_converse",
        {
            "modelId": "m",
            "messages": [
                {
                    "role": "assistant",
                    "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": "r"}]}}],
                }
            ],
        },
        "messages[0].content[0]: 'toolResult'",
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", MISPLACED)
def test_a_result_alone_in_a_turn_of_the_model_is_called_empty_without_a_reason(
    case: str, target: str
) -> None:
    source, body, named = MISPLACED[case]
    assert json.loads(cannery.translate(body, source=source, target=source).body) == body
    if source == target:
        return
    with pytest.raises(cannery.EmptyConversationError, match="left out: ") as raised:
        cannery.translate(body, source=source, target=target, policy="allow")
    assert named in str(raised.value)
    assert [loss.code for loss in raised.value.losses] == ["OPAQUE_DROPPED"]
