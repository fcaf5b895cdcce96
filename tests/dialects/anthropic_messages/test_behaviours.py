"""What breaks elsewhere and holds here, each rule by the name of what breaks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cannery.dialects import find_dialect
from cannery.errors import DialectError, WireRoleError
from cannery.messages.builders import document, user
from cannery.messages.canisters import AssistantCanisterClass
from cannery.messages.content import (
    AudioContentClass,
    Origin,
    ReasoningContentClass,
    TextualContentClass,
)
from cannery.messages.requests import Request
from cannery.translation import nativize_request, normalize_request, normalize_response, translate
from tests.oracles.sdk_types import validate_request
from tests.oracles.server_rules import check_request_rules

NAME = "anthropic_messages"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def from_chat(*messages, model="claude-sonnet-4-5", **more):
    body = {"model": model, "max_tokens": 4096, "messages": list(messages), **more}
    rendered = translate(body, source="openai_chat", target=NAME)
    written = json.loads(rendered.body)
    assert validate_request(NAME, written) == []
    assert check_request_rules(NAME, written) == []
    return written, rendered


def to_chat(*messages, **more):
    body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": list(messages), **more}
    rendered = translate(body, source=NAME, target="openai_chat")
    return json.loads(rendered.body), rendered


def codes(rendered):
    return {loss.code for loss in rendered.losses}


def said(role, content, **more):
    return {"role": role, "content": content, **more}


def calling(*calls):
    listed = [
        {"id": identifier, "type": "function", "function": {"name": "f", "arguments": arguments}}
        for identifier, arguments in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": listed}


def answer(identifier, content="ok"):
    return {"role": "tool", "tool_call_id": identifier, "content": content}


# --- roles


def test_roles_in_odd_spelling_are_normalized():
    body = {"messages": [said(" Human\n", "a"), said("AI", " b "), said("SYSTEM", "c")]}
    request = normalize_request(body, NAME)
    assert [canister.role.value for canister in request.conversation] == [
        "user",
        "assistant",
        "supervisor",
    ]
    assert request.conversation[1].text == " b "


@pytest.mark.parametrize("role", ["admin", "tool", "developer", None, 3])
def test_unknown_role_is_refused_with_its_place(role):
    with pytest.raises(WireRoleError, match=r"messages\.0\.role"):
        normalize_request({"messages": [said(role, "a")]}, NAME)


def test_late_system_message_keeps_its_place():
    written, _ = to_chat(said("user", "q"), said("system", "x"), said("assistant", "a"), system="S")
    assert [(message["role"], message["content"]) for message in written["messages"]] == [
        ("system", "S"),
        ("user", "q"),
        ("system", "x"),
        ("assistant", "a"),
    ]


@pytest.mark.parametrize(
    "model",
    [
        "claude-opus-4-8",
        "claude-opus-5",
        "claude-opus-5-5",
        "us.claude-opus-4-8-v1",
        "claude-fable-5",
        "claude-fable-5-1",
        "claude-mythos-5",
        "claude-sonnet-5-5",
        "claude-haiku-5-5",
    ],
)
def test_late_system_message_is_native_where_the_model_takes_it(model):
    chat = (said("user", "q"), said("system", "x"), said("assistant", "a"), said("user", "r"))
    written, _ = from_chat(*chat, model=model)
    assert written["messages"][1] == said("system", "x")


@pytest.mark.parametrize(
    "model",
    [
        "claude-sonnet-5",
        "claude-haiku-4-5",
        "claude-opus-4-7",
        "claude-mythos-preview",
        "claude-opus-4-20250514",
        "claude-3-5-sonnet-20241022",
        "gpt-5",
    ],
)
def test_late_system_message_is_folded_where_the_model_refuses_it(model):
    chat = (said("user", "q"), said("system", "x"), said("assistant", "a"), said("user", "r"))
    written, rendered = from_chat(*chat, model=model)
    envelope = {"type": "text", "text": "<system-message>\nx\n</system-message>"}
    assert written["messages"][0]["content"] == [{"type": "text", "text": "q"}, envelope]
    assert "late_supervisors" in {repair.name for repair in rendered.repairs}


def shape(written: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in written["messages"]]


def test_late_system_message_between_user_turns_moves_behind_them():
    chat = [said("user", "q"), said("system", "x"), said("user", "r"), said("system", "y")]
    written, rendered = from_chat(*chat, model="claude-opus-5")
    both = [{"type": "text", "text": "q"}, {"type": "text", "text": "r"}]
    assert shape(written) == [("user", both), ("system", "x"), ("system", "y")]
    assert [(each.name, each.path) for each in rendered.repairs] == [
        ("late_supervisors", "messages[1].content"),
        ("alternation", "messages[2].content"),
    ]
    more = (said("assistant", "a"), said("user", "s"))
    written, _ = from_chat(*chat[:3], *more, model="claude-opus-5")
    assert [role for role, _ in shape(written)] == ["user", "system", "assistant", "user"]


def test_several_late_system_messages_stay_native():
    chat = (said("user", "q"), said("system", "x"), said("system", "y"), said("assistant", "a"))
    written, rendered = from_chat(*chat, said("user", "r"), model="claude-opus-5")
    assert shape(written)[1:3] == [("system", "x"), ("system", "y")]
    assert rendered.repairs == ()


def test_late_system_message_before_a_turn_that_is_left_out_moves_too():
    thought = {"role": "assistant", "content": None, "reasoning_content": "hm"}
    chat = (said("user", "q"), said("system", "x"), thought, said("user", "r"))
    written, _ = from_chat(*chat, model="claude-opus-5")
    assert [role for role, _ in shape(written)] == ["user", "system"]


def test_late_system_message_between_call_and_result_does_not_part_them():
    chat = (said("user", "q"), calling(("a", "{}")), said("system", "x"), answer("a"))
    written, _ = from_chat(*chat, model="claude-opus-5-5")
    assert [message["role"] for message in written["messages"]] == [
        "user",
        "assistant",
        "user",
        "system",
    ]


def test_leading_system_texts_stay_apart():
    written, rendered = from_chat(said("system", "I"), said("developer", "D"), said("user", "q"))
    assert [block["text"] for block in written["system"]] == ["I", "D"]
    assert codes(rendered) == {"RANK_LOWERED"}


def test_single_system_text_is_a_string():
    written, _ = from_chat(said("system", "I"), said("user", "q"))
    assert written["system"] == "I"


def test_same_role_neighbours_are_merged_and_a_leading_assistant_gets_a_user():
    written, _ = from_chat(said("assistant", "a"), said("user", "b"), said("user", "c"))
    assert [message["role"] for message in written["messages"]] == ["user", "assistant", "user"]
    assert [block["text"] for block in written["messages"][2]["content"]] == ["b", "c"]


# --- tools


def test_results_come_first_in_one_user_turn():
    chat = (said("user", "q"), calling(("a", "{}"), ("b", "{}")), answer("b"), answer("a"))
    written, _ = from_chat(*chat, said("user", "thx"))
    turn = written["messages"][2]["content"]
    assert [block.get("tool_use_id", block["type"]) for block in turn] == ["a", "b", "text"]


def test_unanswered_call_gets_an_error_result():
    written, _ = from_chat(said("user", "q"), calling(("a", "{}")), said("user", "r"))
    result, text = written["messages"][2]["content"]
    assert result["is_error"]
    assert result["tool_use_id"] == "a"
    assert text["text"] == "r"


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ("", {}),
        ("  ", {}),
        ('{"n": 1.0}', {"n": 1.0}),
        ("{not json", {"_raw_arguments": "{not json"}),
        ("[1]", {"_raw_arguments": "[1]"}),
        ('{"a": "\\ud800"}', {"a": "\ufffd"}),
    ],
)
def test_arguments_are_an_object_whatever_the_model_wrote(arguments, expected):
    written, rendered = from_chat(said("user", "q"), calling(("a", arguments)), answer("a"))
    assert written["messages"][1]["content"][0]["input"] == expected
    assert ("ARGUMENTS_WRAPPED" in codes(rendered)) == ("_raw_arguments" in expected)


def test_wrapped_arguments_are_unwrapped_on_return():
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {"_raw_arguments": "{not"}}
    written, _ = to_chat(said("user", "q"), said("assistant", [call]))
    assert written["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{not"


def test_number_spelling_of_arguments_survives():
    body = [said("user", "q"), calling(("a", '{"n":1e3,"big":123456789012345678901234567890}'))]
    rendered = translate({"messages": body}, source="openai_chat", target=NAME)
    assert b'{"n":1e3,"big":123456789012345678901234567890}' in rendered.body


def test_forbidden_ids_and_names_are_rewritten_on_both_ends():
    odd = {"id": "a:b/c", "type": "function", "function": {"name": "x.y", "arguments": "{}"}}
    chat = (said("user", "q"), {"role": "assistant", "tool_calls": [odd]}, answer("a:b/c"))
    tool = {"type": "function", "function": {"name": "x.y"}}
    written, rendered = from_chat(*chat, tools=[tool])
    call, result = (written["messages"][index]["content"][0] for index in (1, 2))
    assert call["id"] == result["tool_use_id"]
    assert rendered.aliases.ids[call["id"]] == "a:b/c"
    assert rendered.aliases.names[written["tools"][0]["name"]] == "x.y"


def test_two_calls_of_one_id_are_answered_in_their_order():
    chat = (said("user", "q"), calling(("a", "{}"), ("a", "{}")), answer("a", "1"))
    written, _ = from_chat(*chat)
    calls, results = (written["messages"][index]["content"] for index in (1, 2))
    assert [call["id"] for call in calls] == [result["tool_use_id"] for result in results]


def test_failed_result_without_words_gets_some_since_the_server_wants_them():
    written, _ = from_chat(said("user", "q"), calling(("a", "{}")), answer("a", "[tool error] "))
    result = written["messages"][2]["content"][0]
    assert result["is_error"] is True
    assert result["content"] == "[tool error]"


def test_success_gains_no_false_flag():
    written, _ = from_chat(said("user", "q"), calling(("a", "{}")), answer("a"))
    assert "is_error" not in written["messages"][2]["content"][0]


def test_free_text_of_a_custom_tool_is_wrapped():
    call = {"id": "a", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    chat = (said("user", "q"), {"role": "assistant", "tool_calls": [call]}, answer("a"))
    written, rendered = from_chat(*chat, tools=[{"type": "custom", "custom": {"name": "sql"}}])
    assert written["messages"][1]["content"][0]["input"] == {"input": "select 1"}
    assert "input" in written["tools"][0]["input_schema"]["properties"]
    assert "FREEFORM_WRAPPED" in codes(rendered)


def test_hosted_tool_is_never_shown_as_work_for_the_client():
    call = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
    written, rendered = to_chat(said("user", "q"), said("assistant", [call]), said("user", "r"))
    assert not any("tool_calls" in message for message in written["messages"])
    assert "OPAQUE_DROPPED" in codes(rendered)


# --- reasoning


def thought(origin, model=None):
    content = ReasoningContentClass("hm", signature="sig", origin=Origin(origin, model))
    return AssistantCanisterClass(content)


def asked(*canisters, model="claude-opus-5-5"):
    rendered = nativize_request(Request(canisters, model), NAME)
    return json.loads(rendered.body), rendered


def test_signature_returns_to_its_own_family_to_the_letter():
    said_text = AssistantCanisterClass(TextualContentClass("b"), joined=True)
    own = thought(NAME, "claude-opus-5-1")
    written, rendered = asked(user("a"), own, said_text, user("c"))
    block = written["messages"][1]["content"][0]
    assert block == {"type": "thinking", "thinking": "hm", "signature": "sig"}
    assert "SIGNATURE_DROPPED" not in codes(rendered)


@pytest.mark.parametrize(
    "foreign", [thought("gemini_generate"), thought(NAME, "claude-sonnet-4-5")]
)
def test_signature_of_somebody_else_is_dropped_and_no_thought_becomes_an_answer(foreign):
    written, rendered = asked(user("a"), foreign, user("c"))
    assert "hm" not in json.dumps(written)
    assert {"SIGNATURE_DROPPED", "REASONING_DROPPED"} <= codes(rendered)
    assert check_request_rules(NAME, written) == []


def test_thoughts_from_elsewhere_are_shown_unsigned_in_an_answer():
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": "b", "reasoning_content": "hm"},
    }
    body = {"id": "1", "model": "m", "choices": [choice]}
    rendered = translate(body, source="openai_chat", target=NAME, kind="response")
    content = json.loads(rendered.body)["content"]
    assert content[0] == {"type": "thinking", "thinking": "hm", "signature": ""}
    assert content[1]["text"] == "b"


# --- content


def test_blank_text_is_not_sent_and_its_cache_mark_moves():
    mark = {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": " ", **mark}]
    written, _ = from_chat(said("user", parts))
    marked = {"type": "ephemeral", "ttl": "1h"}
    assert written["messages"][0]["content"] == [
        {"type": "text", "text": "a", "cache_control": marked}
    ]


def test_surplus_cache_marks_go_from_the_front():
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    parts = [{"type": "text", "text": str(number), **mark} for number in range(6)]
    written, rendered = from_chat(said("user", parts))
    marked = ["cache_control" in block for block in written["messages"][0]["content"]]
    assert marked == [False, False, True, True, True, True]
    assert "CACHE_MARK_DROPPED" in codes(rendered)


def test_long_cache_mark_never_follows_a_short_one():
    marks = [{"mode": "explicit", "ttl": ttl} for ttl in ("12h", "30m", "12h")]
    parts = [
        {"type": "text", "text": str(number), "prompt_cache_breakpoint": mark}
        for number, mark in enumerate(marks)
    ]
    written, _ = from_chat(said("user", parts))
    ttls = [block["cache_control"].get("ttl") for block in written["messages"][0]["content"]]
    assert ttls == ["1h", None, None]


def test_wrong_media_type_is_corrected_from_the_bytes():
    image = {"type": "image_url", "image_url": {"url": f"data:image/jpg;base64,{PNG}"}}
    written, rendered = from_chat(said("user", [image]))
    assert written["messages"][0]["content"][0]["source"]["media_type"] == "image/png"
    assert [repair.name for repair in rendered.repairs] == ["media_types"]


def test_pdf_is_never_an_image():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,JVBERi0xLjQK"}}
    written, _ = from_chat(said("user", [image]))
    assert written["messages"][0]["content"][0]["type"] == "document"


def test_turn_of_nothing_but_sound_stays_a_turn():
    body = Request((user(AudioContentClass(b"RIFF0000WAVE", "audio/wav")),), "m")
    rendered = nativize_request(body, NAME)
    assert json.loads(rendered.body)["messages"] == [said("user", "[audio omitted]")]
    assert "MEDIA_DROPPED" in codes(rendered)


def test_document_is_a_document_with_its_title():
    written, _ = asked(document("text", title="T"), user("q"))
    block = written["messages"][0]["content"][0]
    assert (block["type"], block["title"], block["source"]["data"]) == ("document", "T", "text")


def test_file_id_of_another_provider_is_not_sent():
    file = {"type": "file", "file": {"file_id": "file-1"}}
    written, rendered = from_chat(said("user", [file, {"type": "text", "text": "q"}]))
    assert "file-1" not in json.dumps(written)
    assert "REFERENCE_UNRESOLVABLE" in codes(rendered)


def test_search_result_is_not_silently_lost_abroad():
    text = {"type": "text", "text": "found"}
    block = {"type": "search_result", "source": "s", "title": "T", "content": [text]}
    written, rendered = to_chat(said("user", [block]))
    assert "found" in json.dumps(written)
    assert "DOCUMENT_TO_TEXT" in codes(rendered)


def test_prefill_is_native_on_old_models_and_followed_by_a_user_on_new_ones():
    chat = (said("user", "q"), said("assistant", "The answer is "))
    written, rendered = from_chat(*chat)
    assert written["messages"][-1] == said("assistant", "The answer is")
    assert codes(rendered) == {"TEXT_DROPPED"}
    written, rendered = from_chat(*chat, model="claude-opus-4-6")
    assert written["messages"][-1]["role"] == "user"
    assert "PREFILL_DROPPED" in codes(rendered)


# --- errors


@pytest.mark.parametrize(
    "body, path",
    [
        ({}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": [1]}, "messages[0]"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [said("user", 1)]}, "messages[0].content"),
        ({"messages": [said("user", [{"type": "text"}])]}, "messages[0].content[0].text"),
        ({"messages": [said("user", [{"type": "image"}])]}, "messages[0].content[0].source"),
        ({"messages": [said("user", [{}])]}, "messages[0].content[0].type"),
        ({"messages": [], "system": 1}, "system"),
    ],
)
def test_broken_body_is_refused_with_its_place(body, path):
    with pytest.raises(DialectError) as caught:
        normalize_request(body, NAME)
    assert (caught.value.dialect, caught.value.path) == (NAME, path)


def test_error_body_is_no_answer():
    with pytest.raises(DialectError):
        normalize_response({"type": "error", "error": {"type": "x", "message": "y"}}, NAME)


def test_errors_keep_their_kind_and_request_id():
    dialect = find_dialect(NAME)
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}
    error = dialect.read_error(529, json.dumps({**body, "request_id": "req_1"}).encode())
    assert (error.kind, error.message, error.request_id) == ("overloaded_error", "m", "req_1")
    assert json.loads(dialect.write_error(error)) == {**body, "request_id": "req_1"}
    assert dialect.read_error(500, b"<html>").message == "<html>"
