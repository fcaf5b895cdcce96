"""A conversation is found in a history that its client wrote differently, and in no other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.messages import (
    AnyCanister,
    InvocationCanisterClass,
    ReasoningContentClass,
    ResultCanisterClass,
    Role,
    TextualContentClass,
    assistant,
    supervisor,
    user,
)
from cannery.storage.rewriting import continue_in


def call(name: str, file: str = "") -> AnyCanister:
    return InvocationCanisterClass(name, "write", f'{{"file": "{file or name}"}}')


def result(name: str, text: str = "written") -> AnyCanister:
    return ResultCanisterClass(name, TextualContentClass(text))


def thought(text: str) -> AnyCanister:
    return assistant(ReasoningContentClass(text))


STORED = [
    supervisor("Be brief."),
    user("Write both"),
    thought("Hm."),
    assistant("First one."),
    call("a"),
    thought("Then."),
    assistant("Second one."),
    call("b"),
    result("a"),
    result("b"),
    assistant("Both are written."),
]
LAST = assistant("Both are written.")
NEXT = user("Thanks")
RESULTS = [result("a"), result("b")]


@pytest.mark.parametrize(
    "history, known",
    [
        ([*STORED, NEXT], 11),
        # The texts are one, before the calls.
        ([user("Write both"), assistant("First one.Second one."), call("a"), call("b"), *RESULTS, LAST, NEXT], 7),
        # Old results are a note, and come with their calls.
        (
            [user("Write both"), assistant("First one."), call("a"), result("a", "…"), assistant("Second one."),
             call("b"), result("b", "…"), LAST, NEXT], 8,
        ),
        # Thoughts are texts, by themselves or in the text.
        (
            [user("Write both"), assistant("Hm."), assistant("First one."), call("a"), assistant("Then."),
             assistant("Second one."), call("b"), *RESULTS, LAST, NEXT], 10,
        ),
        (
            [user("Write both"), assistant("<think>Hm.</think>First one.<think>Then.</think>Second one."), call("a"),
             call("b"), *RESULTS, LAST, NEXT], 7,
        ),
        # Other ids, another setup.
        (
            [supervisor("Be long."), user("<context>\nA tree\n</context>"), user("Write both"),
             assistant("First one.Second one."), call("x", "a"), call("y", "b"), result("x"), result("y"), LAST, NEXT],
            9,
        ),
    ],
)  # fmt: skip
def test_what_was_said_is_found(history: list[AnyCanister], known: int) -> None:
    found = continue_in(STORED, history)
    assert found is not None
    assert found.known == known


@pytest.mark.parametrize(
    "history",
    [
        [user("Write none"), *STORED[2:], NEXT],
        [user("Write both"), assistant("First one."), call("a"), call("b"), *RESULTS, LAST, NEXT],
        [user("Write both"), assistant("First one.Second one."), call("b"), call("a"), *RESULTS, LAST, NEXT],
        [user("Write both"), assistant("First one.Second one."), call("a"), call("c"), *RESULTS, LAST, NEXT],
        [*STORED[:-1], NEXT],
        [*STORED[:-1], assistant("Both are"), NEXT],
        [user("Before"), assistant("Yes."), *STORED, NEXT],
        [user("Write both")],
        [],
    ],
)  # fmt: skip
def test_what_was_not_said_is_not_found(history: list[AnyCanister]) -> None:
    assert continue_in(STORED, history) is None


def test_a_conversation_without_an_answer_is_not_found() -> None:
    assert continue_in([user("Hi")], [user("Hi"), assistant("Hello."), NEXT]) is None


def test_stored_results_are_known_and_others_are_not() -> None:
    history = [
        user("Write both"),
        assistant("First one.Second one."),
        call("a"),
        call("b"),
        *RESULTS,
    ]
    found = continue_in(STORED[:8], history)
    assert found is not None
    assert found.known == 4
    found = continue_in(STORED[:9], history)
    assert found is not None
    assert found.known == 5


def test_calls_of_one_answer_are_not_parted() -> None:
    stored = [user("Write"), call("a"), result("a")]
    several = [user("Write"), call("a"), call("b"), result("a", "failed"), result("b")]
    assert continue_in(stored, several) is None
    later = [user("Write"), call("a"), result("a", "shortened"), call("b"), result("b")]
    found = continue_in(stored, later)
    assert found is not None
    assert found.known == 3


def test_thoughts_belong_to_the_same_places() -> None:
    history = [
        user("Write both"),
        assistant("First one.Second one."),
        call("a"),
        call("b"),
        *RESULTS,
        LAST,
        NEXT,
    ]
    found = continue_in(STORED, history)
    assert found is not None
    assert found.pairs == ((3, 1), (4, 2), (7, 3), (10, 6))


TURNS = st.lists(
    st.tuples(
        st.sampled_from(["One?", "Two?"]),
        st.lists(st.sampled_from(["text a", "text b", "call a", "call b"]), min_size=1, max_size=5),
    ),
    min_size=1,
    max_size=4,
)


@given(TURNS)
def test_every_history_is_found_with_its_texts_joined(turns: list[tuple[str, list[str]]]) -> None:
    stored: list[AnyCanister] = []
    joined: list[AnyCanister] = []
    for asked, parts in turns:
        calls = [call(part) for part in parts if part.startswith("call")]
        texts = [part for part in parts if part.startswith("text")]
        stored += [user(asked), *(assistant(p) if p in texts else call(p) for p in parts)]
        joined += [user(asked), *([assistant("".join(texts))] if texts else []), *calls]
    found = continue_in(stored, [*joined, NEXT])
    assert found is not None
    assert found.known == len(joined)
    assert all(stored[here].role is joined[there].role for here, there in found.pairs)
    assert all(stored[here].role in (Role.Assistant, Role.Invocation) for here, _ in found.pairs)
