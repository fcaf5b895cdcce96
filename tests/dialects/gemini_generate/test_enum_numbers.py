"""Enumerations by number, as Google's Go client sends and gets them, mean what their names mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery

NAME = "gemini_generate"
CHAT, RESPONSES, CLAUDE = "openai_chat", "openai_responses", "anthropic_messages"
NUMBERS = {"type": 6, "properties": {"a": {"type": 1}, "b": {"type": 5, "items": {"type": 3}}}}
NAMES = {
    "type": "OBJECT",
    "properties": {
        "a": {"type": "STRING"},
        "b": {"type": "ARRAY", "items": {"type": "INTEGER"}},
    },
}


def asking(schema: Any, mode: Any) -> dict[str, Any]:
    return {
        "contents": [{"role": "user", "parts": [{"text": "q"}]}],
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": schema}]}],
        "toolConfig": {"functionCallingConfig": {"mode": mode}},
        "generationConfig": {"responseMimeType": "application/json", "responseSchema": schema},
    }


def answer(*parts: Any, finish: Any) -> dict[str, Any]:
    return {
        "candidates": [{"content": {"role": "model", "parts": [*parts]}, "finishReason": finish}]
    }


def said(body: Any, target: str, kind: str = "request") -> tuple[Any, list[Any]]:
    rendered = cannery.translate(body, source=NAME, target=target, kind=kind)
    return json.loads(rendered.body), [*rendered.losses]


@pytest.mark.parametrize("target", [CHAT, RESPONSES, CLAUDE])
@pytest.mark.parametrize("number, name", [(1, "AUTO"), (2, "ANY"), (3, "NONE")])
def test_schemas_and_modes_by_number(target: str, number: int, name: str):
    assert said(asking(NUMBERS, number), target) == said(asking(NAMES, name), target)


@pytest.mark.parametrize("target", [CHAT, RESPONSES, CLAUDE])
@pytest.mark.parametrize(
    "number, name", [(1, "STOP"), (2, "MAX_TOKENS"), (3, "SAFETY"), (4, "RECITATION"), (5, "OTHER")]
)
def test_finish_reasons_by_number(target: str, number: int, name: str):
    given, wanted = (answer({"text": "a"}, finish=finish) for finish in (number, name))
    assert said(given, target, "response") == said(wanted, target, "response")
    frame = b"data: %s\n\n"
    folded, known = (
        cannery.fold(cannery.normalize_stream([frame % json.dumps(each).encode()], NAME))
        for each in (given, wanted)
    )
    assert folded.finish is known.finish
    assert json.loads(cannery.nativize_response(folded, NAME).body) == given


def test_an_unknown_number_is_an_unknown_word():
    numbered, worded = (answer({"text": "a"}, finish=finish) for finish in (99, "NEW_WORD"))
    one, other = (cannery.normalize_response(body, NAME) for body in (numbered, worded))
    assert one.finish is other.finish is cannery.FinishReason.Other
    unsaid = cannery.normalize_response(answer({"text": "a"}, finish=0), NAME)
    assert unsaid.finish is cannery.absent


@pytest.mark.parametrize("target", [RESPONSES, CLAUDE])
@pytest.mark.parametrize(
    "number, name", [(1, "OUTCOME_OK"), (2, "OUTCOME_FAILED"), (3, "OUTCOME_DEADLINE_EXCEEDED")]
)
def test_outcomes_of_code_by_number(target: str, number: int, name: str):
    given, wanted = (
        answer(
            {"executableCode": {"language": language, "code": "print(1)"}},
            {"codeExecutionResult": {"outcome": outcome, "output": "1"}},
            finish="STOP",
        )
        for language, outcome in ((1, number), ("PYTHON", name))
    )
    (body, losses), (known, _) = (said(each, target, "response") for each in (given, wanted))
    for each in (body, known):
        # Made ids are digests of the block.
        text = json.dumps(each)
        assert text.count("print(1)") == 1
    assert [loss.code for loss in losses] == [
        loss.code for loss in said(wanted, target, "response")[1]
    ]
    assert spoken(body) == spoken(known)


def spoken(body: Any) -> Any:
    """A body without the ids that were made for it."""
    if isinstance(body, dict):
        return {key: spoken(each) for key, each in body.items() if key not in ("id", "tool_use_id")}
    return [spoken(each) for each in body] if isinstance(body, list) else body


def test_a_refused_prompt_by_number():
    body, _ = said({"promptFeedback": {"blockReason": 1}}, CHAT, "response")
    assert body["choices"][0]["finish_reason"] == "content_filter"
    body, _ = said({"promptFeedback": {"blockReason": 0}}, CHAT, "response")
    assert body["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "kind, body",
    [
        ("request", asking(NUMBERS, 2)),
        ("request", asking({"type": 6, "properties": {"a": {"type": "STRING"}}}, 7)),
        ("request", asking({"type": "OBJECT", "properties": {"a": {"type": 1}}}, 0)),
        ("response", answer({"text": "a"}, finish=2)),
        ("response", answer({"text": "a"}, finish=99)),
        ("response", {"promptFeedback": {"blockReason": 1}}),
    ],
)
def test_numbers_come_back_as_numbers(kind: str, body: Any):
    rendered = cannery.translate(body, source=NAME, target=NAME, kind=kind)
    assert (json.loads(rendered.body), rendered.losses) == (body, ())
