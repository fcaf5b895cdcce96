"""Ollama's generate: one question and its answer, to and from every dialect that has turns."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from cannery.messages import absent
from tests.conformance.matrix import DIALECTS, assert_same_json, identify
from tests.oracles.corpus import Case, StreamCase, response_cases, stream_cases
from tests.oracles.json_values import same
from tests.oracles.leaves import leaves
from tests.oracles.sdk_types import validate_request
from tests.oracles.server_rules import check_request_rules
from tests.strategies import ollama_bodies
from tests.strategies.pieces import Dice

from .judging import answer_problems, cases, read_by_sdk, request_problems, streams

GENERATE = "ollama_generate"
ANSWERS = [case for name in DIALECTS for case in response_cases(name)]
STREAMS = [case for name in DIALECTS for case in stream_cases(name) if not case.ends_in_error]
REFUSED = {"context": [1, 2, 3]}


def encoded(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")


# --- the same dialect ------------------------------------------------------------------------------


@pytest.mark.parametrize("name, body", cases("requests"))
def test_requests_come_back(name: str, body: Any) -> None:
    raw = encoded(body)
    assert name.startswith("ext_") or request_problems(body) == []
    request = cannery.normalize_request(raw, GENERATE)
    assert_same_json(cannery.nativize_request(request, GENERATE).body, raw)


@pytest.mark.parametrize("name, body", cases("responses"))
def test_answers_come_back(name: str, body: Any) -> None:
    raw = encoded(body)
    assert name.startswith("ext_") or answer_problems(body) == []
    response = cannery.normalize_response(raw, GENERATE)
    assert_same_json(cannery.nativize_response(response, GENERATE).body, raw)


@settings(max_examples=150)
@given(data=st.data())
def test_whatever_is_drawn_comes_back(data: st.DataObject) -> None:
    dice = Dice(data.draw, extras=True, orderly=False)
    question, answer = encoded(ollama_bodies.question(dice)), encoded(ollama_bodies.answer(dice))
    request = cannery.normalize_request(question, GENERATE)
    assert_same_json(cannery.nativize_request(request, GENERATE).body, question)
    response = cannery.normalize_response(answer, GENERATE)
    assert_same_json(cannery.nativize_response(response, GENERATE).body, answer)


@pytest.mark.parametrize("name, data", streams())
def test_streams_come_back_in_any_split(name: str, data: bytes) -> None:
    def lines(chunks: list[bytes]) -> list[Any]:
        written = cannery.translate_stream(chunks, source=GENERATE, target=GENERATE)
        return [json.loads(line) for line in b"".join(written).splitlines()]

    times = {"created_at": "2026-11-15T10:00:00Z"}
    given_lines = [json.loads(line) for line in data.splitlines()]
    found = lines([data])
    assert same(found[-1], given_lines[-1]), name
    for one, other in zip(found[:-1], given_lines[:-1], strict=True):
        assert same(one, {**other, **times}), name
    assert lines([data[at : at + 1] for at in range(len(data))]) == found


# --- to other dialects -----------------------------------------------------------------------------


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("name, body", cases("requests"))
def test_a_question_reaches_every_dialect(name: str, body: Any, target: str) -> None:
    rendered = cannery.translate(encoded(body), source=GENERATE, target=target)
    written = json.loads(rendered.body)
    assert validate_request(target, written) + check_request_rules(target, written) == [], name
    said = [leaf.value for leaf in leaves(target, written)]
    lost = {loss.path for loss in rendered.losses if loss.severity != "info"}
    for key in ("prompt", "system", "suffix"):
        assert not body.get(key) or body[key] in said or key in lost
    count = sum(leaf.kind == "media" for leaf in leaves(target, written))
    assert count == len(body.get("images") or ())
    says_nothing = {"", None, False, "5m"}
    for key in ("raw", "template"):
        assert (key in lost) == (body.get(key) not in says_nothing)


@pytest.mark.parametrize("target", DIALECTS)
def test_a_history_that_only_one_model_reads_is_refused(target: str) -> None:
    body = {"model": "m", "prompt": "and then?", **REFUSED}
    with pytest.raises(cannery.LossError, match="HISTORY_MISSING at context"):
        cannery.translate(encoded(body), source=GENERATE, target=target)
    sent = cannery.translate(encoded(body), source=GENERATE, target=target, policy="allow")
    assert b"and then?" in sent.body


def test_the_sibling_takes_what_only_ollama_has() -> None:
    options = {"num_ctx": 8192, "temperature": 0.1, "mirostat": 1}
    body = {"model": "m", "prompt": "q", "options": options, "keep_alive": 60, "stream": False}
    rendered = cannery.translate(encoded(body), source=GENERATE, target="ollama_chat")
    written = json.loads(rendered.body)
    assert (written["options"], written["keep_alive"]) == (options, 60)
    assert rendered.losses == ()
    back = cannery.translate(rendered.body, source="ollama_chat", target=GENERATE)
    assert json.loads(back.body) == body


# --- from other dialects ---------------------------------------------------------------------------


def test_one_question_is_said() -> None:
    image = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00").decode()
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}},
    ]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}]
    rendered = cannery.translate(
        {"model": "m", "messages": messages, "max_tokens": 5},
        source="openai_chat",
        target=GENERATE,
        policy="strict",
    )
    written = json.loads(rendered.body)
    assert request_problems(written) == []
    assert written == {
        "model": "m",
        "options": {"num_predict": 5},
        "stream": False,
        "system": "Be brief.",
        "prompt": "What is this?",
        "images": [image],
    }


def test_turns_around_a_question_are_refused_with_their_paths() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "three"},
        {"role": "user", "content": "four"},
    ]
    body = {"model": "m", "messages": messages}
    with pytest.raises(cannery.LossError, match="TURN_DROPPED"):
        cannery.translate(body, source="openai_chat", target=GENERATE)
    sent = cannery.translate(body, source="openai_chat", target=GENERATE, policy="allow")
    assert json.loads(sent.body)["prompt"] == "four"
    paths = [loss.path for loss in sent.losses if loss.code == "TURN_DROPPED"]
    assert paths == [
        "messages[0].content",
        "messages[1].content",
        "messages[1].tool_calls[0]",
        "messages[2]",
    ]


def test_a_long_conversation_is_not_cut_in_silence_when_it_is_written_again() -> None:
    canisters = [make(f"{at}") for at in range(10) for make in (cannery.user, cannery.assistant)]
    request = cannery.Request([*canisters, cannery.user("last")], model="m")
    for _ in range(2):
        sent = cannery.nativize_request(request, GENERATE, policy="allow")
        assert len([loss for loss in sent.losses if loss.code == "TURN_DROPPED"]) == 20
        assert json.loads(sent.body)["prompt"] == "last"


@pytest.mark.parametrize("case", ANSWERS, ids=identify)
def test_every_answer_is_valid(case: Case) -> None:
    rendered = cannery.translate(case.raw, source=case.dialect, target=GENERATE, kind="response")
    assert answer_problems(json.loads(rendered.body)) == []
    response = cannery.normalize_response(case.raw, case.dialect)
    calls = [one for one in response if one.role is cannery.Role.Invocation]
    codes = [loss.code for loss in rendered.losses]
    assert codes.count("CALL_DROPPED") >= len(calls)


@pytest.mark.parametrize("case", STREAMS, ids=identify)
def test_every_stream_is_read_by_the_sdk(case: StreamCase) -> None:
    written = [*cannery.translate_stream([case.data], source=case.dialect, target=GENERATE)]
    found = read_by_sdk(written)
    assert found[-1].done is True
    whole = cannery.fold(cannery.normalize_stream([case.data], case.dialect))
    rendered = cannery.nativize_response(whole, GENERATE)
    text = "".join(line.response or "" for line in found)
    assert text == json.loads(rendered.body)["response"]


@pytest.mark.parametrize("limit", [-1, -2])
@pytest.mark.parametrize("source", ["ollama_chat", "ollama_generate"])
def test_no_limit_is_no_limit_anywhere(source: str, limit: int):
    asked = (
        {"messages": [{"role": "user", "content": "q"}]} if "chat" in source else {"prompt": "q"}
    )
    body = {"model": "m", **asked, "options": {"num_predict": limit, "seed": 3}}
    assert cannery.normalize_request(body, source).controls.max_tokens is absent
    home = cannery.translate(body, source=source, target=source)
    assert json.loads(home.body) == body
    rendered = cannery.translate(body, source=source, target="openai_chat", policy="strict")
    assert "max_completion_tokens" not in json.loads(rendered.body)
    assert [(loss.code, loss.path) for loss in rendered.losses] == [
        ("DEFAULT_DROPPED", "options.num_predict")
    ]
