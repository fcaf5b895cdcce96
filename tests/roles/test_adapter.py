"""The adapter annotates roles for a provider and merges system messages for Gemini."""

import copy
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.errors import InputError, RoleError
from cannery.roles import (
    adapt_role_for_provider,
    extract_gemini_system_instructions,
    filter_out_system_instructions,
)

EXAMPLE = (
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "system", "content": "Respond in Chinese."},
    {"role": "user", "content": "Hello!"},
    {"role": "assistant", "content": "Hi there!"},
)
ADAPTED_EXAMPLE = [
    {
        "role": "system",
        "content": "You are a helpful assistant.\n\nRespond in Chinese.",
        "adaptedRole": "system_instruction",
    },
    {"role": "user", "content": "Hello!", "adaptedRole": "user"},
    {"role": "assistant", "content": "Hi there!", "adaptedRole": "model"},
]

PARTS = (
    st.none()
    | st.text()
    | st.lists(
        st.text()
        | st.none()
        | st.integers()
        | st.fixed_dictionaries({"type": st.just("text"), "text": st.text() | st.none()})
        | st.fixed_dictionaries({"type": st.just("image_url"), "image_url": st.text()})
    )
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": PARTS},
        optional={"layer": st.integers(0, 3)},
    )
)
PROVIDERS = st.sampled_from(["gemini", "openai", "anthropic", "gemini-1.5-flash", "llama3"])


def unchanged(messages):
    return [{**message, "adaptedRole": message["role"]} for message in messages]


def test_example_for_gemini():
    adapted = adapt_role_for_provider(EXAMPLE, "gemini")

    assert adapted == ADAPTED_EXAMPLE
    assert extract_gemini_system_instructions(adapted) == (
        "You are a helpful assistant.\n\nRespond in Chinese."
    )
    assert filter_out_system_instructions(adapted) == ADAPTED_EXAMPLE[1:]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gpt-4o-mini", "claude-3-haiku"])
def test_example_for_the_others(provider):
    adapted = adapt_role_for_provider(EXAMPLE, provider)

    assert adapted == unchanged(EXAMPLE)
    assert extract_gemini_system_instructions(adapted) is None
    assert filter_out_system_instructions(adapted) == adapted


SEVERAL_SYSTEM = [
    {"role": "system", "content": "System prompt 1"},
    {"role": "system", "content": "System prompt 2"},
    {"role": "user", "content": "Hello"},
]
NO_SYSTEM = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}]
MIXED = [
    {"role": "system", "content": "Prompt 1"},
    {"role": "user", "content": "Q1"},
    {"role": "system", "content": "Prompt 2"},
    {"role": "assistant", "content": "A1"},
]


def test_several_system_messages():
    adapted = adapt_role_for_provider(SEVERAL_SYSTEM, "gemini")

    assert adapted == [
        {
            "role": "system",
            "content": "System prompt 1\n\nSystem prompt 2",
            "adaptedRole": "system_instruction",
        },
        {"role": "user", "content": "Hello", "adaptedRole": "user"},
    ]


def test_no_system_message():
    adapted = adapt_role_for_provider(NO_SYSTEM, "gemini")

    assert adapted == [
        {"role": "user", "content": "Hello", "adaptedRole": "user"},
        {"role": "assistant", "content": "Hi!", "adaptedRole": "model"},
    ]
    assert extract_gemini_system_instructions(adapted) is None


def test_mixed_order():
    adapted = adapt_role_for_provider(MIXED, "gemini")

    assert adapted == [
        {
            "role": "system",
            "content": "Prompt 1\n\nPrompt 2",
            "adaptedRole": "system_instruction",
        },
        {"role": "user", "content": "Q1", "adaptedRole": "user"},
        {"role": "assistant", "content": "A1", "adaptedRole": "model"},
    ]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("messages", [SEVERAL_SYSTEM, NO_SYSTEM, MIXED])
def test_other_providers_keep_the_order(provider, messages):
    assert adapt_role_for_provider(messages, provider) == unchanged(messages)


def test_other_fields_are_kept():
    adapted = adapt_role_for_provider(
        [
            {"role": "system", "content": "S", "layer": 0, "name": "x"},
            {"role": "user", "content": "U", "layer": 1},
        ],
        "gemini",
    )

    assert adapted == [
        {
            "role": "system",
            "content": "S",
            "layer": 0,
            "name": "x",
            "adaptedRole": "system_instruction",
        },
        {"role": "user", "content": "U", "layer": 1, "adaptedRole": "user"},
    ]


def test_merged_message_keeps_the_fields_on_which_all_agree():
    merged, *_ = adapt_role_for_provider(
        [
            {"role": "system", "content": "a", "layer": 0, "origin": "card"},
            {"role": "system", "content": "b", "layer": 1, "origin": "card"},
        ],
        "gemini",
    )

    assert merged["origin"] == "card"
    assert "layer" not in merged


@pytest.mark.parametrize(
    "contents, text",
    [
        (
            [[{"type": "text", "text": "foo"}, {"type": "text", "text": "bar"}], "baz"],
            "foobar\n\nbaz",
        ),
        ([[{"type": "image_url", "image_url": "x"}, {"type": "text", "text": "a"}]], "a"),
        ([["a", "b"]], "ab"),
        ([{"type": "text", "text": "a"}], "a"),
        (["a", "", None, [], 5, "b"], "a\n\nb"),
        ([" a ", "b\n"], " a \n\nb\n"),
        ([[["nested"], {"text": None}, {"text": 5}, "a"]], "a"),
    ],
)
def test_system_content_of_any_shape_is_merged(contents, text):
    adapted = adapt_role_for_provider(
        [{"role": "system", "content": content} for content in contents], "gemini"
    )

    assert adapted == [{"role": "system", "content": text, "adaptedRole": "system_instruction"}]
    assert extract_gemini_system_instructions(adapted) == text


def test_system_without_text_gives_no_instructions():
    adapted = adapt_role_for_provider([{"role": "system"}], "gemini")

    assert adapted == [{"role": "system", "content": "", "adaptedRole": "system_instruction"}]
    assert extract_gemini_system_instructions(adapted) is None
    assert filter_out_system_instructions(adapted) == []


def test_other_roles_are_unchanged():
    messages = [{"role": "tool", "content": "42"}, {"role": "developer", "content": "x"}]

    assert adapt_role_for_provider(messages, "gemini") == unchanged(messages)


def test_frozen_mappings_are_taken():
    message = MappingProxyType({"role": "assistant", "content": "x"})

    assert adapt_role_for_provider((message,), "gemini") == [
        {"role": "assistant", "content": "x", "adaptedRole": "model"}
    ]


@given(MESSAGES, PROVIDERS)
def test_inputs_stay_as_they_are(messages, provider):
    before = copy.deepcopy(messages)

    adapted = adapt_role_for_provider(messages, provider)
    snapshot = copy.deepcopy(adapted)
    extract_gemini_system_instructions(adapted)
    turns = filter_out_system_instructions(adapted)

    assert messages == before
    assert adapted == snapshot
    assert not {id(message) for message in adapted} & {id(message) for message in messages}
    assert all(any(turn is message for message in adapted) for turn in turns)


@given(MESSAGES, PROVIDERS)
def test_adapting_twice_changes_nothing(messages, provider):
    once = adapt_role_for_provider(messages, provider)

    assert adapt_role_for_provider(once, provider) == once


@given(MESSAGES)
def test_gemini_gets_every_turn_and_one_leading_instruction(messages):
    adapted = adapt_role_for_provider(messages, "gemini")
    turns = filter_out_system_instructions(adapted)
    count = len(adapted) - len(turns)

    assert [turn["content"] for turn in turns] == [
        message["content"] for message in messages if message["role"] != "system"
    ]
    assert count == any(message["role"] == "system" for message in messages)
    assert adapted[count:] == turns


@pytest.mark.parametrize(
    "message, path",
    [
        (5, "messages.0"),
        ("user", "messages.0"),
        (None, "messages.0"),
        ({}, "messages.0.role"),
        ({"role": None}, "messages.0.role"),
        ({"role": ["user"]}, "messages.0.role"),
    ],
)
def test_message_without_a_role_is_refused(message, path):
    with pytest.raises(RoleError) as caught:
        adapt_role_for_provider([message], "gemini")

    assert caught.value.path == path


def test_provider_must_be_text():
    with pytest.raises(InputError):
        adapt_role_for_provider([], None)  # type: ignore[arg-type]
