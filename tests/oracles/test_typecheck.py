"""The type walker: nothing lazy, nothing coerced, no hint of the SDKs unknown to it."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any, Literal, Optional

import pytest
import typing_extensions as te
from anthropic.types import message_create_params as anthropic_params
from anthropic.types.beta import message_create_params as anthropic_beta_params
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params as responses_params
from pydantic import TypeAdapter

from tests.oracles import sdk_types
from tests.oracles.corpus import DIALECTS, request_cases
from tests.oracles.judges import JUDGES
from tests.oracles.leaves import leaves, missing_leaves
from tests.oracles.sdk_types import validate_chunk, validate_request, validate_response
from tests.oracles.server_rules import check_request_rules
from tests.oracles.typecheck import Walker, is_object, keys_of, origin_is_not_json


class Dot(te.TypedDict, total=False):
    x: te.Required[int]
    kind: Literal["dot"]
    label: Optional[str]  # noqa: UP045 - the spelling of the SDKs


MISFITS = [
    (int, True),
    (int, "1"),
    (int, 1.0),
    (float, "1"),
    (str, 1),
    (bool, 1),
    (Literal[1], True),
    (list[int], (1,)),
    (list[int], [1, "2"]),
    (dict[str, int], {"a": None}),
    (bytes, "not base64!"),
    (Dot, {}),
    (Dot, {"x": 1, "y": 2}),
    (Dot, {"x": 1, "kind": "line"}),
    (Dot | str, {"x": 1, "kind": "line"}),
    (int | None, "1"),
]


@pytest.mark.parametrize("hint, value", MISFITS)
def test_a_misfit_is_found(hint: Any, value: Any):
    assert Walker().check(hint, value)


@pytest.mark.parametrize(
    "hint, value",
    [
        (int, 2**70),
        (float, 1),
        (bytes, "__79"),
        (bytes, "//79+w=="),
        (Dot, {"x": 1, "kind": "dot", "label": None}),
        (Dot | str, "x"),
        (Any, {"any": ["thing"]}),
    ],
)
def test_a_fit_passes(hint: Any, value: Any):
    assert Walker().check(hint, value) == []


def test_an_unknown_hint_raises():
    with pytest.raises(TypeError, match="knows no hint"):
        Walker().check(complex, 1)


def test_a_plain_adapter_would_have_seen_nothing():
    body = {"model": "m", "messages": [{"role": "user", "content": [{"type": "nope"}]}]}
    TypeAdapter(chat_params.CompletionCreateParams).validate_python(body)
    assert validate_request("openai_chat", body)


LEFT_OUT = frozenset(name for judge in JUDGES.values() for name in judge.walker.left_out)


def roots() -> Iterator[Any]:
    yield from (
        chat_params.CompletionCreateParams,
        responses_params.ResponseCreateParams,
        anthropic_params.MessageCreateParams,
        anthropic_beta_params.MessageCreateParams,
        sdk_types.GenerateContentRequest,
    )
    for dialect in DIALECTS:
        yield sdk_types._response_judge(dialect, True)[1]
        yield sdk_types._chunk_judge(dialect, True)[1]


def test_every_hint_of_the_sdks_is_known():
    """Any value may be wrong, but no hint may raise."""
    seen: set[Any] = set()

    def visit(hint: Any) -> None:
        if getattr(hint, "__name__", "") in LEFT_OUT:
            return
        if hint in seen or te.get_origin(hint) is Literal or origin_is_not_json(hint):
            return
        seen.add(hint)
        if is_object(hint):
            for key in keys_of(hint):
                visit(key.hint)
        elif te.get_args(hint):
            for inner in te.get_args(hint):
                if isinstance(inner, type) or te.get_origin(inner):
                    visit(inner)
        else:
            Walker(proto=True).check(hint, "x")

    for root in roots():
        visit(root)
    assert len(seen) > 1000


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place of a body as its holder and key."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = list(enumerate(value))
    return [(value, key) for key, _ in pairs] + [p for _, item in pairs for p in places(item)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_oracle_falls_over_a_mangled_body(dialect: str):
    dice = random.Random(dialect)
    odd: tuple[Any, ...] = (
        None,
        True,
        0,
        1.5,
        "",
        "x",
        [],
        {},
        [None],
        {"type": "text"},
        {"name": 5},
    )
    for case in request_cases(dialect):
        mangled = copy.deepcopy(case.body)
        for _ in range(3):
            holder, key = dice.choice(places(mangled))
            holder[key] = copy.deepcopy(dice.choice(odd))
        validate_request(dialect, mangled)
        check_request_rules(dialect, mangled)
        leaves(dialect, mangled)
        missing_leaves(dialect, case.body, dialect, mangled)


def test_beta_widens_anthropic_only_when_asked():
    body = {
        "model": "m",
        "max_tokens": 1,
        "messages": [{"role": "user", "content": "x"}],
        "thread": {"type": "create"},
    }
    assert validate_request("anthropic_messages", body)
    assert validate_request("anthropic_messages", body, beta=True) == []


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("value", [None, [], "x", {"unknown": 1}])
def test_responses_and_chunks_bite(dialect: str, value: Any):
    assert validate_response(dialect, value)
    assert validate_chunk(dialect, value)
