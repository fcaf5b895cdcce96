"""Vocabularies are projections of the six roles, with a known inverse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.errors import NotFoundError, RoleError
from cannery.messages.role import Role
from cannery.roles import VOCABULARIES, vocabulary

EACH = pytest.mark.parametrize("each", VOCABULARIES.values(), ids=lambda each: each.name)

U, A, S, D, I, R = (  # noqa: E741 - one letter for each role keeps the tables in view
    *(Role.User, Role.Assistant, Role.Supervisor),
    *(Role.Document, Role.Invocation, Role.Result),
)
SPOKEN = {
    "anthropic": {U: "user", A: "assistant", S: "system", D: "user", I: "assistant", R: "user"},
    "chat_storage": {U: "user", A: "assistant", S: None, D: "user", I: "assistant", R: "tool"},
    "client": {U: "user", A: "assistant", S: "system", D: "user", I: "assistant", R: "user"},
    "gemini": {U: "user", A: "model", S: None, D: "user", I: "model", R: "user"},
    "openai": {U: "user", A: "assistant", S: "system", D: "user", I: "assistant", R: "tool"},
    "sharegpt": {
        U: "human",
        A: "gpt",
        S: "system",
        D: "human",
        I: "function_call",
        R: "observation",
    },
}
READ = {
    "anthropic": {"user": U, "assistant": A, "system": S},
    "chat_storage": {"user": U, "assistant": A, "tool": R},
    "client": {"system": S, "user": U, "assistant": A},
    "gemini": {"user": U, "model": A, "function": R},
    "openai": {"system": S, "developer": S, "user": U, "assistant": A, "tool": R, "function": R},
    "sharegpt": {"human": U, "gpt": A, "system": S, "function_call": I, "observation": R},
}
COLLAPSING = {
    "anthropic": {D, I, R},
    "chat_storage": {D, I},
    "client": {D, I, R},
    "gemini": {D, I, R},
    "openai": {D, I},
    "sharegpt": {D},
}


@EACH
def test_spelling_of_every_role(each):
    assert {role: each.spell(role) for role in Role} == SPOKEN[each.name]


@EACH
def test_reading_of_every_spelling(each):
    assert each.spellings == tuple(READ[each.name])
    assert {spelling: each.read(spelling) for spelling in each.spellings} == READ[each.name]


@EACH
def test_inverse_is_exact_where_it_says_so(each):
    for role in Role:
        spelling = each.spell(role)
        is_exact = spelling is not None and each.read(spelling) is role
        assert each.inverse_exact(role) == is_exact
    assert set(each.collapsing) == COLLAPSING[each.name]


@EACH
def test_what_is_written_is_its_own_spelling(each):
    assert set(each.spoken.values()) <= set(each.spellings)
    assert not set(each.tolerated) & set(each.spellings)


@pytest.mark.parametrize(
    "spelling, role",
    [
        *(("user", U), ("assistant", A), ("chatgpt", A)),
        *(("bard", A), ("bing", A), ("model", A), ("tool", R)),
    ],
)
def test_sharegpt_tolerates_what_it_never_writes(spelling, role):
    sharegpt = vocabulary("sharegpt")

    assert sharegpt.read(spelling) is role
    assert spelling not in sharegpt.spoken.values()


@EACH
@given(value=st.text() | st.none() | st.integers() | st.lists(st.text()) | st.binary())
def test_reading_is_total_and_exact(each, value):
    try:
        role = each.read(value)
    except RoleError:
        return
    assert role is {**each.readings, **each.tolerated}[value]


@EACH
def test_case_and_whitespace_are_not_folded(each):
    for spelling in each.spellings:
        for changed in (spelling.capitalize(), f" {spelling}"):
            with pytest.raises(RoleError):
                each.read(changed)


def test_refused_reading_says_what_was_meant():
    with pytest.raises(RoleError) as caught:
        vocabulary("gemini").read("Model", path="contents.0.role")

    assert str(caught.value) == (
        'contents.0.role: Role must be one of: user, model, function (received: "Model"). '
        'Did you mean "model"?'
    )


def test_registry_is_sorted_and_closed():
    assert list(VOCABULARIES) == sorted(SPOKEN)
    assert all(name == each.name for name, each in VOCABULARIES.items())
    with pytest.raises(TypeError):
        VOCABULARIES["own"] = VOCABULARIES["client"]  # type: ignore[index]


def test_unknown_vocabulary_is_a_look_up_error():
    with pytest.raises(NotFoundError) as caught:
        vocabulary("sharegtp")

    assert isinstance(caught.value, LookupError)
    assert str(caught.value) == (
        "unknown vocabulary 'sharegtp'. Did you mean 'sharegpt'? "
        "Known: anthropic, chat_storage, client, gemini, openai, sharegpt"
    )


@EACH
def test_vocabulary_is_frozen(each):
    with pytest.raises(AttributeError):
        each.name = "x"
    with pytest.raises(TypeError):
        each.readings["x"] = Role.User
    assert repr(each) == f"vocabulary({each.name!r})"
