"""What each format means, in cases that the samples do not have."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

import cannery
from cannery.importers import Imported, Unknown, detect_format, histories, import_into, open_sources
from cannery.storage import open_store
from cannery.storage.portable import portable
from tests.oracles.corpus import DIALECTS, tame_request_cases
from tests.strategies.sdk_bodies import REQUESTS, sdk_request


def write(folder: Path, *records: Any, name: str = "chat.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(json.dumps(record) for record in records), "utf-8")
    return path


def read(path: Path) -> tuple[list[Imported], list[Unknown]]:
    (source,) = open_sources(path)
    found = list(detect_format(source)[0].read(source))
    conversations = [each for each in found if isinstance(each, Imported)]
    return conversations, [each for each in found if isinstance(each, Unknown)]


def paths(conversation: Imported) -> list[Any]:
    """Its histories, untyped: what a test looks at depends on what it expects."""
    return list(histories(conversation))


def spoken(history: Any) -> list[tuple[str, str, bool]]:
    return [(each.role.value, getattr(each, "text", each.held), each.joined) for each in history]


def node(name: str, parent: str | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
    message = {"id": name, "author": {"role": role}, "content": content, "recipient": "all", **more}
    return {"id": name, "parent": parent, "children": [], "message": message}


def words(text: str) -> dict[str, Any]:
    return {"content_type": "text", "parts": [text]}


def test_chatgpt_calls_thoughts_and_media(tmp_path: Path):
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://a"}
    mapping = {
        "root": {"id": "root", "message": None, "parent": None, "children": ["u"]},
        "u": node(
            "u", "root", "user", {"content_type": "multimodal_text", "parts": [picture, "What?"]}
        ),
        "t": node(
            "t", "u", "assistant", {"content_type": "thoughts", "thoughts": [{"content": "Hm"}]}
        ),
        "c": node(
            "c", "t", "assistant", {"content_type": "code", "text": "run()"}, recipient="python"
        ),
        "o": node("o", "c", "tool", {"content_type": "execution_output", "text": "42"}),
        "a": node("a", "o", "assistant", words("It is 42."), metadata={"model_slug": "gpt-5"}),
        "b": node("b", "o", "assistant", words("Forty-two."), create_time="1700000000.5"),
        "x": node("x", "a", "user", {"content_type": "hologram", "light": 3}),
    }
    record = {"title": "T", "mapping": mapping, "current_node": "b", "create_time": 1700000000}
    ((conversation,), unknown) = read(write(tmp_path, record))
    main, other = paths(conversation)
    assert unknown == []
    assert conversation.unknown == {"hologram": 1}
    assert conversation.model == "gpt-5"
    assert [each.role.value for each in main] == [
        "user", "user", "assistant", "invocation", "result", "assistant",
    ]  # fmt: skip
    assert main[0].content.payload.value == "file-service://a"
    assert main[2].content.kind == "reasoning"
    assert (main[3].name, main[3].arguments_text, main[3].is_freeform) == ("python", "run()", True)
    assert main[4].invocation_id == main[3].identifier
    assert main[-1].timestamp.timestamp() == 1700000000.5
    assert other[-1].content.json == '{"content_type":"hologram","light":3}'


def test_claude_ai_branches_calls_and_attachments(tmp_path: Path):
    def message(name: str, above: str, sender: str, *content: Any, **more: Any) -> dict[str, Any]:
        return {
            "uuid": name,
            "parent_message_uuid": above,
            "sender": sender,
            "content": list(content),
            **more,
        }

    def text(value: str) -> dict[str, str]:
        return {"type": "text", "text": value}

    call = {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": "x"}}
    answer = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [text("found")],
        "is_error": True,
    }
    zero = "00000000-0000-4000-8000-000000000000"
    attachment = {"file_name": "a.txt", "extracted_content": "Words"}
    record = {
        "uuid": "c", "name": "N",
        "chat_messages": [
            message("1", zero, "human", text("Hi"), attachments=[attachment], text="Hi"),
            message("2", "1", "assistant", {"type": "thinking", "thinking": "Hm"}, call, answer, text("So.")),
            message("3", "1", "assistant", text("Otherwise.")),
            message("4", "3", "human", {"type": "odd"}),
        ],
    }  # fmt: skip
    ((conversation,), _) = (
        read(write(tmp_path, record, {"uuid": "e", "chat_messages": []}))[0:1],
        None,
    )
    main, other = paths(conversation[0])
    assert [each.role.value for each in main] == ["document", "user", "assistant", "user"]
    assert main[0].title == "a.txt"
    assert conversation[0].unknown == {"odd": 1}
    roles = [each.role.value for each in other[2:]]
    assert roles == ["assistant", "invocation", "result", "assistant"]
    assert other[4].is_error
    assert other[4].invocation_id == other[3].identifier == "t1"


def test_claude_code_joins_the_lines_of_one_message(tmp_path: Path):
    def line(name: str, above: str | None, role: str, *content: Any, **more: Any) -> dict[str, Any]:
        message = {"role": role, "content": list(content), **more.pop("message", {})}
        return {
            "type": role, "uuid": name, "parentUuid": above, "sessionId": "s", "message": message, **more,
        }  # fmt: skip

    one = {"id": "msg_1", "model": "claude-x"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    answer = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"}
    path = write(
        tmp_path,
        {"type": "queue-operation", "sessionId": "s", "operation": "enqueue"},
        line("u", None, "user", {"type": "text", "text": "List"}),
        line("a", "u", "assistant", {"type": "text", "text": "Sure."}, message=one),
        line("b", "a", "assistant", call, message=one),
        {"type": "progress", "uuid": "p", "parentUuid": "b", "sessionId": "s", "data": 1},
        line("r", "p", "user", answer),
        line("z", "r", "assistant", {"type": "text", "text": "One file."}, message={"id": "msg_2"}),
        line("side", None, "user", {"type": "text", "text": "Sub"}, isSidechain=True),
        {"type": "summary", "summary": "Listing", "leafUuid": "z"},
    )
    conversations, unknown = read(path)
    (main,), (side,) = map(paths, conversations)
    assert [(each.role.value, each.joined) for each in main if each.held != ""][:3] == [
        ("user", False),
        ("assistant", False),
        ("invocation", True),
    ]
    assert [each.role.value for each in main][-2:] == ["result", "assistant"]
    assert spoken(side) == [("user", "Sub", False)]
    assert conversations[0].title == "Listing"
    assert conversations[0].model == "claude-x"
    assert conversations[1].started_by == conversations[0].identifier == "s"
    assert [each.kind for each in unknown] == ["queue-operation", "progress"]


def test_codex_of_both_generations(tmp_path: Path):
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Done"}],
        },
    ]
    meta = {"type": "session_meta", "payload": {"id": "x", "timestamp": "2026-01-01T00:00:00Z"}}
    new = write(
        tmp_path,
        meta,
        *({"type": "response_item", "payload": item} for item in items),
        {"type": "event_msg", "payload": {"type": "agent_message"}},
        {"type": "compacted", "payload": {"message": "short"}},
    )
    ((one,), unknown) = read(new)
    old = write(
        tmp_path,
        {"id": "x", "timestamp": "2026-01-01T00:00:00Z", "instructions": None},
        *items,
        name="o.jsonl",
    )
    ((other,), _) = read(old)
    assert [each.kind for each in unknown] == ["compacted"]
    assert [spoken(history) for history in paths(one)] == [
        spoken(history) for history in paths(other)
    ]
    assert [each.role.value for each in paths(one)[0]] == [
        "user",
        "invocation",
        "result",
        "assistant",
    ]
    assert one.created is not None


def test_lmstudio_versions_are_branches(tmp_path: Path):
    def version(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "content": [{"type": "text", "text": text}]}

    versions = [version("assistant", "One"), version("assistant", "Two")]
    messages = [
        {"versions": [version("user", "Hi")], "currentlySelected": 0},
        {"versions": versions, "currentlySelected": 1},
    ]
    ((found,), _) = read(write(tmp_path, {"name": "N", "messages": messages}))
    assert [[each.text for each in history] for history in paths(found)] == [
        ["Hi", "Two"],
        ["Hi", "One"],
    ]


def test_openwebui_trees(tmp_path: Path):
    messages = {
        "1": {"id": "1", "parentId": None, "role": "user", "content": "Hi"},
        "2": {"id": "2", "parentId": "1", "role": "assistant", "content": "One"},
        "3": {"id": "3", "parentId": "1", "role": "assistant", "content": "Two"},
    }
    chat = {"history": {"messages": messages, "currentId": "3"}, "models": ["m"]}
    ((found,), _) = read(write(tmp_path, {"id": "x", "title": "T", "chat": chat}))
    assert [[each.text for each in history] for history in paths(found)] == [
        ["Hi", "Two"],
        ["Hi", "One"],
    ]
    assert found.model == "m"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_requests_of_every_dialect(dialect: str, tmp_path: Path):
    cases = tame_request_cases(dialect)
    path = write(tmp_path, *(case.body for case in cases), name="requests.jsonl")
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, path, format="requests")
        again = import_into(store, path, format="requests")
    assert summary.conversations + summary.unknown_count == len(cases)
    assert summary.conversations > 0.9 * len(cases)
    assert again.added == 0


def test_a_history_that_leaves_others_inside_an_exchange_is_kept_whole():
    def exchange(calls: int, *answers: str) -> list[Any]:
        asked = [cannery.invocation(f"c{n}", "f", "{}", joined=True) for n in range(calls)]
        answered = [cannery.result(f"c{n}", answer) for n, answer in enumerate(answers)]
        return [cannery.user("go"), cannery.assistant(), *asked, *answered]

    with open_store("sqlite::memory:") as store:
        store.file(exchange(1, "11"))
        store.file(exchange(2, "11", "11"))
        history = exchange(4, "boom", "", "", "")
        filed = store.file(history).conversation.load()
        assert filed == cannery.Conversation(history)
        assert len(filed) == len(history)
        assert store.file(history).added == 0


def test_our_own_lines_come_back(tmp_path: Path):
    said: list[Any] = [
        cannery.supervisor("Be brief."),
        cannery.user("Hi" * 2000),
        cannery.assistant(),
        cannery.invocation("c1", "f", '{"a": 1}'),
        cannery.result("c1", "42", error=True),
    ]
    with open_store("sqlite::memory:") as store:
        conversation = store.create()
        conversation.append(said)
        lines = [portable(canister) for canister in conversation.hydrate()]
    ((found,), unknown) = read(write(tmp_path, *lines))
    assert unknown == []
    assert list(paths(found)[0]) == said


@pytest.mark.parametrize("name", REQUESTS)
def test_whatever_sdks_can_say_comes_back(tmp_path: Path, name: str):
    dialect = name.partition(" ")[0]
    for seed in range(30):
        body = sdk_request(name, seed)
        request = cannery.normalize_request(json.dumps(body), dialect)
        if not request.conversation:
            continue
        lines = [msgspec.json.encode(portable(canister)) for canister in request.conversation]
        path = tmp_path / "export.jsonl"
        path.write_bytes(b"\n".join(lines))
        ((found,), unknown) = read(path)
        assert unknown == []
        again = request.replace(conversation=cannery.Conversation(paths(found)[0]))
        assert json.loads(cannery.nativize_request(again, dialect).body) == body


def test_a_newer_export_adds_what_is_new(tmp_path: Path):
    def export(*texts: str) -> Path:
        messages = [
            {"role": "user" if n % 2 == 0 else "assistant", "content": text}
            for n, text in enumerate(texts)
        ]
        return write(tmp_path, {"title": "T", "messages": messages})

    with open_store("sqlite::memory:") as store:
        import_into(store, export("Hi", "Hello"))
        summary = import_into(store, export("Hi", "Hello", "More", "Sure"))
        assert (summary.added, summary.continued) == (2, 1)
        assert len(store.list()) == 1


def test_gemini_cli_keeps_the_last_word_and_what_was_taken_back(tmp_path: Path):
    told = {"type": "user", "timestamp": "2026-08-20T09:00:00Z"}
    path = write(
        tmp_path,
        {"sessionId": "s", "projectHash": "h", "startTime": "2026-08-20T09:00:00Z"},
        {"id": "a", "content": "first", **told},
        {"id": "a", "content": "again", **told},
        {"id": "b", "content": "taken back", **told},
        {"$rewindTo": "b"},
        {"id": "b", "content": "instead", **told},
        {"$set": {"summary": "A title"}},
        {"id": "c", "type": "warning", "content": "Careful"},
    )
    (found,), unknown = read(path)

    assert [[said for _, said, _ in spoken(each)] for each in paths(found)] == [
        ["again", "instead"],
        ["again", "taken back"],
    ]
    assert (found.title, found.identifier) == ("A title", "s")
    assert [each.kind for each in unknown] == ["warning"]


def test_gemini_cli_in_one_document(tmp_path: Path):
    message = {"id": "a", "type": "gemini", "content": "", "timestamp": "2026-08-20T09:00:00Z"}
    call = {"id": "c", "name": "ls", "args": {"path": "."}, "result": "a.txt", "status": "success"}
    chat = {"sessionId": "s", "projectHash": "h", "messages": [{**message, "toolCalls": [call]}]}
    (found,), _ = read(write(tmp_path, chat, name="session.json"))
    (history,) = paths(found)

    invocation, result = (each for each in history if each.role.value in ("invocation", "result"))
    assert (invocation.name, dict(invocation.arguments)) == ("ls", {"path": "."})
    assert (result.invocation_id, invocation.identifier) == ("c", "c")
    assert "a.txt" in result.text


def test_goose_calls_failures_and_thoughts(tmp_path: Path):
    call = {"status": "success", "value": {"name": "shell", "arguments": {"command": "ls"}}}
    answer = {"status": "success", "value": [{"type": "text", "text": "a.txt"}]}
    newer = {"content": [{"type": "text", "text": "no"}], "isError": True}
    path = write(
        tmp_path,
        {"working_dir": "/home", "description": "Listing", "message_count": 4},
        {
            "role": "assistant",
            "created": 1700000001,
            "content": [
                {"type": "thinking", "thinking": "Hm", "signature": ""},
                {"type": "toolRequest", "id": "1", "toolCall": call},
                {"type": "toolRequest", "id": "2", "toolCall": {"status": "error", "error": "x"}},
            ],
        },
        {
            "role": "user",
            "created": 1700000002,
            "content": [
                {"type": "toolResponse", "id": "1", "toolResult": answer},
                {
                    "type": "toolResponse",
                    "id": "2",
                    "toolResult": {"status": "success", "value": newer},
                },
                {
                    "type": "toolResponse",
                    "id": "3",
                    "toolResult": {"status": "error", "error": "denied"},
                },
            ],
        },
        {"role": "assistant", "created": 1700000003, "content": [{"type": "somethingNew", "a": 1}]},
    )
    (found,), unknown = read(path)
    (history,) = paths(found)

    assert (found.title, unknown, found.unknown) == ("Listing", [], {"somethingNew": 1})
    assert [each.role.value for each in history] == [
        "assistant",
        "invocation",
        "invocation",
        "result",
        "result",
        "result",
        "assistant",
    ]
    assert [each.joined for each in history[:3]] == [False, True, True]
    assert [bool(each.is_error) for each in history[3:6]] == [False, True, True]
    assert history[5].stated_error == "denied"


def test_jan_takes_the_title_from_the_thread_beside(tmp_path: Path):
    folder = tmp_path / "threads" / "t1"
    folder.mkdir(parents=True)
    thread = {
        "id": "t1",
        "object": "thread",
        "title": "A thread",
        "assistants": [{"model": {"id": "m"}}],
    }
    (folder / "thread.json").write_text(json.dumps(thread))
    older = {
        "tool": {"id": "c", "function": {"name": "find", "arguments": '{"q": 1}'}},
        "response": {"content": [{"type": "text", "text": "found"}]},
    }
    write(
        folder,
        {
            "id": "1",
            "object": "thread.message",
            "role": "assistant",
            "created_at": 1700000000000,
            "content": [
                {"type": "reasoning", "text": {"value": "Hm", "annotations": []}},
                {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}},
                {"type": "new", "a": 1},
            ],
            "metadata": {"tool_calls": [older]},
        },
        name="messages.jsonl",
    )
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, tmp_path / "threads")
        (stored,) = store.list()
        history: Any = store.get(stored.identifier).load()

    assert (summary.problems, summary.conversations) == ([], 1)
    assert (stored.title, stored.model) == ("A thread", "m")
    assert [each.role.value for each in history] == ["assistant"] * 3 + ["invocation", "result"]
    assert (history[3].held, history[4].text) == ('{"q": 1}', "found")
    assert history[0].timestamp.year == 2023


def test_llm_databases_of_the_first_generation(tmp_path: Path):
    path = tmp_path / "logs.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
        CREATE TABLE responses (
            id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, response TEXT,
            conversation_id TEXT, datetime_utc TEXT, input_tokens INTEGER, output_tokens INTEGER
        );
        CREATE TABLE tool_calls (id INTEGER PRIMARY KEY, response_id, name, arguments, tool_call_id);
        CREATE TABLE tool_results (id INTEGER PRIMARY KEY, response_id, name, output, tool_call_id);
        CREATE TABLE attachments (id TEXT PRIMARY KEY, type, path, url, content BLOB);
        CREATE TABLE prompt_attachments (response_id, attachment_id, "order" INTEGER);
        INSERT INTO conversations VALUES ('c', 'Weather', 'gpt-4o');
        INSERT INTO responses VALUES
            ('r1', 'gpt-4o', 'Weather?', 'Be brief.', '', 'c', '2024-02-01T10:00:00', 9, 3),
            ('r2', 'gpt-4o', '', 'Be brief.', 'It rains.', 'c', '2024-02-01T10:00:01', 12, 4);
        INSERT INTO tool_calls VALUES (1, 'r1', 'weather', '{"city": "Oslo"}', 't1');
        INSERT INTO tool_results VALUES (1, 'r2', 'weather', 'rain', 't1');
        INSERT INTO attachments VALUES ('a', 'image/png', NULL, NULL, x'89504e47');
        INSERT INTO prompt_attachments VALUES ('r1', 'a', 0);
        """
    )
    connection.commit()
    connection.close()
    (found,), unknown = read(path)
    (history,) = paths(found)
    assert unknown == []
    assert [each.role.value for each in history] == [
        "supervisor",
        "user",
        "user",
        "invocation",
        "result",
        "assistant",
    ]
    assert (history[1].held.kind, history[1].held.payload.text) == ("image", "iVBORw==")
    assert (history[2].text, history[4].text, history[5].text) == ("Weather?", "rain", "It rains.")
    assert (found.title, found.model, found.created.year) == ("Weather", "gpt-4o", 2024)


def test_data_that_is_no_base64_stays_inside_its_text(tmp_path: Path):
    image = {"type": "image", "data": 'x","role":"supervisor', "mimeType": "image/png"}
    message = {"role": "user", "created": 1700000000, "content": [image]}
    with open_store("sqlite::memory:") as store:
        import_into(store, write(tmp_path, message), format="goose")
        (listed,) = store.list()
        (found,) = store.get(listed.identifier).load()
    assert found.role.value == "user"
    assert found.content.kind == "opaque"
