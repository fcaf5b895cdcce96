"""Valid abroad: what is written for another provider obeys its types and its rules, and hides nothing."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from tests.conformance.matrix import PAIRS, identify
from tests.oracles.corpus import Case, request_cases, response_cases
from tests.oracles.leaves import is_named, missing_leaves
from tests.oracles.sdk_types import validate_request, validate_response
from tests.oracles.server_rules import check_request_rules
from tests.oracles.silence import unless_empty
from tests.strategies.bodies import tame_requests, typed_requests

MATRIX = [(case, target) for source, target in PAIRS for case in request_cases(source)]
RESPONSES = [(case, target) for source, target in PAIRS for case in response_cases(source)]


def translate(raw: bytes, source: str, target: str) -> cannery.Rendered:
    return cannery.translate(raw, source=source, target=target, policy="allow")


def problems(target: str, body: dict[str, Any]) -> list[str]:
    return validate_request(target, body) + check_request_rules(target, body)


@pytest.mark.parametrize("case, target", MATRIX, ids=identify)
def test_a_translation_is_valid_complete_and_final(case: Case, target: str):
    write = partial(translate, case.raw, case.dialect, target)
    rendered = unless_empty(write, case.dialect, case.body)
    if rendered is None:
        return
    body = json.loads(rendered.body)
    assert problems(target, body) == []
    assert silent(case.dialect, case.body, target, body, rendered) == []
    check_strict(case, target, rendered)
    check_final(case, target, rendered)


def silent(source: str, given_body: Any, target: str, body: Any, rendered: Any) -> list[Any]:
    """The leaves of the source that are neither in the target nor named as lost."""
    paths = [loss.path for loss in rendered.losses]
    missing = missing_leaves(source, given_body, target, body, lost=paths)
    return [leaf for leaf in missing if not is_named(leaf, paths)]


def check_strict(case: Case, target: str, rendered: Any) -> None:
    """Strict refuses exactly what would be lost; the same input gives the same bytes."""
    serious = [loss for loss in rendered.losses if loss.severity != "info"]
    if not serious:
        again = cannery.translate(case.raw, source=case.dialect, target=target, policy="strict")
        assert again == rendered
        return
    with pytest.raises(cannery.LossError) as raised:
        cannery.translate(case.raw, source=case.dialect, target=target, policy="strict")
    assert list(raised.value.losses) == serious


def check_final(case: Case, target: str, rendered: Any) -> None:
    """Repairing what was repaired changes nothing more; some bodies do not name the model whose rules count."""
    model = cannery.normalize_request(case.raw, case.dialect).model
    request = cannery.normalize_request(rendered.body, target).replace(source=None, model=model)
    again = cannery.nativize_request(request, target)
    assert [repair for repair in again.repairs if repair.name != "alternation"] == []


@pytest.mark.parametrize("case, target", RESPONSES, ids=identify)
def test_a_translated_response_is_valid(case: Case, target: str):
    rendered = cannery.translate(case.raw, source=case.dialect, target=target, kind="response")
    assert validate_response(target, json.loads(rendered.body)) == []


@pytest.mark.parametrize("source, target", PAIRS)
@settings(max_examples=60)
@given(data=st.data())
def test_any_tame_request_translates_to_a_valid_one(source: str, target: str, data: st.DataObject):
    drawn = data.draw(tame_requests(source))
    write = partial(
        cannery.translate, json.dumps(drawn).encode(), source=source, target=target, policy="allow"
    )
    rendered = unless_empty(write, source, drawn)
    if rendered is None:
        return
    written = json.loads(rendered.body)
    assert problems(target, written) == []
    assert silent(source, drawn, target, written, rendered) == []


@pytest.mark.parametrize("source, target", PAIRS)
@settings(max_examples=40)
@given(data=st.data())
def test_any_typed_request_translates_to_a_valid_one(source: str, target: str, data: st.DataObject):
    drawn = data.draw(typed_requests(source))
    body = json.dumps(drawn, ensure_ascii=False).encode("utf-8", "surrogatepass")
    rendered = unless_empty(partial(translate, body, source, target), source, drawn)
    assert rendered is None or problems(target, json.loads(rendered.body)) == []
