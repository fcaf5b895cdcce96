"""Whatever the official SDKs can say comes home unchanged, and is valid and complete abroad."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
import pytest

import cannery
from cannery.messages import FinishReason, absent, fold, unfold
from tests.conformance.matrix import DIALECTS
from tests.conformance.test_abroad import silent
from tests.oracles.sdk_types import validate_request, validate_response
from tests.oracles.server_rules import check_request_rules, confirmed
from tests.oracles.silence import unless_empty
from tests.oracles.stream_rules import check_stream_rules
from tests.strategies.sdk_bodies import REQUESTS, sdk_request, sdk_response

SEEDS = range(60)
NAMES = [(name, name.partition(" ")[0]) for name in REQUESTS]
ABROAD = [(*name, target) for name in NAMES for target in DIALECTS if target != name[1]]


@pytest.mark.parametrize("name, dialect", NAMES)
def test_requests_come_home(name: str, dialect: str) -> None:
    for seed in SEEDS:
        body = sdk_request(name, seed)
        request = cannery.normalize_request(orjson.dumps(body), dialect)
        assert orjson.loads(cannery.nativize_request(request, dialect).body) == body, seed


@pytest.mark.parametrize("name, dialect", NAMES)
def test_responses_come_home(name: str, dialect: str) -> None:
    for seed in SEEDS:
        body = sdk_response(name, seed)
        response = cannery.normalize_response(orjson.dumps(body), dialect)
        assert orjson.loads(cannery.nativize_response(response, dialect).body) == body, seed


@pytest.mark.parametrize("name, dialect, target", ABROAD)
def test_requests_are_valid_and_complete_abroad(name: str, dialect: str, target: str) -> None:
    for seed in SEEDS:
        given = sdk_request(name, seed)
        how = {"source": dialect, "target": target, "policy": "allow"}
        write = partial(cannery.translate, orjson.dumps(given), **how)
        rendered = unless_empty(write, dialect, given)
        if rendered is None:
            continue
        body = orjson.loads(rendered.body)
        problems = validate_request(target, body)
        problems += confirmed(target, check_request_rules(target, body))
        assert problems == [], seed
        assert _unmistakable(silent(dialect, given, target, body, rendered)) == [], seed


@pytest.mark.parametrize("name, dialect, target", ABROAD)
def test_responses_are_valid_abroad(name: str, dialect: str, target: str) -> None:
    for seed in SEEDS:
        raw = orjson.dumps(sdk_response(name, seed))
        rendered = cannery.translate(raw, source=dialect, target=target, kind="response")
        assert validate_response(target, orjson.loads(rendered.body)) == [], seed


@pytest.mark.parametrize("name, dialect", NAMES)
def test_responses_stream_in_every_dialect(name: str, dialect: str) -> None:
    for seed in SEEDS:
        response = cannery.normalize_response(orjson.dumps(sdk_response(name, seed)), dialect)
        if response.finish in (absent, FinishReason.Error):
            response = response.replace(finish=FinishReason.Stop)
        events = list(unfold(response))
        assert _said(fold(events)) == _said(response), seed
        for target in DIALECTS:
            written = b"".join(cannery.nativize_stream(events, target))
            assert check_stream_rules(target, written) == [], (seed, target)


def _said(response: cannery.Response) -> list[tuple[Any, Any]]:
    return [(item.role, item.held) for item in response.canisters if item.held is not absent]


def _unmistakable(leaves: list[Any]) -> list[Any]:
    """Without media, of which several are the same bytes, and thoughts of a user, which are said as text."""
    return [leaf for leaf in leaves if leaf.kind not in ("media", "reasoning")]
