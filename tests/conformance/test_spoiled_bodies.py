"""Bodies that somebody spoiled: they come back to the letter or are refused by name, and never raise anything else."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cannery
from tests.conformance.matrix import DIALECTS, assert_same_json
from tests.oracles.silence import unless_empty
from tests.strategies.mutations import spoiled

often = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
KINDS = {
    "request": (cannery.normalize_request, cannery.nativize_request),
    "response": (cannery.normalize_response, cannery.nativize_response),
}


def refusal(raw: bytes, dialect: str, kind: str) -> cannery.DialectError | None:
    """Why a body is refused, or None."""
    try:
        KINDS[kind][0](raw, dialect)
    except cannery.DialectError as error:
        return error
    return None


def refused_losses(raw: bytes, dialect: str, target: str, kind: str) -> list[cannery.Loss]:
    """The losses for which a strict translation is refused."""
    try:
        cannery.translate(raw, source=dialect, target=target, kind=kind, policy="strict")
    except cannery.LossError as error:
        return list(error.losses)
    return []


def check(dialect: str, kind: str, raw: bytes) -> None:
    """A body comes back without a loss, and goes abroad in the same way each time."""
    normalize, nativize = KINDS[kind]
    value: Any = normalize(raw, dialect)
    home = nativize(value, dialect, policy="strict")
    assert_same_json(home.body, raw)
    assert not home.losses
    assert not home.repairs
    for target in DIALECTS:
        how = {"source": dialect, "target": target, "kind": kind, "policy": "allow"}
        write = partial(cannery.translate, raw, **how)
        rendered, again = (unless_empty(write, dialect, json.loads(raw)) for _ in range(2))
        assert rendered == again
        if rendered is None:
            continue
        serious = [loss for loss in rendered.losses if loss.severity != "info"]
        assert refused_losses(raw, dialect, target, kind) == serious
        read: Any = normalize(rendered.body, target)
        assert_same_json(nativize(read, target).body, rendered.body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dialect", DIALECTS)
@often
@given(data=st.data())
def test_spoiled_bodies(dialect: str, kind: str, data: st.DataObject):
    raw = json.dumps(data.draw(spoiled(dialect, kind))).encode()
    error = refusal(raw, dialect, kind)
    if error is None:
        check(dialect, kind, raw)
    else:
        assert error.path
        assert error.problem
