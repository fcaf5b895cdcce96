"""Lossless at home: writing what was read gives the same JSON value and no loss, for every body and after edits."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from cannery.dialects import find_dialect
from tests.conformance.matrix import DIALECTS, assert_same_json, identify
from tests.oracles.corpus import Case, request_cases, response_cases
from tests.strategies.bodies import requests, responses

REQUESTS = [case for name in DIALECTS for case in request_cases(name)]
RESPONSES = [case for name in DIALECTS for case in response_cases(name)]


@pytest.mark.parametrize("case", REQUESTS, ids=identify)
def test_a_request_comes_back(case: Case):
    request = cannery.normalize_request(case.raw, case.dialect)
    rendered = cannery.nativize_request(request, case.dialect)
    assert_same_json(rendered.body, case.raw)
    assert not rendered.losses
    assert not rendered.repairs


@pytest.mark.parametrize("case", RESPONSES, ids=identify)
def test_a_response_comes_back(case: Case):
    response = cannery.normalize_response(case.raw, case.dialect)
    rendered = cannery.nativize_response(response, case.dialect)
    assert_same_json(rendered.body, case.raw)
    assert not rendered.losses
    assert not rendered.repairs


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_any_request_comes_back(dialect: str, data: st.DataObject):
    body = json.dumps(data.draw(requests(dialect)), ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )
    request = cannery.normalize_request(body, dialect)
    rendered = cannery.nativize_request(request, dialect)
    assert_same_json(rendered.body, body)
    assert not rendered.losses
    assert not rendered.repairs


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_any_response_comes_back(dialect: str, data: st.DataObject):
    body = json.dumps(data.draw(responses(dialect)), ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )
    response = cannery.normalize_response(body, dialect)
    rendered = cannery.nativize_response(response, dialect)
    assert_same_json(rendered.body, body)
    assert not rendered.losses
    assert not rendered.repairs


_LISTS = {name: find_dialect(name).messages for name in DIALECTS}


@pytest.mark.parametrize("case", REQUESTS, ids=identify)
def test_untouched_messages_come_back_when_a_turn_is_appended(case: Case):
    request = cannery.normalize_request(case.raw, case.dialect)
    longer = request.replace(conversation=request.conversation.append(cannery.user("One more.")))
    written = json.loads(cannery.nativize_request(longer, case.dialect).body)
    whole = json.loads(cannery.nativize_request(request, case.dialect).body)
    key = _LISTS[case.dialect]
    given_list = whole.get(key, [])
    if isinstance(given_list, list) and not _are_contents(given_list):
        assert written[key][: len(given_list)] == given_list


def _are_contents(given: list[Any]) -> bool:
    """Whether a list is of contents: these are one message, which becomes a step when another follows it."""
    return bool(given) and all(item.get("type") in ("text", "image") for item in given)


@pytest.mark.parametrize("case", REQUESTS, ids=identify)
def test_untouched_messages_come_back_when_a_turn_is_removed(case: Case):
    request = cannery.normalize_request(case.raw, case.dialect)
    turns = request.conversation.turns()
    if len(turns) < 2:
        return
    gone = random.Random(case.id).randrange(len(turns))
    kept = [canister for index, turn in enumerate(turns) if index != gone for canister in turn]
    key = _LISTS[case.dialect]
    whole = json.loads(cannery.nativize_request(request, case.dialect).body).get(key, [])
    edited = cannery.nativize_request(request.replace(conversation=kept), case.dialect)
    written = json.loads(edited.body).get(key, [])
    if not isinstance(whole, list) or not isinstance(written, list):
        return
    left = [json.dumps(message, sort_keys=True) for message in whole]
    for message in written:
        spelled = json.dumps(message, sort_keys=True)
        assert spelled in left, f"{spelled[:500]} was not in the body"
