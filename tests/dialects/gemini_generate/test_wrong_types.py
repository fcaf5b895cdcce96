"""A value of another type than the wire has there is refused with its path, or read as Google's server reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cannery.errors import DialectError
from cannery.translation import normalize_response, normalize_stream, translate
from tests.oracles.json_values import same

NAME, CHAT = "gemini_generate", "openai_chat"
WRONG: list[Any] = [True, 5, {"a": "b"}, ["x"]]


def asked(*parts: Any, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"contents": [{"role": role, "parts": list(parts)}], **more}


def refused(body: Any, **how: Any) -> str:
    with pytest.raises(DialectError) as caught:
        translate(json.dumps(body).encode(), source=NAME, target=CHAT, **how)
    return str(caught.value.path)


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_text_that_is_no_text_is_refused(wrong):
    place = "contents[0].parts[0].text"
    assert refused(asked({"text": wrong})) == place
    assert refused(asked({"text": wrong}, role="model")) == place
    assert refused(asked({"text": wrong, "thought": True}, role="model")) == place


def test_text_that_is_null_is_named_and_not_written():
    found = translate(asked({"text": None}, {"text": "q"}), source=NAME, target=CHAT)
    assert json.loads(found.body)["messages"] == [{"role": "user", "content": "q"}]
    assert ("OPAQUE_DROPPED", "contents[0].parts[0]") in {(x.code, x.path) for x in found.losses}


@pytest.mark.parametrize(
    "system, path",
    [
        (True, "systemInstruction"),
        (5, "systemInstruction"),
        ({"parts": True}, "systemInstruction.parts"),
        ({"parts": "x"}, "systemInstruction.parts"),
        ({"text": True}, "systemInstruction.text"),
        ({"parts": [{"text": {}}]}, "systemInstruction.parts[0].text"),
        ([5], "systemInstruction[0]"),
    ],
    ids=str,
)
def test_a_system_instruction_of_another_type_is_refused(system, path):
    assert refused(asked({"text": "q"}, systemInstruction=system)) == path


@pytest.mark.parametrize(
    "part, role, path",
    [
        ({"functionCall": "f"}, "model", "functionCall"),
        ({"function_call": {"name": 5}}, "model", "function_call.name"),
        ({"functionResponse": ["x"]}, "user", "functionResponse"),
        ({"functionResponse": {"name": True}}, "user", "functionResponse.name"),
        ({"functionResponse": {"name": "f", "parts": "x"}}, "user", "functionResponse.parts"),
        (
            {"functionResponse": {"name": "f", "parts": [{"text": 1}]}},
            "user",
            "functionResponse.parts[0].text",
        ),
        ({"inlineData": "x"}, "user", "inlineData"),
        ({"inlineData": {"data": 5}}, "user", "inlineData.data"),
    ],
    ids=str,
)
def test_calls_results_and_media_of_another_type_are_refused(part, role, path):
    assert refused(asked(part, role=role)) == f"contents[0].parts[0].{path}"


@pytest.mark.parametrize("tools", [True, "x", 5], ids=str)
def test_tools_of_another_type_are_refused(tools):
    assert refused(asked({"text": "q"}, tools=tools)) == "tools"


def test_settings_of_another_type_are_named_in_either_spelling():
    config = {"top_k": "hot", "stopSequences": 5, "thinking_config": {"thinking_level": 3}}
    body = asked({"text": "q"}, generation_config=config)
    found = translate(body, source=NAME, target=CHAT)
    assert {(loss.code, loss.path) for loss in found.losses if loss.severity == "lost"} == {
        ("CONTROL_DROPPED", "generation_config.top_k"),
        ("CONTROL_DROPPED", "generation_config.stopSequences"),
        ("CONTROL_DROPPED", "generation_config.thinking_config.thinking_level"),
    }


ANSWERS: list[tuple[Any, str]] = [
    ({"candidates": True}, "candidates"),
    ({"candidates": [5]}, "candidates[0]"),
    ({"candidates": [{"content": "x"}]}, "candidates[0].content"),
    ({"candidates": [{"content": {"parts": "x"}}]}, "candidates[0].content.parts"),
    ({"candidates": [{"content": {"parts": ["x"]}}]}, "candidates[0].content.parts[0]"),
    ({"candidates": [{"content": {"parts": [{"text": {}}]}}]}, "candidates[0].content.parts[0].text"),
]  # fmt: skip


@pytest.mark.parametrize("body, path", ANSWERS, ids=str)
def test_answers_of_another_type_are_refused_whole_and_streamed(body, path):
    assert refused(body, kind="response") == path
    with pytest.raises(DialectError) as caught:
        list(normalize_stream([b"data: " + json.dumps(body).encode() + b"\n\n"], NAME))
    assert caught.value.path == path


@pytest.mark.parametrize("wrong", [["a"], 5, {"b": 1}], ids=str)
def test_pieces_of_arguments_that_are_no_text_are_refused(wrong):
    leaf = {"jsonPath": "$.a", "stringValue": wrong}
    call = {"name": "f", "partialArgs": [leaf], "willContinue": True}
    chunk = {"candidates": [{"content": {"role": "model", "parts": [{"functionCall": call}]}}]}
    with pytest.raises(DialectError, match="stringValue"):
        list(normalize_stream([b"data: " + json.dumps(chunk).encode() + b"\n\n"], NAME))


def test_one_object_beside_a_response_is_read_like_a_list():
    blob = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    answer = {"name": "f", "response": {}, "parts": blob}
    call = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
    body = asked({"text": "q"})
    body["contents"] += [call, {"role": "user", "parts": [{"functionResponse": answer}]}]
    assert same(json.loads(translate(body, source=NAME, target=NAME).body), body)
    found = translate(body, source=NAME, target="anthropic_messages")
    (result,) = json.loads(found.body)["messages"][-1]["content"]
    assert [block["type"] for block in result["content"]] == ["image"]


def test_a_key_without_a_name_comes_back():
    body = asked({"text": "q"}, **{"": {"x": 1}})
    assert same(json.loads(translate(body, source=NAME, target=NAME).body), body)
    answer = {"candidates": [{"content": {"role": "model", "parts": [{"text": "a"}]}}], "": 5}
    found = translate(answer, source=NAME, target=NAME, kind="response")
    assert same(json.loads(found.body), answer)
    assert normalize_response(answer, NAME).residue is not None
