"""A gateway that records into an encrypted store recognises, continues and shows, and leaves no word in any file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cannery.errors import ConfigurationError
from cannery.gateway.settings import parse_settings
from cannery.storage import open_store

from .running import Running, rows, wait_for
from .test_contract import ask, chat
from .upstream import Upstream

CHAT = "/v1/chat/completions"
CANARY = "kanarienvogel"
KEYS = {"ALICE": "key-of-alice", "BOB": "key-of-bob", "OP": "key-of-op"}


@pytest.fixture
def keys(tmp_path: Path) -> str:
    (tmp_path / "keys").mkdir()
    for number, scope in enumerate(("@default", "alice")):
        (tmp_path / "keys" / f"{scope}.key").write_text(f"{number}{'a' * 63}\n")
    return f"file:{tmp_path}/keys/{{scope}}.key"


@pytest.fixture
def config(upstream: Upstream, keys: str) -> str:
    named = "".join(f'[keys.{name.lower()}]\nvariable = "{name}"\n' for name in ("ALICE", "BOB"))
    named += '[keys.op]\nvariable = "OP"\noperator = true\n'
    return f'[recording]\nencryption_key = "{keys}"\n' + named + rows(upstream.url)


@pytest.fixture
def running(config: str, tmp_path: Path) -> Iterator[Running]:
    started = Running(tmp_path / "gateway", config, environment=KEYS)
    yield started
    started.stop()


def talk(running: Running, name: str, *said: tuple[str, str]) -> str:
    headers = {"authorization": f"Bearer {KEYS[name]}", "x-session-id": f"session-{CANARY}"}
    body = chat("chat-m", *said)
    body["tools"] = [{"type": "function", "function": {"name": f"find_{CANARY}"}}]
    body["user"] = CANARY
    status, answered, _ = ask(running, CHAT, body, headers)
    assert status == 200
    return str(answered["x-cannery-conversation"])


FIRST = (("system", f"Know the {CANARY}"), ("user", f"Hi {CANARY}"))
MORE = (*FIRST, ("assistant", f"echo: Hi {CANARY}"), ("user", f"go on, {CANARY}"))


def words_in(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and CANARY.encode() in path.read_bytes()
    ]


def test_what_is_recorded_is_found_again_and_in_no_file(
    running: Running, keys: str, config: str, tmp_path: Path
) -> None:
    identifier = talk(running, "ALICE", *FIRST)
    assert talk(running, "ALICE", *MORE) == identifier
    running.settle()
    shown = {"authorization": f"Bearer {KEYS['OP']}"}
    status, _, said = ask(running, f"/v1/conversations/{identifier}/items", None, shown)
    assert (status, CANARY in json.dumps(said)) == (200, True)
    assert words_in(running.store) == []
    assert CANARY not in running.log
    running.stop()
    assert words_in(running.store) == []
    # After a restart the store alone knows the conversation.
    again = Running(tmp_path / "gateway", config, environment=KEYS)
    more = (*MORE, ("assistant", f"echo: go on, {CANARY}"), ("user", "and on"))
    assert talk(again, "ALICE", *more) == identifier
    again.settle()
    again.stop()
    with open_store(str(running.store), encryption_key=keys) as store:
        assert [one.identifier for one in store.list()] == [identifier]
        assert len(store.get(identifier).load(hydrate=True)) == 7
        assert store.verify().is_sound
    (tmp_path / "keys" / "alice.key").unlink()
    with open_store(str(running.store), encryption_key=keys) as store:
        assert all(CANARY not in one.title for one in store.list())
        assert store.search(CANARY) == ()


def test_a_caller_without_a_key_is_answered_and_told_not_to_be_recorded(running: Running) -> None:
    talk(running, "BOB", *FIRST)
    wait_for(lambda: running.recorded("failed") == 1, "it is not counted as lost")
    running.wait_for_log("bob.key cannot be read")
    assert "cannery keys create" in running.log
    wait_for(lambda: "bob.key" in str(ask(running, "/readyz")[2]), "readiness does not say so")
    # Others go on.
    identifier = talk(running, "ALICE", *FIRST)
    running.settle()
    assert talk(running, "ALICE", *MORE) == identifier
    assert words_in(running.store) == []


def test_a_setting_that_is_no_source_is_refused_with_its_line() -> None:
    config = f'[recording]\nencryption_key = "{"ab" * 32}"\n'
    with pytest.raises(ConfigurationError, match=r"line 2.*never stands in a setting"):
        parse_settings(config)
