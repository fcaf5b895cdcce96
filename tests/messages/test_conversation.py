"""What people do with a list of messages, on a value that never changes."""

# mypy: disable-error-code="arg-type, union-attr"

import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from cannery import Conversation, Role, assistant, document, invocation, result, supervisor, user
from cannery.errors import MessageError
from cannery.messages.conversation import group_turns, regrouped
from tests.messages.strategies import IDENTIFIERS, LIGHT_CANISTERS, LIGHT_CONVERSATIONS

SMALL = Conversation([user("a"), assistant("b"), user("c")])


@given(LIGHT_CONVERSATIONS, st.slices(10))
def test_slice_is_that_of_a_tuple(conversation, part):
    found = conversation[part]

    assert type(found) is Conversation
    assert tuple(found) == tuple(conversation)[part]


@given(LIGHT_CONVERSATIONS, st.lists(LIGHT_CANISTERS, max_size=3))
def test_append_and_add(conversation, more):
    before = tuple(conversation)

    for longer in (conversation.append(*more), conversation + more, conversation + tuple(more)):
        assert type(longer) is Conversation
        assert tuple(longer) == (*before, *more)
    assert tuple(more + conversation) == (*more, *before)
    assert tuple(tuple(more) + conversation) == (*more, *before)
    assert type(tuple(more) + conversation) is Conversation
    assert tuple(conversation) == before


def is_one_sided(conversation):
    """Whether nobody speaks in a turn of somebody else, which no wire has."""
    sides = dict.fromkeys(Role, "user") | {Role.Supervisor: "system"}
    sides |= {Role.Assistant: "model", Role.Invocation: "model"}
    return all(len({sides[said.role] for said in turn}) == 1 for turn in conversation.turns())


ONE_SIDED = LIGHT_CONVERSATIONS.filter(is_one_sided)


def loose(canisters):
    """Canisters without their marks; silent ones may be added or moved so that every call stays in its turn."""
    return [
        canister.replace(joined=False)
        for canister in canisters
        if not (canister.role is Role.Assistant and canister.content is cannery.absent)
    ]


def loose_turns(turns):
    return [turn for turn in map(loose, turns) if turn]


@given(ONE_SIDED, st.integers(-10, 10), st.lists(LIGHT_CANISTERS, max_size=2))
def test_insert_keeps_everything_and_the_boundaries(conversation, index, more):
    expected = list(conversation)
    expected[index:index] = more
    longer = conversation.insert(index, *more)

    assert loose(longer) == loose(expected)
    at = len(conversation[:index])
    if more and not any(canister.joined or canister.role is Role.Invocation for canister in more):
        divided = [*conversation[:at].turns(), *([canister] for canister in more)]
        assert loose_turns(longer.turns()) == loose_turns([*divided, *conversation[at:].turns()])


@given(ONE_SIDED.filter(len), st.data())
def test_without_removes_one_and_keeps_the_boundaries(conversation, data):
    index = data.draw(st.integers(-len(conversation), len(conversation) - 1))
    position = index % len(conversation)
    gone = conversation[position]
    shorter = conversation.without(index)

    assert loose(shorter) == loose(c for n, c in enumerate(conversation) if n != position)
    left = [
        [canister for canister in turn if canister is not gone] for turn in conversation.turns()
    ]
    assert loose_turns(shorter.turns()) == loose_turns(left)


@given(LIGHT_CONVERSATIONS.filter(len), LIGHT_CANISTERS, st.data())
def test_an_edit_is_the_same_wherever_it_is_made(conversation, new, data):
    conversation = Conversation(map(pickle.loads, map(pickle.dumps, conversation)))
    index = data.draw(st.integers(0, len(conversation) - 1))
    parts = list(conversation)
    longer, shorter = [*parts[:index], new, *parts[index:]], [*parts[:index], *parts[index + 1 :]]

    for ours, theirs in (
        (conversation.insert(index, new), regrouped(conversation, Conversation(longer))),
        (conversation.without(index), regrouped(conversation, Conversation(shorter))),
    ):
        assert [canister.joined for canister in ours] == [canister.joined for canister in theirs]
        assert loose(ours) == loose(theirs)
        assert len(ours) == len(theirs)


def test_the_next_part_opens_the_message_whose_first_part_is_removed():
    conversation = Conversation([assistant("x"), user("a"), user("b", joined=True)])

    assert [len(turn) for turn in conversation.turns()] == [1, 2]
    assert [len(turn) for turn in conversation.without(1).turns()] == [1, 1]
    assert [len(turn) for turn in conversation.insert(2, assistant("y")).turns()] == [1, 1, 1, 1]


@given(LIGHT_CONVERSATIONS.filter(len), LIGHT_CANISTERS, st.data())
def test_replaced_changes_one(conversation, canister, data):
    index = data.draw(st.integers(-len(conversation), len(conversation) - 1))
    expected = list(conversation)
    expected[index] = canister

    assert loose(conversation.replaced(index, canister)) == loose(expected)


def test_what_is_replaced_stands_in_the_message_of_what_it_replaces():
    conversation = Conversation(
        [user("x"), user("a"), user("b", joined=True), user("c", joined=True)]
    )

    for index in (1, 2, 3):
        for new in (user("n"), user("n", joined=True)):
            assert [len(turn) for turn in conversation.replaced(index, new).turns()] == [1, 3]
    assert [len(turn) for turn in conversation.replaced(0, user("n")).turns()] == [1, 3]
    assert [len(turn) for turn in conversation.replaced(2, assistant("n")).turns()] == [1, 1, 1, 1]


@pytest.mark.parametrize("index", [3, -4])
def test_positions_that_do_not_exist(index):
    for change in (SMALL.without, lambda at: SMALL.replaced(at, user("x"))):
        with pytest.raises(IndexError, match=f"no canister at {index}: the conversation has 3"):
            change(index)


@given(LIGHT_CONVERSATIONS)
def test_turns_are_a_partition_at_the_marks(conversation):
    turns = conversation.turns()

    assert [canister for turn in turns for canister in turn] == list(conversation)
    assert all(len(turn) > 0 for turn in turns)
    for previous, turn in pairwise(turns):
        opener = turn[0]
        assert not opener.joined
        spoken = previous[-1].role in {Role.Assistant, Role.Invocation}
        assert not (opener.role is Role.Invocation and spoken)
    for turn in turns:
        for before, canister in pairwise(turn):
            assert canister.joined or (
                canister.role is Role.Invocation
                and before.role in {Role.Assistant, Role.Invocation}
            )


@pytest.mark.parametrize(
    "canisters, lengths",
    [
        ([], []),
        ([user("a"), user("b")], [1, 1]),
        ([user("a"), user("b", joined=True)], [2]),
        ([assistant(), invocation("1", "f"), invocation("2", "f")], [3]),
        ([invocation("1", "f"), assistant("x")], [1, 1]),
        ([invocation("1", "f"), assistant("x", joined=True)], [2]),
        ([user("a"), invocation("1", "f")], [1, 1]),
        ([invocation("1", "f"), result("1"), invocation("2", "f")], [1, 1, 1]),
        ([result("1"), result("2"), result("3", joined=True)], [1, 2]),
        ([supervisor("s"), document("d", joined=True), user("u", joined=True)], [3]),
    ],
)
def test_turn_lengths(canisters, lengths):
    assert [len(turn) for turn in Conversation(canisters).turns()] == lengths
    assert [len(turn) for turn in group_turns(canisters)] == lengths


@given(
    st.lists(
        st.one_of(
            st.builds(invocation, IDENTIFIERS, st.just("f")),
            st.builds(result, IDENTIFIERS),
            st.builds(user, st.just("x")),
        ),
        max_size=10,
    )
)
def test_exchanges_pair_every_call_and_result_once(canisters):
    exchanges = Conversation(canisters).exchanges()

    calls = [exchange.invocation for exchange in exchanges if exchange.invocation is not None]
    results = [answer for exchange in exchanges for answer in exchange.results]
    assert [id(call) for call in calls] == [
        id(canister) for canister in canisters if canister.role is Role.Invocation
    ]
    assert sorted(map(id, results)) == sorted(
        id(canister) for canister in canisters if canister.role is Role.Result
    )
    for call, answers in exchanges:
        if call is not None:
            assert all(answer.invocation_id == call.identifier for answer in answers)


def test_a_result_answers_the_latest_call_of_its_id():
    first, second = invocation("a", "f"), invocation("a", "g")
    early, late, orphan = result("a", "1"), result("a", "2"), result("b", "3")
    conversation = Conversation([first, early, second, late, orphan])

    assert conversation.exchanges() == (
        cannery.Exchange(first, (early,)),
        cannery.Exchange(second, (late,)),
        cannery.Exchange(None, (orphan,)),
    )


def test_by_role():
    assert [canister.text for canister in SMALL.by_role(Role.User)] == ["a", "c"]


def test_equality_is_by_meaning():
    again = Conversation([user("a"), assistant("b"), user("c", joined=True)])

    assert again == SMALL
    assert hash(again) == hash(SMALL)
    assert list(again) == SMALL
    assert again != SMALL[:2]
    assert [*SMALL[:2], "c"] != SMALL
    assert SMALL != "abc"


def test_a_plain_tuple_is_another_kind_of_value():
    assert tuple(SMALL) != SMALL
    assert tuple(SMALL) != SMALL


@given(LIGHT_CONVERSATIONS)
def test_it_reads_like_a_tuple(conversation):
    assert isinstance(conversation, tuple)
    assert list(conversation) == [conversation[n] for n in range(len(conversation))]
    assert bool(conversation) == bool(len(conversation))
    assert all(canister in conversation for canister in conversation)


@pytest.mark.parametrize("other", ["text", b"bytes", 5, None])
def test_adding_what_is_no_sequence_is_a_type_error(other):
    with pytest.raises(TypeError):
        SMALL + other
    with pytest.raises(TypeError):
        other + SMALL


def test_adding_what_is_no_canister_is_refused():
    with pytest.raises(MessageError, match=r"Conversation\[0\]"):
        SMALL.append("text")


def test_answer_is_appended_as_its_canisters():
    answer = cannery.Response([cannery.assistant("Rome."), cannery.invocation("c", "map")])
    conversation = cannery.Conversation([cannery.user("Capital?")])

    assert list(conversation.append(answer)) == [*conversation, *answer.canisters]
    assert conversation.append(*answer) == conversation.append(answer)


@pytest.mark.parametrize("wrong", ["text", b"bytes", {"role": "user"}, 1, [1], None])
def test_what_is_no_canister_is_not_appended(wrong):
    with pytest.raises(cannery.MessageError):
        cannery.Conversation().append(wrong)
