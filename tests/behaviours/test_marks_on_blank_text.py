"""A cache mark on blank text moves to its neighbour, before it or behind it, or is told as lost."""

from __future__ import annotations

from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, assistant, chat, told, user

MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}
LONG = {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}


def said(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


@pytest.mark.parametrize(
    "messages",
    [
        [user([said("a"), said(" ", **MARK)])],
        [user([said("", **MARK), said("a")])],
        [user([said("", **MARK), said("\n", **MARK), said("a")])],
        [user("q"), assistant("x"), user([said("\t", **MARK), said("a")])],
        [user("q"), assistant("x"), user([said("", **MARK)]), user("a")],
    ],
)
def test_a_mark_finds_its_neighbour(messages: list[dict[str, Any]]) -> None:
    found = told(chat(*messages), CHAT, CLAUDE)
    marked = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    assert found.body["messages"][-1] == user([marked])
    assert "CACHE_MARK_DROPPED" not in found.losses


def test_a_mark_on_system_text_finds_its_neighbour() -> None:
    leading = {"role": "system", "content": [said("", **LONG), said("s")]}
    found = told(chat(leading, user("q")), CHAT, CLAUDE)
    assert found.body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_the_longer_of_two_marks_stays() -> None:
    for first, second in ((MARK, LONG), (LONG, MARK)):
        found = told(chat(user([said("a", **first), said("", **second)])), CHAT, CLAUDE)
        block = found.body["messages"][0]["content"][0]
        assert block["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


@pytest.mark.parametrize(
    "messages, path",
    [
        ([{"role": "system", "content": [said("", **MARK)]}, user("q")], "messages[0].content[0]"),
        ([user("q"), assistant("x"), user([said("", **MARK)])], "messages[2].content[0]"),
    ],
)
def test_a_mark_without_a_neighbour_is_told(messages: list[dict[str, Any]], path: str) -> None:
    assert ("CACHE_MARK_DROPPED", path) in told(chat(*messages), CHAT, CLAUDE).paths


def _signed() -> dict[str, Any]:
    parts = [
        {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "Q0FMTA=="},
        {"text": "", "thoughtSignature": "RU1QVFk="},
    ]
    answer = {"functionResponse": {"name": "f", "response": {"a": 1}}}
    return {
        "contents": [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": parts},
            {"role": "user", "parts": [answer]},
        ]
    }


def test_a_signature_on_blank_text_goes_home_from_a_store() -> None:
    request = cannery.normalize_request(_signed(), GEMINI)
    store = cannery.open_store("sqlite::memory:")
    kept = store.create()
    for canister in request.conversation:
        kept.append(canister)
    loaded = cannery.Request(conversation=kept.load(), model="gemini-3-pro")
    rendered = cannery.nativize_request(loaded, GEMINI)
    assert cannery.normalize_request(rendered.body, GEMINI) == request
    assert rendered.losses == rendered.repairs == ()


def test_blank_text_goes_with_a_signature_that_another_family_made() -> None:
    answer = {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "a"}, _signed_blank()]},
                "finishReason": "STOP",
            }
        ],
        "modelVersion": "gemini-2.5-pro",
    }
    made = cannery.normalize_response(answer, GEMINI).canisters
    request = cannery.Request(
        conversation=[cannery.user("q"), *made, cannery.user("n")], model="gemini-3-pro"
    )
    rendered = cannery.nativize_request(request, GEMINI)
    assert b'"text":""' not in rendered.body
    assert {loss.code for loss in rendered.losses} == {"SIGNATURE_DROPPED"}
    assert {repair.name for repair in rendered.repairs} == {"empty_text"}


def _signed_blank() -> dict[str, Any]:
    return {"text": "", "thoughtSignature": "RU1QVFk="}
