"""The same meaning has the same digest however it is spelled, and another meaning another one."""

import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import cannery
from cannery.messages.canisters import new_assistant, new_invocation, new_result, new_user
from cannery.messages.checked import now
from cannery.messages.content import new_data, new_image, new_opaque, new_parts
from tests.messages.strategies import (
    BYTES,
    CANISTERS,
    CITATIONS,
    JSON_OBJECTS,
    NAMES,
    RESIDUES,
    TEXTS,
    TIMESTAMPS,
    WORDS,
    spelled_base64,
    spelled_json,
)

# What is said, without how: (kind, ...) for each canister.
SAID = st.one_of(
    st.tuples(st.sampled_from(["user", "supervisor", "document", "assistant"]), WORDS),
    st.tuples(st.just("image"), BYTES),
    st.tuples(st.just("thought"), WORDS),
    st.tuples(st.just("call"), NAMES, JSON_OBJECTS),
    st.tuples(st.just("answer"), st.integers(0, 3), WORDS, st.booleans()),
    st.tuples(st.just("object answer"), st.integers(0, 3), JSON_OBJECTS),
)
HISTORIES = st.lists(SAID, max_size=4)
SURROUNDINGS = st.fixed_dictionaries(
    {"timestamp": TIMESTAMPS, "joined": st.booleans(), "residue": RESIDUES}
)


@st.composite
def spelled_text(draw, text):
    """A content that says a text."""
    match draw(st.integers(0, 3)):
        case 0:
            return cannery.TextualContentClass(text)
        case 1:
            cited = draw(st.lists(CITATIONS, max_size=2))
            return cannery.TextualContentClass(text, "text/plain; charset=utf-8", citations=cited)
        case 2:
            return cannery.TextualContentClass("", content_id=cannery.content_id_of(text.encode()))
        case _:
            return cannery.PartsContentClass([cannery.TextualContentClass(text)])


@st.composite
def spelled_image(draw, data):
    """A content that shows an image."""
    content_id = cannery.content_id_of(data)
    payload = draw(
        st.one_of(
            st.just(data),
            spelled_base64(data).map(cannery.Base64),
            st.just(cannery.NotHydrated(content_id)),
        )
    )
    return cannery.ImageContentClass(payload, draw(st.sampled_from(["image/png", "image/jpeg"])))


@st.composite
def spelled_answer(draw, value):
    """A content that says a JSON object as a tool's answer."""
    text = draw(spelled_json(value))
    if len(text.encode()) < 1024 and draw(st.booleans()):
        return draw(spelled_inline(text))
    return cannery.DataContentClass(json=text)


@st.composite
def spelled_inline(draw, text):
    content = cannery.TextualContentClass(text)
    return cannery.PartsContentClass([content]) if draw(st.booleans()) else content


class Speller:
    """Says a history in one of the ways that clients have for it."""

    def __init__(self, draw):
        self.draw = draw
        self.prefix = draw(st.sampled_from(["call_", "toolu_", "x"]))
        self.calls = 0

    def history(self, said):
        return [canister for item in said for canister in self.canisters(item)]

    def canisters(self, item):
        surroundings = self.draw(SURROUNDINGS)
        match item:
            case ("user", text):
                yield cannery.UserCanisterClass(self.text(text), **surroundings)
            case ("assistant", text):
                yield cannery.AssistantCanisterClass(self.text(text), **surroundings)
            case ("supervisor", text):
                rank = self.draw(st.sampled_from([cannery.absent, "system", "developer"]))
                yield cannery.SupervisorCanisterClass(self.text(text), rank=rank, **surroundings)
            case ("document", text):
                yield cannery.DocumentCanisterClass(self.text(text), **surroundings)
            case ("image", data):
                yield cannery.UserCanisterClass(self.draw(spelled_image(data)), **surroundings)
            case ("thought", text):
                origin = cannery.Origin(self.draw(st.sampled_from(["a", "b"])))
                thought = cannery.ReasoningContentClass(text, signature="s", origin=origin)
                yield cannery.AssistantCanisterClass(thought, **surroundings)
            case ("call", name, arguments):
                yield from self.call(name, arguments, surroundings)
            case ("answer", back, text, failed):
                error = cannery.absent
                content = self.text(text)
                if failed:
                    error = self.draw(st.sampled_from([True, text]))
                    if error is not True and self.draw(st.booleans()):
                        content = cannery.TextualContentClass("")
                yield cannery.ResultCanisterClass(
                    self.answered(back), content, error, **surroundings
                )
            case ("object answer", back, value):
                content = self.draw(spelled_answer(value))
                yield cannery.ResultCanisterClass(self.answered(back), content, **surroundings)

    def text(self, text):
        return self.draw(spelled_text(text))

    def call(self, name, arguments, surroundings):
        match self.draw(st.integers(0, 2)):
            case 0:
                yield cannery.assistant()
            case 1:
                yield cannery.assistant("")
        text = self.draw(spelled_json(arguments))
        if not arguments and self.draw(st.booleans()):
            text = self.draw(st.sampled_from(["", " ", "{ }"]))
        identifier = f"{self.prefix}{self.calls}"
        self.calls += 1
        yield cannery.InvocationCanisterClass(identifier, name, text, **surroundings)

    def answered(self, back):
        number = self.calls - 1 - back
        return f"{self.prefix}{number}" if number >= 0 else self.draw(st.sampled_from(["?", "!"]))


def spell(data, said):
    return Speller(data.draw).history(said)


def chain(canisters, **how):
    return [digest for digest in cannery.prefix_digests(canisters, **how) if digest is not None]


@given(HISTORIES, st.data())
def test_spelling_does_not_matter(said, data):
    one, other = spell(data, said), spell(data, said)

    assert chain(one) == chain(other)
    assert chain(one, reasoning=False) == chain(other, reasoning=False)
    assert cannery.Conversation(one) == cannery.Conversation(other)
    assert hash(cannery.Conversation(one)) == hash(cannery.Conversation(other))
    assert cannery.Conversation(one) == other


@given(HISTORIES, st.data())
def test_history_without_thoughts_is_recognised(said, data):
    kept = [item for item in said if item[0] != "thought"]

    assert chain(spell(data, said), reasoning=False) == chain(spell(data, kept), reasoning=False)


def changed(draw, item):
    """The item with a real change."""
    match item:
        case ("image", data):
            if not data:
                return "image", b"x"
            position = draw(st.integers(0, len(data) - 1))
            return "image", data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        case ("call", name, arguments):
            if draw(st.booleans()):
                return "call", name + "2", arguments
            return "call", name, {**arguments, "new": draw(st.integers(0, 3))}
        case ("answer", back, text, failed):
            return draw(
                st.sampled_from(
                    [("answer", back, text + "x", failed), ("answer", back, text, not failed)]
                )
            )
        case ("object answer", back, value):
            return "object answer", back, {**value, "new": "x"}
        case ("thought", text):
            return "thought", text + "x"
        case (role, text):
            others = [r for r in ("user", "supervisor", "document", "assistant") if r != role]
            return draw(st.sampled_from([(role, text + "x"), (others[0], text), (others[1], text)]))
    raise AssertionError(item)


@given(st.lists(SAID, min_size=1, max_size=4), st.data())
def test_a_real_change_matters_from_there_on(said, data):
    place = data.draw(st.integers(0, len(said) - 1))
    other = [*said]
    other[place] = changed(data.draw, said[place])
    assume(other[place] != said[place])

    one, two = chain(spell(data, said)), chain(spell(data, other))
    assert len(one) == len(two) == len(said)
    assert one[:place] == two[:place]
    assert all(before != after for before, after in zip(one[place:], two[place:], strict=True))


@given(st.lists(SAID, min_size=2, max_size=4), st.data())
def test_order_matters(said, data):
    place = data.draw(st.integers(0, len(said) - 2))
    first, second = said[place : place + 2]
    assume(first[0] in {"user", "assistant", "supervisor", "document", "image", "thought"})
    assume(first != second)
    swapped = [*said[:place], second, first, *said[place + 2 :]]

    assert chain(spell(data, said))[-1] != chain(spell(data, swapped))[-1]


def test_results_swapped_between_calls_are_another_history():
    calls = [cannery.invocation("a", "f"), cannery.invocation("b", "f")]
    straight = [*calls, cannery.result("a", "1"), cannery.result("b", "2")]
    crossed = [*calls, cannery.result("b", "1"), cannery.result("a", "2")]

    assert cannery.conversation_digest(straight) != cannery.conversation_digest(crossed)


def test_a_result_without_its_call_is_another_history():
    call = cannery.invocation("a", "f")
    answered = cannery.Conversation([call, cannery.result("a", "1")])

    assert answered != cannery.Conversation([call, cannery.result("b", "1")])


@given(st.lists(CANISTERS, max_size=6), st.lists(CANISTERS, max_size=3))
def test_prefixes_are_shared(history, more):
    conversation = cannery.Conversation(history)
    longer = conversation + more

    assert longer.prefix_digests()[: len(history)] == conversation.prefix_digests()
    assert conversation.digest == cannery.conversation_digest(history)
    assert longer[: len(history)] == conversation


class Untouchable:
    """Content in a store that may not be read."""

    content_id = cannery.content_id_of(b"secret")
    size = 6

    def load(self):
        raise AssertionError("identity read the store")


@pytest.mark.parametrize(
    "canister",
    [
        cannery.user(cannery.ImageContentClass(Untouchable(), "image/png")),
        new_user(cannery.TextualContentClass("", content_id=Untouchable.content_id), now()),
        cannery.result("1", cannery.FileContentClass(Untouchable(), "application/pdf"), error=True),
        cannery.result(
            "1",
            cannery.PartsContentClass([cannery.AudioContentClass(Untouchable(), "audio/wav")]),
            error="failed",
        ),
    ],
)
def test_identity_reads_no_store(canister):
    hash(canister)
    assert len(cannery.digest(canister)) == 32
    assert canister == canister.replace(joined=False)


TEXTS_FROM_ANYWHERE = st.one_of(
    TEXTS,
    st.text(st.characters()),
    st.sampled_from(
        ["\ud800", '{"a":"\ud800"}', '{"a":1e999}', "[" * 100_000, '{"a":' * 100_000, "NaN", "\x00"]
    ),
)


@given(TEXTS_FROM_ANYWHERE)
def test_every_canister_has_a_digest(text):
    when = now()
    made_unchecked = [
        new_user(text, when),
        new_assistant(new_parts(()), when),
        new_assistant(new_data(text), when),
        new_assistant(new_opaque(text, text, text), when),
        new_user(new_image(cannery.Base64(text), text), when),
        new_user(new_image(cannery.NotHydrated(text), "image/png"), when),
        new_invocation(text, when, False, None, None, text, text, False),
        new_invocation(text, when, False, None, None, text, text, True),
        new_result(text, when, False, None, None, text, text),
        new_result(new_data(text), when, False, None, None, text, True),
    ]

    digests = list(cannery.prefix_digests(made_unchecked))
    assert len(cannery.Conversation(made_unchecked).digest) == 32
    assert digests.count(None) <= 2
    for canister in made_unchecked:
        hash(canister)


def test_digest_does_not_depend_on_the_stack():
    text = "[" * 120 + "1.0" + "]" * 120

    def far_down(levels):
        if levels:
            return far_down(levels - 1)
        return cannery.digest(cannery.invocation("1", "f", text))

    expected = far_down(0)
    found = set()
    for levels in range(0, sys.getrecursionlimit(), 50):
        try:
            found.add(far_down(levels))
        except RecursionError:
            break
    assert found == {expected}


def test_a_digest_is_not_taken_over_by_a_changed_canister():
    said = cannery.user("a")
    cannery.digest(said)

    assert cannery.digest(said.replace(content=cannery.TextualContentClass("b"))) == cannery.digest(
        cannery.user("b")
    )
    assert cannery.digest(said.replace(joined=True)) == cannery.digest(said)
