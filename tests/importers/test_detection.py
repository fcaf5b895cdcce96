"""Formats are told by evidence: a file is not taken for something else because of one key."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import cannery
from cannery.importers import detect_format, import_into, open_sources
from cannery.storage import open_store


def detected(path: Path) -> str | None:
    """The name of the format of a file; None if it is of none."""
    (source,) = open_sources(path)
    try:
        return detect_format(source)[0].name
    except cannery.InputError:
        return None


def node(message: Any) -> dict[str, Any]:
    return {"mapping": {"a": {"id": "a", "parent": None, "children": [], "message": message}}}


@pytest.mark.parametrize(
    "record, expected",
    [
        ({"prompt": "Hi", "chosen": "Hello", "rejected": "No"}, "preferences"),
        ({"chosen": "Hello", "rejected": "No"}, "preferences"),
        ({"prompt": "Hi", "completion": "Hello"}, "completions"),
        ({"prompt": "Hi", "completion": "Hello", "label": True}, "completions"),
        ({"input": "Hi", "output": "Hello"}, "completions"),
        ({"instruction": "Hi", "response": "Hello", "context": ""}, "completions"),
        ({"instruction": "Hi", "input": "", "output": "Hello"}, "alpaca"),
        ({"role": "user", "content": "Hi"}, "bare_messages"),
        ({"role": "user", "parts": [{"text": "Hi"}]}, "bare_messages"),
        ({"role": "user", "parts": [{"type": "text", "text": "Hi"}]}, "uimessage"),
        ({"messages": [{"role": "user", "content": "Hi"}]}, "openai_finetuning"),
        ({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}, "requests"),
        ({"model": "m", "input": "Hi"}, "requests"),
        ({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}, "requests"),
        ({"title": "T", "messages": [{"role": "user", "content": "Hi"}]}, "message_lists"),
        (node({"author": {"role": "user"}, "content": {"parts": ["Hi"]}}), "chatgpt"),
        (node({"fragments": [{"type": "REQUEST", "content": "Hi"}]}), "deepseek"),
        ({"sessionId": "s", "message": {"role": "user", "content": "Hi"}}, "claude_code"),
        ({"sessionId": "s", "message": {"role": "user", "parts": []}}, "qwen_code"),
        ({"role": "user", "message": {"content": [{"type": "text", "text": "Hi"}]}}, "cursor"),
        ({"sessionId": "s", "requests": []}, "copilot_chat"),
        ([{"messages": [{"role": "user", "content": "Hi"}], "source": "x"}] * 2, "message_rows"),
        ({"conversations": [{"role": "user", "content": "Hi"}]}, "message_rows"),
        ({"messages": [{"role": "user", "content": "Hi"}], "temperature": 0}, "requests"),
        # One key is no evidence.
        ({"mapping": {}}, None),
        ({"mapping": {"a": 1}}, None),
        ({"prompt": "Hi"}, None),
        ({"input": "Hi"}, None),
        ({"instructions": "Be brief"}, None),
        ({"contents": "of a book"}, None),
        ({"messages": [1, 2]}, None),
        ({"conversations": []}, None),
        ({"sessionId": "s"}, None),
        ({"chat": {"history": {}}}, None),
        ({"chat_messages": []}, None),
        ({"output": "x", "id": 4}, None),
        ({"history": [{"command": "ls"}]}, None),
        ({"log": {"entries": []}}, None),
        ({"responses": [{"status": 200}]}, None),
        ({"parts": ["wheel", "engine"], "kind": "car"}, None),
        ({"type": "message", "id": 1}, None),
    ],
)
def test_a_record_is_told_by_who_speaks_and_what_is_said(
    record: Any, expected: str | None, tmp_path: Path
):
    path = tmp_path / "file"
    path.write_text(json.dumps(record))
    assert detected(path) == expected


@pytest.mark.parametrize(
    "tables, expected",
    [
        ("chat (id, title, chat, created_at)", "openwebui"),
        ("cursorDiskKV (key, value)", "cursor"),
        ("agent_messages (id, session_id, message_data, created_at)", "openai_agents"),
        ("responses (id, prompt, response, conversation_id, datetime_utc)", "llm_logs"),
        ("chat (id, words)", None),
        ("message (id, words)", None),
        ("bookmarks (id, url)", None),
    ],
)
def test_a_database_is_told_by_its_tables(tables: str, expected: str | None, tmp_path: Path):
    path = tmp_path / "file.db"
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE {tables}")
    connection.commit()
    connection.close()
    assert detected(path) == expected


def test_an_unknown_file_is_described(tmp_path: Path):
    path = tmp_path / "passwd"
    path.write_text("root:x:0:0:admin:/home/admin:/bin/bash\n")
    with pytest.raises(cannery.InputError) as caught:
        import_into(None, path, dry_run=True)
    told = str(caught.value)
    assert "passwd: not a known conversation format." in told
    assert "First bytes: 'root:x:0:0" in told
    assert "line 1, byte 0" in told


def test_the_nearest_formats_are_named(tmp_path: Path):
    path = tmp_path / "odd.json"
    path.write_text(json.dumps({"conversations": [{"from": "human", "text": "Hi"}]}))
    with pytest.raises(
        cannery.InputError, match=r"Nearest: sharegpt \(it has conversations, from\)"
    ):
        import_into(None, path, dry_run=True)


def test_a_database_of_another_program_is_described(tmp_path: Path):
    path = tmp_path / "places.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (id, url)")
    connection.close()
    with pytest.raises(cannery.InputError, match="an SQLite database with the tables bookmarks"):
        import_into(None, path, dry_run=True)


def test_what_was_seen_is_said(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "Hi", "chosen": "Hello", "rejected": "No"}\n')
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, path)
    assert summary.formats == {
        "rows.jsonl": "preferences: its rows have answers to choose from: chosen and rejected"
    }


def test_a_folder_is_judged_file_by_file(tmp_path: Path):
    (tmp_path / "chat.txt").write_text('[{"role": "user", "content": "Hi"}]')
    (tmp_path / "settings.json").write_text('{"theme": "dark"}')
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n")
    (tmp_path / "odd.json").write_text('[{"who": "me", "role": "x", "text": "a message, perhaps"}]')
    (tmp_path / "cut.json").write_text('[{"role": "user", "content": "Hi"}, {"role"')
    (tmp_path / "program.log").write_text("[hub] started\n")
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, tmp_path)
    assert sorted(summary.formats) == ["chat.txt", "cut.json"]
    assert sorted(summary.left_alone) == ["picture.png", "program.log", "settings.json"]
    assert [problem.partition(":")[0] for problem in sorted(summary.problems)] == [
        "cut.json",
        "odd.json",
    ]
