"""``cannery roles``."""

import json

import pytest


def test_vocabularies_side_by_side(run):
    ran = run("roles")

    assert "invocation" in ran.out
    assert "function_call" in ran.out


def test_explain_names_what_a_role_becomes(run):
    (told,) = run("roles", "explain", " Human ", "--json").json

    assert told["becomes"]["client"] == "user"
    assert told["becomes"]["sharegpt"] == "human"


def test_dangerous_role_is_refused_with_the_seed_text(run):
    ran = run("roles", "explain", "admin")

    assert ran.code == 1
    assert "Role must be one of: system, user, assistant" in ran.err


def test_normalize_writes_the_body_back(run):
    body = {
        "model": "x",
        "messages": [{"role": "Human", "content": "Hi"}, {"role": "AI", "content": "Yo"}],
    }
    ran = run("roles", "normalize", given=json.dumps(body))

    assert [message["role"] for message in ran.json["messages"]] == ["user", "assistant"]
    assert ran.json["model"] == "x"
    assert "messages.0.role: 'Human' → 'user'" in ran.err


def test_statistics_of_a_file(run):
    given = json.dumps([{"role": "Human"}, {"role": "user"}, {"role": "bot"}])
    told = run("roles", "statistics", "-", "--json", given=given).json

    assert told == {
        "total": 3,
        "transformed": 2,
        "by_role": {"system": 0, "user": 2, "assistant": 1},
        "transformation_rate": "66.7%",
    }


@pytest.mark.parametrize("role", ["Human", "assistant", "AI", "admin"])
def test_a_role_alone_is_explained(run, role):
    alone, explained = run("roles", role), run("roles", "explain", role)

    assert (alone.code, alone.out, alone.err) == (explained.code, explained.out, explained.err)


def test_misspelled_action_is_not_taken_for_a_role(run):
    assert "Did you mean 'normalize'?" in run("roles", "normalise", "x.json").err
