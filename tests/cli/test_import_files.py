"""``cannery import`` keeps its word: what could not be read makes it fail, what is kept can be shown."""

from __future__ import annotations

import json
import os
import threading

CHAT = {"title": "T", "messages": [{"role": "user", "content": "Hi"}]}


def write(path, *lines):
    path.write_text(
        "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    )
    return path


def test_a_damaged_line_is_told_and_fails(run, tmp_path):
    path = write(tmp_path / "chats.jsonl", CHAT, '{"title": \n', {**CHAT, "title": "U"})
    ran = run("import", path, "--store", tmp_path / "store")
    assert ran.code == 1
    assert "problem: chats.jsonl: line 2, byte" in ran.err
    assert len(run("list", "--json", "--store", tmp_path / "store").json) == 1


def test_glued_records_are_all_read(run, tmp_path):
    other = {**CHAT, "messages": [{"role": "user", "content": "Bye"}]}
    path = write(tmp_path / "chats.json", json.dumps(CHAT), json.dumps(other, indent=1), [CHAT])
    (summary,) = run("import", path, "--json", "--store", tmp_path / "store").json
    assert (summary["conversations"], summary["problems"]) == (3, [])


def test_nothing_is_no_success(run, tmp_path):
    path = write(tmp_path / "chats.json", {"title": "T", "messages": []})
    ran = run("import", path, "--format", "message_lists", "--store", tmp_path / "store")
    assert ran.code == 1
    assert "no message in it" in ran.err


def test_what_is_not_understood_is_counted_and_can_be_shown(run, tmp_path):
    line = {"type": "user", "uuid": "a", "parentUuid": None, "sessionId": "s"}
    path = write(
        tmp_path / "session.jsonl",
        {"type": "queue-operation", "sessionId": "s", "operation": "enqueue"},
        {**line, "message": {"role": "user", "content": [{"type": "text", "text": "Hi"}]}},
    )
    ran = run("import", path, "--store", tmp_path / "store")
    assert ran.code == 0
    assert "1 record or piece of no known kind: 1 queue-operation" in ran.out
    (listed,) = run("list", "--json", "--store", tmp_path / "store").json
    assert listed["title"] == "Hi"
    shown = run("show", "@", "--unknown", "--store", tmp_path / "store")
    (piece,) = [json.loads(each) for each in shown.out.splitlines()]
    assert (piece["kind"], piece["place"], piece["message"]) == ("queue-operation", "line 1", 0)
    assert piece["record"]["operation"] == "enqueue"


def test_tokens_are_added_up_where_a_conversation_is_shown(run, tmp_path):
    usage = {"input_tokens": 1200, "output_tokens": 34}
    said = {"role": "assistant", "id": "m", "content": [{"type": "text", "text": "Hi"}]}
    line = {"type": "assistant", "uuid": "a", "parentUuid": None, "sessionId": "s"}
    path = write(tmp_path / "session.jsonl", {**line, "message": {**said, "usage": usage}})
    run("import", path, "--store", tmp_path / "store")
    assert "1,200 tokens in, 34 out" in run("show", "@", "--store", tmp_path / "store").out


def test_folders_of_programs_are_found_and_left_as_they_are(run, tmp_path):
    home = tmp_path / "home"
    folder = home / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    line = {"sessionId": "s", "message": {"role": "user", "content": "Hi"}}
    write(folder / "a.jsonl", line)
    (folder / "notes.txt").write_text("nothing")
    ran = run("import", "--discover", "--json", HOME=str(home))
    assert [(each["format"], each["files"]) for each in ran.json] == [("claude_code", 1)]
    told = run("import", "--discover", HOME=str(home))
    assert "Claude Code transcript" in told.out
    assert "nothing was imported" in told.err
    assert sorted(path.name for path in home.iterdir()) == [".claude"]


def test_a_store_in_a_folder_is_left_out(run, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "chat.json").write_text(json.dumps(CHAT))
    first = run("import", data, "--store", data / "store")
    again = run("import", data, "--store", data / "store")

    assert first.code == again.code == 0
    assert "store (a Cannery store)" in again.err
    assert len(run("list", "--store", data / "store", "--json").json) == 1


def test_a_store_is_no_folder_of_transcripts(run, tmp_path):
    (tmp_path / "chat.json").write_text(json.dumps(CHAT))
    run("import", tmp_path / "chat.json", "--store", tmp_path / "store")
    ran = run("import", tmp_path / "store", "--store", tmp_path / "other")

    assert ran.code == 1
    assert "is a Cannery store" in ran.err
    assert "cannery export --all" in ran.err


def test_a_named_pipe_is_read(run, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(json.dumps(CHAT),))
    writer.start()
    ran = run("import", pipe, "--store", tmp_path / "store")
    writer.join()

    assert ran.code == 0
    assert len(run("list", "--store", tmp_path / "store", "--json").json) == 1
