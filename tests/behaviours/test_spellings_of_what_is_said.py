"""What a body spells in an unusual way is said elsewhere, not told as lost, and comes back spelled the same."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import (
    CHAT,
    CLAUDE,
    GEMINI,
    RESPONSES,
    chat,
    claude,
    text,
    told,
    tool_result,
    user,
)

WORDS = "The words of the file, with Ä and 日本."
SPELLED = base64.b64encode(WORDS.encode()).decode()
SOURCES: dict[str, dict[str, Any]] = {
    "text in base64": {"type": "base64", "media_type": "text/plain", "data": SPELLED},
    "markdown in base64": {"type": "base64", "media_type": "text/markdown", "data": SPELLED},
    "wrapped base64": {
        "type": "base64",
        "media_type": "text/plain",
        "data": SPELLED[:8] + "\n" + SPELLED[8:],
    },
    "with an unknown field": {
        "type": "base64",
        "media_type": "text/plain",
        "data": SPELLED,
        "x_new": None,
    },
    "JSON as text": {"type": "text", "media_type": "application/json", "data": f'"{WORDS}"'},
}


def document(source: dict[str, Any]) -> dict[str, Any]:
    return {"type": "document", "source": source}


@pytest.mark.parametrize("is_in_result", [False, True])
@pytest.mark.parametrize("target", [RESPONSES, GEMINI])
@pytest.mark.parametrize("case", SOURCES)
def test_the_data_of_a_text_document_are_told_as_lost(
    case: str, target: str, *, is_in_result: bool
):
    block = document(SOURCES[case])
    body = claude(user([tool_result("t", [block])] if is_in_result else [block, text("q")]))
    found = told(body, CLAUDE, target)
    assert not {path for code, path in found.paths if code == "FIELD_DROPPED"}
    assert told(body, CLAUDE, CLAUDE).body == body


@pytest.mark.parametrize("case", SOURCES)
def test_a_text_document_comes_back_from_a_store_as_it_was_spelled(case: str):
    body = claude(user([document(SOURCES[case])]))
    request = cannery.normalize_request(body, CLAUDE)
    store = cannery.open_store("sqlite::memory:")
    kept = store.create()
    for canister in request.conversation:
        kept.append(canister)
    loaded = request.replace(conversation=kept.load())
    assert json.loads(cannery.nativize_request(loaded, CLAUDE).body) == body


def test_residue_keeps_the_data_of_a_text_document_twice():
    data = base64.b64encode(b"a long text " * 500).decode()
    source = {"type": "base64", "media_type": "text/plain", "data": data}
    request = cannery.normalize_request(claude(user([document(source)])), CLAUDE)
    residue = request.conversation[0].residue
    assert residue is not None
    assert len(residue.part or "") < 200


# --- arguments that are no object ------------------------------------------------------------------

MISSING = object()


def called(dialect: str, given: Any) -> dict[str, Any]:
    """A body with one call, whose arguments are given in whatever type."""

    def held(key: str, **fields: Any) -> dict[str, Any]:
        return fields if given is MISSING else {**fields, key: given}

    if dialect in (CHAT, "ollama_chat", "mistral_chat", "cohere_chat"):
        function = held("arguments", name="f")
        call = {"id": "callone11", "type": "function", "function": function}
        asked: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [call]}
        return chat(user("q"), asked)
    if dialect == RESPONSES:
        item = held("arguments", type="function_call", call_id="c1", name="f")
        return {"model": "m", "input": [user("q"), item]}
    if dialect == GEMINI:
        parts = [{"functionCall": held("args", name="f")}]
        asking = {"role": "user", "parts": [{"text": "q"}]}
        return {"contents": [asking, {"role": "model", "parts": parts}]}
    if dialect == "gemini_interactions":
        step = held("arguments", type="function_call", id="c1", name="f")
        said = {"type": "user_input", "content": [{"type": "text", "text": "q"}]}
        return {"model": "m", "input": [said, step]}
    if dialect == "bedrock_converse":
        blocks = [{"toolUse": held("input", toolUseId="c1", name="f")}]
        turns = [user([{"text": "q"}]), {"role": "assistant", "content": blocks}]
        return {"modelId": "m", "messages": turns}
    block = held("input", type="tool_use", id="c1", name="f")
    return claude(user("q"), {"role": "assistant", "content": [block]})


DIALECTS = (
    *(CHAT, RESPONSES, CLAUDE, GEMINI, "gemini_interactions", "bedrock_converse"),
    *("ollama_chat", "mistral_chat", "cohere_chat"),
)


def arguments(rendered: cannery.Rendered, target: str) -> Any:
    body = json.loads(rendered.body)
    if target == CLAUDE:
        return body["messages"][1]["content"][0]["input"]
    return json.loads(body["messages"][1]["tool_calls"][0]["function"]["arguments"] or "{}")


@pytest.mark.parametrize(
    "given", [MISSING, None, "", "{}", {}], ids=["missing", "null", "empty", "text", "object"]
)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_arguments_are_a_text_in_quotes(dialect: str, given: Any):
    body = called(dialect, given)
    for target in {CHAT, CLAUDE} - {dialect}:
        rendered = cannery.translate(body, source=dialect, target=target)
        assert arguments(rendered, target) == {}
        codes = {loss.code for loss in rendered.losses if loss.severity != "info"}
        assert codes == set()
        assert "ARGUMENTS_WRAPPED" not in {loss.code for loss in rendered.losses}
    assert json.loads(cannery.translate(body, source=dialect, target=dialect).body) == body


@pytest.mark.parametrize("dialect", DIALECTS)
def test_arguments_as_the_text_of_an_object_are_wrapped(dialect: str):
    body = called(dialect, '{"a": [1, "x"]}')
    for target in {CHAT, CLAUDE} - {dialect}:
        rendered = cannery.translate(body, source=dialect, target=target)
        assert arguments(rendered, target) == {"a": [1, "x"]}
        assert {loss.code for loss in rendered.losses if loss.severity != "info"} == set()
    assert json.loads(cannery.translate(body, source=dialect, target=dialect).body) == body


@pytest.mark.parametrize("given", ["no JSON", [], [1], 3, True, '"'], ids=repr)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_arguments_that_are_no_object_are_told_as_lost_too(dialect: str, given: Any):
    body = called(dialect, given)
    target = CLAUDE if dialect != CLAUDE else "bedrock_converse"
    rendered = cannery.translate(body, source=dialect, target=target)
    assert "_raw_arguments" in rendered.body.decode()
    assert {loss.code for loss in rendered.losses} & {"FIELD_DROPPED"} == set()
    assert json.loads(cannery.translate(body, source=dialect, target=dialect).body) == body
