"""An agentic session said in another dialect and back: no text, call, result or image is lost, ids are mapped back."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from tests.conformance.matrix import PAIRS
from tests.oracles.judges import JUDGES
from tests.strategies.pieces import PNG, SCHEMA, standard

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
