"""The conventions of OpenTelemetry as an archive: everything that another dialect says is in it and comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from cannery.storage import open_store
from tests.conformance.matrix import DIALECTS, assert_same_json, identify
from tests.oracles.corpus import Case, request_cases, response_cases
from tests.oracles.silence import unless_empty
from tests.strategies.bodies import requests, responses

from .schema import problems

OTEL = "otel_genai"
REQUESTS = [case for name in DIALECTS for case in request_cases(name)]
RESPONSES = [case for name in DIALECTS for case in response_cases(name)]


def archive(raw: bytes, dialect: str, body: Any, kind: str = "request") -> cannery.Rendered | None:
    def write() -> cannery.Rendered:
        return cannery.translate(raw, source=dialect, target=OTEL, kind=kind, policy="strict")

    return write() if kind == "response" else unless_empty(write, dialect, body)


def check(raw: bytes, dialect: str, body: Any, kind: str) -> None:
    """Nothing is lost on the way into the archive, and the same JSON comes out of it."""
    rendered = archive(raw, dialect, body, kind)
    if rendered is None:
        return
    assert rendered.losses == ()
    assert {repair.name for repair in rendered.repairs} <= {"broken_unicode"}
    assert problems(json.loads(rendered.body)) == []
    normalize = getattr(cannery, f"normalize_{kind}")
    nativize = getattr(cannery, f"nativize_{kind}")
    kept = normalize(rendered.body, OTEL)
    assert_same_json(nativize(kept, OTEL).body, rendered.body)
    assert_same_json(nativize(kept, dialect).body, raw)


@pytest.mark.parametrize("case", REQUESTS, ids=identify)
def test_a_request_comes_back_from_the_archive(case: Case):
    check(case.raw, case.dialect, case.body, "request")


@pytest.mark.parametrize("case", RESPONSES, ids=identify)
def test_an_answer_comes_back_from_the_archive(case: Case):
    check(case.raw, case.dialect, case.body, "response")


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=60)
@given(data=st.data())
def test_any_request_comes_back_from_the_archive(dialect: str, data: st.DataObject):
    body = data.draw(requests(dialect))
    raw = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
    check(raw, dialect, body, "request")


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=60)
@given(data=st.data())
def test_any_answer_comes_back_from_the_archive(dialect: str, data: st.DataObject):
    body = data.draw(responses(dialect))
    raw = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
    check(raw, dialect, body, "response")


@pytest.mark.parametrize("case", REQUESTS[::7], ids=identify)
def test_the_archive_says_to_others_what_the_body_says(case: Case):
    rendered = archive(case.raw, case.dialect, case.body)
    if rendered is None:
        return
    for target in DIALECTS:
        how = {"target": target, "policy": "allow"}
        told = unless_empty(
            lambda how=how: cannery.translate(case.raw, source=case.dialect, **how),
            case.dialect,
            case.body,
        )
        if told is not None:
            again = cannery.translate(rendered.body, source=OTEL, **how)
            assert json.loads(again.body) == json.loads(told.body)
            assert [loss.code for loss in again.losses] == [loss.code for loss in told.losses]


@pytest.mark.parametrize("case", REQUESTS[::11], ids=identify)
def test_the_archive_of_a_stored_conversation_is_the_same(case: Case, tmp_path):
    request = cannery.normalize_request(case.raw, case.dialect)
    if not request.conversation:
        return
    with open_store(f"sqlite:{tmp_path / 'store'}") as store:
        conversation = store.create()
        conversation.append(request.conversation)
        loaded = request.replace(conversation=conversation.load())
        written = cannery.nativize_request(loaded, OTEL, policy="allow").body
    assert_same_json(written, cannery.nativize_request(request, OTEL, policy="allow").body)


@pytest.mark.parametrize("dialect", ["openai_chat", "mistral_chat", "ollama_chat"])
@pytest.mark.parametrize("before", [[], [{"role": "user", "content": "q"}]])
def test_a_message_that_says_nothing_is_kept(dialect: str, before: list[dict[str, str]]):
    silent = {"role": "assistant", "content": None}
    body = {"model": "m", "messages": [*before, silent, {"role": "user", "content": "r"}]}
    check(json.dumps(body).encode(), dialect, body, "request")
