"""What is said in the target is not told as lost, whatever its spelling was; what is not said is told."""

from __future__ import annotations

import pytest

import cannery
from tests.behaviours.bodies import (
    CHAT,
    CLAUDE,
    GEMINI,
    PDF,
    PNG,
    RESPONSES,
    calls,
    chat,
    claude,
    png,
    text,
    told,
    tool,
    tool_result,
    tool_use,
    user,
)

ABROAD = (RESPONSES, CLAUDE, GEMINI)


@pytest.mark.parametrize("target", ABROAD)
@pytest.mark.parametrize("arguments", [{"a": 1}, {}, {"a": {"b": [1, 2.5, None]}}])
def test_arguments_that_came_as_an_object_are_told_as_lost(target: str, arguments: object) -> None:
    made = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    body = chat(user("q"), calls(made), tool("c1", "r"))
    assert told(body, CHAT, target, policy="strict").losses == set()
    assert told(body, CHAT, CHAT).body == body
    legacy = {"role": "assistant", "content": None, "function_call": made["function"]}
    body = chat(user("q"), legacy, {"role": "function", "name": "f", "content": "r"})
    assert told(body, CHAT, target, policy="strict").losses == set()
    assert told(body, CHAT, CHAT).body == body


def test_arguments_that_came_as_an_object_stay_one_when_they_were_stored() -> None:
    made = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1.0}}}
    body = chat(user("q"), calls(made), tool("c1", "r"))
    request = cannery.normalize_request(body, CHAT)
    store = cannery.open_store("sqlite::memory:")
    kept = store.create()
    for canister in request.conversation:
        kept.append(canister)
    loaded = request.replace(conversation=kept.load())
    assert cannery.normalize_request(cannery.nativize_request(loaded, CHAT).body, CHAT) == request


@pytest.mark.parametrize("target", ABROAD)
@pytest.mark.parametrize("data", [PDF, f"data:application/pdf;base64,{PDF}"])
def test_a_file_without_a_wrapper_is_told_as_lost(target: str, data: str) -> None:
    body = chat(user([{"type": "file", "file": {"file_data": data, "filename": "a.pdf"}}]))
    assert told(body, CHAT, target).losses <= {"NAME_HIDDEN"}
    assert told(body, CHAT, CHAT).body == body


@pytest.mark.parametrize("target", [CHAT, RESPONSES, CLAUDE])
@pytest.mark.parametrize("declared, data", [("image/png", PDF), ("application/pdf", PNG)])
def test_a_wrong_type_of_gemini_is_a_lost_field(target: str, declared: str, data: str) -> None:
    body = {
        "contents": [
            {"role": "user", "parts": [{"inlineData": {"mimeType": declared, "data": data}}]}
        ]
    }
    found = told(body, GEMINI, target)
    assert found.losses == {"MODEL_UNKNOWN"}
    assert found.repairs == {"media_types"}
    assert declared not in str(found.body)
    assert told(body, GEMINI, GEMINI).body == body


@pytest.mark.parametrize("target", [CHAT, CLAUDE, GEMINI])
def test_the_name_on_a_result_is_a_lost_field(target: str) -> None:
    body = {
        "model": "gpt-5.5",
        "input": [
            {"role": "user", "content": "q"},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "name": "f", "output": "r"},
        ],
    }
    assert told(body, RESPONSES, target, policy="strict").losses == set()


def test_settings_that_are_sent_are_told_as_lost() -> None:
    body = chat(user("q"), modalities=["text"], logit_bias={"5": 1})
    request = cannery.normalize_request(body, CHAT).replace(source=None)
    rendered = cannery.nativize_request(request, CHAT, policy="strict")
    assert cannery.normalize_request(rendered.body, CHAT) == cannery.normalize_request(body, CHAT)


@pytest.mark.parametrize("target", [CLAUDE, GEMINI])
def test_the_grammar_of_a_custom_tool_is_told(target: str) -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: X"}}
    custom = {"type": "custom", "custom": {"name": "f", "format": grammar}}
    assert ("FIELD_DROPPED", "tools[0].custom.format") in told(
        chat(user("q"), tools=[custom]), CHAT, target
    ).paths
    plain = {"type": "custom", "custom": {"name": "f", "format": {"type": "text"}}}
    assert told(chat(user("q"), tools=[plain]), CHAT, target).losses == {"FREEFORM_WRAPPED"}


def _chunked() -> dict[str, object]:
    content = [text("one"), png(), text("two"), {"type": "block_of_tomorrow"}]
    return {"type": "document", "source": {"type": "content", "content": content}, "title": "T"}


@pytest.mark.parametrize("target", [CHAT, RESPONSES, GEMINI])
def test_an_image_in_a_document_of_chunks_vanishes(target: str) -> None:
    found = told(claude(user([text("q"), _chunked()])), CLAUDE, target)
    assert PNG in str(found.body)
    assert "OPAQUE_DROPPED" in found.losses
    answered = user([tool_result("c1", [text("r"), _chunked()])])
    found = told(claude(user("q"), assistant_with_call(), answered), CLAUDE, target)
    assert PNG in str(found.body)


def assistant_with_call() -> dict[str, object]:
    return {"role": "assistant", "content": [tool_use("c1"), tool_use("c2")]}


def test_a_text_document_in_a_result_hides_the_media_of_the_next() -> None:
    plain = {"type": "text", "media_type": "text/plain", "data": "words of a document"}
    answers = user(
        [
            tool_result("c1", [text("r1"), png(), {"type": "document", "source": plain}]),
            tool_result("c2", [text("r2"), png()]),
        ]
    )
    found = told(claude(user("q"), assistant_with_call(), answers), CLAUDE, CHAT)
    first, second, media = found.body["messages"][2:]
    assert "words of a document" in first["content"]
    assert second["content"] == "r2"
    assert [part["type"] for part in media["content"]] == ["text", "image_url"] * 2
    back = told(found.body, CHAT, CLAUDE).body["messages"][2]["content"]
    assert [[each["type"] for each in block["content"]] for block in back] == [
        ["text", "image"]
    ] * 2


def test_a_text_document_alone_in_a_result_is_no_media() -> None:
    plain = {"type": "text", "media_type": "text/plain", "data": "words"}
    answers = user([tool_result("c1", [{"type": "document", "source": plain}]), tool_result("c2")])
    found = told(claude(user("q"), assistant_with_call(), answers), CLAUDE, CHAT)
    assert [message["role"] for message in found.body["messages"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
    ]
    assert found.losses == {"DOCUMENT_TO_TEXT"}


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_a_cache_mark_on_a_result_vanishes(target: str) -> None:
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    answers = user([tool_result("c1", "r1"), tool_result("c2", "r2", **mark)])
    body = claude(user("q"), assistant_with_call(), answers)
    found = told(body, CLAUDE, target)
    assert found.losses == set()
    assert str(found.body).count("'ttl': '12h'") == 1
    assert told(found.body, target, CLAUDE).body["messages"][2] == answers


def test_a_cache_mark_on_a_result_that_cannot_carry_it_is_told() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    for answer in ("", [text("r"), png()]):
        answers = user([tool_result("c1", answer, **mark), tool_result("c2", "r2")])
        found = told(claude(user("q"), assistant_with_call(), answers), CLAUDE, CHAT)
        assert ("CACHE_MARK_DROPPED", "messages[2].content[0]") in found.paths


def test_an_orphan_that_failed_does_not_say_so() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    body = claude(user([text("q"), tool_result("c9", "boom", is_error=True, **mark)]))
    found = told(body, CLAUDE, CHAT)
    said = found.body["messages"][0]["content"][1]
    assert said["text"] == "[result of tool call c9]\n[tool error] boom"
    assert "prompt_cache_breakpoint" in said
    assert found.losses == {"RESULT_TO_TEXT", "ERROR_FLAG_TO_TEXT"}


def test_data_of_an_orphan_stand_behind_its_label() -> None:
    answer = {"functionResponse": {"name": "f", "id": "c9", "response": {"temp": 3}}}
    body = {"contents": [{"role": "user", "parts": [{"text": "q"}, answer]}]}
    said = told(body, GEMINI, CLAUDE).body["messages"][0]["content"]
    assert [block["text"] for block in said] == ["q", '[result of tool call c9]\n{"temp":3}']
