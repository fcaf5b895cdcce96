"""Through the model: whoever removes, inserts or replaces canisters finds every other wire message as it was."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import cannery
from cannery.messages.conversation import group_turns
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, call, calls, chat, claude, user
from tests.conformance.matrix import DIALECTS, identify
from tests.oracles.corpus import Case, request_cases

KEYS = {CHAT: "messages", CLAUDE: "messages", GEMINI: "contents", RESPONSES: "input"}
CASES = [case for name in DIALECTS for case in request_cases(name)]


def said(*texts: str, tag: str = "text") -> list[dict[str, Any]]:
    return [{"type": tag, "text": text} for text in texts]


TWO_USER_MESSAGES: dict[str, Any] = {
    CHAT: chat(user("a"), user(said("x", "y", "z"))),
    CLAUDE: claude(user("a"), user(said("x", "y", "z"))),
    GEMINI: {
        "contents": [
            {"role": "user", "parts": [{"text": "a"}]},
            {"role": "user", "parts": [{"text": text} for text in "xyz"]},
        ]
    },
    RESPONSES: {"model": "m", "input": [user("a"), user(said("x", "y", "z", tag="input_text"))]},
}


def written(request: Any, kept: Any, dialect: str) -> list[Any]:
    body = cannery.nativize_request(request.replace(conversation=kept), dialect).body
    return json.loads(body)[KEYS[dialect]]  # type: ignore[no-any-return]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_has_lost_its_first_canister_does_not_fall_to_its_neighbour(dialect: str):
    body = TWO_USER_MESSAGES[dialect]
    request = cannery.normalize_request(body, dialect)
    first, last = body[KEYS[dialect]]
    key = "parts" if dialect == GEMINI else "content"
    kept = [*request.conversation[:1], *request.conversation[2:]]
    assert written(request, kept, dialect) == [first, {**last, key: last[key][1:]}]
    assert written(request, request.conversation.without(1), dialect)[0] == first


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_after_a_store_gave_the_canisters_back(dialect: str, tmp_path: Path):
    body = TWO_USER_MESSAGES[dialect]
    request = cannery.normalize_request(body, dialect)
    stored = cannery.open_store(str(tmp_path / "store")).create()
    for canister in request.conversation:
        stored.append(canister)
    loaded = list(stored.load())
    assert written(request, [loaded[0], *loaded[2:]], dialect)[0] == body[KEYS[dialect]][0]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_message_put_between_the_parts_of_another_stands_alone(dialect: str):
    body = TWO_USER_MESSAGES[dialect]
    request = cannery.normalize_request(body, dialect)
    parts = list(request.conversation)
    found = written(request, [*parts[:2], cannery.user("new"), *parts[2:]], dialect)
    assert found[0] == body[KEYS[dialect]][0]
    assert len(found) == 4


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_canister_in_the_place_of_another_stands_in_its_message(dialect: str):
    body = TWO_USER_MESSAGES[dialect]
    request = cannery.normalize_request(body, dialect)
    parts = list(request.conversation)
    parts[1] = cannery.user("changed")
    first, last = body[KEYS[dialect]]
    changed = json.loads(json.dumps(last).replace('"x"', '"changed"'))
    assert written(request, parts, dialect) == [first, changed]


def test_a_call_that_has_lost_the_words_before_it_stays_in_a_message_of_its_own():
    body = chat(user("q"), {"role": "assistant", "content": "a"}, calls(call("c1"), content="b"))
    request = cannery.normalize_request(body, CHAT)
    kept = [canister for canister in request.conversation if canister.held != "b"]
    assert written(request, kept, CHAT) == [*body["messages"][:2], calls(call("c1"))]


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_messages_of_which_nothing_was_removed_come_back(case: Case):
    request = cannery.normalize_request(case.raw, case.dialect)
    whole = json.loads(cannery.nativize_request(request, case.dialect).body).get(KEYS[case.dialect])
    groups = list(group_turns(request.conversation))
    if not isinstance(whole, list) or case.dialect == RESPONSES:
        return
    all_of_them = [json.dumps(message, sort_keys=True) for message in whole]
    dice = random.Random(case.id)
    for _ in range(6):
        gone = {id(part) for part in request.conversation if dice.random() < 0.3}
        kept = [part for part in request.conversation if id(part) not in gone]
        untouched = [
            group
            for group in groups
            if not any(id(part) in gone for part in group) and group[0].role.value != "supervisor"
        ]
        spelled = [
            json.dumps(message, sort_keys=True) for message in written(request, kept, case.dialect)
        ]
        for group in untouched:
            alone = json.dumps(written(request, group, case.dialect)[-1], sort_keys=True)
            assert alone in all_of_them
            assert alone in spelled
