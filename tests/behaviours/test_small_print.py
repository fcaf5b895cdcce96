"""What stands beside the words: fields of orphans and cache marks, chunks of documents, grammars. Nothing vanishes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import (
    CHAT,
    CLAUDE,
    GEMINI,
    PNG,
    RESPONSES,
    Told,
    assistant,
    chat,
    claude,
    system,
    user,
)
from tests.oracles.sdk_types import validate_request

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
MODELS = {CHAT: "gpt-5.5", RESPONSES: "gpt-5.5", CLAUDE: "claude-opus-4-8", GEMINI: "gemini-3-pro"}


def told(body: Any, source: str, target: str, **options: Any) -> Told:
    """A translation."""
    sent = json.dumps(body).encode()
    rendered = cannery.translate(sent, source=source, target=target, **options)
    return Told(rendered)


@pytest.mark.parametrize("target", [CHAT, RESPONSES, GEMINI])
def test_a_result_without_a_call_tells_its_failure_its_mark_and_its_fields(target: str):
    result = {
        "type": "tool_result",
        "tool_use_id": "t9",
        "content": [{"type": "text", "text": "no such file"}, IMAGE],
        "is_error": True,
        "cache_control": {"type": "ephemeral"},
        "future": {"a": 1},
    }
    found = told(claude(user([result])), CLAUDE, target, model=MODELS[target])
    text = found.rendered.body.decode()
    assert "[result of tool call t9]\\n[tool error] no such file" in text
    assert ("FIELD_DROPPED", "messages[0].content[0].future") in found.paths
    assert ("CACHE_MARK_DROPPED" in found.losses) is (target == GEMINI)
    assert text.count("prompt_cache_breakpoint") == (target != GEMINI)


def test_the_name_on_a_result_is_told_where_no_call_has_it():
    body = chat(user("q"), {"role": "tool", "tool_call_id": "c", "name": "f", "content": "r"})
    assert ("FIELD_DROPPED", "messages[1].name") in told(body, CHAT, CLAUDE).paths


@pytest.mark.parametrize("target", [CHAT, CLAUDE, GEMINI])
def test_the_name_on_an_output_is_that_of_its_call(target: str):
    items = [
        user("q"),
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "name": "f", "output": "r"},
    ]
    body = {"model": "gpt-5.5", "max_output_tokens": 20, "input": items}
    told(body, RESPONSES, target, model=MODELS[target], policy="strict")


@pytest.mark.parametrize("target", [CHAT, RESPONSES, GEMINI])
def test_what_else_a_cache_mark_says_is_named(target: str):
    mark = {"type": "ephemeral", "scope": "global"}
    text = {"type": "text", "text": "q", "cache_control": mark}
    later = {"type": "text", "text": "r", "cache_control": {"type": "ephemeral", "ttl": "24h"}}
    body = claude(user([text, later]), system=[{**text, "text": "s"}])
    found = told(body, CLAUDE, target, model=MODELS[target])
    for path in ("system[0]", "messages[0].content[0]"):
        assert ("CACHE_MARK_DROPPED", f"{path}.cache_control.scope") in found.paths
    assert ("CACHE_MARK_DROPPED", "messages[0].content[1].cache_control.ttl") in found.paths
    assert {loss.severity for loss in found.rendered.losses} == {"info"}


@pytest.mark.parametrize("is_result", [True, False])
def test_an_image_among_the_chunks_of_a_document_goes_to_chat(is_result: bool):
    chunks = [{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}, {"type": "new"}]
    document = {
        "type": "document",
        "source": {"type": "content", "content": chunks},
        "cache_control": {"type": "ephemeral"},
    }
    asked: list[Any] = [user([document])]
    if is_result:
        document.pop("cache_control")
        call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "t", "content": [document]}
        asked = [user("q"), assistant([call]), user([result])]
    found = told(claude(*asked), CLAUDE, CHAT, model="gpt-5.5")
    assert not validate_request(CHAT, found.body)
    text, image = found.body["messages"][-1]["content"][-2:]
    words = found.body["messages"][-2]["content"] if is_result else text["text"]
    assert words == "## Supplemental Information ##\n\na\n\nb"
    assert image["image_url"]["url"].endswith(PNG)
    assert ("prompt_cache_breakpoint" in image) is not is_result
    assert {"DOCUMENT_TO_TEXT", "OPAQUE_DROPPED"} <= found.losses


def test_fields_of_a_refusal_are_named_on_the_way_to_chat():
    parts = [{"type": "refusal", "refusal": "no", "future": 1}]
    said = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    body = {"model": "gpt-5.5", "input": [user("q"), {**said, "content": parts}, user("r")]}
    found = told(body, RESPONSES, CHAT)
    assert found.body["messages"][1]["refusal"] == "no"
    assert ("FIELD_DROPPED", "input[1].content[0].future") in found.paths


@pytest.mark.parametrize("target", [CLAUDE, GEMINI])
def test_the_grammar_of_a_custom_tool_is_named_and_free_text_is_none(target: str):
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}
    for given, is_lost in ((grammar, True), ({"type": "text"}, False)):
        tool = {"type": "custom", "name": "f", "format": given}
        body = {"model": "gpt-5.5", "input": "q", "tools": [tool]}
        found = told(body, RESPONSES, target, model=MODELS[target])
        assert (("FIELD_DROPPED", "tools[0].format") in found.paths) is is_lost
        assert ("FIELD_DROPPED" in found.losses) is is_lost
        assert "FREEFORM_WRAPPED" in found.losses


def test_all_parts_of_a_late_system_message_go_the_same_way():
    late = system([{"type": "text", "text": "x"}, {"type": "text", "text": "y"}])
    body = chat(user("q"), assistant("a"), late, user("r"), max_completion_tokens=9)
    found = told(body, CHAT, CLAUDE, model="claude-opus-4-8")
    assert [message["role"] for message in found.body["messages"]] == ["user", "assistant", "user"]
    assert [block["text"] for block in found.body["messages"][2]["content"]] == [
        "<system-message>\nx\n</system-message>",
        "<system-message>\ny\n</system-message>",
        "r",
    ]


def test_a_turn_that_is_left_out_parts_nobody():
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
    body = {"model": "gpt-5.5", "input": [user("a"), thought, user("b")]}
    found = told(body, RESPONSES, CLAUDE, model="claude-opus-4-8")
    texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert found.body["messages"] == [user(texts)]
    assert "alternation" in found.repairs


def test_without_tools_there_is_no_choice_to_call_none():
    choice = {"functionCallingConfig": {"mode": "NONE"}}
    body = {
        "contents": [{"role": "user", "parts": [{"text": "q"}]}],
        "tools": [{"googleMaps": {}}],
        "toolConfig": choice,
    }
    found = told(body, GEMINI, CLAUDE, model="claude-opus-4-8")
    assert "tool_choice" not in found.body
    assert found.losses == {"TOOL_DROPPED"}


def test_what_a_file_and_a_tool_cannot_say_is_named_by_its_own_path():
    document = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "words"},
        "context": "c",
        "citations": {"enabled": True},
    }
    tool = {"name": "f", "input_schema": {"type": "object"}, "strict": True}
    body = claude(user([document]), tools=[tool])
    for target in (CHAT, RESPONSES, GEMINI):
        found = told(body, CLAUDE, target, model=MODELS[target]).paths
        for field in ("context", "citations"):
            assert ("FIELD_DROPPED", f"messages[0].content[0].{field}") in found
    assert ("FIELD_DROPPED", "tools[0].strict") in found
