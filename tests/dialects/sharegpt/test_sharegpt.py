"""ShareGPT: rule 2 of what translation must do, and what is peculiar to these records."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

import cannery
from cannery.messages.residue import Residue

NAME = "sharegpt"


def record(*turns: tuple[str, str], **more: Any) -> bytes:
    conversations = [{"from": who, "value": value} for who, value in turns]
    return json.dumps({"conversations": conversations, **more}).encode()


def said(body: bytes) -> list[Any]:
    return list(cannery.normalize_request(body, NAME).conversation)


def written(body: bytes, target: str = NAME) -> Any:
    return json.loads(cannery.translate(body, source=NAME, target=target).body)


def test_roles_are_read_in_many_spellings_and_written_in_one():
    body = record(
        ("SYSTEM", "a"),
        ("user", "b"),
        (" Assistant", "c"),
        ("human", "d"),
        ("bing", "e"),
        ("gpt", "f"),
    )
    assert [canister.role.value for canister in said(body)] == [
        "supervisor", "user", "assistant", "user", "assistant", "assistant",
    ]  # fmt: skip
    turns = written(body)["conversations"]
    assert [turn["from"] for turn in turns] == ["system", "human", "gpt", "human", "gpt", "gpt"]


def test_a_dangerous_role_is_refused_with_its_path():
    with pytest.raises(cannery.RoleError) as raised:
        said(record(("root", "x")))
    assert raised.value.path == "conversations.0.from"


def test_calls_and_observations_are_paired_by_a_stable_id():
    call = '{"name": "weather", "arguments": {"city": "Rome", "days": 1.50}}'
    body = record(("human", "?"), ("function_call", call), ("observation", "Sun"), ("gpt", "Sun."))
    _, invocation, result, _ = said(body)
    assert (invocation.name, invocation.arguments_text) == (
        "weather",
        '{"city": "Rome", "days": 1.50}',
    )
    assert result.invocation_id == invocation.identifier == said(body)[1].identifier
    chat = written(body, "openai_chat")["messages"]
    assert chat[1]["tool_calls"][0]["function"]["arguments"] == '{"city": "Rome", "days": 1.50}'
    assert chat[2] == {
        "role": "tool",
        "tool_call_id": chat[1]["tool_calls"][0]["id"],
        "content": "Sun",
    }


def test_observations_answer_parallel_calls_in_order_and_never_earlier_ones():
    def call(name: str) -> tuple[str, str]:
        return ("function_call", json.dumps({"name": name, "arguments": {}}))

    body = record(
        call("a"), call("b"), ("observation", "A"), ("gpt", "."), call("c"), ("observation", "C")
    )
    found = said(body)
    names = {each.identifier: each.name for each in found if each.role.value == "invocation"}
    answers = [
        (names[each.invocation_id], each.text) for each in found if each.role.value == "result"
    ]
    assert answers == [("a", "A"), ("c", "C")]


@pytest.mark.parametrize(
    "value", ['search("x")', "", "[]", "null", '{"city": "Rome"}', '{"name": 3}', "[1]"]
)
def test_a_call_that_names_nothing_keeps_its_text(value: str):
    body = record(("human", "?"), ("function_call", value), ("observation", "ok"))
    assert said(body)[1].arguments_text == value
    assert written(body)["conversations"][1]["value"] == value
    assert said(body)[2].invocation_id == said(body)[1].identifier


def test_an_example_that_ends_with_a_call_gets_no_made_up_result():
    chat = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            ]},
        ],
    }  # fmt: skip
    for target in (NAME, "openai_finetuning"):
        rendered = cannery.translate(chat, source="openai_chat", target=target)
        assert rendered.repairs == ()
        assert b"no result" not in rendered.body


def test_what_records_cannot_say_is_named():
    chat = {
        "model": "m",
        "temperature": 0.5,
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "Look: "},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            ]},
            {"role": "assistant", "content": None, "reasoning_content": "Hm", "tool_calls": [
                {"id": "call_x", "type": "function", "function": {"name": "f", "arguments": ""}},
            ]},
            {"role": "tool", "tool_call_id": "call_x", "content": "1"},
        ],
    }  # fmt: skip
    rendered = cannery.translate(chat, source="openai_chat", target=NAME)
    assert {(loss.code, loss.path) for loss in rendered.losses} == {
        ("MODEL_DROPPED", "model"),
        ("CONTROL_DROPPED", "temperature"),
        ("MEDIA_DROPPED", "messages[0].content[2]"),
        ("REASONING_DROPPED", "messages[1].reasoning_content"),
        ("CALL_ID_DROPPED", "messages[1].tool_calls[0]"),
    }
    assert json.loads(rendered.body) == {
        "conversations": [
            {"from": "human", "value": "Look: <image>"},
            {"from": "function_call", "value": '{"name": "f", "arguments": {}}'},
            {"from": "observation", "value": "1"},
        ],
        "images": ["https://example.com/a.png"],
    }


def test_images_stand_where_their_placeholders_are():
    body = record(("human", "a<image>b"), images=["https://example.com/a.png"])
    parts = written(body, "openai_chat")["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url", "text"]


def test_tools_keep_their_schema_to_the_letter():
    schema = '{"type": "object", "properties": {"x": {"type": "number", "maximum": 1.0}}}'
    body = record(("human", "?"), ("gpt", "!"), tools=f'[{{"name": "f", "parameters": {schema}}}]')
    (tool,) = cannery.normalize_request(body, NAME).tools
    assert tool.schema == schema
    assert written(body) == json.loads(body)


def edited(body: bytes, index: int, **changes: Any) -> Any:
    """The record of a request of which one canister was changed."""
    request = cannery.normalize_request(body, NAME)
    canisters = list(request.conversation)
    canisters[index] = msgspec.structs.replace(canisters[index], **changes)
    changed = msgspec.structs.replace(request, conversation=cannery.Conversation(canisters))
    return json.loads(cannery.nativize_request(changed, NAME).body)


def test_changed_arguments_replace_an_odd_spelling_and_leave_other_keys():
    call = '{"arguments":{"key":"a secret of many characters, which goes on and on"},"name":"f","id":7}'
    body = record(("human", "?"), ("function_call", call), ("gpt", "!"))
    assert written(body)["conversations"][1]["value"] == call
    value = edited(body, 1, held='{"key": "-"}')["conversations"][1]["value"]
    assert json.loads(value) == {"name": "f", "arguments": {"key": "-"}, "id": 7}


def test_changed_tools_replace_an_odd_spelling():
    tools = '[{"parameters":{"type":"object"},"name":"weather","description":"The weather","x":1}]'
    body = record(("human", "?"), ("gpt", "!"), tools=tools)
    assert written(body)["tools"] == tools
    request = cannery.normalize_request(body, NAME)
    tool = msgspec.structs.replace(request.tools[0], description="Rain")
    changed = msgspec.structs.replace(request, tools=(tool,))
    said_now = json.loads(json.loads(cannery.nativize_request(changed, NAME).body)["tools"])
    assert said_now == [
        {"name": "weather", "description": "Rain", "parameters": {"type": "object"}, "x": 1}
    ]


def test_spellings_that_older_stores_hold_are_still_written():
    call = '{"name": "f", "arguments": {}}'
    body = record(("human", "?"), ("function_call", call), tools='[{"name": "f"}]')
    request = cannery.normalize_request(body, NAME)
    residue = Residue(NAME, form='1 {"v":"{ }"}')
    canisters = list(request.conversation)
    canisters[1] = msgspec.structs.replace(canisters[1], residue=residue)
    old = msgspec.structs.replace(
        request,
        conversation=cannery.Conversation(canisters),
        residue=Residue(NAME, form='{"p":[1,2,"{\\"name\\":\\"f\\""]}'),
    )
    found = json.loads(cannery.nativize_request(old, NAME).body)
    assert found["conversations"][1]["value"] == "{ }"
    assert found["tools"] == '[{"name":"f"}]'


def test_tools_of_another_dialect_do_not_keep_the_spacing_of_their_body():
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    chat = {"model": "m", "messages": [{"role": "user", "content": "?"}], "tools": [tool]}
    found = {
        json.loads(cannery.translate(body, source="openai_chat", target=NAME).body)["tools"]
        for body in (json.dumps(chat), json.dumps(chat, indent=2))
    }
    assert found == {'[{"name": "f", "parameters": {"type":"object"}}]'}
