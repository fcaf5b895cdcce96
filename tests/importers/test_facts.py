"""What was there beside the words is kept: times, titles, tokens, models, sub-agents."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cannery
from cannery.importers import import_into
from cannery.importers.pieces import facts_of
from cannery.storage import Store, open_store
from tests.importers.test_formats import write

OLD = "2024-03-01T10:00:00Z"


def claude_line(name: str, above: str | None, role: str, text: str, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": [{"type": "text", "text": text}], **more.pop("message", {})}
    line = {"type": role, "uuid": name, "parentUuid": above, "sessionId": "s", "timestamp": OLD}
    return {**line, "message": message, **more}


def usages(store: Store) -> list[dict[str, int]]:
    (only,) = (each for each in store.list() if each.parent is None)
    found = [facts_of(canister) for canister in store.get(only.identifier).load()]
    return [facts["usage"] for facts in found if "usage" in facts]


def test_a_chat_of_2024_is_listed_in_2024(tmp_path: Path):
    path = write(
        tmp_path,
        claude_line("a", None, "user", "Hi"),
        claude_line("b", "a", "assistant", "Hello", timestamp="2024-03-02T10:00:00Z"),
    )
    with open_store("sqlite::memory:") as store:
        import_into(store, path)
        (listed,) = store.list()
        assert listed.created == datetime(2024, 3, 1, 10, tzinfo=UTC)
        assert listed.updated == datetime(2024, 3, 2, 10, tzinfo=UTC)
        assert store.list(since=datetime(2025, 1, 1, tzinfo=UTC)) == ()
        assert len(store.list(until=datetime(2025, 1, 1, tzinfo=UTC))) == 1


def test_messages_without_a_time_are_as_old_as_their_chat(tmp_path: Path):
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    path = write(tmp_path, {"title": "T", "created_at": OLD, "messages": messages})
    with open_store("sqlite::memory:") as store:
        import_into(store, path)
        (listed,) = store.list()
        times = {canister.timestamp for canister in store.get(listed.identifier).load()}
    assert times == {datetime(2024, 3, 1, 10, tzinfo=UTC)} == {listed.updated}


def test_branches_are_as_old_as_they_were(tmp_path: Path):
    path = write(
        tmp_path,
        claude_line("a", None, "user", "Hi"),
        claude_line("b", "a", "assistant", "Hello"),
        claude_line("c", "a", "assistant", "Good day", timestamp="2024-05-01T00:00:00Z"),
    )
    with open_store("sqlite::memory:") as store:
        import_into(store, path)
        assert {each.updated.year for each in store.list()} == {2024}
        assert len(store.list()) == 2
        import_into(store, path)
        assert {each.updated.year for each in store.list()} == {2024}


def test_claude_code_keeps_tokens_once_a_message_and_the_model_of_each(tmp_path: Path):
    def one(tokens: int, model: str = "claude-a") -> dict[str, Any]:
        usage = {"input_tokens": 3, "output_tokens": tokens, "cache_read_input_tokens": 40}
        return {"id": "msg_1", "model": model, "usage": {**usage, "cache_creation_input_tokens": 7}}

    path = write(
        tmp_path,
        claude_line("a", None, "user", "Hi"),
        claude_line("b", "a", "assistant", "One", message=one(1)),
        claude_line("c", "b", "assistant", "Two", message=one(9)),
        claude_line("d", "c", "user", "More"),
        claude_line("e", "d", "assistant", "Yes", message={"id": "msg_2", "model": "claude-b"}),
    )
    with open_store("sqlite::memory:") as store:
        import_into(store, path)
        assert usages(store) == [{"input": 50, "output": 9, "cache_read": 40, "cache_write": 7}]
        (listed,) = store.list()
        canisters = store.get(listed.identifier).load()
        models = [each.residue.model for each in canisters if each.residue and each.residue.model]
    assert models == ["claude-a", "claude-a", "claude-b"]
    assert listed.model == "claude-b"


def test_claude_code_calls_that_were_made_at_once_make_no_branches(tmp_path: Path):
    def call(number: int) -> list[Any]:
        return [{"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"n": number}}]

    def answer(number: int) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"r{number}"}
        return {"content": [block]}

    made = {"id": "msg_1", "model": "m"}
    path = write(
        tmp_path,
        claude_line("u", None, "user", "Both"),
        claude_line("a", "u", "assistant", "Sure.", message=made),
        claude_line("b", "a", "assistant", "", message={**made, "content": call(1)}),
        claude_line("r1", "b", "user", "", message=answer(1)),
        claude_line("c", "b", "assistant", "", message={**made, "content": call(2)}),
        {"type": "progress", "uuid": "p", "parentUuid": "c", "sessionId": "s"},
        claude_line("r2", "p", "user", "", message=answer(2)),
        claude_line("z", "r2", "assistant", "Done.", message={"id": "msg_2"}),
        claude_line("y", "r2", "assistant", "Instead.", message={"id": "msg_3"}),
    )
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, path)
        said = [
            [getattr(each, "text", "") or getattr(each, "name", "") for each in conversation.load()]
            for conversation in (store.get(each.identifier) for each in store.list())
        ]
    row = ["Both", "Sure.", "Bash", "Bash", "r1", "r2"]
    assert sorted(said) == [[*row, "Done."], [*row, "Instead."]]
    assert summary.branches == 1


def codex_line(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": OLD, "type": kind, "payload": payload}


def count(total: int, last: int) -> dict[str, Any]:
    info = {
        "total_token_usage": {"input_tokens": total},
        "last_token_usage": {
            "input_tokens": last,
            "cached_input_tokens": 5,
            "output_tokens": 2,
            "reasoning_output_tokens": 1,
        },
    }
    return codex_line("event_msg", type="token_count", info=info)


def said(role: str, text: str) -> dict[str, Any]:
    kind = "input_text" if role == "user" else "output_text"
    content = [{"type": kind, "text": text}]
    return codex_line("response_item", type="message", role=role, content=content)


def test_codex_keeps_tokens_rollbacks_and_the_model_of_each(tmp_path: Path):
    path = write(
        tmp_path,
        codex_line("session_meta", id="t1", timestamp=OLD),
        codex_line("turn_context", model="gpt-a"),
        said("user", "One"),
        said("assistant", "1"),
        count(10, 10),
        count(10, 10),
        said("user", "Two"),
        said("assistant", "2"),
        count(30, 20),
        codex_line("event_msg", type="thread_rolled_back", num_turns=1),
        codex_line("turn_context", model="gpt-b"),
        said("user", "Three"),
        said("assistant", "3"),
    )
    with open_store("sqlite::memory:") as store:
        import_into(store, path)
        roots = [each for each in store.list() if each.parent is None]
        texts = [
            [canister.text for canister in store.get(each.identifier).load()]
            for each in store.list()
        ]
        canisters = store.get(roots[0].identifier).load()
    assert sorted(texts) == [["One", "1", "Three", "3"], ["One", "1", "Two", "2"]]
    assert len(roots) == 1
    expected = {"input": 10, "output": 2, "cache_read": 5, "reasoning": 1}
    assert facts_of(canisters[1])["usage"] == expected
    models = [each.residue.model for each in canisters if each.residue and each.residue.model]
    assert models == ["gpt-a", "gpt-b"]


def test_sub_agents_are_children_with_their_own_model(tmp_path: Path):
    folder = tmp_path / "projects" / "p"
    agents = folder / "s" / "subagents"
    agents.mkdir(parents=True)
    main = [
        claude_line("a", None, "user", "Do it"),
        claude_line("b", "a", "assistant", "Done", message={"id": "m1", "model": "claude-big"}),
    ]
    side = {"isSidechain": True, "agentId": "x1"}
    agent = [
        claude_line("c", None, "user", "Look around", **side),
        claude_line("d", "c", "assistant", "Seen", message={"id": "m2", "model": "small"}, **side),
    ]
    write(folder, *main, name="s.jsonl")
    write(agents, *agent, name="agent-x1.jsonl")
    (agents / "agent-x1.meta.json").write_text(json.dumps({"description": "Explore"}))
    with open_store("sqlite::memory:") as store:
        for _ in range(2):
            import_into(store, tmp_path / "projects")
            by_model = {each.model: each for each in store.list()}
            child, parent = by_model["small"], by_model["claude-big"]
            assert (child.parent, child.position) == (parent.identifier, 0)
            assert (child.title, child.tags) == ("Explore", ("claude_code", "subagent"))
            assert [each.text for each in store.get(child.identifier).load()] == [
                "Look around",
                "Seen",
            ]
            assert child.updated.year == 2024
            assert len(store.list()) == 2
        assert store.verify().damages == ()


def test_a_codex_sub_agent_is_a_child_of_its_thread(tmp_path: Path):
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "t1", "depth": 1}}}
    write(tmp_path, codex_line("session_meta", id="t1"), said("user", "One"), name="a.jsonl")
    agent = codex_line("session_meta", id="t2", source=source)
    write(tmp_path, agent, said("user", "Two"), name="b.jsonl")
    with open_store("sqlite::memory:") as store:
        import_into(store, tmp_path)
        found = {each.title: each for each in store.list()}
    assert found["Two"].parent == found["One"].identifier


def test_gemini_cli_keeps_tokens_although_a_resumed_session_repeats_messages(tmp_path: Path):
    tokens = {"input": 20, "output": 3, "cached": 4, "thoughts": 2, "tool": 0, "total": 25}
    answer = {"id": "b", "type": "gemini", "content": "Hello", "timestamp": OLD, "model": "g"}
    path = write(
        tmp_path,
        {"sessionId": "s", "projectHash": "h", "startTime": OLD},
        {"id": "a", "type": "user", "content": "Hi", "timestamp": OLD},
        {**answer, "tokens": tokens},
        {"$set": {"messages": [answer]}},
    )
    with open_store("sqlite::memory:") as store:
        import_into(store, path)
        assert usages(store) == [{"input": 20, "output": 5, "cache_read": 4, "reasoning": 2}]


def test_a_result_that_the_file_has_twice_is_there_once(tmp_path: Path):
    response = {"functionResponse": {"id": "c", "name": "ls", "response": {"output": "a.txt"}}}
    call = {"id": "c", "name": "ls", "args": {}, "result": [response]}
    path = write(
        tmp_path,
        {"sessionId": "s", "projectHash": "h", "startTime": OLD},
        {"id": "a", "type": "user", "content": "Hi", "timestamp": OLD},
        {"id": "b", "type": "gemini", "content": "", "timestamp": OLD, "toolCalls": [call]},
        {"id": "c", "type": "user", "content": [response], "timestamp": OLD},
    )
    with open_store("sqlite::memory:") as store:
        import_into(store, path)
        (listed,) = store.list()
        roles = [each.role.value for each in store.get(listed.identifier).load()]
    assert roles.count("result") == 1


def test_two_calls_of_one_name_may_be_answered_alike():
    from cannery.importers.trees import without_repeats

    call, answer = cannery.invocation("id", "f", "{}"), cannery.result("id", "ok")
    history: list[Any] = [call, answer, call, answer]
    assert without_repeats(history) == history
    assert len(without_repeats([*history, answer])) == 4


def test_unknown_records_are_kept_where_they_stood(tmp_path: Path):
    path = write(
        tmp_path,
        {"type": "queue-operation", "sessionId": "s"},
        claude_line("a", None, "user", "Hi"),
        {"type": "progress", "uuid": "p", "parentUuid": "a", "sessionId": "s"},
        claude_line("b", "p", "assistant", "Hello"),
        {"type": "last-prompt", "sessionId": "s"},
    )
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, path)
        (listed,) = store.list()
        kept = [
            [record["kind"] for record in facts_of(canister)["unknown"]]
            for canister in store.get(listed.identifier).load()
        ]
        again = import_into(store, path)
    assert kept == [["queue-operation"], ["progress", "last-prompt"]]
    assert (summary.unknown_kept, again.unknown_kept) == (3, 0)


def test_older_opencode_sessions_lie_in_many_files(tmp_path: Path):
    storage = tmp_path / "storage"
    message = {
        "id": "msg_1",
        "sessionID": "ses_1",
        "role": "user",
        "time": {"created": 1718000000000},
    }
    files = {
        "session/p1/ses_1.json": {"id": "ses_1", "projectID": "p1", "title": "T", "time": {}},
        "message/ses_1/msg_1.json": message,
        "part/msg_1/prt_1.json": {"type": "text", "text": "Hi", "messageID": "msg_1"},
    }
    for name, value in files.items():
        (storage / name).parent.mkdir(parents=True)
        (storage / name).write_text(json.dumps(value))
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, storage)
        (listed,) = store.list()
        (said,) = store.get(listed.identifier).load()
    assert (said.text, listed.title, summary.problems) == ("Hi", "T", [])
    assert said.timestamp.year == 2024
