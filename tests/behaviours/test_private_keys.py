"""Through the model: a key of a body that is named like a field of ours is a key like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, call, calls, chat, claude, user
from tests.conformance.general import general
from tests.conformance.matrix import DIALECTS

SHAREGPT = "sharegpt"
CALL = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "r"}
TEXT = {"type": "text", "text": "t"}
BODIES: list[tuple[str, Any]] = [
    (CHAT, chat({"role": "system", "content": "s"}, user("q"))),
    (
        CHAT,
        chat(user("q"), calls(call("c1")), {"role": "tool", "tool_call_id": "c1", "content": "r"}),
    ),
    (CHAT, chat(user([TEXT, TEXT]), {"role": "assistant", "content": "a"}, user("q"))),
    (CLAUDE, claude(user("q"), {"role": "assistant", "content": "a"}, user("r"), system="s")),
    (
        CLAUDE,
        claude(user([TEXT]), {"role": "assistant", "content": [TEXT, CALL]}, user([RESULT, TEXT])),
    ),
    (CLAUDE, claude(user("q"), system=[TEXT, TEXT])),
    (RESPONSES, {"model": "m", "instructions": "s", "input": [user("q")]}),
    (GEMINI, {"contents": [{"role": "user", "parts": [{"text": "q"}]}]}),
    (SHAREGPT, {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}),
]
VALUES = [True, None, 1, "x", [], {}]


def all_structs(cls: Any = msgspec.Struct) -> Iterator[Any]:
    for found in type.__subclasses__(cls):
        yield found
        yield from all_structs(found)


def private_keys() -> list[str]:
    for dialect, body in BODIES:
        cannery.translate(body, source=dialect, target=CHAT)  # loads what reads them
    fields = {key for cls in all_structs() for key in cls.__struct_encode_fields__}
    return sorted(key for key in fields if not key.isascii())


def spoiled(value: Any, key: str, added: Any) -> Iterator[Any]:
    """The value with a key in one of its objects, for each of them."""
    if isinstance(value, dict):
        yield {**value, key: added}
        for name, inner in value.items():
            for changed in spoiled(inner, key, added):
                yield {**value, name: changed}
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            for changed in spoiled(inner, key, added):
                yield [*value[:index], changed, *value[index + 1 :]]


@pytest.mark.parametrize("dialect, body", BODIES)
def test_a_key_that_only_our_own_structs_have_comes_back(dialect: str, body: Any):
    keys = private_keys()
    assert "\ue000joined" in keys
    for number, key in enumerate(keys):
        added = VALUES[number % len(VALUES)]
        for changed in spoiled(body, key, added):
            request = cannery.normalize_request(json.dumps(changed).encode(), dialect)
            assert json.loads(cannery.nativize_request(request, dialect).body) == changed


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("dialect, body", BODIES)
def test_such_a_key_is_lost_abroad_like_any_other(dialect: str, body: Any, value: Any):
    target = CLAUDE if dialect == CHAT else CHAT
    for key in ("\ue000joined", "\ue000timestamp", "\ue000tool_calls", "\ue000old_limit"):
        for changed in spoiled(body, key, value):
            raw = json.dumps(changed).encode()
            assert cannery.translate(raw, source=dialect, target=target) == general(
                raw, dialect, target
            )


@pytest.mark.parametrize("dialect", [CHAT, RESPONSES, GEMINI])
def test_system_is_an_unknown_setting_where_no_such_field_is(dialect: str):
    for _, body in (pair for pair in BODIES if pair[0] == dialect):
        given = {**body, "system": "s"}
        request = cannery.normalize_request(given, dialect)
        assert json.loads(cannery.nativize_request(request, dialect).body) == given


@pytest.mark.parametrize("tag", ["never", "\ue000never"])
def test_a_block_of_any_name_comes_back(tag: str):
    for changed in spoiled(claude(user([TEXT]), system=[TEXT]), "type", tag):
        request = cannery.normalize_request(changed, CLAUDE)
        assert json.loads(cannery.nativize_request(request, CLAUDE).body) == changed
        for target in DIALECTS:
            raw = json.dumps(changed).encode()
            assert cannery.translate(raw, source=CLAUDE, target=target) == general(
                raw, CLAUDE, target
            )
