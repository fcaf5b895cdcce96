"""A body that breaks the dialect raises one error that names dialect, path and problem; nothing else escapes."""

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.errors import DialectError, RoleError
from cannery.families.gemini.errors import read_google_error, write_google_error
from cannery.translation import normalize_request, normalize_response, normalize_stream
from cannery.wire.contract import WireError
from tests.oracles.corpus import request_cases, response_cases

NAME = "gemini_generate"
JUNK: list[Any] = [None, True, -1, 1.5, 10**30, "", "x", "[1]", [], [None], {}, {"text": "q"}, "12"]


@pytest.mark.parametrize(
    "body,path",
    [
        (b"[]", "$"),
        (b"{", "$"),
        ({}, "contents"),
        ({"contents": 5}, "contents"),
        ({"contents": [5]}, "contents[0]"),
        ({"contents": [{"parts": "x"}]}, "contents[0].parts"),
        ({"contents": [{"parts": ["x"]}]}, "contents[0].parts[0]"),
        ({"contents": [{"parts": [{"text": 5}]}]}, "contents[0].parts[0].text"),
        ({"contents": [{"parts": [{"inline_data": {}}]}]}, "contents[0].parts[0].inline_data.data"),
        (
            {"contents": [{"parts": [{"fileData": {"file_uri": 1}}]}]},
            "contents[0].parts[0].fileData.file_uri",
        ),
        (
            {"contents": [{"role": "model", "parts": [{"functionCall": {"args": {}}}]}]},
            "contents[0].parts[0].functionCall.name",
        ),
        (
            {"contents": [{"parts": [{"functionResponse": {"response": {}}}]}]},
            "contents[0].parts[0].functionResponse.name",
        ),
        ({"contents": [], "systemInstruction": {"parts": [1]}}, "systemInstruction.parts[0]"),
    ],
    ids=str,
)
def test_the_error_names_the_place(body, path):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(DialectError) as caught:
        normalize_request(raw, NAME)
    assert (caught.value.dialect, caught.value.path) == (NAME, path)


def test_a_dangerous_role_is_refused_and_an_odd_spelling_is_read():
    with pytest.raises(RoleError, match="Role must be one of: user, model, function"):
        normalize_request({"contents": [{"role": "system", "parts": [{"text": "x"}]}]}, NAME)
    roles = [" User\n", "ASSISTANT", "human", "bot"]
    body = {"contents": [{"role": role, "parts": [{"text": " x "}]} for role in roles]}
    found: Any = normalize_request(body, NAME).conversation
    assert [one.role.value for one in found] == ["user", "assistant", "user", "assistant"]
    assert {one.text for one in found} == {" x "}


def test_deep_nesting_is_refused_or_read():
    for depth in (50, 500, 100_000):
        raw = b'{"contents":[{"parts":[{"x":' + b"[" * depth + b"]" * depth + b"}]}]}"
        try:
            normalize_request(raw, NAME)
        except DialectError:
            assert depth > 50


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path] * bool(path) + [
        place for key, item in items for place in places(item, (*path, key))
    ]


@given(st.data())
def test_a_damaged_body_is_read_or_refused(data):
    is_request = data.draw(st.booleans())
    case = data.draw(st.sampled_from((request_cases if is_request else response_cases)(NAME)))
    body = copy.deepcopy(case.body)
    for _ in range(data.draw(st.integers(1, 3))):
        found = places(body)
        if not found:
            break
        path = data.draw(st.sampled_from(found))
        holder = body
        for step in path[:-1]:
            holder = holder[step]
        if data.draw(st.booleans()):
            del holder[path[-1]]
        else:
            holder[path[-1]] = copy.deepcopy(data.draw(st.sampled_from(JUNK)))
    raw = json.dumps(body).encode()
    with contextlib.suppress(DialectError):
        (normalize_request if is_request else normalize_response)(raw, NAME)
    with contextlib.suppress(DialectError):
        list(normalize_stream([b"data: " + raw + b"\n\n"], NAME))


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(raw):
    for read in (normalize_request, normalize_response):
        with contextlib.suppress(DialectError):
            read(raw, NAME)


@pytest.mark.parametrize(
    "status,kind,word",
    [
        (400, "invalid_request_error", "INVALID_ARGUMENT"),
        (401, "authentication_error", "UNAUTHENTICATED"),
        (404, "not_found_error", "NOT_FOUND"),
        (429, "rate_limit_error", "RESOURCE_EXHAUSTED"),
        (500, "api_error", "INTERNAL"),
        (503, "overloaded_error", "UNAVAILABLE"),
        (418, None, "INVALID_ARGUMENT"),
        (599, None, "INTERNAL"),
    ],
)
def test_errors_both_ways(status, kind, word):
    body = write_google_error(WireError(status, "no", kind))
    assert json.loads(body) == {"error": {"code": status, "message": "no", "status": word}}
    for raw in (body, b"[" + body + b"]"):
        error = read_google_error(NAME, status, raw)
        assert (error.status, error.message, error.code) == (status, "no", word)
        assert kind is None or error.kind == kind


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"error":"x"}', b'{"error":{}}', b"\xff"]
)
def test_any_error_body_is_an_error(body):
    assert read_google_error(NAME, 502, body).message


def test_an_error_is_no_answer():
    body = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    with pytest.raises(DialectError, match="tells of an error"):
        normalize_response(body, "gemini_generate")
