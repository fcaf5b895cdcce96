"""Turns that are kept beside a conversation: used again, and gone with it."""

from __future__ import annotations

import gc
import json
import weakref
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from cannery import planned
from cannery.wire import fragments
from tests.conformance.general import the_general_way
from tests.conformance.matrix import DIALECTS


class Moment(datetime):
    """A time that tells when nobody needs it any more."""


def spoken(count: int) -> tuple[cannery.Conversation, list[weakref.ref[Moment]]]:
    moments = [Moment(2026, 1, 1, 0, *divmod(at, 60), tzinfo=UTC) for at in range(count)]
    makers = (cannery.user, cannery.assistant)
    canisters = [makers[at % 2](f"{at}.", moment) for at, moment in enumerate(moments)]
    return cannery.Conversation(canisters), [weakref.ref(moment) for moment in moments]


@pytest.mark.parametrize("target", DIALECTS)
def test_a_conversation_that_was_written_is_freed(target: str):
    conversation, moments = spoken(7)
    request = cannery.Request(conversation, "m", source="sharegpt")
    for count in (3, 5, 7):
        cannery.nativize_request(request.replace(conversation=conversation[:count]), target)
    del request, conversation
    gc.collect()
    assert [moment() for moment in moments] == [None] * 7


def apart(conversation: cannery.Conversation) -> cannery.Conversation:
    """The same, of canisters that keep nothing."""
    return cannery.Conversation([each.replace(joined=each.joined) for each in conversation])


def written_anew(request: cannery.Request, target: str) -> cannery.Rendered:
    """The same of canisters that keep nothing."""
    anew = msgspec.structs.replace(request, conversation=apart(request.conversation))
    return cannery.nativize_request(anew, target)


def keeping(target: str, **settings: Any) -> cannery.Request:
    """A request whose turns are kept: it has grown twice, and was written each time."""
    conversation, _ = spoken(9)
    request = cannery.Request(conversation, "m", source="sharegpt", **settings)
    for count in (5, 7, 9):
        cannery.nativize_request(request.replace(conversation=conversation[:count]), target)
    assert any(memo and any(memo.values()) for memo in (each._memo for each in conversation))
    return request


@pytest.mark.parametrize("place", range(9))
@pytest.mark.parametrize("target", DIALECTS)
def test_what_is_kept_is_used_only_behind_the_same_beginning(target: str, place: int):
    request = keeping(target)
    make = (cannery.user, cannery.assistant)[place % 2]
    other = request.conversation.replaced(place, make("Something else."))
    edited = request.replace(conversation=other)
    again = cannery.nativize_request(edited, target)
    assert again == written_anew(edited, target)
    assert b"Something else." in again.body


@pytest.mark.parametrize("target", DIALECTS)
def test_equal_settings_may_be_written_in_two_ways(target: str):
    request = keeping(target, controls=cannery.Controls(max_tokens=9, temperature=1))
    other = request.replace(controls=cannery.Controls(max_tokens=9, temperature=1.0))
    assert other == request
    again = cannery.nativize_request(other, target)
    assert again == written_anew(other, target)
    assert b"1.0" in again.body


@pytest.mark.parametrize("target", DIALECTS)
def test_one_canister_may_stand_in_two_places(target: str):
    asked, answered = cannery.user("Again?"), cannery.assistant("Again.")
    conversation = cannery.Conversation([asked, answered] * 3)
    for count in (2, 4, 6, 4, 3, 5):
        request = cannery.Request(conversation[:count], "m", source="sharegpt")
        assert cannery.nativize_request(request, target) == written_anew(request, target)


WORDS = st.sampled_from(["One.", "Two.", "", " ", '{"a": 1}'])
NUMBERS = st.integers(0, 3)
CANISTERS = st.one_of(
    st.builds(cannery.user, WORDS, joined=st.booleans()),
    st.builds(cannery.assistant, WORDS | st.just(cannery.absent), joined=st.booleans()),
    st.builds(cannery.supervisor, st.just("Be brief."), joined=st.booleans()),
)


@st.composite
def additions(draw: st.DrawFn) -> list[cannery.Canister]:
    """What an agent appends at once: words, calls with or without their results, or anything."""
    if draw(st.booleans()):
        return draw(st.lists(CANISTERS, min_size=1, max_size=3))
    names = draw(st.lists(NUMBERS, min_size=1, max_size=2))
    calls = [cannery.invocation(f"call_{name}", "look", {"at": name}) for name in names]
    results = [cannery.result(f"call_{name}", "Seen.") for name in names]
    silent = [cannery.assistant()] if draw(st.booleans()) else []
    return draw(st.sampled_from([[*silent, *calls], [*silent, *calls, *results], results]))


LEADING = (
    [cannery.supervisor("Be kind.")],
    [cannery.supervisor("Be kind.", rank="developer"), cannery.supervisor("Be brief.")],
    [],
)
TOOLS = (
    (),
    (cannery.Tool("look", schema={"type": "object"}),),
    (
        cannery.Tool("look at", "Any name.", {"type": "object"}),
        cannery.Tool("say", is_freeform=True),
    ),
)
# Equal ones may be written in two ways.
CONTROLS = (
    cannery.Controls(),
    cannery.Controls(max_tokens=5, temperature=1),
    cannery.Controls(max_tokens=5, temperature=1.0),
    cannery.Controls(max_tokens=5, temperature=0.5, stop=("x",), seed=7),
)
SETTINGS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["m", "gemini-3-pro", "claude-opus-4-6", cannery.absent]),
        "tools": st.sampled_from(TOOLS),
        "controls": st.sampled_from(CONTROLS),
        "stream": st.sampled_from([cannery.absent, True]),
        "residue": st.sampled_from([None, cannery.Residue("sharegpt", envelope='{"lang":"en"}')]),
    }
)


@pytest.mark.parametrize("source", [None, "openai_chat", "sharegpt"])
@pytest.mark.parametrize("target", DIALECTS)
def test_a_conversation_that_grows_is_written_as_if_it_were_new(target: str, source: str | None):
    start = (cannery.user("Hello."), cannery.assistant("Hello!"), cannery.user("Look."))

    @settings(max_examples=150)
    @given(
        leading=st.sampled_from(LEADING),
        around=st.lists(SETTINGS, min_size=1, max_size=3),
        steps=st.lists(
            st.tuples(st.integers(0, 9), additions(), st.integers(0, 5), st.booleans()), max_size=12
        ),
    )
    def run(leading: list[Any], around: list[dict[str, Any]], steps: list[Any]):
        grown = [apart(cannery.Conversation([*leading, *start]))]
        for branch, more, which, is_rebuilt in steps:
            longer = grown[-1 - branch % min(len(grown), 4)].append(*more)
            if is_rebuilt:
                longer = cannery.Conversation(list(longer))
            grown.append(longer)
            request = cannery.Request(longer, source=source, **around[which % len(around)])
            again = cannery.nativize_request(request, target)
            new = msgspec.structs.replace(request, conversation=apart(longer))
            assert again == cannery.nativize_request(new, target)
            with the_general_way():
                slow = cannery.nativize_request(new, target)
            assert json.loads(again.body) == json.loads(slow.body)
            assert (again.losses, again.aliases) == (slow.losses, slow.aliases)
            assert again.repairs == slow.repairs

    run()


@pytest.mark.parametrize("target", DIALECTS)
def test_only_what_is_new_is_encoded(target: str, monkeypatch: pytest.MonkeyPatch):
    conversation, _ = spoken(201)
    request = cannery.Request(conversation, "m", source="sharegpt")
    encode = fragments.encode
    counts: list[int] = []

    def counting(value: Any) -> bytes:
        if type(value) is list:
            counts.append(len(value))
        return encode(value)

    monkeypatch.setattr(fragments, "encode", counting)
    monkeypatch.setattr(planned, "encode", counting)
    requests = [request]
    for count in range(150):
        written = cannery.nativize_request(requests[-1], target)
        if count % 10 == 0:
            anew = request.replace(conversation=apart(requests[-1].conversation))
            assert written == cannery.nativize_request(anew, target)
        # Once somebody branches off from the first.
        longer = requests[-1 if count != 70 else 0].conversation.append(
            cannery.assistant("And?"), cannery.user("So.")
        )
        requests.append(request.replace(conversation=longer))
    assert len(counts) == 2 * 149 - 1
    assert counts[0] >= 200
    assert max(counts[1:]) <= 2


@pytest.mark.parametrize("target", DIALECTS)
def test_nothing_but_a_mark_is_kept_of_what_is_written_once(target: str):
    conversation, _ = spoken(21)
    cannery.nativize_request(cannery.Request(conversation, "m", source="sharegpt"), target)
    memos = [canister.memo() for canister in conversation]
    assert [value for memo in memos for value in memo.values()] == [None]


@pytest.mark.parametrize("target", DIALECTS)
def test_settings_that_stay_are_written_once(target: str, monkeypatch: pytest.MonkeyPatch):
    conversation, _ = spoken(21)
    tools = (cannery.Tool("any name", schema={"type": "object"}), cannery.Tool("look"))
    request = cannery.Request(conversation, "m", tools, source="sharegpt")
    openings: list[int] = []
    write = planned._open

    def counting(*arguments: Any) -> Any:
        openings.append(len(arguments[0].tools))
        return write(*arguments)

    monkeypatch.setattr(planned, "_open", counting)
    for count in range(20):
        if count == 10:
            request = request.replace(tools=tools[1:])
        written = cannery.nativize_request(request, target)
        assert (b"any" in written.body) is (count < 10)
        more = cannery.assistant("And?"), cannery.user("So.")
        request = request.replace(conversation=request.conversation.append(*more))
    assert openings == [2, 1]


@pytest.mark.parametrize("target", DIALECTS)
def test_who_leads_is_asked_anew(target: str):
    first, asked = cannery.supervisor("Be kind."), cannery.user("Hi.")
    joined = [first, cannery.assistant("Hello.", joined=True), asked]
    apart_from = [first, cannery.assistant("Hello."), asked]
    for model, canisters in (("m", joined), ("m", joined), ("m", apart_from), ("n", apart_from)):
        request = cannery.Request(canisters, model, source="sharegpt")
        assert cannery.nativize_request(request, target) == written_anew(request, target)


@pytest.mark.parametrize("target", DIALECTS)
def test_one_canister_may_stand_twice_in_a_row(target: str):
    rule = cannery.supervisor("Be kind.")
    request = cannery.Request([rule, rule, cannery.user("Hi.")], "m", source="sharegpt")
    assert cannery.nativize_request(request, target) == written_anew(request, target)


@pytest.mark.parametrize("target", DIALECTS)
def test_what_a_caller_does_to_aliases_changes_nothing(target: str):
    request = keeping(target, tools=(cannery.Tool("any name"),))
    before = cannery.nativize_request(request, target)
    assert before.aliases.names
    before.aliases.names.clear()
    assert cannery.nativize_request(request, target) == written_anew(request, target)


@pytest.mark.parametrize("target", DIALECTS)
def test_strict_holds_for_what_is_written_again(target: str):
    conversation, _ = spoken(9)
    controls = cannery.Controls(metadata={"a": "b"}, top_k=3, seed=4)
    request = cannery.Request(conversation, "m", controls=controls, source="sharegpt")
    for count in (5, 7, 9):
        longer = request.replace(conversation=conversation[:count])
        assert cannery.nativize_request(longer, target).losses
        with pytest.raises(cannery.LossError):
            cannery.nativize_request(longer, target, policy="strict")


@pytest.mark.parametrize("target", DIALECTS)
def test_what_was_said_long_before_is_known(target: str):
    """Ids of calls that come again, and cache marks beyond the limit, far behind what was kept."""
    marked = cannery.Residue("sharegpt", cache="short")
    conversation = cannery.Conversation([cannery.user("Look.")])
    for name in (1, 2, 3, 4, 5, 6, 2):
        identifier = f"call_{name}"
        conversation = conversation.append(
            cannery.assistant(),
            cannery.invocation(identifier, "look", {}),
            cannery.result(identifier, "Seen."),
            cannery.user("And?").replace(residue=marked),
        )
        request = cannery.Request(conversation, "m", source="sharegpt")
        assert cannery.nativize_request(request, target) == written_anew(request, target)


def texts_kept(*conversations: cannery.Conversation) -> int:
    """How much text canisters keep, what they share counted once."""
    canisters = {id(each): each for conversation in conversations for each in conversation}
    memos = [each._memo for each in canisters.values() if each._memo]
    kept = [value for memo in memos for value in memo.values() if value]
    pieces = {id(piece): piece for each in kept for piece in each.pieces}
    return sum(map(len, pieces.values()))


@pytest.mark.parametrize("target", DIALECTS)
def test_a_growing_conversation_keeps_its_text_once(target: str):
    conversation, _ = spoken(11)
    for _ in range(200):
        request = cannery.Request(conversation, "m", source="sharegpt")
        size = len(cannery.nativize_request(request, target).body)
        assert texts_kept(conversation) <= 1.1 * size
        conversation = conversation.append(cannery.assistant("And?"), cannery.user("So."))


@pytest.mark.parametrize("target", DIALECTS)
def test_branches_of_what_was_written_once_share_its_text(target: str):
    base, _ = spoken(301)
    size = len(cannery.nativize_request(cannery.Request(base, "m", source="sharegpt"), target).body)
    more = [
        cannery.assistant("And?"),
        cannery.user("So."),
        cannery.assistant("Oh."),
        cannery.user("I"),
    ]
    branches = []
    for _ in range(20):
        branches.append(base.append(*(each.replace(joined=False) for each in more)))
        request = cannery.Request(branches[-1], "m", source="sharegpt")
        assert cannery.nativize_request(request, target) == written_anew(request, target)
    assert texts_kept(*branches) < 1.5 * size


@pytest.mark.parametrize("target", DIALECTS)
def test_a_conversation_that_says_the_same_canister_again_is_freed(target: str):
    conversation, moments = spoken(3)
    asked = conversation[-1]
    del moments[-1]
    for count in range(8):
        request = cannery.Request(conversation, "m", source="sharegpt")
        assert cannery.nativize_request(request, target) == written_anew(request, target)
        moment = Moment(2026, 1, 2, 0, 0, count, tzinfo=UTC)
        moments.append(weakref.ref(moment))
        conversation = conversation.append(cannery.assistant("Again.", moment), asked)
        del moment
    del request, conversation, asked
    gc.collect()
    assert [moment() for moment in moments] == [None] * len(moments)
