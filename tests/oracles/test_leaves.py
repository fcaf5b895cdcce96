"""The leaf oracle: it finds what moved, and misses what vanished."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.oracles.corpus import DIALECTS, Case, request_cases
from tests.oracles.leaves import CARRIED, REPORTED, Leaf, is_named, leaves, missing_leaves, steps

CHAT, RESPONSES = "openai_chat", "openai_responses"
CLAUDE, GEMINI = "anthropic_messages", "gemini_generate"
REQUESTS = [case for dialect in DIALECTS for case in request_cases(dialect)]


def turn(*parts: dict[str, Any], role: str = "user") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(parts)}]}


def words(*texts: str) -> dict[str, Any]:
    return turn(*({"type": "text", "text": text} for text in texts))


def contents(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": list(parts)}]}


def chat_call(arguments: str, name: str = "f") -> dict[str, Any]:
    called = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"messages": [{"role": "assistant", "tool_calls": [called]}]}


def claude_call(arguments: Any, name: str = "f") -> dict[str, Any]:
    return turn({"type": "tool_use", "id": "1", "name": name, "input": arguments})


def chat_result(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "tool", "tool_call_id": "1", "content": content}]}


def gemini_result(response: dict[str, Any]) -> dict[str, Any]:
    return contents({"functionResponse": {"name": "f", "response": response}})


def thought(text: str, signature: str) -> dict[str, Any]:
    return turn({"type": "thinking", "thinking": text, "signature": signature})


def pdf(data: str) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    return turn({"type": "document", "source": source})


def titled(title: str) -> dict[str, Any]:
    return turn({"type": "document", "source": {"type": "text", "data": ""}, "title": title})


def chat_image(url: str) -> dict[str, Any]:
    return turn({"type": "image_url", "image_url": {"url": url}})


FOUND = [
    (CHAT, words("foo", "bar"), GEMINI, contents({"text": "foobar"})),
    (CHAT, words("foo"), CLAUDE, words("<system>\nfoo\n</system>")),
    (CHAT, words("a\ud800b"), CLAUDE, words("a\ufffdb")),
    (CHAT, turn({"type": "text", "text": "S"}, role="system"), CLAUDE, {"system": "S"}),
    (CHAT, chat_call('{"b":2, "a":1.0}'), CLAUDE, claude_call({"a": 1, "b": 2})),
    (CHAT, chat_call(""), CLAUDE, claude_call({})),
    (CHAT, chat_call("not json"), CLAUDE, claude_call({"input": "not json"})),
    (CHAT, chat_call("[1, 2]"), CLAUDE, claude_call({"input": "[1, 2]"})),
    (CHAT, chat_call("[1, 2]"), CLAUDE, claude_call({"input": [1, 2]})),
    (CHAT, chat_result('{"temp": 3}'), GEMINI, gemini_result({"temp": 3})),
    (CHAT, chat_result("-3"), GEMINI, gemini_result({"output": -3})),
    (
        CHAT,
        chat_result([{"type": "text", "text": "x"}] * 2),
        GEMINI,
        gemini_result({"output": "xx"}),
    ),
    (GEMINI, gemini_result({"temp": 3}), CHAT, chat_result('{"temp":3}')),
    (GEMINI, gemini_result({"temp": 3}), CHAT, chat_result('Error: {"temp":3}')),
    (GEMINI, gemini_result({"output": "ok"}), CHAT, chat_result("ok")),
    (GEMINI, contents({"text": "hm", "thought": True}), CLAUDE, thought("hm", "")),
    (
        GEMINI,
        contents({"inline_data": {"data": "__8="}}),
        CHAT,
        chat_image("data:image/png;base64,//8="),
    ),
    (CLAUDE, pdf("eA=="), CHAT, turn({"type": "file", "file": {"file_data": "eA"}})),
    (CLAUDE, titled("Q3"), CHAT, turn({"type": "file", "file": {"filename": "Q3.pdf"}})),
    (
        CLAUDE,
        turn({"type": "document", "source": {"type": "text", "data": "x"}}),
        GEMINI,
        contents({"inlineData": {"data": "eA==", "mimeType": "text/plain"}}),
    ),
    (
        GEMINI,
        contents({"inlineData": {"data": "eA==", "mimeType": "text/csv"}}),
        CLAUDE,
        turn({"type": "document", "source": {"type": "text", "data": "x"}}),
    ),
    (
        CHAT,
        turn({"type": "refusal", "refusal": "no"}, role="assistant"),
        RESPONSES,
        {"input": [{"role": "assistant", "content": "no"}]},
    ),
]
LOST = [
    (CHAT, words("foo", "foo"), GEMINI, contents({"text": "foo"})),
    (CHAT, words("foo"), GEMINI, contents({"text": "fo o"})),
    (CHAT, words("foo"), CLAUDE, thought("foo", "")),
    (CLAUDE, thought("hm", ""), CHAT, words("hm")),
    (CLAUDE, thought("", "c2ln"), CHAT, words("hm")),
    (CHAT, chat_call("{}"), CLAUDE, claude_call({"a": 1})),
    (CHAT, chat_call("{}", "f"), CLAUDE, claude_call({}, "g")),
    (CHAT, chat_call("not json"), CLAUDE, claude_call({})),
    (CHAT, chat_call('{"a":1}'), CLAUDE, words('f({"a":1})')),
    (CHAT, chat_result('{"temp": 3}'), GEMINI, gemini_result({"temp": 4})),
    (CLAUDE, pdf("eA=="), CHAT, turn({"type": "file", "file": {"file_data": "eQ=="}})),
    (CLAUDE, titled("Q3"), CHAT, turn({"type": "file", "file": {}})),
    (CHAT, chat_image("https://e.com/a.png"), CLAUDE, words("https://e.com/a.png")),
    (CLAUDE, turn({"type": "hologram", "beam": "zap"}), CHAT, words("zip")),
]


@pytest.mark.parametrize("source, body, target, other", FOUND)
def test_what_moved_is_found(source: str, body: Any, target: str, other: Any):
    assert leaves(source, body)
    assert missing_leaves(source, body, target, other) == []


@pytest.mark.parametrize("source, body, target, other", LOST)
def test_what_vanished_is_missed(source: str, body: Any, target: str, other: Any):
    assert missing_leaves(source, body, target, other)


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: f"{case.dialect}-{case.id}")
def test_a_body_holds_its_own_leaves_and_an_empty_one_holds_none(case: Case):
    found = leaves(case.dialect, case.body)
    assert missing_leaves(case.dialect, case.body, case.dialect, case.body) == []
    assert missing_leaves(case.dialect, case.body, case.dialect, {}) == found
    assert {leaf.kind for leaf in found} <= CARRIED | REPORTED


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: f"{case.dialect}-{case.id}")
def test_every_leaf_path_leads_into_the_body(case: Case):
    for leaf in leaves(case.dialect, case.body):
        place: Any = case.body
        for step in steps(leaf.path):
            place = place[int(step)] if isinstance(place, list) else place[step]
        assert place is not None


def test_removing_any_message_of_a_case_is_noticed():
    case = next(case for case in request_cases(CHAT) if case.id == "parallel_tool_calls")
    for index in range(len(case.body["messages"])):
        shorter = copy.deepcopy(case.body)
        del shorter["messages"][index]
        lost = missing_leaves(CHAT, case.body, CHAT, shorter)
        assert lost
        assert all(is_named(leaf, [f"$.messages[{index}]"]) for leaf in lost), lost


@pytest.mark.parametrize(
    "path, named",
    [
        ("$.messages[1].content[0].text", True),
        ("$.messages[1].content[0]", True),
        ("$.messages[1]", True),
        ("messages[1].content[0].text", True),
        ("/messages/1/content/0/text", True),
        ("$.messages[10]", False),
        ("$.messages", False),
        ("$", False),
        ("$.messages[1].content[1]", False),
    ],
)
def test_losses_name_leaves_by_path(path: str, named: bool):
    leaf = Leaf("text", "x", "$.messages[1].content[0].text")
    assert is_named(leaf, [path]) is named


def test_values_are_json():
    for case in REQUESTS:
        for leaf in leaves(case.dialect, case.body):
            json.dumps(leaf.value)
