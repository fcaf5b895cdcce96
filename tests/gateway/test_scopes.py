"""Two keys are two people: neither recognises, continues, lists, reads nor deletes what is the other's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cannery.storage import open_store

from .running import Running, rows
from .test_contract import ask, chat
from .upstream import Upstream

CHAT = "/v1/chat/completions"
KEYS = {
    "ALICE": "key-of-alice",
    "ALICE2": "second-of-alice",
    "BOB": "key-of-bob",
    "OP": "key-of-op",
}


@pytest.fixture
def config(upstream: Upstream, tmp_path: Path) -> str:
    file = tmp_path / "keys"
    file.write_text(f"alice: {KEYS['ALICE']}\nalice: {KEYS['ALICE2']}\n{KEYS['BOB']}\n")
    return f'[keys]\nfile = "{file}"\n[keys.op]\nvariable = "OP"\noperator = true\n' + rows(
        upstream.url
    )


@pytest.fixture
def shared(config: str, tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "gateway", config, environment=KEYS)
    yield running
    running.stop()


def shown(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {KEYS[name]}"}


def talk(running: Running, name: str, *said: tuple[str, Any], model: str = "chat-m") -> str:
    status, headers, _ = ask(running, CHAT, chat(model, *said), shown(name))
    assert status == 200
    return headers["x-cannery-conversation"]


def listed(running: Running, name: str, query: str = "") -> list[str]:
    running.settle()
    status, _, said = ask(running, f"/v1/conversations{query}", None, shown(name))
    assert status == 200
    return [item["id"] for item in said["data"]]


HI = ("user", "Hi")
MORE = (HI, ("assistant", "echo: Hi"), ("user", "go on"))


def test_the_same_words_of_two_keys_are_two_conversations(shared: Running) -> None:
    alice, bob = talk(shared, "ALICE", HI), talk(shared, "BOB", HI)
    assert alice != bob
    assert talk(shared, "ALICE2", *MORE) == alice
    assert talk(shared, "BOB", *MORE) == bob
    shared.settle()
    store = open_store(str(shared.store))
    scopes = {summary.identifier: (summary.scope, summary.parent) for summary in store.list()}
    store.close()
    assert scopes[alice] == ("alice", None)
    assert scopes[bob][0].startswith("key-")
    assert scopes[bob][1] is None
    assert len(scopes) == 2


def test_a_restart_does_not_mix_them(config: str, tmp_path: Path) -> None:
    first = Running(tmp_path / "gateway", config, environment=KEYS)
    alice = talk(first, "ALICE", HI)
    assert first.stop() == 0
    second = Running(tmp_path / "gateway", config, environment=KEYS)
    assert talk(second, "BOB", *MORE) != alice
    assert talk(second, "ALICE", *MORE) == alice
    second.stop()


def test_conversations_are_listed_read_and_deleted_by_their_own_key_only(shared: Running) -> None:
    alice, bob = talk(shared, "ALICE", HI), talk(shared, "BOB", HI)
    assert listed(shared, "ALICE") == [alice]
    assert listed(shared, "BOB") == [bob]
    assert set(listed(shared, "OP")) == {alice, bob}
    path = f"/v1/conversations/{alice}"
    for method, below, body in (
        ("GET", "", None),
        ("GET", "/items", None),
        ("POST", "", {"metadata": {"a": "b"}}),
        ("POST", "/items", {"items": [{"role": "user", "content": "x"}]}),
        ("DELETE", "", None),
    ):
        assert ask(shared, path + below, body, shown("BOB"), method)[0] == 404, (method, below)
    assert ask(shared, path, None, shown("ALICE"))[0] == 200
    assert ask(shared, path + "/items", None, shown("OP"))[0] == 200
    assert ask(shared, path, None, shown("OP"), "DELETE")[0] == 200
    assert ask(shared, path, None, shown("ALICE"))[0] == 404


def test_a_list_goes_on_after_its_last(shared: Running) -> None:
    made = [talk(shared, "ALICE", ("user", f"question {number}")) for number in range(5)]
    seen: list[str] = []
    query = "?limit=2"
    while page := listed(shared, "ALICE", query):
        seen += page
        query = f"?limit=2&after={page[-1]}"
    assert sorted(seen) == sorted(made)
    assert ask(shared, "/v1/conversations?limit=0", None, shown("ALICE"))[0] == 400
    assert ask(shared, "/v1/conversations?after=nothing", None, shown("ALICE"))[0] == 404


def test_a_reply_of_another_key_cannot_be_continued(shared: Running) -> None:
    body = {"model": "chat-m", "input": "my name is Ann"}
    _, _, said = ask(shared, "/v1/responses", body, shown("ALICE"))
    on = {"model": "chat-m", "input": "who am I?", "previous_response_id": said["id"]}
    assert ask(shared, "/v1/responses", on, shown("BOB"))[0] == 404
    assert ask(shared, "/v1/responses", on, shown("OP"))[0] == 404
    assert ask(shared, "/v1/responses", on, shown("ALICE"))[0] == 200
    thread = {"model": "chat-m", "max_tokens": 9, "messages": [{"role": "user", "content": "Ann"}]}
    _, _, begun = ask(
        shared, "/v1/messages", {**thread, "thread": {"type": "create"}}, shown("ALICE")
    )
    further = {**thread, "thread": {"type": "continue", "previous_message_id": begun["id"]}}
    assert ask(shared, "/v1/messages", further, shown("BOB"))[0] == 404
    assert ask(shared, "/v1/messages", further, shown("ALICE"))[0] == 200


def test_the_name_of_another_keys_conversation_leads_nowhere(
    shared: Running, upstream: Upstream
) -> None:
    named = {**shown("ALICE"), "x-cannery-conversation": "diary"}
    assert ask(shared, CHAT, chat("chat-m", ("user", "a secret")), named)[0] == 200
    shared.settle()
    body = {"model": "chat-m", "input": "and?", "conversation": "diary"}
    assert ask(shared, "/v1/responses", body, shown("BOB"))[0] == 404
    upstream.seen.clear()
    theirs = {**shown("BOB"), "x-cannery-conversation": "diary"}
    assert ask(shared, CHAT, chat("chat-m", ("user", "mine")), theirs)[0] == 200
    shared.settle()
    status, _, kept = ask(shared, "/v1/conversations/diary/items", None, shown("ALICE"))
    assert status == 200
    assert "mine" not in json.dumps(kept)
    assert ask(shared, "/v1/responses", body, shown("ALICE"))[0] == 200


def named_by(running: Running, key: str, name: str, *said: tuple[str, Any]) -> str:
    """What a caller who names a conversation is told."""
    headers = {**shown(key), "x-cannery-conversation": name}
    status, found, _ = ask(running, CHAT, chat("chat-m", *said), headers)
    assert status == 200
    return found["x-cannery-conversation"]


def test_two_keys_that_give_the_same_name_are_each_told_what_is_kept(shared: Running) -> None:
    asked = ("user", "mine")
    answered = (asked, ("assistant", "echo: mine"), ("user", "and more"))
    assert named_by(shared, "ALICE", "diary", ("user", "a secret")) == "diary"
    # The first is not filed yet, most likely.
    told = named_by(shared, "BOB", "diary", asked)
    assert told != "diary"
    assert named_by(shared, "BOB", "diary", *answered) == told
    assert listed(shared, "ALICE") == ["diary"]
    assert listed(shared, "BOB") == [told]
    further = (("assistant", "echo: and more"), ("user", "and the end"))
    assert named_by(shared, "BOB", told, *answered, *further) == told


def test_a_name_that_is_taken_is_found_again_after_a_restart(
    shared: Running, config: str, tmp_path: Path
) -> None:
    asked = ("user", "mine")
    named_by(shared, "ALICE", "diary", ("user", "a secret"))
    shared.settle()
    told = named_by(shared, "BOB", "diary", asked)
    shared.stop()
    again = Running(tmp_path / "gateway", config, environment=KEYS)
    try:
        further = (asked, ("assistant", "echo: mine"), ("user", "and more"))
        assert named_by(again, "BOB", "diary", *further) == told
        assert listed(again, "BOB") == [told]
        assert named_by(again, "ALICE", "diary", ("user", "a secret")) != told
    finally:
        again.stop()


def test_the_name_of_a_deleted_conversation_is_not_told_for_a_new_one(shared: Running) -> None:
    named_by(shared, "ALICE", "diary", HI)
    shared.settle()
    assert ask(shared, "/v1/conversations/diary", None, shown("ALICE"), method="DELETE")[0] == 200
    told = named_by(shared, "ALICE", "diary", ("user", "something else"))
    assert listed(shared, "ALICE") == [told]


def test_a_name_with_another_history_is_not_told_for_it(shared: Running) -> None:
    named_by(shared, "ALICE", "diary", HI)
    shared.settle()
    told = named_by(shared, "ALICE", "diary", ("user", "something else"))
    assert sorted(listed(shared, "ALICE")) == sorted(["diary", told])
    assert told != "diary"
