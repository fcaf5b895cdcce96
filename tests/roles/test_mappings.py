"""Custom mappings add aliases for existing roles and can do nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.errors import ConfigurationError, RoleError
from cannery.messages.role import Role
from cannery.roles import RoleMappings, normalize_role, normalize_roles
from cannery.roles.vocabularies import ALIASES, OPENAI


def test_general_alias():
    mappings = RoleMappings({"Advisor ": "assistant", "客户": "user"})

    assert normalize_role(" ADVISOR", mappings=mappings) == "assistant"
    assert normalize_role("客户", mappings=mappings) == "user"
    assert normalize_role("System", mappings=mappings) == "system"


def test_plain_table_is_validated_and_used():
    assert normalize_role("advisor", mappings={"advisor": "assistant"}) == "assistant"
    with pytest.raises(ConfigurationError):
        normalize_role("user", mappings={"admin": "system"})


def test_client_alias_wins_over_general_one_for_that_client():
    mappings = RoleMappings(
        {"advisor": "assistant"}, clients={"Cline": {"advisor": "user", "env": "system"}}
    )

    assert normalize_role("advisor", mappings=mappings) == "assistant"
    assert normalize_role("advisor", mappings=mappings, client="cline ") == "user"
    assert normalize_role("env", mappings=mappings, client="CLINE") == "system"
    assert normalize_role("advisor", mappings=mappings, client="other") == "assistant"
    with pytest.raises(RoleError):
        normalize_role("env", mappings=mappings, client="other")


def test_mapping_of_messages_is_reported():
    report = normalize_roles(
        [{"role": "Env"}, {"role": "user"}],
        mappings=RoleMappings(clients={"cline": {"env": "system"}}),
        client="cline",
    )

    assert report.messages == [{"role": "system"}, {"role": "user"}]
    assert report.transformations == (("messages.0.role", "Env", "system"),)


def test_target_outside_the_vocabulary_stays_refused():
    mappings = RoleMappings({"output": "tool"})

    assert normalize_role("output", mappings=mappings, vocabulary="openai") == "tool"
    with pytest.raises(RoleError, match="must be one of: system, user, assistant"):
        normalize_role("output", mappings=mappings)


def test_vocabulary_keeps_its_own_name_beside_a_mapping_of_it():
    mappings = RoleMappings({"developer": "system"})

    assert normalize_role("developer", mappings=mappings) == "system"
    assert normalize_role("developer", mappings=mappings, vocabulary="openai") == "developer"


@pytest.mark.parametrize(
    "table, text",
    [
        (
            {"admin": "system"},
            'role mapping "admin": "admin" is a dangerous name, which no role may ever answer to',
        ),
        (
            {"Super_User": "user"},
            (
                'role mapping "Super_User": "superuser" is a dangerous name,'
                " which no role may ever answer to"
            ),
        ),
        (
            {"advisor": "boss"},
            (
                'role mapping "advisor": "boss" is not a role; map onto one of: '
                "system, developer, user, assistant, tool, function"
            ),
        ),
        (
            {"advisor": None},
            (
                'role mapping "advisor": null is not a role; map onto one of: '
                "system, developer, user, assistant, tool, function"
            ),
        ),
        (
            {"User": "system"},
            (
                'role mapping "User": the name already stands for the role user'
                ' and cannot be mapped onto "system"'
            ),
        ),
        (
            {"bot": "user"},
            (
                'role mapping "bot": the name already stands for the role assistant'
                ' and cannot be mapped onto "user"'
            ),
        ),
        (
            {"document": "user"},
            (
                'role mapping "document": the name already stands for the role document'
                ' and cannot be mapped onto "user"'
            ),
        ),
        ({" ": "user"}, 'role mapping " ": the name must be text that is not blank'),
        ({5: "user"}, "role mapping 5: the name must be text that is not blank"),
        (
            {"a": "user", "A": "system"},
            'role mapping "A": is also mapped onto "user"',
        ),
        ([("a", "user")], "role mappings: must be a table, not a list"),
    ],
)
def test_invalid_mapping_says_what_and_why(table, text):
    with pytest.raises(ConfigurationError) as caught:
        RoleMappings(table)

    assert str(caught.value) == text


def test_long_name_is_refused():
    with pytest.raises(ConfigurationError, match="longer than 64 characters"):
        RoleMappings({"x" * 65: "user"})


@pytest.mark.parametrize(
    "clients, text",
    [
        (
            {"cline": {"root": "user"}},
            (
                'role mapping "root" for client "cline": "root" is a dangerous name,'
                " which no role may ever answer to"
            ),
        ),
        ({"cline": 5}, 'role mappings for client "cline": must be a table, not 5'),
        ({"": {}}, 'role mappings for client "": needs a client name'),
        (5, "role mappings of clients: must be a table, not 5"),
    ],
)
def test_invalid_client_format_says_what_and_why(clients, text):
    with pytest.raises(ConfigurationError) as caught:
        RoleMappings(clients=clients)

    assert str(caught.value) == text


@pytest.mark.parametrize("name, target", [("supervisor", "system"), ("function", "tool")])
def test_name_may_be_mapped_onto_what_it_means(name, target):
    assert RoleMappings({name: target}).find(name) == target


@given(
    st.sampled_from([*OPENAI.readings, *ALIASES, *(role.value for role in Role)]),
    st.sampled_from(OPENAI.spellings),
)
def test_known_name_never_changes_its_meaning(name, target):
    try:
        mappings = RoleMappings({name.upper(): target})
    except ConfigurationError:
        return
    known = {**{role.value: role for role in Role}, **ALIASES, **OPENAI.readings}

    assert OPENAI.read(mappings.find(name)) is known[name]


def test_mappings_are_immutable():
    table = {"advisor": "assistant"}
    formats = {"cline": {"env": "system"}}
    mappings = RoleMappings(table, clients=formats)
    table["admin"] = "system"
    formats["cline"]["admin"] = "system"

    assert mappings == RoleMappings({"advisor": "assistant"}, clients={"cline": {"env": "system"}})
    with pytest.raises(AttributeError):
        mappings.general = {}  # type: ignore[misc]
    with pytest.raises(TypeError):
        mappings.general["admin"] = "system"  # type: ignore[index]
    with pytest.raises(TypeError):
        mappings.clients["cline"]["admin"] = "system"  # type: ignore[index]
