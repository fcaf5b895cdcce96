"""A conversation that grew is written as if it had never been written before."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from cannery import write_cache
from cannery.messages.content import FileContentClass, ImageContentClass, ReasoningContentClass
from cannery.messages.residue import Residue
from tests.conformance.matrix import DATA_SETS, DIALECTS, identify
from tests.oracles.corpus import Case, request_cases
from tests.oracles.silence import says_nothing

PNG = b"\x89PNG\r\n\x1a\n"
CASES = [case for dialect in DIALECTS for case in request_cases(dialect)]
IDS = st.sampled_from(["a", "b", "c.d"])
KINDS = [
    *("user", "answer", "call", "result", "late", "blank", "image", "file", "mark", "thought"),
    "silent",
]
TURNS = st.sampled_from(KINDS)


def canister(kind: str, number: int, identifier: str) -> Any:
    match kind:
        case "user":
            return cannery.user(f"u{number}")
        case "answer":
            return cannery.assistant(f"a{number}")
        case "call":
            return cannery.invocation(identifier, "f g", {"n": number})
        case "result":
            return cannery.result(identifier, f"r{number}")
        case "late":
            return cannery.supervisor(f"s{number}")
        case "blank":
            return cannery.user(" ")
        case "thought":
            return cannery.assistant(ReasoningContentClass(("hm",)))
        case "silent":
            return cannery.assistant()
        case "image":
            return cannery.user(ImageContentClass(PNG, "image/jpeg"))
        case "file":
            return cannery.user(FileContentClass(b"%PDF-1.4", "application/pdf", name="a"))
        case _:
            return cannery.user("m").replace(residue=Residue("openai_chat", cache="short"))


def copied(request: cannery.Request) -> cannery.Request:
    """The same request of canisters that nobody wrote before."""
    fresh = [each.replace() for each in tuple(request.conversation)]
    return cannery.Request(
        fresh,
        model=request.model,
        tools=request.tools,
        tool_choice=request.tool_choice,
        controls=request.controls,
        stream=request.stream,
        residue=request.residue,
        source=request.source,
    )


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(write_cache, "_SHORTEST", 2)


def outcome(request: cannery.Request, target: str) -> cannery.Rendered | str:
    """What is written, or why nothing is."""
    try:
        return cannery.nativize_request(request, target, policy="allow")
    except cannery.EmptyConversationError as error:
        return str(error)


def check(request: cannery.Request, target: str) -> None:
    rendered = outcome(request, target)
    assert rendered == outcome(request, target)
    assert rendered == outcome(copied(request), target)


@pytest.mark.parametrize("target", DIALECTS)
@given(
    lead=st.integers(0, 2),
    kinds=st.lists(st.tuples(TURNS, IDS), min_size=3, max_size=9),
    more=st.lists(st.tuples(TURNS, IDS), min_size=1, max_size=5),
)
def test_what_is_added_one_by_one_is_written_like_the_whole(
    target: str, lead: int, kinds: list[Any], more: list[Any]
):
    made = [cannery.supervisor(f"l{number}") for number in range(lead)]
    made += [canister(kind, number, call) for number, (kind, call) in enumerate(kinds)]
    conversation = cannery.Conversation(made)
    check(cannery.Request(conversation, model="m"), target)
    for number, (kind, call) in enumerate(more, len(kinds)):
        conversation = conversation.append(canister(kind, number, call))
        check(cannery.Request(conversation, model="m"), target)


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_a_request_of_the_corpus_goes_on(case: Case):
    request = cannery.normalize_request(case.raw, case.dialect)
    for target in DIALECTS:
        longer = request.conversation
        if target == case.dialect or not says_nothing(case.dialect, case.body):
            check(request, target)
        for more in (cannery.assistant("Well."), cannery.user("Go on."), cannery.assistant("No.")):
            longer = longer.append(more)
            check(request.replace(conversation=longer), target)


@pytest.mark.parametrize("target", DIALECTS)
def test_a_longer_conversation_takes_what_was_kept(target: str, monkeypatch: pytest.MonkeyPatch):
    turns = [cannery.user("q"), cannery.assistant("a")] * 10
    conversation = cannery.Conversation([each.replace() for each in turns])
    cannery.nativize_request(cannery.Request(conversation, model="m"), target)
    found = []
    find = write_cache.find
    monkeypatch.setattr(write_cache, "find", lambda *asked: found.append(find(*asked)) or found[-1])
    for more in (cannery.user("more"), cannery.assistant("said"), cannery.user("and more")):
        conversation = conversation.append(more)
        cannery.nativize_request(cannery.Request(conversation, model="m"), target)
    assert [kept.length for kept in found] == [18, 20, 20]


@pytest.mark.parametrize("target", DIALECTS)
def test_a_turn_that_is_left_out_takes_no_other_with_it(target: str):
    thought = cannery.assistant(ReasoningContentClass(("hm",)))
    turns = [cannery.user("q"), cannery.assistant("a")] * 8
    turns += [cannery.user("first"), thought, cannery.user("second")]
    conversation = cannery.Conversation(each.replace() for each in turns)
    for _ in range(2):
        body = cannery.nativize_request(cannery.Request(conversation, model="m"), target).body
        assert body.count(b'"first"') == 1
        assert body.count(b'"second"') == 1
        conversation = conversation.append(cannery.assistant("b")).append(cannery.user("third"))


@pytest.mark.parametrize("target", DATA_SETS)
def test_a_longer_conversation_is_a_whole_record(target: str):
    lead = [cannery.supervisor("s")]
    turns = [*lead, cannery.user(ImageContentClass(PNG, "image/png")), cannery.assistant("a")]
    turns += [cannery.user("q"), cannery.assistant("a")] * 10
    conversation = cannery.Conversation(each.replace() for each in turns)
    for more in (cannery.user("more"), cannery.assistant("said"), cannery.user("and more")):
        conversation = conversation.append(more)
        check(cannery.Request(conversation, model="m"), target)
    body = cannery.nativize_request(cannery.Request(conversation, model="m"), target).body
    assert target == "alpaca" or b"data:image/png;base64," in body


@pytest.mark.parametrize("target", DIALECTS)
def test_a_message_that_was_divided_is_whole_again_elsewhere(target: str):
    turns = [cannery.user("q"), cannery.assistant("a")] * 8
    parts = [cannery.assistant("one"), cannery.assistant("two").replace(joined=True)]
    shared = [each.replace() for each in [*turns, cannery.user("q"), parts[0]]]
    divided = cannery.Conversation([*shared, cannery.user("between")])
    whole = cannery.Conversation([*shared, parts[1], cannery.user("next")])
    fresh = cannery.Conversation([each.replace() for each in whole])
    expected = cannery.nativize_request(cannery.Request(fresh, model="m"), target).body
    cannery.nativize_request(cannery.Request(divided, model="m"), target)
    assert cannery.nativize_request(cannery.Request(whole, model="m"), target).body == expected


TURNS_OF_CHAT = [
    {"role": role, "content": f"{role} {number}"}
    for number in range(9)
    for role in ("user", "assistant")
]


@pytest.mark.parametrize("target", [*DIALECTS, "sharegpt", "alpaca", "openai_finetuning"])
def test_a_turn_that_a_target_leaves_out_takes_no_other_with_it(target: str):
    thought = {"role": "assistant", "content": None, "reasoning_content": "hm"}
    more = [{"role": "user", "content": "IMPORTANT"}, thought, {"role": "user", "content": "end"}]
    body = {"model": "m", "messages": [*TURNS_OF_CHAT, *more]}
    request = cannery.normalize_request(body, "openai_chat")
    written = cannery.nativize_request(request, target, policy="allow")
    assert b"IMPORTANT" in written.body or target == "alpaca"
    whole = cannery.translate(body, source="openai_chat", target=target, policy="allow")
    assert written.body == whole.body


def test_text_of_nothing_but_a_turn_that_is_left_out():
    parts = [{"text": f"p{number}"} for number in range(16)]
    thought = {"role": "model", "parts": [{"text": "hm", "thought": True}]}
    last = {"role": "user", "parts": [{"text": "end"}]}
    body = {"contents": [{"role": "user", "parts": parts}, thought, last]}
    request = cannery.normalize_request(body, "gemini_generate")
    written = cannery.nativize_request(request, "anthropic_messages", policy="allow")
    whole = cannery.translate(body, source="gemini_generate", target="anthropic_messages")
    assert written.body == whole.body


@pytest.mark.parametrize(
    "dialect, field, body",
    [
        ("openai_responses", "instructions", {"model": "m", "instructions": "SYS"}),
        ("anthropic_messages", "system", {"model": "m", "max_tokens": 9, "system": "SYS"}),
    ],
)
def test_instructions_stay_when_something_is_put_before_them(dialect: str, field: str, body: Any):
    key = "input" if dialect == "openai_responses" else "messages"
    end = {"role": "user", "content": "end"}
    request = cannery.normalize_request({**body, key: [*TURNS_OF_CHAT, end]}, dialect)
    longer = request.conversation.insert(0, cannery.user("first"))
    written = cannery.nativize_request(request.replace(conversation=longer), dialect)
    assert json.loads(written.body)[field] == "SYS"


def test_tools_that_a_block_of_the_target_adds_are_offered_by_it_alone():
    item = {
        "type": "tool_search_output",
        "call_id": None,
        "execution": "server",
        "status": "completed",
        "tools": [{"type": "function", "name": "found", "parameters": {"type": "object"}}],
    }
    block = cannery.OpaqueContentClass("openai_responses", "tool_search_output", json.dumps(item))
    turns = [cannery.user("q"), cannery.assistant(block), cannery.assistant("a"), cannery.user("q")]
    request = cannery.Request(turns, model="m")
    for _ in range(2):
        body = json.loads(cannery.nativize_request(request, "openai_responses").body)
        assert item in body["input"]
        assert "tools" not in body
