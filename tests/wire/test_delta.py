"""A patch turns ours into theirs, whatever both are, and never keeps a big payload twice."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from cannery.wire.delta import delta, restore, same

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=90),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(ours=JSON, theirs=JSON)
def test_a_patch_gives_theirs(ours, theirs):
    patch = delta(ours, theirs)
    assert same(restore(ours, None if patch is None else json.loads(json.dumps(patch))), theirs)


@given(value=JSON)
def test_the_same_needs_no_patch(value):
    assert delta(value, json.loads(json.dumps(value))) is None


def test_numbers_and_booleans_are_told_apart():
    assert delta({"a": 1}, {"a": True}) == {"s": {"a": True}}
    assert delta({"a": 1}, {"a": 1.0}) is not None
    assert not same([0], [False])


def test_a_number_in_quotes_is_the_same_number():
    assert delta({"a": [2]}, {"a": ["2"]}) == {"d": {"a": {"i": {"0": {"q": True}}}}}
    for ours, theirs in ((2, "2"), (-7, "-7"), (2, "02"), (2, "2.0"), (10**5000, "1"), (1, "True")):
        patch = delta(ours, theirs)
        assert restore(ours, patch) == theirs
    assert delta(True, "True") == {"v": "True"}


def test_a_big_payload_with_another_wrapper_is_kept_once():
    payload = "A" * 100_000
    patch = delta(
        {"url": "data:image/png;base64," + payload}, {"url": "DATA:image/png;x=1;base64," + payload}
    )
    assert len(json.dumps(patch)) < 200


@given(value=JSON, other=JSON)
def test_a_patch_never_fails_on_something_else(value, other):
    restore(other, delta(value, other))
    restore(value, delta(other, value))
