"""Through the model: whoever removes, inserts or replaces canisters finds every other wire message as it was."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import cannery
from cannery.messages.conversation import group_turns
from tests.behaviours.bodies import (
    CHAT,
    CLAUDE,
    GEMINI,
    RESPONSES,
    assistant,
    call,
    calls,
    chat,
    claude,
    tool,
    tool_result,
    tool_use,
    user,
)
from tests.conformance.matrix import DIALECTS, identify
from tests.oracles.corpus import Case, request_cases

KEYS = {**dict.fromkeys(DIALECTS, "messages"), GEMINI: "contents", RESPONSES: "input"}
# Those of which a body stands in each table below.
FIRST = (CHAT, CLAUDE, GEMINI, RESPONSES)
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


def stored_and_loaded(request: cannery.Request, folder: Path) -> list[Any]:
    stored = cannery.open_store(str(folder / "store")).create()
    for canister in request.conversation:
        stored.append(canister)
    return list(stored.load())


@pytest.mark.parametrize("dialect", FIRST)
def test_what_has_lost_its_first_canister_does_not_fall_to_its_neighbour(dialect: str):
    body = TWO_USER_MESSAGES[dialect]
    request = cannery.normalize_request(body, dialect)
    first, last = body[KEYS[dialect]]
    key = "parts" if dialect == GEMINI else "content"
    kept = [*request.conversation[:1], *request.conversation[2:]]
    assert written(request, kept, dialect) == [first, {**last, key: last[key][1:]}]
    assert written(request, request.conversation.without(1), dialect)[0] == first


@pytest.mark.parametrize("dialect", FIRST)
def test_the_same_after_a_store_gave_the_canisters_back(dialect: str, tmp_path: Path):
    body = TWO_USER_MESSAGES[dialect]
    request = cannery.normalize_request(body, dialect)
    loaded = stored_and_loaded(request, tmp_path)
    assert written(request, [loaded[0], *loaded[2:]], dialect)[0] == body[KEYS[dialect]][0]


TWO_EXCHANGES: dict[str, Any] = {
    CHAT: chat(
        user("q"), calls(call("a")), tool("a", "1"), calls(call("b")), tool("b", "2"), user("r")
    ),
    CLAUDE: claude(
        user("q"),
        assistant([tool_use("a")]),
        user([tool_result("a", "1")]),
        assistant([tool_use("b")]),
        user([tool_result("b", "2")]),
        user("r"),
    ),
    GEMINI: {
        "contents": [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"a": 1}}}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"b": 1}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"b": 1}}}]},
            {"role": "user", "parts": [{"text": "r"}]},
        ]
    },
    RESPONSES: {
        "model": "m",
        "input": [
            user("q"),
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "1"},
            {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "b", "output": "2"},
            user("r"),
        ],
    },
}


@pytest.mark.parametrize("dialect", FIRST)
def test_old_exchanges_leave_nothing_behind_when_a_loaded_history_is_cut(
    dialect: str, tmp_path: Path
):
    body = TWO_EXCHANGES[dialect]
    request = cannery.normalize_request(body, dialect)
    loaded = stored_and_loaded(request, tmp_path)
    messages = body[KEYS[dialect]]
    cut = len(loaded) // 2
    assert written(request, [loaded[0], *loaded[cut:]], dialect) == [messages[0], *messages[3:]]
    assert written(request, loaded[cut:], dialect) == messages[3:]
    assert written(request, [*loaded[:cut], loaded[-1]], dialect) == [*messages[:3], messages[-1]]


def test_an_equal_message_before_it_does_not_divide_a_loaded_message(tmp_path: Path):
    body = claude(user("go on"), user(said("go on", "and on")), user("go on"))
    request = cannery.normalize_request(body, CLAUDE)
    loaded = stored_and_loaded(request, tmp_path)
    assert written(request, loaded[1:], CLAUDE) == body["messages"][1:]
    assert written(request, loaded[:3], CLAUDE) == body["messages"][:2]


def test_loaded_messages_in_another_order_are_known(tmp_path: Path):
    body = TWO_USER_MESSAGES[CLAUDE]
    request = cannery.normalize_request(body, CLAUDE)
    loaded = stored_and_loaded(request, tmp_path)
    assert written(request, [*loaded[1:], loaded[0]], CLAUDE) == body["messages"][::-1]


def test_words_in_the_place_of_an_unknown_call_are_words():
    unknown = [{"id": name, "type": "mcp", "mcp": {}} for name in "ab"]
    body = chat(user("q"), {"role": "assistant", "content": "a", "tool_calls": unknown})
    request = cannery.normalize_request(body, CHAT)
    for new in (
        cannery.assistant("new"),
        cannery.assistant(cannery.AudioContentClass(b"RIFF", "audio/wav")),
    ):
        (_, found) = written(request, request.conversation.replaced(2, new), CHAT)
        assert found["tool_calls"] == unknown[1:]
        assert len(found["content"]) == 2


def added(body: Any, dialect: str, at: int, *new: Any) -> Any:
    """The message behind which canisters were put."""
    request = cannery.normalize_request(body, dialect)
    parts = list(request.conversation)
    return written(request, [*parts[: at + 1], *new, *parts[at + 1 :]], dialect)[at]


EMPTY: dict[str, tuple[str, Any, Any]] = {
    "chat_user_list": (CHAT, user([]), [{"type": "text", "text": "new"}]),
    "chat_user_null": (CHAT, user(None), "new"),
    "chat_user_absent": (CHAT, {"role": "user"}, "new"),
    "claude_list": (CLAUDE, user([]), [{"type": "text", "text": "new"}]),
    "responses_list": (RESPONSES, user([]), [{"type": "input_text", "text": "new"}]),
    "gemini_list": (GEMINI, {"role": "user", "parts": []}, [{"text": "new"}]),
    "gemini_null": (GEMINI, {"role": "user", "parts": None}, [{"text": "new"}]),
    "gemini_absent": (GEMINI, {"role": "user"}, [{"text": "new"}]),
}


@pytest.mark.parametrize("dialect, message, content", EMPTY.values(), ids=EMPTY)
def test_what_is_added_to_a_message_without_content_is_said(
    dialect: str, message: Any, content: Any
):
    body = {"model": "m", "max_tokens": 5, KEYS[dialect]: [message]}
    found = added(body, dialect, 0, cannery.user("new", joined=True))
    assert found == {**message, "parts" if dialect == GEMINI else "content": content}


@pytest.mark.parametrize("content", [{"content": ""}, {"content": None}, {"content": []}, {}])
def test_words_added_to_a_message_of_calls_are_said(content: dict[str, Any]):
    message = {"role": "assistant", **content, "tool_calls": [call("a")]}
    body = chat(message, tool("a", "1"))
    found = added(body, CHAT, 0, cannery.assistant("new", joined=True))
    as_list = content == {"content": []}
    assert found == {**message, "content": said("new") if as_list else "new"}
    refused = cannery.assistant(cannery.RefusalContentClass("new"), joined=True)
    found = added(body, CHAT, 0, refused)
    assert found == {**message, "content": [{"type": "refusal", "refusal": "new"}]}


@pytest.mark.parametrize("silence", [[], None])
def test_a_call_added_to_a_message_that_said_it_has_none_is_made(silence: Any):
    body = chat({**assistant("x"), "function_call": None, "tool_calls": silence})
    found = added(body, CHAT, 0, cannery.invocation("a", "f", {}), cannery.result("a", "1"))
    assert found == {**assistant("x"), "function_call": None, "tool_calls": [call("a")]}


@pytest.mark.parametrize("dialect", FIRST)
def test_a_message_put_between_the_parts_of_another_stands_alone(dialect: str):
    body = TWO_USER_MESSAGES[dialect]
    request = cannery.normalize_request(body, dialect)
    parts = list(request.conversation)
    found = written(request, [*parts[:2], cannery.user("new"), *parts[2:]], dialect)
    assert found[0] == body[KEYS[dialect]][0]
    assert len(found) == 4


@pytest.mark.parametrize("dialect", FIRST)
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


def test_the_same_when_the_conversation_is_asked_to_leave_them_out():
    body = chat(user("q"), {"role": "assistant", "content": "a"}, calls(call("c1"), content="b"))
    request = cannery.normalize_request(body, CHAT)
    kept = request.conversation.without(2)
    assert written(request, kept, CHAT) == [*body["messages"][:2], calls(call("c1"))]
    changed = request.conversation.insert(3, cannery.user("new"))
    found = written(request, changed, CHAT)
    assert found[:2] == body["messages"][:2]
    assert found[3:] == [user("new"), calls(call("c1"))]


def test_what_is_put_behind_a_silent_turn_stands_before_its_calls():
    body = chat(user("q"), {**calls(call("c1")), "refusal": None})
    request = cannery.normalize_request(body, CHAT)
    q, c1 = body["messages"]
    for new in (cannery.user("new"), cannery.assistant("new")):
        found = written(request, request.conversation.insert(2, new), CHAT)
        assert found == [q, {"role": new.role.value, "content": "new"}, c1]


# --- the fields of a message --------------------------------------------------------------------

FIELDS: dict[str, Any] = {
    CHAT: chat({**user(said("x", "y", "z")), "name": "alice"}),
    CLAUDE: claude({**user(said("x", "y", "z")), "extra": {"a": 1}}),
    GEMINI: {"contents": [{"role": "user", "parts": [{"text": t} for t in "xyz"], "extra": 1}]},
    RESPONSES: {
        "model": "m",
        "input": [
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": t, "annotations": []} for t in "xyz"],
            }
        ],
    },
}


@pytest.mark.parametrize("dialect", FIRST)
def test_the_fields_of_a_message_outlive_its_first_part(dialect: str):
    body = FIELDS[dialect]
    request = cannery.normalize_request(body, dialect)
    (message,) = body[KEYS[dialect]]
    key = "parts" if dialect == GEMINI else "content"
    conversation = request.conversation
    rest = {**message, key: message[key][1:]}
    assert written(request, conversation.without(0), dialect) == [rest]
    assert written(request, list(conversation)[1:], dialect) == [rest]
    twice = request.replace(conversation=conversation.without(0))
    (last,) = written(twice, twice.conversation.without(0), dialect)
    assert {**last, key: None} == {**message, key: None}


@pytest.mark.parametrize("dialect", FIRST)
def test_the_fields_of_a_message_stay_when_one_of_its_parts_is_replaced(dialect: str):
    body = FIELDS[dialect]
    request = cannery.normalize_request(body, dialect)
    (message,) = body[KEYS[dialect]]
    new = request.conversation[0].replace(content=cannery.user("new").content)
    for index, letter in enumerate("xyz"):
        changed = json.dumps(message).replace(f'"{letter}"', '"new"')
        (found,) = written(request, request.conversation.replaced(index, new), dialect)
        assert found == json.loads(changed)


@pytest.mark.parametrize("dialect", FIRST)
def test_the_fields_of_a_message_go_with_all_of_it(dialect: str):
    request = cannery.normalize_request(FIELDS[dialect], dialect)
    (found,) = written(request, [cannery.user("new")], dialect)
    assert found in (user("new"), {"role": "user", "parts": [{"text": "new"}]})


def test_reasoning_stays_with_a_message_that_has_lost_its_first_part():
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
    body = {"model": "m", "input": [user("q"), thought, *FIELDS[RESPONSES]["input"]]}
    request = cannery.normalize_request(body, RESPONSES)
    message = body["input"][2]
    rest = {**message, "content": message["content"][1:]}
    expected = [user("q"), thought, rest]
    assert written(request, request.conversation.without(2), RESPONSES) == expected


def test_fields_that_were_handed_on_are_named_abroad():
    request = cannery.normalize_request(FIELDS[CHAT], CHAT)
    edited = request.replace(conversation=request.conversation.without(0))
    losses = cannery.nativize_request(edited, CLAUDE).losses
    assert ("FIELD_DROPPED", "conversation[0].name") in {(loss.code, loss.path) for loss in losses}


# --- the preamble --------------------------------------------------------------------------------

MARK = {"cache_control": {"type": "ephemeral"}}
PREAMBLES: list[tuple[str, dict[str, Any]]] = [
    (CLAUDE, {"system": "S"}),
    (CLAUDE, {"system": said("S")}),
    (CLAUDE, {"system": said("S", "T")}),
    (CLAUDE, {"system": [{**said("S")[0], **MARK}, *said("T")]}),
    (GEMINI, {"systemInstruction": {"parts": [{"text": "S"}]}}),
    (GEMINI, {"systemInstruction": {"parts": [{"text": "S"}, {"text": "T"}], "x": 1}}),
    (GEMINI, {"system_instruction": {"parts": [{"text": "S"}, {"text": "T"}]}}),
    (GEMINI, {"systemInstruction": "S"}),
    (RESPONSES, {"instructions": "S"}),
]


@pytest.mark.parametrize("dialect, preamble", PREAMBLES)
def test_the_preamble_is_one_whatever_is_put_before_it(dialect: str, preamble: dict[str, Any]):
    body = {**TWO_USER_MESSAGES[dialect], **preamble}
    request = cannery.normalize_request(body, dialect)
    conversation = request.conversation
    for new in (cannery.user("new"), cannery.assistant("new")):
        alone = written(request, [new], dialect)
        expected = {**body, KEYS[dialect]: [*alone, *body[KEYS[dialect]]]}
        for edited in (conversation.insert(0, new), [new, *conversation]):
            changed = request.replace(conversation=edited)
            rendered = cannery.nativize_request(changed, dialect)
            assert json.loads(rendered.body) == expected
            assert not rendered.losses
            again = changed.replace(conversation=changed.conversation.without(0))
            assert json.loads(cannery.nativize_request(again, dialect).body) == body


@pytest.mark.parametrize("dialect, preamble", PREAMBLES)
def test_abroad_a_preamble_stands_where_it_was_put(dialect: str, preamble: dict[str, Any]):
    body = {**TWO_USER_MESSAGES[dialect], **preamble}
    request = cannery.normalize_request(body, dialect)
    changed = request.replace(conversation=[cannery.user("new"), *request.conversation])
    found = json.loads(cannery.nativize_request(changed, CHAT).body)["messages"]
    assert [message["role"] for message in found[:2]] == ["user", "system"]


@pytest.mark.parametrize("dialect, preamble", PREAMBLES)
def test_late_instructions_of_ones_own_keep_their_place(dialect: str, preamble: dict[str, Any]):
    late = cannery.supervisor("late")
    for body in (TWO_USER_MESSAGES[dialect], {**TWO_USER_MESSAGES[dialect], **preamble}):
        request = cannery.normalize_request(body, dialect)
        changed = request.replace(conversation=request.conversation.append(late))
        found = json.loads(cannery.nativize_request(changed, dialect).body)
        assert "late" in json.dumps(found[KEYS[dialect]][-1])
        assert {**found, KEYS[dialect]: None} == {**body, KEYS[dialect]: None}


def test_a_record_of_instructions_has_no_input_where_a_preamble_was_moved():
    record = {"system": "S", "instruction": "i", "input": "", "output": "o"}
    request = cannery.normalize_request(record, "alpaca")
    lead, _, answer = request.conversation
    edited = request.replace(conversation=[cannery.assistant("new"), lead, answer])
    found = json.loads(cannery.nativize_request(edited, "alpaca").body)
    assert (found["instruction"], found["input"], found["output"]) == ("S", "", "o")


def test_the_rest_of_a_preamble_has_its_fields():
    preamble = {"parts": [{"text": "S"}, {"text": "T"}], "x": 1}
    body = {**TWO_USER_MESSAGES[GEMINI], "system_instruction": preamble}
    request = cannery.normalize_request(body, GEMINI)
    for kept in (request.conversation.without(0), list(request.conversation)[1:]):
        found = cannery.nativize_request(request.replace(conversation=kept), GEMINI).body
        assert json.loads(found)["system_instruction"] == {**preamble, "parts": [{"text": "T"}]}


def test_system_messages_among_others_stay_among_them():
    late = {"role": "system", "content": said("x", "y")}
    body = claude(late, user("q"), late, user("r"))
    request = cannery.normalize_request(body, CLAUDE)
    found = written(request, request.conversation.insert(0, cannery.user("new")), CLAUDE)
    assert found == [user("new"), *body["messages"]]


# --- all cases -----------------------------------------------------------------------------------


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
            if not any(id(part) in gone for part in group)
            and group[0].role.value not in ("supervisor", "document")
        ]
        spelled = [
            json.dumps(message, sort_keys=True) for message in written(request, kept, case.dialect)
        ]
        for group in untouched:
            alone = json.dumps(written(request, group, case.dialect)[-1], sort_keys=True)
            assert alone in all_of_them
            assert alone in spelled
