"""Data sets: records come back at home, become valid requests abroad, and any request becomes a record."""

from __future__ import annotations

import contextlib
import json
import random
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from tests.conformance.matrix import DATA_SETS, DIALECTS, assert_same_json, identify
from tests.conformance.test_errors import JSON, mutate
from tests.oracles.corpus import Case, request_cases
from tests.oracles.sdk_types import validate_request
from tests.oracles.server_rules import check_request_rules
from tests.oracles.silence import is_silent, unless_empty
from tests.strategies.bodies import typed_requests

RECORDS = [case for name in DATA_SETS for case in request_cases(name)]
OUTWARD = [(case, target) for case in RECORDS for target in (*DIALECTS, *DATA_SETS)]
INWARD = [
    (case, target) for name in DIALECTS for case in request_cases(name) for target in DATA_SETS
]


def strings(value: Any) -> list[str]:
    """Every string that is somebody's words: not a key, not a word of the format."""
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in strings(item)]


def spelled(text: str | None) -> list[str]:
    """What must be found of a text: all of it between images, or the strings of the JSON that it is."""
    text = (text or "").removeprefix("[tool error] ").strip()
    try:
        return strings(json.loads(text))
    except ValueError:
        return text.split("<image>")


def texts(content: Any) -> list[str]:
    """The texts of a Chat message's content."""
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    return [part["text"] for part in parts if "text" in part]


def said(case: Case) -> list[tuple[str, str]]:
    """The texts of a record by their paths, listed by its shape alone."""
    body = case.body
    if case.dialect == "sharegpt":
        turns = [(f"conversations[{i}].value", t) for i, t in enumerate(body["conversations"])]
        found = [(path, t["value"]) for path, t in turns if t["from"] != "function_call"]
        return [*found, ("system", body.get("system"))]
    if case.dialect == "alpaca":
        pairs = [
            (f"history[{i}]", text)
            for i, pair in enumerate(body.get("history", ()))
            for text in pair
        ]
        return [
            *pairs,
            *((key, body.get(key)) for key in ("instruction", "input", "output", "system")),
        ]
    messages = enumerate(body["messages"])
    return [
        (f"messages[{i}].content", text) for i, m in messages for text in texts(m.get("content"))
    ]


@pytest.mark.parametrize("case", RECORDS, ids=identify)
def test_a_record_comes_back(case: Case):
    request = cannery.normalize_request(case.raw, case.dialect)
    rendered = cannery.nativize_request(request, case.dialect)
    assert_same_json(rendered.body, case.raw)
    assert not rendered.losses
    assert not rendered.repairs


@pytest.mark.parametrize("case, target", OUTWARD, ids=identify)
def test_a_record_becomes_a_valid_request(case: Case, target: str):
    rendered = cannery.translate(case.raw, source=case.dialect, target=target)
    body = json.loads(rendered.body)
    if target in DIALECTS:
        assert validate_request(target, body) + check_request_rules(target, body) == []
    words = "\n".join(strings(body))
    named = [loss.path for loss in rendered.losses]
    for path, text in said(case):
        is_named = any(path.startswith(name) or name.startswith(path) for name in named)
        assert is_named or all(part in words for part in spelled(text)), path


@pytest.mark.parametrize("case, target", INWARD, ids=identify)
def test_a_request_becomes_a_record(case: Case, target: str):
    how = {"source": case.dialect, "target": target, "policy": "allow"}
    rendered = unless_empty(partial(cannery.translate, case.raw, **how), case.dialect, case.body)
    if rendered is None:
        return
    request = cannery.normalize_request(rendered.body, target)
    again = cannery.nativize_request(request, target)
    assert_same_json(again.body, rendered.body)
    assert all(loss.path for loss in rendered.losses)


@pytest.mark.parametrize("target", DATA_SETS)
@pytest.mark.parametrize("source", DIALECTS)
@settings(max_examples=25)
@given(data=st.data())
def test_any_request_becomes_a_record(source: str, target: str, data: st.DataObject):
    body = data.draw(typed_requests(source))
    raw = json.dumps(body).encode()
    how = {"source": source, "target": target, "policy": "allow"}
    rendered = unless_empty(partial(cannery.translate, raw, **how), source, body)
    if rendered is None:
        return
    request = cannery.normalize_request(rendered.body, target)
    assert_same_json(cannery.nativize_request(request, target).body, rendered.body)


@pytest.mark.parametrize("case", RECORDS, ids=identify)
def test_mutated_records_are_read_or_refused(case: Case):
    rng = random.Random(case.id)
    for _ in range(60):
        body = json.dumps(mutate(case.body, rng)).encode()
        try:
            request = cannery.normalize_request(body, case.dialect)
        except cannery.DialectError:
            continue
        for target in (*DIALECTS, *DATA_SETS):
            try:
                cannery.nativize_request(request, target)
            except cannery.EmptyConversationError:
                assert target != case.dialect
                assert is_silent(request)


@pytest.mark.parametrize("dialect", DATA_SETS)
@given(value=JSON)
def test_random_json_is_read_or_refused(dialect: str, value: Any):
    for body in (
        value,
        {"conversations": value, "messages": value, "instruction": "x", "history": value},
    ):
        try:
            request = cannery.normalize_request(json.dumps(body).encode(), dialect)
        except cannery.DialectError:
            continue
        written = cannery.nativize_request(request, dialect).body
        assert_same_json(written, json.dumps(body).encode())


@pytest.mark.parametrize("dialect", DATA_SETS)
@pytest.mark.parametrize("depth", [50, 900, 200_000])
def test_deep_nesting(dialect: str, depth: int):
    for key in (b"conversations", b"messages", b"history", b"x"):
        deep = b"[" * depth + b"]" * depth
        with contextlib.suppress(cannery.DialectError):
            cannery.normalize_request(b'{"instruction":"i","%s":%s}' % (key, deep), dialect)


@pytest.mark.parametrize("dialect", DATA_SETS)
def test_a_data_set_has_neither_responses_nor_streams(dialect: str):
    with pytest.raises(cannery.DialectError, match="a data set has no responses"):
        cannery.normalize_response(b"{}", dialect)
    with pytest.raises(cannery.DialectError, match="a data set has no streams"):
        list(cannery.normalize_stream([b""], dialect))
    with pytest.raises(cannery.DialectError, match="a data set has no streams"):
        list(cannery.nativize_stream([], dialect))


@pytest.mark.parametrize(
    "case", [case for case in RECORDS if case.dialect != "alpaca"], ids=identify
)
def test_untouched_turns_come_back_when_one_is_appended(case: Case):
    key = "conversations" if case.dialect == "sharegpt" else "messages"
    request = cannery.normalize_request(case.raw, case.dialect)
    longer = request.replace(conversation=[*request.conversation, cannery.user("One more.")])
    written = json.loads(cannery.nativize_request(longer, case.dialect).body)
    assert written[key][:-1] == case.body[key]
