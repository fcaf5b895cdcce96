"""Labelled media go back to their result only where the same messages are written again; else the user said them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, call, calls, chat, text, told, tool, user

IMAGE = {"type": "image_url", "image_url": {"url": "https://e.org/i.png"}}
BOTH = calls(call("a"), call("b"))


def shown(*names: str) -> dict[str, Any]:
    """A user message: labelled media for a name of one letter, else text."""
    parts: list[dict[str, Any]] = []
    for name in names:
        if len(name) == 1:
            parts += [text(f"[attached to the result of tool call {name}]"), IMAGE]
        else:
            parts.append(text(name))
    return user(parts)


A, B = tool("a", "r"), tool("b", "r")
MESSAGES = {
    "calls": BOTH,
    "a": A,
    "b": B,
    "media of a": shown("a"),
    "media of b": shown("b"),
    "media of both": shown("a", "b"),
    "media the other way round": shown("b", "a"),
    "media and words": shown("a", "more"),
    "words": shown("more"),
    "a string": user("s"),
    "an old result": {"role": "function", "name": "f", "content": "z"},
}
SEQUENCES = [
    ("calls", *names)
    for count in (1, 2, 3)
    for names in itertools.product(MESSAGES, repeat=count)
    if any("media" in name for name in names)
] + [
    ("calls", "a", "media of a", "b", "media of b"),
    ("calls", "a", "b", "media of a", "media of b"),
    ("calls", "a", "b", "media of a", "media and words"),
    ("calls", "a", "media and words", "b", "media of b"),
    ("calls", "a", "media of a", "calls", "a", "media of a"),
]


def check(body: dict[str, Any]) -> None:
    request = cannery.normalize_request(body, CHAT)
    rendered = cannery.nativize_request(request, CHAT, policy="strict")
    assert json.loads(rendered.body) == body


def test_every_sequence_of_messages_comes_back():
    for names in SEQUENCES:
        check(chat(*(MESSAGES[name] for name in names)))


@pytest.mark.parametrize(
    "messages",
    [
        [A, B, shown("a", "a")],
        [A, B, shown("a", "b", "more")],
        [A, A, shown("a")],
        [tool("a", ""), shown("a")],
        [tool("a", "[tool error] boom"), B, shown("a"), user("x")],
        [tool("a", [text("r")]), shown("a")],
        [A, user([{**text("[attached to the result of tool call a]"), "type": "x"}, IMAGE])],
        [A, user([text("[attached to the result of tool call a]"), {**IMAGE, "x": 1}])],
        [A, {**shown("a"), "name": "n"}],
        [A, shown("a"), {"role": " Tool", "tool_call_id": "b", "content": "r"}],
    ],
)
def test_odd_messages_come_back(messages: list[dict[str, Any]]):
    given = chat(BOTH, *messages)
    request = cannery.normalize_request(given, CHAT)
    for message in given["messages"]:
        message["role"] = message["role"].strip().lower()
    assert json.loads(cannery.nativize_request(request, CHAT, policy="strict").body) == given


@pytest.mark.parametrize(
    "messages, kinds",
    [
        ([A, B, shown("a", "b")], [["text", "image"], ["text", "image"]]),
        ([A, B, shown("a"), user("x")], [["text", "image"], "r"]),
        ([A, B, shown("a", "more")], [["text", "image"], "r"]),
        # The label of b stays in the user's message, in front of what belongs to a.
        ([A, B, shown("b", "a")], ["r", ["text", "image"]]),
        ([A, shown("a"), B], ["r", "r"]),
        ([A, B, shown("a"), shown("b")], [["text", "image"], "r"]),
    ],
)
def test_what_the_results_hold(messages: list[dict[str, Any]], kinds: list[Any]):
    results = [
        canister.held
        if isinstance(canister.held, str)
        else [part.kind for part in canister.held.parts]
        for canister in cannery.normalize_request(chat(BOTH, *messages), CHAT).conversation
        if canister.role is cannery.Role.Result
    ]
    assert results == kinds


def test_what_stands_behind_the_media_of_a_result_is_named_where_it_stands():
    video = {"type": "hologram"}
    message = user([*shown("a")["content"], text("x"), video])
    found = told(chat(BOTH, A, B, message), CHAT, CLAUDE)
    assert ("OPAQUE_DROPPED", "messages[3].content[3]") in found.paths
