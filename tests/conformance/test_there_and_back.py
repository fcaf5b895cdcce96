"""Agentic sessions said in another dialect and back: no text, call, result or image is lost, ids are mapped back."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from tests.conformance.matrix import PAIRS
from tests.conformance.test_recorded_sessions import pairs
from tests.oracles.judges import JUDGES
from tests.oracles.leaf import CARRIED
from tests.oracles.leaves import is_named, missing_leaves
from tests.oracles.silence import unless_empty
from tests.strategies.bodies import tame_requests
from tests.strategies.pieces import PNG, SCHEMA, standard

# Thoughts go back only to where they were made; a document may come back as JSON text, with escapes.
KINDS = CARRIED - {"reasoning", "document"}

SESSION: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "You are an agent."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is in this picture, and how warm is it there?"},
                {
                    "type": "image_url",
                    "image_url": {"url": f"data:image/png;base64,{standard(PNG)}"},
                },
            ],
        },
        {
            "role": "assistant",
            "content": "I look it up.",
            "tool_calls": [
                {
                    "id": "call_one_1234567890",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"a":"x"}'},
                },
                {
                    "id": "call_two_1234567890",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"a":"y"}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call_one_1234567890", "content": "Oslo"},
        {"role": "tool", "tool_call_id": "call_two_1234567890", "content": "4 degrees"},
        {"role": "assistant", "content": "Oslo, at 4 degrees."},
        {"role": "user", "content": "Thank you."},
    ],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}],
}


def said(request: cannery.Request, ids: dict[str, str]) -> list[Any]:
    """What a conversation says: roles, contents, and which call each result answers."""
    found: list[Any] = []
    for canister in request.conversation:
        role = canister.role.value
        if role == "invocation":
            identifier = ids.get(canister.identifier, canister.identifier)
            found.append((role, identifier, canister.name, json.loads(canister.arguments_text)))
        elif role == "result":
            identifier = ids.get(canister.invocation_id, canister.invocation_id)
            found.append((role, identifier, canister.text))
        elif canister.held == "" or not hasattr(canister, "held"):
            continue
        elif hasattr(canister.held, "kind") and canister.held.kind == "image":
            found.append((role, canister.held.data))
        elif isinstance(canister.held, str) or canister.held.kind == "text":
            found.append((role, canister.text))
    return found


@pytest.mark.parametrize(
    "one, other", [pair for pair in PAIRS if pair[0] in JUDGES or pair[1] in JUDGES]
)
def test_a_session_comes_back(one: str, other: str) -> None:
    begun = cannery.translate(SESSION, source="openai_chat", target=one)
    there = cannery.translate(begun.body, source=one, target=other)
    back = cannery.translate(there.body, source=other, target=one)
    given = cannery.normalize_request(begun.body, one)
    found = cannery.normalize_request(back.body, one)
    # Of an id that was rewritten twice, both rewritings are undone.
    ids = {
        alias: there.aliases.ids.get(original, original)
        for alias, original in back.aliases.ids.items()
    }
    ids = {**there.aliases.ids, **ids}
    assert said(found, ids) == said(given, {})
    for losses in (begun.losses, there.losses, back.losses):
        assert [
            loss for loss in losses if loss.code.endswith("_DROPPED") and "@" not in loss.path
        ] == [loss for loss in losses if loss.code == "CALL_ID_DROPPED"]


@pytest.mark.parametrize("one, other", PAIRS)
@settings(max_examples=15)
@given(data=st.data())
def test_any_session_comes_back(one: str, other: str, data: st.DataObject) -> None:
    """Of a drawn session everything is there again, or was named as lost on the way there."""
    body = data.draw(tame_requests(one))
    write = partial(cannery.translate, body, source=one, target=other, policy="allow")
    there = unless_empty(write, one, body)
    if there is None:
        return
    back = cannery.translate(there.body, source=other, target=one, policy="allow")
    written = json.loads(back.body)
    lost = [loss.path for loss in there.losses]
    missing = missing_leaves(one, body, one, written, KINDS, lost)
    assert [leaf for leaf in missing if not is_named(leaf, lost)] == []
    if "CALL_ID_DROPPED" in {loss.code for loss in there.losses}:
        return
    given_ids = pairs(cannery.normalize_request(body, one))
    found_ids = pairs(cannery.normalize_request(written, one), back, there)
    called = [each for each in found_ids if each[0] == "invocation"]
    assert called == [each for each in given_ids if each[0] == "invocation"]
    # Results stand in the order of their calls.
    assert sorted(found_ids) == sorted(given_ids)
