"""Between Responses and every other dialect: valid by types and rules, and nothing vanishes."""

from __future__ import annotations

import json
import re

import pytest

from cannery.dialects import dialect_names
from cannery.translation import translate
from tests.oracles.corpus import DIALECTS, request_cases, response_cases
from tests.oracles.leaves import is_named, missing_leaves
from tests.oracles.sdk_types import validate_request, validate_response
from tests.oracles.server_rules import check_request_rules
from tests.oracles.silence import says_nothing

NAME = "openai_responses"
OTHERS = [name for name in DIALECTS if name != NAME and name in dialect_names()]
OUTBOUND = [case for case in request_cases(NAME) if not says_nothing(NAME, case.body)]
INBOUND = [
    case for name in OTHERS for case in request_cases(name) if not says_nothing(name, case.body)
]
ANSWERS = [case for name in OTHERS for case in response_cases(name)]
# Its title is the file's name, which the walker does not look at.
CARRIED_AS_NAME = {"tool_result_media"}


def name(case):
    return f"{case.dialect}-{case.id}"


def stands_in(body, path):
    """Whether a path leads to a value of a body."""
    for key, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path.removeprefix("$")):
        try:
            body = body[key] if key else body[int(index)]
        except (KeyError, IndexError, TypeError):
            return False
    return True


@pytest.mark.parametrize("case", INBOUND, ids=name)
def test_request_from_elsewhere_is_valid_here(case):
    rendered = translate(case.raw, source=case.dialect, target=NAME, policy="allow")
    body = json.loads(rendered.body)

    assert validate_request(NAME, body) == []
    assert check_request_rules(NAME, {"model": case.url_model or "m", **body}) == []


@pytest.mark.parametrize("case", INBOUND, ids=name)
def test_nothing_from_elsewhere_vanishes(case):
    rendered = translate(case.raw, source=case.dialect, target=NAME, policy="allow")
    paths = [loss.path for loss in rendered.losses]
    paths += [repair.path for repair in rendered.repairs]
    missing = missing_leaves(case.dialect, json.loads(case.raw), NAME, json.loads(rendered.body))

    silent = [leaf for leaf in missing if not is_named(leaf, paths)]
    assert [leaf for leaf in silent if case.id not in CARRIED_AS_NAME] == []


@pytest.mark.parametrize("case", ANSWERS, ids=name)
def test_answer_from_elsewhere_is_valid_here(case):
    rendered = translate(case.raw, source=case.dialect, target=NAME, kind="response")

    assert validate_response(NAME, json.loads(rendered.body)) == []


@pytest.mark.parametrize("case", ANSWERS, ids=name)
def test_answer_from_elsewhere_is_the_same_bytes_every_time(case):
    first, second = (
        json.loads(translate(case.raw, source=case.dialect, target=NAME, kind="response").body)
        for _ in range(2)
    )

    assert {**first, "created_at": 0} == {**second, "created_at": 0}


@pytest.mark.parametrize("case", OUTBOUND, ids=name)
def test_nothing_of_a_request_vanishes_on_the_way_to_chat(case):
    rendered = translate(case.raw, source=NAME, target="openai_chat", policy="allow")
    body = json.loads(rendered.body)
    paths = [loss.path for loss in rendered.losses]
    paths += [repair.path for repair in rendered.repairs]
    missing = missing_leaves(NAME, json.loads(case.raw), "openai_chat", body)

    assert [leaf for leaf in missing if not is_named(leaf, paths)] == []
    assert validate_request("openai_chat", body) == []


@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("case", [*OUTBOUND, *response_cases(NAME)], ids=name)
def test_whatever_is_reported_stands_in_the_body(case, target):
    kind = "response" if "output" in case.body else "request"
    rendered = translate(case.raw, source=NAME, target=target, kind=kind, policy="allow")
    paths = [note.path for note in (*rendered.losses, *rendered.repairs)]

    assert [path for path in paths if not stands_in(case.body, path)] == []


@pytest.mark.parametrize("case", INBOUND, ids=name)
def test_whatever_is_reported_from_elsewhere_stands_in_the_body(case):
    rendered = translate(case.raw, source=case.dialect, target=NAME, policy="allow")
    paths = [note.path for note in (*rendered.losses, *rendered.repairs)]

    assert [path for path in paths if not stands_in(case.body, path)] == []


def test_an_answer_without_a_status_is_reported_as_a_whole():
    body = {"id": "r", "model": "m", "output": []}
    rendered = translate(body, source=NAME, target="openai_chat", kind="response")

    assert [(loss.code, loss.path) for loss in rendered.losses] == [("FINISH_CHANGED", "$")]
