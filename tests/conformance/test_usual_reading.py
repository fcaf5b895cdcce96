"""Messages of common shape are read to the same values, residue and paths as by comparing with what is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from cannery.dialects import find_dialect
from tests.conformance.matrix import identify
from tests.conformance.test_agentic_shortcuts import bodies
from tests.conformance.test_reading_shortcuts import _changed, _facts
from tests.oracles.corpus import Case, request_cases

# Where each dialect asks whether a message is of common shape.
USUAL = {
    "openai_chat": ["cannery.wire.chat_reading.take_common"],
    "openai_responses": ["cannery.dialects.openai_responses.reading.usual_item"],
    "gemini_generate": [
        "cannery.dialects.gemini_generate.reading.usual_body",
        "cannery.dialects.gemini_generate.reading.usual_content",
        "cannery.dialects.gemini_generate.reading.usual_system",
    ],
}
CASES = [case for name in USUAL for case in request_cases(name)]


def _assert_read_alike(dialect: str, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    read = find_dialect(dialect).read_request
    paths: list[str] = []
    others: list[str] = []
    quick = _facts(lambda: read(body, paths)), _facts(lambda: read(body, None))
    with monkeypatch.context() as patch:
        for name in USUAL[dialect]:
            patch.setattr(name, lambda *_: None)
        thorough = _facts(lambda: read(body, others))
    assert quick == (thorough, thorough)
    assert paths == others


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_the_corpus(case: Case, monkeypatch: pytest.MonkeyPatch):
    _assert_read_alike(case.dialect, case.raw, monkeypatch)


@pytest.mark.parametrize("dialect", USUAL)
def test_changed_bodies(dialect: str, monkeypatch: pytest.MonkeyPatch):
    cases = request_cases(dialect)

    @settings(max_examples=300, deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject):
        case = data.draw(st.sampled_from(cases))
        body = json.dumps(_changed(case.body, data)).encode()
        _assert_read_alike(dialect, body, monkeypatch)

    run()


@pytest.mark.parametrize("dialect", USUAL)
def test_drawn_bodies(dialect: str, monkeypatch: pytest.MonkeyPatch):
    @settings(max_examples=150, deadline=None)
    @given(body=bodies(), data=st.data())
    def run(body: bytes, data: st.DataObject):
        if dialect != "openai_chat":
            body = cannery.translate(body, source="openai_chat", target=dialect).body
        _assert_read_alike(dialect, body, monkeypatch)
        spelled = json.dumps(_changed(json.loads(body), data)).encode()
        _assert_read_alike(dialect, spelled, monkeypatch)

    run()


MESSAGES: dict[str, Any] = {
    "openai_responses": {
        "model": "m",
        "input": [
            {"role": "user", "content": "Hello."},
            {"type": "message", "role": "user", "content": "Hello."},
            {"role": "user", "content": [{"type": "input_text", "text": "Hello."}]},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Yes?", "annotations": []}],
            },
            {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "Seen."},
        ],
    },
    "gemini_generate": {
        "systemInstruction": {"parts": [{"text": "Be kind."}, {"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Hello."}, {"text": "You."}]},
            {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"at": 1.0}}}]},
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "look", "response": {"output": "Seen."}}}],
            },
            {
                "role": "model",
                "parts": [
                    {"text": "Again.", "thoughtSignature": "c2ln"},
                    {
                        "functionCall": {"id": "call_1", "name": "look", "args": {}},
                        "thoughtSignature": "bmVk",
                    },
                    {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "Y2U="},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": "call_1",
                            "name": "look",
                            "response": {"output": "Seen."},
                        }
                    },
                    {"text": "So?"},
                ],
            },
        ],
    },
}


@pytest.mark.parametrize(
    "given",
    [
        {"systemInstruction": None},
        {"systemInstruction": {"parts": []}},
        {"generationConfig": {"topK": 3, "made_up": 1}, "tools": [], "toolConfig": None},
        {"generationConfig": {"stop_sequences": ["\ud800"]}},
        {"generationConfig": {"temperature": 1}, "tools": [{"googleSearch": {}}]},
        {"safetySettings": []},
    ],
)
def test_settings_around_common_shapes(given: Any, monkeypatch: pytest.MonkeyPatch):
    body = json.dumps({**MESSAGES["gemini_generate"], **given}).encode()
    _assert_read_alike("gemini_generate", body, monkeypatch)


@pytest.mark.parametrize("stop", ["x", [], ["x"], ["x"] * 4, ["x"] * 5, [1], None, ["x", ""]])
def test_stop_sequences(stop: Any, monkeypatch: pytest.MonkeyPatch):
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello."}], "stop": stop}
    _assert_read_alike("openai_chat", json.dumps(body).encode(), monkeypatch)


def test_a_result_keeps_the_id_that_no_call_has(monkeypatch: pytest.MonkeyPatch):
    parts = MESSAGES["gemini_generate"]["contents"]
    body = json.dumps({"contents": [*parts[:2], parts[4]]}).encode()
    _assert_read_alike("gemini_generate", body, monkeypatch)
    request = cannery.normalize_request(body, "gemini_generate")
    assert json.loads(cannery.nativize_request(request, "gemini_generate").body) == json.loads(body)


@pytest.mark.parametrize("dialect", MESSAGES)
def test_common_shapes_are_not_compared(dialect: str, monkeypatch: pytest.MonkeyPatch):
    body = json.dumps(MESSAGES[dialect]).encode()
    _assert_read_alike(dialect, body, monkeypatch)

    def refuse(*_: object) -> None:
        raise AssertionError("the general way")

    # Whatever a shape leaves behind is known by now.
    reader = "ItemReader.item" if dialect == "openai_responses" else "MessageReader.content"
    monkeypatch.setattr(f"cannery.dialects.{dialect}.reading.{reader}", refuse)
    assert len(cannery.normalize_request(body, dialect).conversation) >= 6
