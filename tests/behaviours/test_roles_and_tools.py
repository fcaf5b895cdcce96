"""Roles and tools: what other tools mix up, hoist, delete or invent."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

import cannery
from cannery.dialects import find_dialect
from cannery.dialects.openai_chat import RULES
from tests.behaviours.bodies import (
    CHAT,
    CLAUDE,
    GEMINI,
    PNG,
    RESPONSES,
    Told,
    assistant,
    call,
    calls,
    chat,
    claude,
    png,
    system,
    text,
    told,
    tool,
    tool_result,
    tool_use,
    user,
)

# --- roles -------------------------------------------------------------------------------------


def test_01_odd_role_spelling_deletes_the_message():
    messages = [
        {"role": "SYSTEM", "content": " a "},
        {"role": " User\n", "content": "b\n"},
        {"role": "Assistant", "content": "c"},
    ]
    conversation = cannery.normalize_request(chat(*messages), CHAT).conversation
    assert [canister.role.value for canister in conversation] == ["supervisor", "user", "assistant"]
    assert [canister.text for canister in conversation] == [" a ", "b\n", "c"]


def test_03_neighbours_of_one_role_are_stored_as_they_came():
    body = chat(user("a"), user("b"), assistant("c"), system("d"), user("e"))
    request = cannery.normalize_request(body, CHAT)
    assert len(request.conversation) == 5
    assert json.loads(cannery.nativize_request(request, CHAT).body) == body


def test_04_instructions_and_developer_text_overtake_each_other():
    body = {
        "model": "gpt-5.5",
        "instructions": "I",
        "input": [{"role": "developer", "content": "D"}, user("q")],
    }
    request = cannery.normalize_request(body, RESPONSES)
    only_system = msgspec.structs.replace(RULES, leading_supervisors="one")
    strict = Told(cannery.nativize_request(request, CHAT, rules=only_system))
    assert strict.body["messages"] == [system("I\n\nD"), user("q")]
    assert strict.repairs == {"single_system"}
    kept = told(body, RESPONSES, CHAT)
    assert kept.body["messages"] == [system("I"), {"role": "developer", "content": "D"}, user("q")]
    assert told(kept.body, CHAT, RESPONSES).body == body


@pytest.mark.parametrize("source", [CHAT, RESPONSES])
def test_04_a_server_that_knows_no_developer_is_sent_one(source: str):
    target = RESPONSES if source == CHAT else CHAT
    turns = [user("q"), {"role": "developer", "content": "D"}, user("r")]
    body = chat(*turns) if source == CHAT else {"model": "gpt-5.5", "input": turns}
    rules = msgspec.structs.replace(find_dialect(target).rules, knows_developer=False)
    rendered = cannery.nativize_request(
        cannery.normalize_request(body, source), target, rules=rules
    )
    written = json.loads(rendered.body)["messages" if target == CHAT else "input"]
    assert written == [user("q"), system("D"), user("r")]
    assert [(loss.code, loss.path) for loss in rendered.losses] == [
        ("RANK_LOWERED", "conversation[1]")
    ]


def test_06_a_late_system_message_is_hoisted_or_dropped():
    body = claude(user("q"), system("x"), assistant("a"), system="S")
    assert told(body, CLAUDE, CHAT).body["messages"] == [
        system("S"),
        user("q"),
        system("x"),
        assistant("a"),
    ]


def test_06_a_late_system_message_stays_native_where_the_model_takes_it():
    body = chat(system("S"), user("q"), system("x"), assistant("a"), user("z"))
    native = told({**body, "model": "claude-opus-5-5"}, CHAT, CLAUDE)
    assert native.body["messages"][1] == system("x")
    folded = told({**body, "model": "claude-sonnet-4-5"}, CHAT, CLAUDE)
    assert folded.body["system"] == "S"
    first = folded.body["messages"][0]["content"]
    assert first[0]["text"] == "q"
    assert "x" in first[1]["text"] != "x"
    assert "late_supervisors" in folded.repairs


def test_06_gemini_hoists_only_leading_system_messages():
    found = told(chat(system("S"), user("q"), system("x"), assistant("a"), user("b")), CHAT, GEMINI)
    assert found.body["systemInstruction"]["parts"] == [{"text": "S"}]
    assert "x" in found.body["contents"][0]["parts"][1]["text"]


def test_07_roles_must_alternate_and_begin_with_the_user():
    found = told(chat(assistant("a"), user("b"), user("c")), CHAT, CLAUDE)
    roles = [message["role"] for message in found.body["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert found.body["messages"][2]["content"] == [text("b"), text("c")]
    assert found.repairs == {"first_user", "alternation"}


# --- tools -------------------------------------------------------------------------------------


def test_08_results_stand_before_the_users_words():
    found = told(chat(user("go"), calls(call("a")), tool("a", "1"), user("thx")), CHAT, CLAUDE)
    assert found.body["messages"][2] == user([tool_result("a", "1"), text("thx")])


def test_09_an_unanswered_call_is_a_400():
    body = chat(user("go"), calls(call("a")), user("x"))
    found = told(body, CHAT, CLAUDE)
    answer = found.body["messages"][2]["content"][0]
    assert answer["tool_use_id"] == "a"
    assert answer["is_error"] is True
    assert found.repairs == {"unanswered_calls"}
    assert told(body, CHAT, CLAUDE).rendered == found.rendered
    assert len(cannery.normalize_request(body, CHAT).conversation) == 4


def test_10_a_result_without_its_call_is_deleted():
    found = told(chat(user("go"), tool("zz", "precious")), CHAT, CLAUDE)
    assert "precious" in found.body["messages"][0]["content"][1]["text"]
    assert found.losses == {"RESULT_TO_TEXT"}


def test_11_two_results_for_one_call():
    found = told(chat(user("go"), calls(call("a")), tool("a", "1"), tool("a", "2")), CHAT, CLAUDE)
    assert found.body["messages"][2]["content"] == [tool_result("a", "1")]
    assert ("RESULT_DROPPED", "messages[3]") in found.paths


def test_12_parallel_results_out_of_order():
    found = told(
        chat(
            user("go"),
            calls(call("a", "A"), call("b", "B")),
            tool("b", "rb"),
            tool("a", "ra"),
        ),
        CHAT,
        GEMINI,
    )
    called, answered = found.body["contents"][1:]
    assert [part["functionCall"]["name"] for part in called["parts"]] == ["A", "B"]
    assert answered["role"] == "user"
    assert [part["functionResponse"]["name"] for part in answered["parts"]] == ["A", "B"]
    assert len(answered["parts"]) == 2


def test_13_a_message_between_two_outputs():
    def item(kind: str, identifier: str, **fields: str):
        return {"type": kind, "call_id": identifier, **fields}

    body = {
        "model": "m",
        "input": [
            item("function_call", "c1", name="f", arguments="{}"),
            item("function_call", "c2", name="f", arguments="{}"),
            item("function_call_output", "c1", output="1"),
            user("x"),
            item("function_call_output", "c2", output="2"),
        ],
    }
    assert told(body, RESPONSES, CHAT).body["messages"] == [
        calls(call("c1"), call("c2")),
        tool("c1", "1"),
        tool("c2", "2"),
        user("x"),
    ]


def test_14_and_15_ids_and_names_that_a_provider_forbids():
    found = told(chat(user("go"), calls(call("a.b:c", "f g")), tool("a.b:c", "1")), CHAT, CLAUDE)
    used = found.body["messages"][1]["content"][0]
    assert used["id"] == found.body["messages"][2]["content"][0]["tool_use_id"] != "a.b:c"
    aliases = found.rendered.aliases
    assert aliases.names[used["name"]] == "f g"
    assert aliases.ids[used["id"]] == "a.b:c"
    reply = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{**tool_use("t9"), "name": used["name"]}],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    response = cannery.normalize_response(reply, CLAUDE)
    written = json.loads(cannery.nativize_response(response, CHAT, aliases=aliases).body)
    assert written["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "f g"


@pytest.mark.parametrize("target", [RESPONSES, CLAUDE, GEMINI])
@pytest.mark.parametrize("name", ["get weather", "日本語", "a/b", "x" * 200, ""])
def test_15_a_name_that_is_the_alias_of_another_is_taken_for_it(target: str, name: str):
    def offered(*names: str):
        return [{"type": "function", "function": {"name": each}} for each in names]

    (alias,) = told(chat(user("q"), tools=offered(name)), CHAT, target).rendered.aliases.names
    asked = user("q"), calls(call("a", name), call("b", alias)), tool("a", "1"), tool("b", "2")
    for tools in ({}, {"tools": offered(name)}, {"tools": offered(alias, name)}):
        found = told(chat(*asked, **tools), CHAT, target)
        (other,) = found.rendered.aliases.names
        assert other != alias
        assert {alias, other} <= set(re.findall(r'"name": "([^"]*)"', json.dumps(found.body)))
        assert "TOOL_DROPPED" not in found.losses


@pytest.mark.parametrize("target", [RESPONSES, CLAUDE, GEMINI])
def test_15_a_conversation_that_is_written_again_parts_them_too(target: str):
    tools = [{"type": "function", "function": {"name": "get weather"}}]
    request = cannery.normalize_request(chat(user("q"), tools=tools), CHAT)
    (alias,) = cannery.nativize_request(request, target).aliases.names
    conversation = request.conversation
    for turn in range(4):
        name = alias if turn == 2 else "f"
        made = cannery.invocation(f"c{turn}", name, {})
        conversation = conversation.append(made, cannery.result(f"c{turn}", "r"))
        asked = request.replace(conversation=conversation)
        written = cannery.nativize_request(asked, target)
        anew = cannery.Conversation(tuple(conversation))
        assert written == cannery.nativize_request(asked.replace(conversation=anew), target)
        assert (alias in written.aliases.names) == (turn < 2)


def test_14_legal_ids_are_untouched():
    found = told(chat(user("go"), calls(call("call_1-X")), tool("call_1-X", "1")), CHAT, CLAUDE)
    assert found.body["messages"][1]["content"][0]["id"] == "call_1-X"


def test_14_missing_ids_are_made_once_and_not_sent_back():
    part = {"functionCall": {"name": "f", "args": {}}}
    answer = {"functionResponse": {"name": "f", "response": {"output": "1"}}}
    body = {
        "contents": [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [part]},
            {"role": "user", "parts": [answer]},
        ]
    }
    first = told(body, GEMINI, CHAT).body["messages"]
    assert first[1]["tool_calls"][0]["id"] == first[2]["tool_call_id"]
    request = cannery.normalize_request(body, GEMINI)
    assert json.loads(cannery.nativize_request(request, GEMINI).body) == body


@pytest.mark.parametrize("arguments", ["", "not json", "[1]", '"x"', '{"a": 1.0, "b": 1e3}'])
def test_16_arguments_that_are_not_an_object(arguments: str):
    body = chat(user("go"), calls(call("a", "f", arguments)), tool("a", "1"))
    found = told(body, CHAT, CLAUDE)
    assert isinstance(found.body["messages"][1]["content"][0]["input"], dict)
    back = told(found.body, CLAUDE, CHAT).body["messages"][1]["tool_calls"][0]["function"]
    if arguments in ("", '{"a": 1.0, "b": 1e3}'):
        assert json.loads(back["arguments"]) == json.loads(arguments or "{}")
        assert "ARGUMENTS_WRAPPED" not in found.losses
    else:
        assert back["arguments"] == arguments
        assert "ARGUMENTS_WRAPPED" in found.losses


def test_17_an_object_result_of_gemini():
    body = {
        "contents": [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [{"functionCall": {"id": "x", "name": "f", "args": {}}}]},
            {
                "role": "user",
                "parts": [{"functionResponse": {"id": "x", "name": "f", "response": {"temp": 3}}}],
            },
        ]
    }
    there = told(body, GEMINI, CHAT).body
    assert there["messages"][2]["content"] == '{"temp":3}'
    assert told(there, CHAT, GEMINI).body["contents"] == body["contents"]


@pytest.mark.parametrize("there", [CHAT, RESPONSES, CLAUDE])
@pytest.mark.parametrize(
    "response",
    [
        {"error": {"code": 404, "message": "not found"}},
        {"error": ["a", "b"]},
        {"error": "words"},
        {"error": {"error": "nested"}},
        {"error": None},
        {"error": False},
        {"error": None, "temp": 3},
        {"output": {"error": "nested"}},
    ],
)
def test_17_an_error_of_gemini_comes_back_as_another_value(there: str, response: Any):
    answer = {"functionResponse": {"id": "x", "name": "f", "response": response}}
    body = {
        "contents": [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [{"functionCall": {"id": "x", "name": "f", "args": {}}}]},
            {"role": "user", "parts": [answer]},
        ]
    }
    found = told(body, GEMINI, there)
    assert told(found.body, there, GEMINI).body["contents"] == body["contents"]
    has_failed = len(response) == 1 and bool(response.get("error"))
    assert ("[tool error]" in str(found.body) or "is_error" in str(found.body)) is has_failed


@pytest.mark.parametrize("error", ['{"a": 1}', "[1]", "{", "[no JSON]"])
def test_17_an_error_that_is_text_stays_text_at_home(error: str):
    answer = {"functionResponse": {"id": "x", "name": "f", "response": {"error": error}}}
    call_part = {"functionCall": {"id": "x", "name": "f", "args": {}}}
    body = {
        "contents": [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [call_part]},
            {"role": "user", "parts": [answer]},
        ]
    }
    request = cannery.normalize_request(body, GEMINI)
    for source in (GEMINI, None):
        rendered = cannery.nativize_request(request.replace(source=source), GEMINI)
        assert json.loads(rendered.body) == body


@pytest.mark.parametrize("content", ["plain", "[1, 2]", "42"])
def test_17_string_and_list_results_are_wrapped_and_unwrapped(content: str):
    there = told(chat(user("q"), calls(call("x")), tool("x", content)), CHAT, GEMINI)
    response = there.body["contents"][2]["parts"][0]["functionResponse"]["response"]
    assert isinstance(response, dict)
    back = told(there.body, GEMINI, CHAT).body["messages"][2]["content"]
    assert back == content or json.loads(back) == json.loads(content)


@pytest.mark.parametrize("held", [{"error": "x"}, {"error": {"code": 4}}, {"output": "5"}])
@pytest.mark.parametrize("source", ["bedrock_converse", "gemini_interactions", CHAT])
def test_17_an_object_that_looks_wrapped_succeeds_and_comes_back(source: str, held: dict[str, Any]):
    there = told(chat(user("q"), calls(call("x")), tool("x", json.dumps(held))), CHAT, source).body
    if source == "bedrock_converse":
        there["messages"][2]["content"][0]["toolResult"]["content"] = [{"json": held}]
    elif source == "gemini_interactions":
        there["input"][2]["result"] = held
    gemini = told(there, source, GEMINI).body
    response = gemini["contents"][2]["parts"][0]["functionResponse"]["response"]
    assert response == {"output": held}
    back = told(gemini, GEMINI, source).body
    for key in ("messages", "input"):
        if source != CHAT:
            assert back.get(key) == there.get(key)
    assert json.loads(told(gemini, GEMINI, CHAT).body["messages"][2]["content"]) == held


def test_18_an_error_without_content():
    asked = user("q"), assistant([tool_use("t")])
    found = told(claude(*asked, user([tool_result("t", is_error=True)])), CLAUDE, CHAT)
    assert found.losses == {"ERROR_FLAG_TO_TEXT"}
    back = told(found.body, CHAT, CLAUDE).body["messages"][2]["content"][0]
    assert back["is_error"] is True
    fine = told(claude(*asked, user([tool_result("t", "ok")])), CLAUDE, GEMINI)
    response = fine.body["contents"][2]["parts"][0]["functionResponse"]["response"]
    assert response == {"output": "ok"}
    failed = told(claude(*asked, user([tool_result("t", "no", is_error=True)])), CLAUDE, GEMINI)
    response = failed.body["contents"][2]["parts"][0]["functionResponse"]["response"]
    assert response == {"error": "no"}


def test_19_media_in_a_tool_result():
    body = claude(
        user("q"),
        assistant([tool_use("t"), tool_use("t2")]),
        user(
            [tool_result("t", [text("see"), png()]), tool_result("t2", "two"), text("ok?")],
        ),
    )
    found = told(body, CLAUDE, CHAT)
    roles = [message["role"] for message in found.body["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "user"]
    assert PNG in json.dumps(found.body["messages"][4])
    assert "MEDIA_MOVED" in found.losses
    assert told(found.body, CHAT, CLAUDE).body["messages"] == body["messages"]


def test_20_legacy_functions():
    legacy = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "f", "arguments": "{}"},
    }
    body = chat(user("x"), legacy, {"role": "function", "name": "f", "content": "42"})
    found = told(body, CHAT, CLAUDE)
    used = found.body["messages"][1]["content"][0]
    assert found.body["messages"][2]["content"] == [tool_result(used["id"], "42")]
    assert found.losses == set()


def test_21_free_form_and_hosted_tools():
    custom = {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "select 1;"}}
    found = told(chat(user("x"), calls(custom), tool("c", "1")), CHAT, RESPONSES)
    assert found.body["input"][1]["input"] == "select 1;"
    assert told(chat(user("x"), calls(custom), tool("c", "1")), CHAT, CLAUDE).losses == {
        "FREEFORM_WRAPPED"
    }
    hosted = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        text("done"),
    ]
    abroad = told(claude(user("q"), assistant(hosted), user("z")), CLAUDE, CHAT)
    assert "tool_calls" not in abroad.body["messages"][1]
    assert "OPAQUE_DROPPED" in abroad.losses
    assert "unanswered_calls" not in abroad.repairs


@pytest.mark.parametrize("target", [CLAUDE, GEMINI, RESPONSES])
@pytest.mark.parametrize(
    "choice", ["auto", "none", "required", {"type": "function", "function": {"name": "f"}}]
)
def test_22_tool_choice_survives(choice: object, target: str):
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    body = chat(user("x"), tools=tools, tool_choice=choice)
    there = told(body, CHAT, target).body
    assert told(there, target, CHAT).body["tool_choice"] == choice


@pytest.mark.parametrize("target", [CLAUDE, RESPONSES])
def test_22_parallel_switch_and_strict_survive(target: str):
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    function = {"name": "f", "parameters": schema, "strict": True}
    tools = [{"type": "function", "function": function}]
    body = chat(user("x"), tools=tools, tool_choice="auto", parallel_tool_calls=False)
    back = told(told(body, CHAT, target).body, target, CHAT).body
    assert back["parallel_tool_calls"] is False
    assert back["tools"] == tools
