"""Whatever Gemini said comes back to Gemini to the letter, through the model."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.translation import (
    nativize_request,
    nativize_response,
    normalize_request,
    normalize_response,
)
from tests.oracles.corpus import request_cases, response_cases
from tests.oracles.json_values import same

NAME = "gemini_generate"
# Lone surrogates become U+FFFD, and roles are normalized: both are meant.
REQUESTS = [case for case in request_cases(NAME) if case.id != "lone_surrogate"]
RESPONSES = response_cases(NAME)


def home(body: Any) -> Any:
    request = normalize_request(json.dumps(body).encode(), NAME)
    rendered = nativize_request(request, NAME)
    assert not rendered.losses
    return json.loads(rendered.body)


def said(*parts: Any, role: str = "user") -> dict[str, Any]:
    return {"contents": [{"role": role, "parts": list(parts)}]}


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case.id)
def test_request_comes_back(case):
    assert same(home(case.body), case.body)


@pytest.mark.parametrize("case", RESPONSES, ids=lambda case: case.id)
def test_response_comes_back(case):
    rendered = nativize_response(normalize_response(case.raw, NAME), NAME)
    assert same(json.loads(rendered.body), case.body)
    assert not rendered.losses


@pytest.mark.parametrize(
    "body",
    [
        {"contents": {"parts": {"text": "an object where a list is usual"}}},
        {"contents": [{"parts": {"text": "x"}}], "system_instruction": {"parts": {"text": "s"}}},
        {"contents": [{"parts": []}, {"role": "model"}, {"role": "user", "parts": None}]},
        {"contents": [], "systemInstruction": "bare"},
        {"contents": [], "system_instruction": "bare"},
        {"contents": [], "systemInstruction": [{"text": "a"}, {"text": "b", "x": 1}]},
        {"contents": [], "systemInstruction": {"text": "a part"}},
        {"contents": [], "systemInstruction": {"role": "user", "parts": [], "x": None}},
        {
            "contents": [],
            "systemInstruction": None,
            "system_instruction": {"parts": [{"text": "b"}]},
        },
        {"contents": [], "tools": None, "toolConfig": {}, "generationConfig": None},
        {
            "contents": [],
            "tools": [{}, {"functionDeclarations": []}, 5, {"functionDeclarations": [1]}],
        },
        {"contents": [], "model": "models/gemini-x", "stream": True},
        {
            "contents": [],
            "generation_config": {"top_k": 40.0, "maxOutputTokens": "12", "seed": None},
        },
        {"contents": [], "generationConfig": {"thinking_config": {"thinking_budget": -1}}},
        {"contents": [], "tool_config": {"function_calling_config": {"mode": "any"}}},
        said({"text": "a", "functionCall": None, "inline_data": None}),
        said({}, {"thoughtSignature": "c2ln"}, {"thought": True}, role="model"),
        said({"functionCall": {"name": "f", "args": None}}, role="model"),
        said({"functionCall": {"name": "f", "args": [1]}}, role="model"),
        said({"functionCall": {"name": "f", "args": {"_raw_arguments": "{"}}}, role="model"),
        said({"functionCall": {"name": "f", "args": {"_raw_arguments": "{}"}}}, role="model"),
        said({"functionCall": {"willContinue": True}}, role="model"),
        said({"functionCall": {}}, {"function_call": {"will_continue": None}}, role="model"),
        said({"functionCall": {"name": "f"}}),
        said({"functionResponse": {"name": "f", "response": {}}}, role="model"),
        said({"functionResponse": {"id": "9", "response": {"output": "x"}}}),
        said({"function_response": {"name": "f", "response": {"output": '{"a": 1}'}}}),
        said({"functionResponse": {"name": "f", "response": {"output": [1, 2.0]}, "parts": []}}),
        said({"functionResponse": {"name": "f", "response": {"error": ""}}}),
        said({"functionResponse": {"name": "f", "response": {"error": {"code": 1}}}}),
        said({"functionResponse": {"name": "f", "response": "text"}}),
        said({"functionResponse": {"name": "f"}}),
        said({"inlineData": {"data": "JVBERi0xLjQK", "mimeType": "image/png"}}),
        said({"inlineData": {"data": "!!!", "mimeType": 5}}),
        said({"inline_data": {"data": "__77", "mime_type": "no type", "display_name": "n"}}),
        said({"fileData": {"fileUri": "https://youtu.be/x"}}, {"file_data": {"file_uri": ""}}),
    ],
    ids=lambda body: json.dumps(body)[:60],
)
def test_odd_shapes_come_back(body):
    assert same(home(body), body)


def test_a_big_payload_is_not_kept_twice():
    data = "A" * 40_000
    body = said(
        {
            "inline_data": {"mime_type": "image/png", "data": data},
            "media_resolution": {"level": "x"},
        },
        {"function_response": {"name": "f", "response": {"output": "[" + "1," * 9_000 + "1]"}}},
    )
    request = normalize_request(body, NAME)
    assert same(home(body), body)
    for canister in request.conversation:
        assert len(repr(canister.residue)) < 500


def test_an_untouched_canister_survives_the_removal_of_any_other():
    for case in REQUESTS:
        request = normalize_request(case.raw, NAME)
        before = [json.dumps(part, sort_keys=True) for part in parts_of(case.body)]
        for index in range(len(request.conversation)):
            left = request.replace(conversation=request.conversation.without(index))
            rest = list(before)
            for part in parts_of(json.loads(nativize_request(left, NAME).body)):
                rest.remove(json.dumps(part, sort_keys=True))
            assert len(rest) <= 1, (case.id, index)


def parts_of(body: dict[str, Any]) -> list[Any]:
    contents = body["contents"]
    listed = [contents] if isinstance(contents, dict) else contents
    system = body.get("systemInstruction", body.get("system_instruction"))
    holders = [*listed, *([system] if isinstance(system, dict) else [])]
    found: list[Any] = []
    for holder in holders:
        parts = holder.get("parts") or []
        found.extend([parts] if isinstance(parts, dict) else parts)
    return found


KEYS = st.sampled_from(["xNew", "x_new", "future", "inlineDatum", "z"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(0, 2) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)


def objects_of(value: Any) -> list[dict[str, Any]]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [value] if isinstance(value, dict) else []
    return found + [holder for item in inner for holder in objects_of(item)]


@given(st.data())
def test_unknown_fields_at_any_level_come_back(data):
    requests = data.draw(st.booleans())
    case = data.draw(st.sampled_from(REQUESTS if requests else RESPONSES))
    body = json.loads(json.dumps(case.body))
    for _ in range(data.draw(st.integers(1, 3))):
        holder = data.draw(st.sampled_from(objects_of(body)))
        holder[data.draw(KEYS)] = data.draw(VALUES)
    raw = json.dumps(body).encode()
    if requests:
        rendered = nativize_request(normalize_request(raw, NAME), NAME)
    else:
        rendered = nativize_response(normalize_response(raw, NAME), NAME)
    assert same(json.loads(rendered.body), json.loads(raw))
