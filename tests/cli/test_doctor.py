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


@pytest.fixture
def sound(chat):
    """A request with a setting that reasoning models refuse, for one that takes it."""
    chat.write_text(chat.read_text().replace("gpt-5", "gpt-4o"))
    return chat


def test_message_that_breaks_a_provider_is_named(run, broken):
    ran = run("doctor", broken, "--json")
    told = {finding["dialect"]: finding for finding in ran.json["findings"]}

    assert ran.code == 1
    assert next(iter(told)) == "openai_chat"
    problem, odd = told["openai_chat"]["problems"]
    assert (odd["code"], odd["severity"]) == ("field-unknown", "warning")
    assert (problem["code"], problem["path"]) == ("result-orphan", "messages[2]")
    assert problem["source"].startswith("https://")
    assert "alternation" in {each["name"] for each in told["anthropic_messages"]["repairs"]}
    assert "sharegpt" not in told


def test_report_for_people(run, broken):
    ran = run("doctor", broken)

    assert "✗ openai_chat" in ran.out
    assert "its own provider: 1 problem" in ran.out
    assert "messages[2]: a result for 'nope', which the message before does not call" in ran.out
    assert "accepted" not in ran.out


def test_verdict_is_that_no_problem_is_known(run, sound):
    assert "✓ openai_chat          its own provider: no known problem" in run("doctor", sound).out


def test_repaired_copy_has_no_problem_and_keeps_the_rest(run, broken, tmp_path):
    assert run("doctor", broken, "--fix", "-o", "fixed.json").code == 0
    fixed = json.loads((tmp_path / "fixed.json").read_text())

    assert [message["role"] for message in fixed["messages"]] == ["user"] * 4
    assert fixed == {**BROKEN, "messages": fixed["messages"]}
    assert fixed["messages"][3] == BROKEN["messages"][3]
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


def test_sound_request_is_repaired_into_itself(run, sound):
    ran = run("doctor", sound, "--fix")

    assert ran.out.strip() == sound.read_text().strip()


def test_model_that_the_url_names_can_be_told(run, tmp_path):
    path = tmp_path / "gemini.json"
    thinking = {"thinkingConfig": {"thinkingBudget": 0}}
    said = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    path.write_text(json.dumps({**said, "generationConfig": thinking}))

    assert run("doctor", path).code == 0
    ran = run("doctor", path, "--model", "gemini-2.5-pro")
    assert ran.code == 1
    assert "always thinks" in ran.out


def test_body_that_no_reader_takes_is_still_judged(run, tmp_path):
    path = tmp_path / "odd.json"
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": 3}]}
    path.write_text(json.dumps(body))
    ran = run("doctor", path, "--json")
    told = {finding["dialect"]: finding for finding in ran.json["findings"]}

    assert ran.code == 1
    assert told["openai_chat"]["problems"][0]["path"] == "messages[0].content"
    assert told["anthropic_messages"]["refusal"]


def test_what_translation_cannot_mend_is_a_problem_of_the_other_provider(run, tmp_path):
    from tests.doctor.broken_bodies import png

    path = tmp_path / "wide.json"
    url = f"data:image/png;base64,{png(9000, 10)}"
    parts = [{"type": "image_url", "image_url": {"url": url}}]
    body = {"model": "gpt-5.5", "messages": [{"role": "user", "content": parts}]}
    path.write_text(json.dumps({**body, "max_completion_tokens": 64}))

    assert run("doctor", path).code == 0
    ran = run("doctor", path, "--to", "anthropic_messages")
    assert ran.code == 1
    assert "9000×10 pixels" in ran.out


def test_named_provider_decides_the_exit_code(run, sound):
    assert run("doctor", sound).code == 0
    assert run("doctor", sound, "--to", "openai_chat").code == 0
    assert run("doctor", sound, "--to", "anthropic_messages").code == 1


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
    (problem,) = told["anthropic_messages"]["problems"]
    assert (problem["code"], problem["path"]) == ("call-unanswered", "line 2: content[0]")
    assert not (tmp_path / "store").exists()


def test_mended_transcript_is_a_transcript_with_its_other_lines_untouched(run, session, tmp_path):
    ran = run("doctor", session, "--fix", "-o", "fixed.jsonl")

    assert ran.code == 0
    assert "changed  call-unanswered  line 2: content[0]" in ran.err
    assert run("doctor", "fixed.jsonl").code == 0
    fixed = (tmp_path / "fixed.jsonl").read_text().splitlines()
    assert fixed[:2] == session.read_text().splitlines()[:2]
    assert json.loads(fixed[2])["message"]["content"][0]["type"] == "tool_result"
    assert json.loads(fixed[3])["parentUuid"] == json.loads(fixed[2])["uuid"]


def test_transcript_as_a_repaired_request_of_a_named_provider(run, session, tmp_path):
    assert run("doctor", session, "--to", "openai_chat", "--fix", "-o", "fixed.json").code == 0
    fixed = json.loads((tmp_path / "fixed.json").read_text())
    assert [message["role"] for message in fixed["messages"]] == [
        "user",
        "assistant",
        "tool",
        "user",
    ]


@pytest.mark.parametrize("tail", [b'{"cut', b"\0\0\0\n"])
def test_torn_or_nul_line_of_a_transcript_is_a_problem(run, session, tail):
    lines = session.read_bytes().splitlines(keepends=True)
    session.write_bytes(lines[0] + tail)
    ran = run("doctor", session)
    assert ran.code == 1
    assert "line-damaged" in ran.out


def test_torn_line_of_any_other_file_is_a_problem(run, tmp_path):
    sound = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hi"}]}
    path = tmp_path / "requests.jsonl"
    path.write_text(f'{json.dumps(sound)}\n{json.dumps(sound)}\n{{"model": "gpt')
    ran = run("doctor", path)
    assert ran.code == 1
    assert "problem: " in ran.err


def test_folder_is_judged_and_mended_file_by_file(run, session, tmp_path):
    folder = tmp_path / "sessions"
    (folder / "deep").mkdir(parents=True)
    (folder / "broken.jsonl").write_bytes(session.read_bytes())
    (folder / "deep" / "sound.jsonl").write_text(json.dumps(ASKED) + "\n")

    ran = run("doctor", folder)
    assert ran.code == 1
    assert f"✗ {folder / 'broken.jsonl'}: 1 problem" in ran.out
    assert f"✓ {folder / 'deep' / 'sound.jsonl'}: no known problem" in ran.out
    assert run("doctor", folder, "--fix").code == 2
    assert run("doctor", folder, "--fix", "-o", "mended").code == 0
    mended = tmp_path / "mended"
    assert (mended / "deep" / "sound.jsonl").read_text() == json.dumps(ASKED) + "\n"
    assert run("doctor", mended).code == 0


def test_export_that_cannot_be_mended_in_place_says_what_to_do(run):
    ran = run("doctor", IMPORTS / "chatgpt/chatgpt-tree.json", "--fix")
    assert ran.code == 1
    assert "--to DIALECT" in ran.err


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
