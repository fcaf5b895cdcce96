"""The format of patches, which stores hold: each kind, and what happens to a value that it does not fit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.wire.patches import restore

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=90),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=15,
)
# A value, a patch, and the value with the patch applied.
CASES: dict[str, tuple[Any, Any, Any]] = {
    "whole": ("a", {"v": None}, None),
    "text": (
        "data:image/png;base64,AAAA",
        {"p": [5, 12, "IMAGE/png"]},
        "data:IMAGE/png;base64,AAAA",
    ),
    "end of a text": ("data:AAAA", {"p": [0, 4, ""]}, "AAAA"),
    "start of a text": ("AAAA=", {"p": [4, 0, ""]}, "AAAA"),
    "number in quotes": (-7, {"q": True}, "-7"),
    "arguments as an object": ('{"a": 1}', {"j": True}, {"a": 1}),
    "text as base64": ("Ä", {"b": True}, "w4Q="),
    "base64 as text": ("w4Q=", {"b": False}, "Ä"),
    "no base64 as text": ("w4Q", {"b": False}, "w4Q"),
    "no text in base64": ("/w==", {"b": False}, "/w=="),
    "spelling set": (
        {"type": "text", "data": "Ä"},
        {"d": {"data": {"b": True}}, "m": {"type": "base64"}},
        {"type": "base64", "data": "w4Q="},
    ),
    "key removed": ({"a": 1, "b": 2}, {"x": ["a"]}, {"b": 2}),
    "inner value": ({"a": {"b": 1}}, {"d": {"a": {"s": {"c": 2}}}}, {"a": {"b": 1, "c": 2}}),
    "one member": ({"image_url": {"url": "x"}}, {"h": {"image_url": "url"}}, {"image_url": "x"}),
    "key renamed": ({"maxTokens": 1}, {"r": {"maxTokens": "max_tokens"}}, {"max_tokens": 1}),
    "key set": ({"a": 1}, {"s": {"a": True, "b": None}}, {"a": True, "b": None}),
    "renamed after patching": (
        {"a": 1, "b": 2},
        {"d": {"a": {"q": True}}, "r": {"a": "A"}, "s": {"c": 3}, "x": ["b"]},
        {"A": "1", "c": 3},
    ),
    "items": ([1, {"a": 1}], {"i": {"0": {"q": True}, "1": {"x": ["a"]}}}, ["1", {}]),
    "items appended": ([1], {"a": {"1": 2, "2": 3}}, [1, 2, 3]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_patch_is_applied(case: str):
    ours, patch, theirs = CASES[case]
    assert repr(restore(ours, patch)) == repr(theirs)


@pytest.mark.parametrize("case", CASES)
@given(value=JSON)
def test_a_patch_never_fails_on_another_value(case: str, value: Any):
    restore(value, CASES[case][1])


@given(value=JSON)
def test_no_patch_leaves_the_value(value: Any):
    assert restore(value, None) is value
    assert restore(value, {}) == value


@pytest.mark.parametrize(
    "ours, patch",
    [
        (1, {"p": [0, 1, "x"]}),
        ("1", {"q": True}),
        ("no JSON", {"j": True}),
        ([1], {"s": {"a": 1}}),
        ([1], {"i": {"1": {"v": 2}}}),
        ([1], {"a": {"2": 3}}),
        ({"a": 1}, {"d": {"b": {"v": 2}}}),
        ({"a": 1}, {"h": {"a": "b"}}),
    ],
)
def test_a_part_that_does_not_fit_is_skipped(ours: Any, patch: Any):
    assert restore(ours, patch) == ours
