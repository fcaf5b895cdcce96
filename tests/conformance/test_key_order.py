"""Bytes do not depend on the way: shortcuts and the general writers put keys in the same order."""

from __future__ import annotations

import json

import pytest

import cannery
from tests.conformance.matrix import DIALECTS, identify
from tests.oracles.corpus import Case, request_cases, response_cases

REQUESTS = [
    (case, target) for source in DIALECTS for target in DIALECTS for case in request_cases(source)
]
ANSWERS = [
    (case, target) for source in DIALECTS for target in DIALECTS for case in response_cases(source)
]
PLAIN = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "v"},
    ],
}
SETTINGS = [
    {},
    {"max_tokens": 5},
    {"stream": True, "top_p": 0.9, "temperature": 0.5, "max_completion_tokens": 5},
    {"stream": False},
]


def ordered(body: bytes) -> str:
    """A body without the white space that text which is only passed on may have."""
    return json.dumps(json.loads(body))


@pytest.mark.parametrize("case, target", REQUESTS, ids=identify)
def test_requests(case: Case, target: str, general):
    short = cannery.translate(case.raw, source=case.dialect, target=target)
    assert ordered(short.body) == ordered(general(case.raw, case.dialect, target).body)


@pytest.mark.parametrize("case, target", ANSWERS, ids=identify)
def test_answers(case: Case, target: str, general):
    short = cannery.translate(case.raw, source=case.dialect, target=target, kind="response")
    slow = general(case.raw, case.dialect, target, kind="response")
    assert ordered(short.body) == ordered(slow.body)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("middle", DIALECTS)
@pytest.mark.parametrize("target", DIALECTS)
def test_plain_chats(settings: dict[str, object], middle: str, target: str, general):
    raw = json.dumps({**settings, **PLAIN}).encode()
    body = cannery.translate(raw, source="openai_chat", target=middle).body
    short = cannery.translate(body, source=middle, target=target)
    assert ordered(short.body) == ordered(general(body, middle, target).body)
