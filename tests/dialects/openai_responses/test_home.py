"""What was read from Responses goes back as it was, whatever else happened to its neighbours."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.dialects import find_dialect
from cannery.translation import (
    nativize_request,
    nativize_response,
    normalize_request,
    normalize_response,
)
from cannery.wire.places import Places, path_text
from tests.oracles.corpus import request_cases, response_cases
from tests.oracles.json_values import same

NAME = "openai_responses"
REQUESTS = [case for case in request_cases(NAME) if case.id != "lone_surrogate"]
RESPONSES = response_cases(NAME)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(-2, 2)
    | st.text('ab{"é', max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("xy"), inner, max_size=2),
    max_leaves=4,
)


def home_request(body: Any) -> Any:
    rendered = nativize_request(normalize_request(body, NAME), NAME)
    assert rendered.losses == ()
    return json.loads(rendered.body)


def home_response(body: Any) -> Any:
    rendered = nativize_response(normalize_response(body, NAME), NAME)
    assert rendered.losses == ()
    return json.loads(rendered.body)


def spots(value: Any) -> list[dict[str, Any]]:
    """Every object of a body."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value] if isinstance(value, dict) else []
    return own + [spot for item in inner for spot in spots(item)]


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case.id)
def test_request_comes_back(case):
    assert same(home_request(case.body), case.body)


@pytest.mark.parametrize("case", RESPONSES, ids=lambda case: case.id)
def test_response_comes_back(case):
    assert same(home_response(case.body), case.body)


@given(st.data())
def test_request_with_unknown_fields_anywhere_comes_back(data):
    body = copy.deepcopy(data.draw(st.sampled_from(REQUESTS)).body)
    for spot in data.draw(st.lists(st.sampled_from(spots(body)), max_size=4)):
        spot[data.draw(st.sampled_from(["x_new", "phase", "zeta", "cache", "v", "s"]))] = data.draw(
            JSON
        )

    assert same(home_request(body), body)


@given(st.data())
def test_response_with_unknown_fields_anywhere_comes_back(data):
    body = copy.deepcopy(data.draw(st.sampled_from(RESPONSES)).body)
    for spot in data.draw(st.lists(st.sampled_from(spots(body)), max_size=4)):
        spot[data.draw(st.sampled_from(["x_new", "zeta", "v", "s"]))] = data.draw(JSON)

    assert same(home_response(body), body)


LISTED = [
    case
    for case in REQUESTS
    if isinstance(case.body.get("input"), list)
    and case.body["input"]
    and not any(item.get("type") == "reasoning" for item in case.body["input"])
]


@pytest.mark.parametrize("case", LISTED, ids=lambda case: case.id)
def test_untouched_items_come_back_after_any_other_is_removed(case):
    places = Places()
    request = find_dialect(NAME).read_request(case.raw, places)
    paths = [path_text(path) for path in places.canisters]
    given_items = case.body["input"]
    owners = [
        int(path[6 : path.index("]")]) if path.startswith("input[") else None for path in paths
    ]
    for position, owner in enumerate(owners):
        edited = request.replace(conversation=request.conversation.without(position))

        items = json.loads(nativize_request(edited, NAME).body)["input"]

        if owners.count(owner) == 1 or owner is None:
            assert items == [item for index, item in enumerate(given_items) if index != owner]
        else:
            rest = [item for index, item in enumerate(items) if index != owner]
            assert rest == [item for index, item in enumerate(given_items) if index != owner]


@pytest.mark.parametrize(
    "body",
    [
        {"model": "m", "input": "hi"},
        {"model": "m", "input": []},
        {"model": "m"},
        {"model": "m", "input": None, "instructions": None},
        {"model": "m", "input": "hi", "instructions": ""},
        {
            "model": "m",
            "input": [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}],
        },
        {"model": "m", "input": [{"role": "user", "content": []}]},
        {"model": "m", "input": [{"role": "user", "content": None}, {"role": "assistant"}]},
        {"model": "m", "input": [{"type": None, "role": "user", "content": "a"}]},
        {"model": "m", "input": [{"id": "msg_1"}, {"type": None, "id": "rs_1"}]},
        {
            "model": "m",
            "input": [{"role": "user", "content": [{"type": "input_odd", "text": "x"}]}],
        },
        {"model": "m", "input": [{"type": "reasoning", "summary": []}]},
        {
            "model": "m",
            "input": [
                {"role": "assistant", "content": [{"type": "odd"}]},
                {"role": "assistant", "content": "a message behind an unknown part"},
            ],
        },
        {
            "model": "m",
            "tools": [{"type": "function", "name": "f"}],
            "tool_choice": {"type": "mcp"},
        },
    ],
)
def test_odd_shape_comes_back(body):
    assert same(home_request(body), body)


def test_a_big_image_is_held_once():
    url = "data:image/PNG;charset=x;base64," + "iVBORw0KGgoAAAANSUhEUgAA" * 4096
    part = {"type": "input_image", "image_url": url, "detail": "low"}
    body = {"model": "m", "input": [{"role": "user", "content": [part]}]}

    canister: Any = normalize_request(body, NAME).conversation[0]

    assert len(canister.residue.part) < 200
    assert same(home_request(body), body)


def test_role_spelling_is_normalized_for_good():
    body = {
        "model": "m",
        "input": [{"role": " Human ", "content": " hi "}, {"role": "AI", "content": "c"}],
    }

    assert [item["role"] for item in home_request(body)["input"]] == ["user", "assistant"]


def test_lone_surrogates_keep_their_escape():
    body = b'{"model":"m","input":[{"role":"user","content":"a\\ud83d b"}]}'

    assert json.loads(nativize_request(normalize_request(body, NAME), NAME).body) == json.loads(
        body
    )
