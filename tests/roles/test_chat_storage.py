"""A stored chat record has one of three roles, exactly."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.errors import RoleError
from cannery.roles import MessageRole, validate_message_role, vocabulary


@pytest.mark.parametrize("value", ["user", "assistant", "tool"])
def test_role_is_kept(value):
    role = validate_message_role(value)

    assert role is MessageRole(value)
    assert role.value == value
    assert json.dumps({"role": role}) == f'{{"role": "{value}"}}'
    assert validate_message_role(role) is role


def test_there_are_three_roles():
    assert [role.value for role in MessageRole] == list(vocabulary("chat_storage").spellings)


@pytest.mark.parametrize("value", ["system", "System", " SYSTEM ", "developer"])
def test_system_prompt_is_refused_with_its_reason(value):
    with pytest.raises(RoleError) as caught:
        validate_message_role(value)

    assert str(caught.value) == (
        f'Role must be one of: user, assistant, tool (received: "{value}"). '
        "The system prompt is not persisted as a message."
    )


@pytest.mark.parametrize(
    "value",
    [
        *("User", "USER", " user", "user ", "human", "ai", "function", "", "unknown", "admin"),
        *(None, 1, True, ["user"], {"role": "user"}, b"user", object()),
    ],
    ids=lambda value: repr(value).partition(" at ")[0],
)
def test_anything_else_is_refused(value):
    with pytest.raises(RoleError) as caught:
        validate_message_role(value, path="records.3.role")

    assert str(caught.value).startswith(
        "records.3.role: Role must be one of: user, assistant, tool (received: "
    )
    assert caught.value.received is value


@given(st.text())
def test_validation_is_exact(value):
    try:
        role = validate_message_role(value)
    except RoleError:
        assert value not in {"user", "assistant", "tool"}
    else:
        assert role.value == value


def test_near_miss_is_suggested():
    with pytest.raises(RoleError, match='Did you mean "user"') as caught:
        validate_message_role("User")

    assert "variations" not in str(caught.value)
