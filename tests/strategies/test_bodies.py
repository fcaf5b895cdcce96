"""The generators keep their promises: typed is typed, tame is tame, wild reaches every oddity."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.oracles.corpus import DIALECTS
from tests.oracles.leaves import leaves, missing_leaves
from tests.oracles.sdk_types import validate_request, validate_response
from tests.oracles.server_rules import check_request_rules, codes
from tests.strategies import bodies
from tests.strategies.pieces import UNKNOWN_KEYS, UNKNOWN_TYPES

quick = settings(
    max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tame_requests_are_tame(dialect: str):
    @quick
    @given(bodies.tame_requests(dialect))
    def check(body: Any):
        assert validate_request(dialect, body) == []
        assert check_request_rules(dialect, body) == []
        assert missing_leaves(dialect, body, dialect, body) == []

    check()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_typed_requests_are_typed(dialect: str):
    @quick
    @given(bodies.typed_requests(dialect))
    def check(body: Any):
        assert validate_request(dialect, body) == []

    check()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tame_responses_are_typed(dialect: str):
    @quick
    @given(bodies.tame_responses(dialect))
    def check(body: Any):
        assert validate_response(dialect, body) == []

    check()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_wild_bodies_are_json_and_can_be_walked(dialect: str):
    @quick
    @given(st.one_of(bodies.requests(dialect), bodies.responses(dialect)))
    def check(body: Any):
        assert json.loads(json.dumps(body)) == body
        leaves(dialect, body)
        check_request_rules(dialect, body)

    check()


def words(body: Any) -> set[str]:
    """Every key and string of a body."""
    if isinstance(body, dict):
        return set(body) | {word for item in body.values() for word in words(item)}
    if isinstance(body, list):
        return {word for item in body for word in words(item)}
    return {body} if isinstance(body, str) else set()


def reached(strategy: Any) -> set[str]:
    """Every word of many examples."""
    seen: set[str] = set()

    @quick
    @given(strategy)
    def look(body: Any):
        seen.update(words(body))

    look()
    return seen


# Dialects whose messages have no blocks, and those whose server refuses next to nothing.
BLOCKLESS = LENIENT = frozenset({"ollama_chat"})


@pytest.mark.parametrize("dialect", DIALECTS)
def test_wild_requests_reach_unknown_keys_and_blocks(dialect: str):
    seen = reached(bodies.requests(dialect))
    assert len(seen & set(UNKNOWN_KEYS)) >= 4
    assert dialect in BLOCKLESS or seen & {*UNKNOWN_TYPES, "hologram", "telepathy"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_typed_requests_reach_broken_rules(dialect: str):
    found: set[str] = set()

    @quick
    @given(bodies.typed_requests(dialect))
    def look(body: Any):
        found.update(codes(check_request_rules(dialect, body)))

    look()
    assert len(found) >= (0 if dialect in LENIENT else 3), found


def test_gemini_requests_come_in_both_spellings():
    seen = reached(bodies.requests("gemini_generate"))
    assert seen >= {"inlineData", "inline_data"}
