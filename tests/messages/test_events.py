"""An answer in pieces amounts to the answer as a whole."""

# mypy: disable-error-code="union-attr"

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from cannery import (
    Delta,
    Failure,
    Finish,
    FinishReason,
    Folder,
    PartEnd,
    PartStart,
    Response,
    Start,
    Unknown,
    Usage,
    UsageReport,
    fold,
    unfold,
)
from cannery.errors import CanneryError, UpstreamError
from tests.messages.strategies import (
    ARGUMENT_TEXTS,
    CITATIONS,
    IDENTIFIERS,
    NAMES,
    RESIDUES,
    TEXTS,
    WORDS,
    media_described,
    reasoning_described,
)

ABSENT = st.just(cannery.absent)


@st.composite
def spoken(draw):
    """What a dialect makes of one part of an answer."""
    residue, joined = draw(RESIDUES), draw(st.booleans())
    if draw(st.booleans()):
        return cannery.InvocationCanisterClass(
            draw(IDENTIFIERS),
            draw(NAMES),
            draw(ARGUMENT_TEXTS),
            is_freeform=draw(st.booleans()),
            residue=residue,
            joined=joined,
        )
    content = draw(
        st.one_of(
            st.builds(
                cannery.TextualContentClass, TEXTS, citations=st.lists(CITATIONS, max_size=2)
            ),
            st.builds(cannery.TextualContentClass, TEXTS, st.just("text/html")),
            st.builds(cannery.RefusalContentClass, TEXTS),
            st.builds(lambda: cannery.OpaqueContentClass("d", "t", '{"a": 1}')),
            media_described().map(lambda pair: pair[0]),
            reasoning_described().map(lambda pair: pair[0]),
        )
    )
    return cannery.AssistantCanisterClass(content, residue=residue, joined=joined)


@st.composite
def responses(draw):
    """Responses as dialects give them: the first part opens, and calls alone follow silence."""
    parts = draw(st.lists(spoken(), max_size=4))
    canisters = []
    for index, part in enumerate(parts):
        if index == 0 and part.role is cannery.Role.Invocation:
            canisters.append(cannery.assistant())
        is_first = index == 0
        joined = bool(canisters) if is_first else part.joined
        canisters.append(part.replace(joined=joined))
    return Response(
        canisters,
        draw(st.sampled_from([cannery.absent, *FinishReason])),
        draw(ABSENT | st.builds(Usage, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))),
        draw(ABSENT | WORDS),
        draw(ABSENT | WORDS),
    )


def timeless(response):
    when = cannery.user("x").timestamp
    return response.replace(canisters=[c.replace(timestamp=when) for c in response.canisters])


def same(one, other):
    """Equal by value, canister by canister, but for the time."""
    one, other = timeless(one), timeless(other)
    when = cannery.user("x").timestamp
    pairs = zip(one.canisters, other.canisters, strict=True)
    assert all(a.replace(timestamp=when) == b.replace(timestamp=when) for a, b in pairs)
    for name in ("finish", "usage", "model", "identifier", "stop_sequence", "source", "created"):
        assert getattr(one, name) == getattr(other, name)


@given(responses())
def test_fold_gives_what_was_unfolded(response):
    same(fold(unfold(response)), response)


def test_a_folded_answer_tells_where_it_comes_from():
    response = cannery.Response([cannery.assistant("a")], source="openai_chat", created=5)
    same(fold(unfold(response)), response)
    assert fold([Start(source="gemini_generate")]).source == "gemini_generate"


@given(responses(), st.data())
def test_the_same_whatever_the_split(response, data):
    pieces: list[cannery.Event] = []
    for event in unfold(response):
        if isinstance(event, Delta) and event.channel != "citation":
            cut = data.draw(st.integers(0, len(event.text)))
            facts = (event.channel, event.segment)
            pieces += [
                Delta(event.index, event.text[:cut], *facts),
                Delta(event.index, event.text[cut:], *facts),
            ]
        else:
            pieces.append(event)

    same(fold(pieces), response)


@given(responses(), st.randoms(use_true_random=False))
def test_parts_may_interleave(response, random):
    streams: dict[int, list] = {}
    rest = []
    for event in unfold(response):
        if isinstance(event, (PartStart, Delta, PartEnd)):
            streams.setdefault(event.index, []).append(event)
        else:
            rest.append(event)
    mixed = []
    while streams:
        index = random.choice(sorted(streams))
        mixed.append(streams[index].pop(0))
        if not streams[index]:
            del streams[index]

    same(fold([rest[0], *mixed, *rest[1:]]), response)


@given(responses())
def test_every_part_has_one_start_and_one_end(response):
    events = list(unfold(response))
    starts = [event.index for event in events if isinstance(event, PartStart)]
    ends = [event.index for event in events if isinstance(event, PartEnd)]

    assert starts == ends == list(range(len(starts)))
    assert isinstance(events[0], Start)


@given(responses())
def test_the_meaning_is_that_of_the_whole(response):
    assert fold(unfold(response)).canisters == response.canisters


@pytest.mark.parametrize(
    "events, problem",
    [
        ([Delta(0, "x")], "a delta of part 0 of the answer, which has not started"),
        ([PartStart(0, "text"), Delta(1, "x")], "a delta of part 1 of the answer, which has not"),
        ([PartEnd(3)], "the end of part 3 of the answer, which has not started"),
        ([PartStart(0, "text"), PartStart(0, "text")], "part 0 of the answer starts twice"),
        (
            [PartStart(0, "text"), PartEnd(0), PartStart(0, "text")],
            "part 0 of the answer starts twice",
        ),
        ([PartStart(0, "text"), PartEnd(0), Delta(0, "x")], "which has ended"),
        ([PartStart(0, "text"), PartEnd(0), PartEnd(0)], "which has ended"),
    ],
)
def test_disorder_is_the_provider_s_fault(events, problem):
    with pytest.raises(UpstreamError, match=problem) as caught:
        fold(events)
    assert isinstance(caught.value, CanneryError)
    assert caught.value.status_hint == 502


def test_an_answer_that_breaks_off_can_still_be_read():
    folder = Folder()
    for event in (Start("r1", "m"), PartStart(0, "text"), Delta(0, "Hel"), Failure("overloaded")):
        folder.feed(event)

    assert not folder.is_complete
    assert folder.failure == Failure("overloaded")
    assert folder.response().canisters[0].text == "Hel"
    with pytest.raises(UpstreamError, match="overloaded"):
        fold([Start(), Failure("overloaded")])


def test_usage_may_come_after_the_finish_and_the_last_report_counts():
    response = fold(
        [
            Start(),
            UsageReport(Usage(1)),
            Finish(FinishReason.StopSequence, "###"),
            Unknown("d", "ping", "{}"),
            UsageReport(Usage(1, 2)),
        ]
    )

    assert response.usage == Usage(1, 2)
    assert response.finish is FinishReason.StopSequence
    assert response.stop_sequence == "###"
    assert len(response.canisters) == 0


def test_parts_of_other_wire_messages_keep_their_boundaries():
    response = Response(
        [cannery.assistant("a"), cannery.assistant("b"), cannery.assistant("c", joined=True)]
    )

    assert [len(turn) for turn in fold(unfold(response)).canisters.turns()] == [1, 2]


def test_arguments_of_parallel_calls_do_not_mix():
    response = fold(
        [
            Start(),
            PartStart(0, "invocation", "a", "f"),
            PartStart(1, "invocation", "b", "g"),
            Delta(1, '{"y"', "arguments"),
            Delta(0, '{"x"', "arguments"),
            Delta(1, ":2}", "arguments"),
            Delta(0, ":1}", "arguments"),
            PartEnd(1),
            PartEnd(0),
            Finish(FinishReason.Tool),
        ]
    )
    silent, first, second = response.canisters

    assert silent.content is cannery.absent
    assert (first.identifier, first.arguments) == ("a", {"x": 1})
    assert (second.identifier, second.arguments) == ("b", {"y": 2})
    assert len(response.canisters.turns()) == 1
