"""Inbound roles become one vocabulary's spellings, or are refused; nothing else changes."""

import copy
import logging
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.errors import NotFoundError, RoleError
from cannery.roles import (
    RoleMappings,
    RoleStatistics,
    normalize_role,
    normalize_roles,
)
from cannery.roles.dangerous import find_dangerous_name
from cannery.roles.vocabularies import CLIENT, GEMINI, OPENAI, VOCABULARIES, Vocabulary

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KNOWN = st.sampled_from(
    ["system", "user", "assistant", "human", "ai", "bot", "model", "chatbot", "gpt"]
)


@st.composite
def spelled_roles(draw):
    """A known name in some case, in some whitespace."""
    name = draw(KNOWN)
    cased = "".join(draw(st.sampled_from([c.lower(), c.upper()])) for c in name)
    space = st.text(" \t\n\r", max_size=3)
    return draw(space) + cased + draw(space)


# The accepted vectors of the requirement, word for word.
ACCEPTED = {
    "system": ["system", "System", "SYSTEM", " system ", "\tsystem\t"],
    "user": ["user", "User", "USER", "human", "Human", "HUMAN", " user ", "\thuman\t", " User\n"],
    "assistant": [
        *("assistant", "Assistant", "ASSISTANT", " assistant ", "\tassistant\t", "\nassistant\n"),
        *("ai", "AI", "Ai", "\tai\t"),
        *("bot", "Bot", "BOT"),
        *("model", "Model", "MODEL"),
        *("chatbot", "Chatbot", "CHATBOT"),
        *("gpt", "GPT", "Gpt"),
    ],
}


@pytest.mark.parametrize(
    "role, normalized",
    [(role, normalized) for normalized, roles in ACCEPTED.items() for role in roles],
)
def test_accepted_role(role, normalized):
    assert normalize_role(role) == normalized


@pytest.mark.parametrize(
    "role",
    [
        *("admin", "root", "superuser", "Admin", " ROOT ", "administrator"),
        *("", " ", "tool", "function", "developer", "supervisor", "users", "us er", "user\x00"),
        *("ｕｓｅｒ", "u\u200bser", "userʼ", "ſystem"),  # noqa: RUF001 - look-alikes are the point
        *(None, True, False, 0, 1.5, float("nan"), [], ["user"], {}, {"role": "user"}),
        *(b"user", object(), 10**5000, ("user",), {"user"}),
    ],
    ids=lambda role: ascii(role)[:40] if isinstance(role, str) else type(role).__name__,
)
def test_rejected_role(role):
    with pytest.raises(RoleError) as caught:
        normalize_role(role)

    assert caught.value.received is role
    assert caught.value.path is None
    assert str(caught.value).startswith("Role must be one of: system, user, assistant (received: ")


@given(spelled_roles())
def test_normalization_is_idempotent(role):
    once = normalize_role(role)

    assert once in CLIENT.spellings
    assert normalize_role(once) is once


@given(st.text() | JSON, st.sampled_from(sorted(VOCABULARIES)))
def test_normalization_is_total(role, name):
    try:
        normalized = normalize_role(role, vocabulary=name)
    except RoleError as error:
        str(error).encode()
    else:
        assert normalized in VOCABULARIES[name].spellings


@given(JSON | st.lists(JSON | st.fixed_dictionaries({"role": JSON})))
def test_normalization_of_messages_is_total(messages):
    before = repr(messages)
    try:
        report = normalize_roles(messages)
    except RoleError as error:
        str(error).encode()
    else:
        assert report.statistics.total == len(messages)
    assert repr(messages) == before


def test_mapped_dangerous_names_stay_refused():
    mappings = RoleMappings({"advisor": "assistant"})
    for role in ("admin", "ROOT", " superuser"):
        with pytest.raises(RoleError):
            normalize_role(role, mappings=mappings)


@given(
    st.dictionaries(
        st.text() | st.sampled_from(["admin", "Root", "super user", "advisor", "r00t"]),
        st.sampled_from(["system", "user", "assistant", "tool"]),
        max_size=3,
    ),
    st.text() | st.sampled_from(["admin", "ROOT", "Super User", "a-d-m-i-n"]),
)
def test_no_mapping_ever_accepts_a_dangerous_name(table, role):
    for inbound in (role, *table, *(name.upper() for name in table)):
        try:
            normalize_role(inbound, mappings=table)
        except ValueError:
            continue
        assert find_dangerous_name(inbound) is None


@pytest.mark.parametrize("name", sorted(VOCABULARIES))
def test_each_vocabulary_passes_its_own_spellings(name):
    for spelling in VOCABULARIES[name].spellings:
        assert normalize_role(spelling, vocabulary=name) == spelling
        assert normalize_role(f" {spelling.upper()}\t", vocabulary=name) == spelling


@pytest.mark.parametrize(
    "role, name, normalized",
    [
        ("Developer", "openai", "developer"),
        (" TOOL ", "openai", "tool"),
        ("function", "openai", "function"),
        ("human", "openai", "user"),
        ("assistant", "gemini", "model"),
        ("bot", "gemini", "model"),
        ("user", "sharegpt", "human"),
        ("ChatGPT", "sharegpt", "gpt"),
        ("tool", "sharegpt", "observation"),
        ("AI", "anthropic", "assistant"),
        ("Human", "chat_storage", "user"),
    ],
)
def test_vocabulary_decides_the_spelling(role, name, normalized):
    assert normalize_role(role, vocabulary=name) == normalized


@pytest.mark.parametrize(
    "role, name",
    [("tool", "client"), ("system", "gemini"), ("system", "chat_storage"), ("tool", "anthropic")],
)
def test_vocabulary_decides_what_is_refused(role, name):
    with pytest.raises(RoleError):
        normalize_role(role, vocabulary=name)


def test_unknown_vocabulary_is_not_found():
    with pytest.raises(NotFoundError, match="Did you mean 'openai'"):
        normalize_role("user", vocabulary="opnai")


def test_vocabulary_of_ones_own_is_used():
    own = Vocabulary("own", {"Asker": OPENAI.read("user")}, {OPENAI.read("user"): "Asker"})

    assert normalize_role(" asker", vocabulary=own) == "Asker"
    assert normalize_role("human", vocabulary=own) == "Asker"


def test_example_of_the_requirement():
    messages = [
        {"role": "System", "content": "You are Cline, a helpful AI assistant"},
        {"role": "User", "content": "Hello!"},
    ]

    report = normalize_roles(messages)

    assert report.messages == [
        {"role": "system", "content": "You are Cline, a helpful AI assistant"},
        {"role": "user", "content": "Hello!"},
    ]
    assert report.statistics.total == 2
    assert report.statistics.transformed == 2
    assert report.statistics.by_role == {"system": 1, "user": 1, "assistant": 0}
    assert report.statistics.transformation_rate == "100.0%"
    assert report.transformations == (
        ("messages.0.role", "System", "system"),
        ("messages.1.role", "User", "user"),
    )


def test_content_keeps_its_whitespace():
    (message,) = normalize_roles([{"role": " User\n", "content": " b \n", "name": " N "}]).messages

    assert message == {"role": "user", "content": " b \n", "name": " N "}
    assert list(message) == ["role", "content", "name"]


@given(st.lists(st.fixed_dictionaries({"role": KNOWN | spelled_roles(), "content": JSON})))
def test_right_messages_are_reused_and_no_input_changes(messages):
    before = copy.deepcopy(messages)

    report = normalize_roles(messages)

    assert repr(messages) == repr(before)
    assert report.messages is not messages
    for raw, normalized in zip(messages, report.messages, strict=True):
        is_right = raw["role"] in CLIENT.spellings
        assert (normalized is raw) == is_right
        assert normalized["content"] is raw["content"]
    assert report.statistics.transformed == len(report.transformations)
    assert sum(report.statistics.by_role.values()) == len(messages)


def test_any_mapping_and_any_iterable_will_do():
    frozen = MappingProxyType({"role": "Human", "content": "x"})

    report = normalize_roles(message for message in (frozen, {"role": "user"}))

    assert report.messages == [{"role": "user", "content": "x"}, {"role": "user"}]


@pytest.mark.parametrize(
    "messages, text",
    [
        (None, "messages: must be a list of messages (received: null)"),
        ("hi", 'messages: must be a list of messages (received: "hi")'),
        ({"role": "user"}, "messages: must be a list of messages (received: an object)"),
        (5, "messages: must be a list of messages (received: 5)"),
        ([5], "messages.0: must be an object with a role (received: 5)"),
        (
            [{"role": "user"}, "hi"],
            'messages.1: must be an object with a role (received: "hi")',
        ),
    ],
)
def test_what_is_no_list_of_messages_is_refused(messages, text):
    with pytest.raises(RoleError) as caught:
        normalize_roles(messages)

    assert str(caught.value) == text


def test_missing_role_is_named_as_such():
    with pytest.raises(RoleError) as caught:
        normalize_roles([{"role": "user"}, {"content": "x"}])

    assert str(caught.value).startswith(
        "messages.1.role: Role must be one of: system, user, assistant (received: nothing). "
    )
    assert caught.value.received is None
    assert caught.value.path == "messages.1.role"


def test_path_is_the_callers():
    with pytest.raises(RoleError, match=r"^input\.0\.role: "):
        normalize_roles([{"role": "boss"}], path="input")


def test_statistics_count_other_roles_where_they_occur():
    report = normalize_roles(
        [{"role": "Tool"}, {"role": "developer"}, {"role": "user"}], vocabulary="openai"
    )

    assert report.statistics.by_role == {
        "system": 0,
        "user": 1,
        "assistant": 0,
        "developer": 1,
        "tool": 1,
    }
    assert list(report.statistics.by_role)[:3] == ["system", "user", "assistant"]
    assert report.statistics.transformation_rate == "33.3%"


@pytest.mark.parametrize(
    "transformed, total, rate",
    [(0, 0, "0.0%"), (0, 3, "0.0%"), (2, 3, "66.7%"), (1, 16, "6.3%"), (7, 7, "100.0%")],
)
def test_transformation_rate(transformed, total, rate):
    assert RoleStatistics(total, transformed, {}).transformation_rate == rate


@pytest.mark.parametrize("attribute", ["messages", "statistics", "transformations", "other"])
def test_report_is_frozen(attribute):
    with pytest.raises(AttributeError):
        setattr(normalize_roles([]), attribute, None)


def test_statistics_are_frozen():
    statistics = normalize_roles([{"role": "user"}]).statistics

    with pytest.raises(AttributeError):
        statistics.total = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        statistics.by_role["user"] = 5  # type: ignore[index]


def test_development_mode_logs_the_lines_of_the_requirement(caplog):
    caplog.set_level(logging.INFO, logger="cannery.roles")

    normalize_roles([{"role": "System"}, {"role": "User"}], development=True)

    assert caplog.messages == [
        '🔄 Role normalized: "System" → "system"',
        '🔄 Role normalized: "User" → "user"',
        (
            "📊 Message role statistics: {\n"
            "  total: 2,\n"
            "  transformed: 2,\n"
            "  byRole: { system: 1, user: 1, assistant: 0 },\n"
            '  transformationRate: "100.0%"\n'
            "}"
        ),
    ]


def test_log_lines_cannot_be_forged(caplog):
    caplog.set_level(logging.INFO, logger="cannery.roles")

    normalize_roles([{"role": "\r\nuser\n"}], development=True)

    assert caplog.messages[0] == r'🔄 Role normalized: "\r\nuser\n" → "user"'


def test_nothing_is_logged_outside_development_mode(caplog):
    caplog.set_level(logging.DEBUG)

    normalize_roles([{"role": "System"}])

    assert caplog.records == []


def test_gemini_vocabulary_lists_its_own_roles_in_errors():
    with pytest.raises(RoleError, match="must be one of: user, model, function"):
        normalize_roles([{"role": "system"}], vocabulary=GEMINI)
