"""Nothing that can be reached from a value of the model can be changed."""

# mypy: disable-error-code="arg-type, index"

import copy
import pickle
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from cannery.messages.canisters import new_invocation, new_user
from cannery.messages.checked import now
from tests.messages.strategies import CANISTERS, CONTENTS, CONVERSATIONS, JSON_OBJECTS, TEXTS

REQUESTS = st.builds(
    lambda conversation, schema, name: cannery.Request(
        conversation,
        tools=[cannery.Tool("f", schema=schema)],
        tool_choice=cannery.ToolChoice("named", [name]),
        controls=cannery.Controls(
            temperature=0.5,
            stop=["x"],
            output=cannery.OutputFormat("schema", schema),
            thinking=cannery.Thinking(budget=5),
        ),
    ),
    CONVERSATIONS,
    JSON_OBJECTS,
    TEXTS,
)
RESPONSES = st.builds(
    lambda conversation: cannery.Response(
        conversation, cannery.FinishReason.Stop, cannery.Usage(1, 2, reasoning=1)
    ),
    CONVERSATIONS,
)
VALUES = st.one_of(
    CANISTERS,
    CONTENTS,
    CONVERSATIONS,
    REQUESTS,
    RESPONSES,
    JSON_OBJECTS.map(cannery.Dictionary),
    st.lists(JSON_OBJECTS, max_size=2).map(cannery.Array),
    st.builds(cannery.Location, st.sampled_from(["url", "file"]), st.just("x")),
)
MUTATORS = ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault")
LIST_MUTATORS = ("sort", "reverse", "extend", "remove", "__iadd__")


def reachable(value, depth=6):
    """A value and everything of ours that its attributes and items lead to."""
    yield value
    if depth == 0:
        return
    if isinstance(value, Mapping):
        inner = list(value.values())
    elif isinstance(value, tuple):
        inner = list(value)
    elif isinstance(value, msgspec.Struct):
        names = (*value.__struct_fields__, "arguments", "content", "controls")
        # The memo is a cache: whoever fills it with nonsense changes no value.
        inner = [getattr(value, n) for n in names if n != "_memo" and hasattr(type(value), n)]
    else:
        return
    for item in inner:
        yield from reachable(item, depth - 1)


def attempts(value):
    """Ways to change a value, each of which must fail."""
    names = [*getattr(value, "__struct_fields__", ()), "held", "content", "text", "anything"]
    for name in names:
        yield lambda name=name: setattr(value, name, "changed")
        yield lambda name=name: delattr(value, name)
        yield lambda name=name: object.__setattr__(value, name, "changed")
        yield lambda name=name: object.__delattr__(value, name)
    yield lambda: value.__dict__.update(anything=1)
    yield lambda: value.__setitem__(0, "changed")
    yield lambda: value.__delitem__(0)
    for name in (*MUTATORS, *LIST_MUTATORS):
        if not (name == "__ior__" and isinstance(value, frozenset)):
            yield lambda name=name: getattr(value, name)("changed")


@given(VALUES)
def test_nothing_can_be_changed(value):
    before, hashed = repr(value), hash(value)

    for found in reachable(value):
        if isinstance(found, (msgspec.Struct, tuple)):
            for attempt in attempts(found):
                with pytest.raises((AttributeError, TypeError)):
                    attempt()
    assert repr(value) == before
    assert hash(value) == hashed


@given(VALUES)
def test_copies_are_the_value(value):
    assert copy.copy(value) == value
    assert copy.deepcopy(value) == value
    assert hash(copy.deepcopy(value)) == hash(value)


@given(VALUES)
def test_pickle_gives_the_value_again(value):
    again = pickle.loads(pickle.dumps(value))  # noqa: S301 - our own bytes

    assert type(again) is type(value)
    assert again == value
    assert hash(again) == hash(value)
    assert repr(again) == repr(value)


@given(st.lists(st.one_of(CANISTERS, CONTENTS), max_size=8))
def test_equal_values_have_equal_hashes(values):
    again = pickle.loads(pickle.dumps(values))  # noqa: S301 - our own bytes

    for one in values:
        for other in again:
            assert (one == other) == (other == one)
            if one == other:
                assert hash(one) == hash(other)


@given(TEXTS)
def test_text_equals_itself_wherever_it_is(text):
    here = cannery.TextualContentClass(text)
    there = cannery.TextualContentClass("", content_id=cannery.content_id_of(text.encode()))

    assert here == there
    assert hash(here) == hash(there)


@given(st.binary(max_size=20))
def test_bytes_equal_themselves_wherever_they_are(data):
    import base64

    spelled = [
        data,
        cannery.Base64(base64.b64encode(data).decode()),
        cannery.Base64(base64.urlsafe_b64encode(data).decode().rstrip("=")),
        cannery.NotHydrated(cannery.content_id_of(data)),
    ]
    images = {cannery.ImageContentClass(payload, "image/png") for payload in spelled}

    assert len(images) == 1


def test_what_goes_in_is_not_what_is_kept():
    inner = [1]
    arguments = {"a": inner}
    call = cannery.invocation("1", "f", arguments)
    data = bytearray(b"abc")
    image = cannery.ImageContentClass(data, "image/png")
    canisters = [call]
    conversation = cannery.Conversation(canisters)

    inner.append(2)
    arguments["b"] = []
    data[0] = 0
    canisters.clear()

    assert call.arguments == {"a": [1]}
    assert image.data == b"abc"
    assert len(conversation) == 1


def test_arguments_refuse_changes_with_an_error():
    arguments = cannery.invocation("1", "f", {"a": {"b": [1]}}).arguments

    with pytest.raises(TypeError):
        arguments["a"] = 1
    with pytest.raises(TypeError):
        arguments["a"]["b"][0] = 2
    with pytest.raises(AttributeError):
        arguments["a"]["b"].append(2)


def test_values_made_by_decoders_can_be_copied_whatever_they_hold():
    odd = new_invocation("{", now(), False, None, None, "", "", False)
    lone = new_user("\ud800", now())

    for canister in (odd, lone):
        again = pickle.loads(pickle.dumps(canister))  # noqa: S301 - our own bytes
        assert again == canister
        assert canister.replace(joined=True).joined
        assert len(cannery.digest(canister)) == 32


def test_a_set_of_canisters_with_one_timestamp_is_no_list_in_disguise():
    when = now()
    canisters = [cannery.user(str(number), when) for number in range(200)]

    assert len({hash(canister) for canister in canisters}) == 200


@pytest.mark.parametrize(
    "plain", [{}, {"a": 1}, {"a": [1, {"b": None}], "c": {"d": [[]]}}, {"x": True, "y": 1.5}]
)
def test_dictionary_equals_the_dict_it_was_made_from(plain):
    frozen = cannery.Dictionary(plain)

    assert frozen == plain
    assert plain == frozen
    assert dict(frozen) == plain
    assert list(frozen) == list(plain)
    assert hash(frozen) == hash(cannery.Dictionary(dict(reversed(plain.items()))))
    assert frozen != {**plain, "more": 1}
    assert isinstance(frozen, Mapping)


def test_dictionary_is_frozen_where_builtin_classes_were_called_before():
    def convert(cls, value):
        return cls(value)

    for _ in range(100):
        convert(dict, {})
    frozen = convert(cannery.Dictionary, {"a": [1]})

    assert frozen == {"a": [1]}
    with pytest.raises(AttributeError):
        frozen["a"].append(2)


def test_array_equals_the_list_and_the_tuple():
    frozen = cannery.Array([1, [2]])

    assert frozen == [1, [2]]
    assert frozen == [1, [2]]
    assert frozen == (1, (2,))
    assert hash(frozen) == hash((1, (2,)))
    assert frozen != [1]
