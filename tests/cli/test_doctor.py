"""``cannery doctor``: what breaks where, a repaired copy, and what is around."""

import json

import pytest

BROKEN = {
    "model": "gpt-5",
    "max_completion_tokens": 10,
    "messages": [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "tool", "tool_call_id": "nope", "content": "orphan"},
        {"role": "user", "content": "c"},
    ],
    "odd": {"kept": True},
}


@pytest.fixture
def broken(tmp_path):
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(BROKEN))
    return path


def test_message_that_breaks_a_provider_is_named(run, broken):
    ran = run("doctor", broken, "--json")
    told = {finding["dialect"]: finding for finding in ran.json["findings"]}

    assert ran.code == 1
    assert next(iter(told)) == "openai_chat"
    (repair,) = told["openai_chat"]["repairs"]
    assert (repair["name"], repair["path"]) == ("orphaned_results", "messages[2]")
    assert "alternation" in {each["name"] for each in told["anthropic_messages"]["repairs"]}
    assert "sharegpt" not in told


def test_report_for_people(run, broken):
    ran = run("doctor", broken)

    assert "✗ openai_chat" in ran.out
    assert "a result without a call became user text" in ran.out


def test_repaired_copy_is_accepted_at_home_and_keeps_the_rest(run, broken, tmp_path):
    assert run("doctor", broken, "--fix", "-o", "fixed.json").code == 0
    fixed = json.loads((tmp_path / "fixed.json").read_text())

    assert [message["role"] for message in fixed["messages"]] == ["user"] * 4
    assert fixed["odd"] == BROKEN["odd"]
    assert run("doctor", "fixed.json").code == 0
    assert json.loads(broken.read_text()) == BROKEN


def test_sound_request_is_repaired_into_itself(run, chat):
    ran = run("doctor", chat, "--fix")

    assert json.loads(ran.out) == json.loads(chat.read_text())


def test_named_provider_decides_the_exit_code(run, chat):
    assert run("doctor", chat).code == 0
    assert run("doctor", chat, "--to", "openai_chat").code == 0
    assert run("doctor", chat, "--to", "anthropic_messages").code == 1


def test_stored_conversation(run, store, names):
    ran = run("doctor", names["other"], "--store", store)

    assert ran.code == 0
    assert ran.out.startswith(names["other"])
    assert run("doctor", names["other"], "--fix", "--store", store).code == 1


def test_surroundings_without_secrets(run, store):
    ran = run("doctor", CANNERY_STORE=str(store), OPENAI_API_KEY="sk-secret-thing")

    assert ran.code == 0
    assert "3 conversations" in ran.out
    assert "anthropic_messages" in ran.out
    assert [line.split()[2] for line in ran.out.splitlines() if line.startswith("openai ")] == [
        "present"
    ]
    assert "sk-secret" not in ran.out + ran.err


def test_broken_configuration_is_a_finding(run, tmp_path):
    folder = tmp_path / ".config" / "cannery"
    folder.mkdir(parents=True)
    (folder / "gateway.toml").write_text("[server]\nprot = 1\n")
    ran = run("doctor")

    assert ran.code == 1
    assert "line 2" in ran.out
