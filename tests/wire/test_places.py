"""Paths of losses: each can be read back, whatever the keys of a body are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from cannery.wire.places import key_text, last_key, path_text
from tests.oracles.leaf import steps

ODD = [
    "a.b",
    "c[0]",
    "",
    'x"y',
    "a[",
    "]",
    '["',
    "a\\b",
    "two words",
    "\n",
    "$",
    "@tools",
    "#1.x",
    "^",
    "Ä",
]
KEYS = st.sampled_from(ODD) | st.text('ab.[]"\\ $\n', max_size=5)
PATHS = st.lists(KEYS | st.integers(0, 12), min_size=1, max_size=5).map(tuple)


@given(PATHS)
def test_a_path_can_be_read_back(path: tuple[str | int, ...]):
    assert steps(path_text(path)) == tuple(map(str, path))


@given(PATHS, KEYS)
def test_the_last_key_of_a_path_is_found(path: tuple[str | int, ...], key: str):
    assert last_key(path_text(path) + key_text(key)) == key


BODIES: dict[str, tuple[dict[str, Any], str]] = {
    "openai_chat": ({"model": "m", "messages": [{"role": "user", "content": "q"}]}, "messages[0]"),
    "openai_responses": ({"model": "m", "input": [{"role": "user", "content": "q"}]}, "input[0]"),
    "anthropic_messages": (
        {"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "q"}]},
        "messages[0]",
    ),
    "gemini_generate": ({"contents": [{"role": "user", "parts": [{"text": "q"}]}]}, "contents[0]"),
    "bedrock_converse": (
        {"modelId": "m", "messages": [{"role": "user", "content": [{"text": "q"}]}]},
        "messages[0]",
    ),
    "ollama_chat": ({"model": "m", "messages": [{"role": "user", "content": "q"}]}, "messages[0]"),
}


@pytest.mark.parametrize("key", ODD)
@pytest.mark.parametrize("source", BODIES)
def test_a_key_with_points_is_two_keys_in_the_path_of_a_loss(source: str, key: str):
    body, message = BODIES[source]
    marked = json.loads(json.dumps(body))
    (marked.get("messages") or marked.get("input") or marked["contents"])[0][key] = "field"
    marked[key] = "setting"
    for target in {"openai_chat", "anthropic_messages"} - {source}:
        losses = cannery.translate(marked, source=source, target=target).losses
        found = [steps(loss.path) for loss in losses if loss.code == "FIELD_DROPPED"]
        assert (key,) in found, found
        assert (*steps(message), key) in found, found


def test_a_setting_whose_key_has_a_point_passes_as_a_setting_of_the_model():
    body = {"model": "m", "input": "q", "text.verbosity": "low"}
    losses = cannery.translate(body, source="openai_responses", target="openai_chat").losses
    assert [loss.path for loss in losses] == ['["text.verbosity"]']


def test_keys_that_callers_send_do_not_fill_the_memory():
    kept: dict[Any, str] = getattr(key_text, "__self__")  # noqa: B009 - a method of the table
    for number in range(6_000):
        assert key_text(f"key{number}") == f".key{number}"
    long = "x" * 10_000
    assert key_text(long) == f".{long}"
    assert len(kept) <= 4_096
    assert long not in kept
