"""Turns that are kept beside a conversation: used again, and gone with it."""

from __future__ import annotations

import gc
import weakref
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from cannery.wire import fragments
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


@pytest.mark.parametrize("target", DIALECTS)
def test_what_is_kept_is_used_only_behind_the_same_beginning(target: str):
    conversation, _ = spoken(5)
    request = cannery.Request(conversation, "m", source="sharegpt")
    cannery.nativize_request(request, target)
    other = cannery.Conversation([cannery.user("Another beginning."), *conversation[1:]])
    again = cannery.nativize_request(request.replace(conversation=other), target)
    assert b"Another beginning." in again.body
    assert b"0." not in again.body.replace(b"1.0", b"")


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


def apart(conversation: cannery.Conversation) -> cannery.Conversation:
    """The same, of canisters that keep nothing."""
    return cannery.Conversation([each.replace(joined=each.joined) for each in conversation])


@pytest.mark.parametrize("source", [None, "openai_chat", "sharegpt"])
@pytest.mark.parametrize("target", DIALECTS)
def test_a_conversation_that_grows_is_written_as_if_it_were_new(target: str, source: str | None):
    start = cannery.Conversation(
        [
            cannery.supervisor("Be kind."),
            cannery.user("Hello."),
            cannery.assistant("Hello!"),
            cannery.user("Look."),
        ]
    )
    controls = (cannery.Controls(), cannery.Controls(max_tokens=5, temperature=0.5, stop=("x",)))

    @settings(max_examples=150)
    @given(
        steps=st.lists(
            st.tuples(st.integers(0, 9), additions(), st.booleans(), st.booleans()), max_size=12
        )
    )
    def run(steps: list[Any]):
        grown = [apart(start)]
        for branch, more, is_controlled, is_rebuilt in steps:
            longer = grown[-1 - branch % min(len(grown), 4)].append(*more)
            if is_rebuilt:
                longer = cannery.Conversation(list(longer))
            grown.append(longer)
            request = cannery.Request(longer, "m", controls=controls[is_controlled], source=source)
            again = cannery.nativize_request(request, target)
            assert again == cannery.nativize_request(
                msgspec.structs.replace(request, conversation=apart(longer)), target
            )

    run()


@pytest.mark.parametrize("target", DIALECTS)
def test_only_what_is_new_is_encoded(target: str, monkeypatch: pytest.MonkeyPatch):
    conversation, _ = spoken(201)
    request = cannery.Request(conversation, "m", source="sharegpt")
    encode = fragments.encode
    counts: list[int] = []

    def counting(turns: list[Any]) -> bytes:
        counts.append(len(turns))
        return encode(turns)

    monkeypatch.setattr(fragments, "encode", counting)
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
