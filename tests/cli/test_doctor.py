"""``cannery doctor``: what breaks where, a repaired copy, and what is around."""

import json
from pathlib import Path

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


def test_a_request_a_line_is_examined_body_by_body(run, tmp_path):
    sound = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hi"}]}
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps(body) + "\n" for body in (sound, BROKEN, sound)))

    (ran, fixed) = (run("doctor", path, *more) for more in ([], ["--fix"]))

    assert "requests.jsonl, line 2" in ran.out
    assert "messages[2]" in ran.out
    first, second, third = map(json.loads, fixed.out.splitlines())
    assert first == third == sound
    assert [message["role"] for message in second["messages"]] == ["user"] * 4
    assert second["odd"] == BROKEN["odd"]


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


# --- transcripts of other programs ---------------------------------------------------------------

IMPORTS = Path(__file__).resolve().parent.parent / "data" / "imports"
CALL = {
    "type": "assistant",
    "uuid": "b",
    "parentUuid": "a",
    "sessionId": "s",
    "message": {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}],
    },
}
ASKED = {
    "type": "user",
    "uuid": "a",
    "parentUuid": None,
    "sessionId": "s",
    "message": {"role": "user", "content": "What is there?"},
}
AGAIN = {**ASKED, "uuid": "c", "parentUuid": "b", "message": {"role": "user", "content": "Well?"}}


@pytest.fixture
def session(tmp_path):
    """A transcript with a call that nobody answered."""
    path = tmp_path / "session.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (ASKED, CALL, AGAIN)))
    return path


def test_transcript_is_examined_without_a_store(run, session, tmp_path):
    ran = run("doctor", session, "--json")
    told = {finding["dialect"]: finding for finding in ran.json["findings"]}

    assert ran.code == 1
    assert next(iter(told)) == "anthropic_messages"
    (repair,) = told["anthropic_messages"]["repairs"]
    assert (repair["name"], repair["path"]) == ("unanswered_calls", "message b")
    assert not (tmp_path / "store").exists()


def test_repaired_copy_of_a_transcript_is_a_request(run, session, tmp_path):
    ran = run("doctor", session, "--fix", "-o", "fixed.json")

    assert ran.code == 0
    assert "unanswered_calls" in ran.err
    assert run("doctor", "fixed.json", "--from", "anthropic_messages").code == 0
    fixed = json.loads((tmp_path / "fixed.json").read_text())
    assert fixed["messages"][2]["content"][0]["type"] == "tool_result"


@pytest.mark.parametrize(
    "name",
    [
        "chatgpt/chatgpt-tree.json",
        "claude_ai/claude-conversations.json",
        "codex/test-session-rollout.jsonl",
        "gemini_cli/session.jsonl",
        "goose/test-session.jsonl",
        "jan/messages.jsonl",
        "lmstudio/test-conversation.json",
        "openwebui/webui.db",
    ],
)
def test_every_transcript_can_be_examined_and_said_to_a_provider(run, name):
    ran = run("doctor", IMPORTS / name)
    assert "Traceback" not in ran.err
    assert "openai_chat" in ran.out
    fixed = run("doctor", IMPORTS / name, "--to", "openai_chat", "--fix")
    assert fixed.code == 0
    for line in fixed.out.splitlines():
        assert json.loads(line)["messages"]


def test_branches_are_conversations_of_their_own(run):
    ran = run("doctor", IMPORTS / "chatgpt/chatgpt-tree.json", "--json")

    assert [each["name"].rpartition(", ")[2] for each in ran.json] == [
        "branch 1",
        "branch 2",
        "branch 3",
    ]


def test_folder_of_transcripts_and_nothing_known(run, session, tmp_path):
    assert "Claude Code" in run("doctor", session.parent).out
    odd = tmp_path / "odd.json"
    odd.write_text('{"neither": 1}')
    ran = run("doctor", odd)
    assert ran.code == 1
    assert len(ran.err.strip().splitlines()) == 2
