"""At home nothing is lost: what was read and not touched is written again without a loss."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import (
    CHAT,
    CLAUDE,
    GEMINI,
    RESPONSES,
    assistant,
    call,
    calls,
    chat,
    claude,
    text,
    tool,
    tool_result,
    user,
)
from tests.conformance.matrix import DATA_SETS, DIALECTS, assert_same_json, identify
from tests.oracles.corpus import Case, request_cases, response_cases

FINETUNING = "openai_finetuning"
IMAGE = {"type": "image_url", "image_url": {"url": "https://e.org/i.png"}}
LATIN = {
    "type": "document",
    "source": {"type": "base64", "media_type": "text/csv", "data": "6eDo"},
}
CITED = {
    "type": "output_text",
    "text": "A",
    "annotations": [
        {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
    ],
}
ASKED = [{"role": "user", "parts": [{"text": "q"}]}]
FAILED = {**CITED, "text": "[tool error] A"}


def label(identifier: str) -> dict[str, Any]:
    return text(f"[attached to the result of tool call {identifier}]")


def responses(*items: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "input": list(items)}


def output(*parts: dict[str, Any]) -> dict[str, Any]:
    made = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    return responses(made, {"type": "function_call_output", "call_id": "c", "output": list(parts)})


def called(arguments: Any) -> dict[str, Any]:
    made = {"functionCall": {"id": "c", "name": "f", "args": arguments}}
    return {"role": "model", "parts": [{"text": "x"}, made]}


def answer(annotations: Any, **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": "x", "annotations": annotations, **message}
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": "stop"}
    named = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return {**named, "choices": [choice]}


def cited_by(role: str) -> dict[str, Any]:
    said = {"type": "message", "id": "msg_1", "status": "completed", "content": [CITED]}
    body = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    return {**body, "output": [{**said, "role": role}]}


REQUESTS: dict[str, tuple[str, Any]] = {
    "a failed result": (CHAT, chat(tool("a", "[tool error] boom"))),
    "a result that only failed": (CHAT, chat(calls(call("a")), tool("a", "[tool error]"))),
    "media of a result": (CHAT, chat(calls(call("a")), tool("a", "r"), user([label("a"), IMAGE]))),
    "media of a failed result": (
        CHAT,
        chat(calls(call("a")), tool("a", "[tool error] no"), user([label("a"), IMAGE, text("x")])),
    ),
    "citations of a user": (RESPONSES, responses(user([CITED]))),
    "citations of a developer": (
        RESPONSES,
        responses({"role": "developer", "content": [CITED, CITED]}),
    ),
    "citations of the model": (RESPONSES, responses(assistant([CITED]))),
    "citations in an output": (RESPONSES, output(CITED)),
    "citations in an output of several parts": (
        RESPONSES,
        output(CITED, {"type": "input_text", "text": "x"}),
    ),
    "citations in a failed output": (RESPONSES, output(FAILED)),
    "no citations in a failed output": (RESPONSES, output({**FAILED, "annotations": []})),
    "a text that is not UTF-8": (CLAUDE, claude(user([LATIN]))),
    "such a text in a result": (CLAUDE, claude(user([tool_result("a", [LATIN, text("x")])]))),
    "such a text of the system": (CLAUDE, claude(user("q"), system=[LATIN])),
    "many stop sequences": (CHAT, chat(user("q"), stop=list("abcdef"))),
    "many stop sequences and more": (CHAT, chat(user("q"), stop=list("abcdef"), seed=1, n=2)),
    "arguments in an object": (GEMINI, {"contents": [*ASKED, called({"_raw_arguments": "x"})]}),
    "a part of an unknown type with a text": (
        CHAT,
        chat(user([{"type": "hologram", "text": "words"}])),
    ),
    "an older choice with the shape of a newer one": (
        CHAT,
        chat(user("q"), function_call={"function": {"name": "f"}}),
    ),
    "functions in groups of their own": (
        GEMINI,
        {"contents": ASKED, "tools": [{"functionDeclarations": [{"name": n}]} for n in "ab"]},
    ),
    "no functions beside some": (
        GEMINI,
        {
            "contents": ASKED,
            "tools": [{"functionDeclarations": []}, {"functionDeclarations": [{"name": "a"}]}],
        },
    ),
    "reasoning whose id ends in white space": (
        RESPONSES,
        responses(
            {"id": " rs_1\n", "type": "reasoning"},
            {"role": "assistant", "content": [{"type": "hologram"}]},
        ),
    ),
    "a failed result of an example": (FINETUNING, {"messages": [tool("a", "[tool error] boom")]}),
    "media of a result of an example": (
        FINETUNING,
        {"messages": [calls(call("a")), tool("a", "r"), user([label("a"), IMAGE])]},
    ),
}
RESPONSES_READ: dict[str, tuple[str, Any]] = {
    "annotations that are no URLs": (CHAT, answer([{"type": "file_citation"}])),
    "annotations that are no objects": (CHAT, answer([5])),
    "annotations beside a call": (CHAT, answer([{"type": "x"}], tool_calls=[call("a")])),
    "citations of somebody else": (RESPONSES, cited_by("user")),
    "a file of the user among outputs": (
        RESPONSES,
        {"output": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
    ),
    "a refused prompt beside a candidate": (
        GEMINI,
        {"candidates": [{}], "promptFeedback": {"blockReason": "SAFETY"}},
    ),
    "arguments in an object": (
        GEMINI,
        {"candidates": [{"content": called({"_raw_arguments": "[1]"}), "finishReason": "STOP"}]},
    ),
}
_CORPUS = [case for name in (*DIALECTS, *DATA_SETS) for case in request_cases(name)]
_ANSWERS = [case for name in DIALECTS for case in response_cases(name)]


def check(raw: bytes, rendered: cannery.Rendered) -> None:
    assert_same_json(rendered.body, raw)
    assert rendered.losses == ()
    assert rendered.repairs == ()


def check_request(dialect: str, raw: bytes) -> None:
    request = cannery.normalize_request(raw, dialect)
    check(raw, cannery.nativize_request(request, dialect, policy="strict"))
    check(raw, cannery.translate(raw, source=dialect, target=dialect, policy="strict"))


def check_response(dialect: str, raw: bytes) -> None:
    response = cannery.normalize_response(raw, dialect)
    check(raw, cannery.nativize_response(response, dialect, policy="strict"))
    options = {"source": dialect, "target": dialect, "kind": "response", "policy": "strict"}
    check(raw, cannery.translate(raw, **options))


@pytest.mark.parametrize("case", _CORPUS, ids=identify)
def test_a_request_of_the_corpus(case: Case):
    check_request(case.dialect, case.raw)


@pytest.mark.parametrize("case", _ANSWERS, ids=identify)
def test_a_response_of_the_corpus(case: Case):
    check_response(case.dialect, case.raw)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request(name: str):
    dialect, body = REQUESTS[name]
    check_request(dialect, json.dumps(body).encode())


@pytest.mark.parametrize("name", RESPONSES_READ)
def test_a_response(name: str):
    dialect, body = RESPONSES_READ[name]
    check_response(dialect, json.dumps(body).encode())


def test_what_is_put_in_afterwards_still_loses_what_home_cannot_say():
    latin = cannery.FileContentClass(b"\xe9\xe0\xe8", "text/csv")
    request = cannery.normalize_request(claude(user("q")), CLAUDE)
    longer = request.replace(conversation=request.conversation.append(cannery.user(latin)))
    lost = cannery.nativize_request(longer, CLAUDE).losses
    assert [loss.code for loss in lost] == ["DOCUMENT_TO_TEXT"]


SPELLED_TWICE = [
    {"generationConfig": {"topK": 3}, "generation_config": {"topK": 5}},
    {"generationConfig": {"topK": 3, "temperature": 1.0}, "generation_config": {"top_p": 0.5}},
    {"generation_config": None, "generationConfig": {"topK": 3}},
    {
        "toolConfig": {
            "functionCallingConfig": {
                "mode": "ANY",
                "allowedFunctionNames": ["f"],
                "allowed_function_names": ["g"],
            }
        }
    },
]


@pytest.mark.parametrize("settings", SPELLED_TWICE)
def test_a_setting_of_gemini_in_both_spellings(settings: dict[str, Any]):
    body = {"contents": [{"role": "user", "parts": [{"text": "q"}]}], **settings}
    assert json.loads(cannery.translate(body, source=GEMINI, target=GEMINI).body) == body
