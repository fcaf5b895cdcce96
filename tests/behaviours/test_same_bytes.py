"""Same input, same bytes: nothing of the clock, of chance or of the way there gets into a body."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import cannery
from cannery.messages import checked
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES
from tests.conformance.matrix import DIALECTS, identify
from tests.oracles.corpus import Case, StreamCase, response_cases, stream_cases

ANSWERS = [
    (case, target) for name in DIALECTS for case in response_cases(name) for target in DIALECTS
]
STREAMS = [
    (case, target) for name in DIALECTS for case in stream_cases(name) for target in DIALECTS
]
CREATED = {CHAT: "created", RESPONSES: "created_at"}


@pytest.fixture(name="pass_time")
def _pass_time(monkeypatch: pytest.MonkeyPatch):
    """Let an hour pass whenever somebody looks at the clock."""
    hours = iter(range(1_000_000))

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = UTC):
            return datetime(2030, 1, 1, tzinfo=tz) + timedelta(hours=next(hours))

    monkeypatch.setattr(checked, "datetime", Clock)


@pytest.mark.usefixtures("pass_time")
@pytest.mark.parametrize("case, target", ANSWERS, ids=identify)
def test_an_answer(case: Case, target: str):
    made = [
        cannery.translate(case.raw, source=case.dialect, target=target, kind="response").body
        for _ in range(2)
    ]
    assert made[0] == made[1]


@pytest.mark.usefixtures("pass_time")
@pytest.mark.parametrize("case, target", STREAMS, ids=identify)
def test_a_stream(case: StreamCase, target: str):
    made = [
        b"".join(cannery.translate_stream([case.data], source=case.dialect, target=target))
        for _ in range(2)
    ]
    assert made[0] == made[1]


@pytest.mark.parametrize("source, target", [(CHAT, RESPONSES), (RESPONSES, CHAT)])
def test_when_an_answer_was_made_is_carried_over(source: str, target: str):
    for case in response_cases(source):
        made = cannery.translate(case.raw, source=source, target=target, kind="response")
        assert json.loads(made.body)[CREATED[target]] == case.body[CREATED[source]]


@pytest.mark.parametrize("source", [CLAUDE, GEMINI])
@pytest.mark.parametrize("target", CREATED)
def test_no_time_is_made_up(source: str, target: str):
    for case in response_cases(source):
        made = cannery.translate(case.raw, source=source, target=target, kind="response")
        assert "createTime" in case.body or json.loads(made.body)[CREATED[target]] == 0
