"""The text of a refused role is a contract: word for word, short, and unable to forge anything."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.errors import RoleError
from cannery.roles import normalize_role, normalize_roles
from cannery.roles.refusal import MISSING, show, suggest

VARIATIONS = (
    "Supported variations include: "
    "system, System, SYSTEM, user, User, USER, human, Human, HUMAN, assistant..."
)
GROUPS = [
    ("system",),
    ("user", "human"),
    ("assistant", "ai", "bot", "model", "chatbot", "gpt"),
]


def refusal(role, **options):
    with pytest.raises(RoleError) as caught:
        normalize_role(role, **options)
    return caught.value


def test_text_of_the_requirement():
    with pytest.raises(RoleError) as caught:
        normalize_roles([{"role": "admin", "content": "x"}])

    assert str(caught.value) == (
        "messages.0.role: Role must be one of: system, user, assistant "
        '(received: "admin"). Did you mean "assistant", "ai", or "bot"? '
        "Supported variations include: system, System, SYSTEM, user, User, USER, "
        "human, Human, HUMAN, assistant..."
    )
    assert caught.value.received == "admin"
    assert caught.value.path == "messages.0.role"
    assert caught.value.suggestions == ("assistant", "ai", "bot")
    assert caught.value.status_hint == 400


def test_text_without_a_path():
    assert str(refusal("admin")) == (
        'Role must be one of: system, user, assistant (received: "admin"). '
        f'Did you mean "assistant", "ai", or "bot"? {VARIATIONS}'
    )


def test_text_without_a_suggestion():
    assert str(refusal("xyz")) == (
        f'Role must be one of: system, user, assistant (received: "xyz"). {VARIATIONS}'
    )


def test_text_follows_the_vocabulary():
    assert str(refusal("tol", vocabulary="openai")) == (
        "Role must be one of: system, developer, user, assistant, tool, function "
        '(received: "tol"). Did you mean "tool"? Supported variations include: '
        "system, System, SYSTEM, developer, Developer, DEVELOPER, user, User, USER, human..."
    )


@pytest.mark.parametrize(
    "received, suggestions",
    [
        ("admin", ("assistant", "ai", "bot")),
        ("asistant", ("assistant", "ai", "bot")),
        (" ASSISTNAT ", ("assistant", "ai", "bot")),
        ("usr", ("user", "human")),
        ("users", ("user", "human")),
        ("humon", ("user", "human")),
        ("sytem", ("system",)),
        ("systen", ("system",)),
        ("chatbt", ("assistant", "chatbot", "ai")),
        ("modle", ("assistant", "model", "ai")),
        ("xyz", ()),
        ("", ()),
        ("tool", ()),
        ("assistant" * 100, ()),
        (None, ()),
        (5, ()),
    ],
)
def test_suggestions(received, suggestions):
    assert suggest(received, GROUPS) == suggestions


def test_two_suggestions_are_joined_by_or():
    assert 'Did you mean "user" or "human"?' in str(refusal("usr"))


@pytest.mark.parametrize(
    "value, shown",
    [
        ("admin", '"admin"'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("a\tb\nc\rd", r'"a\tb\nc\rd"'),
        ("adm\u200bin", r'"adm\u200bin"'),
        ("\ud800", r'"\ud800"'),
        ("\x1b[31m", r'"\u001b[31m"'),
        ("用户", '"用户"'),
        ("x" * 64, '"' + "x" * 64 + '"'),
        ("x" * 65, '"' + "x" * 64 + '…"'),
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (-1.5, "-1.5"),
        (10**5000, "a very large number"),
        ([1], "a list"),
        ((1,), "a list"),
        ({"a": 1}, "an object"),
        (b"user", "a value of type bytes"),
        (MISSING, "nothing"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_shown_short_and_escaped(value, shown):
    assert show(value) == shown


@given(st.text())
def test_shown_text_is_one_printable_line(text):
    assert show(text).isprintable()


def test_huge_role_is_refused_quickly():
    started = time.process_time()

    error = refusal("assistent" * 1_000_000)

    assert time.process_time() - started < 1
    assert len(str(error)) < 500
