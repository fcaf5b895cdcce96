"""Upstreams that do not answer: the next one is asked, in its own dialect, and stays with the conversation."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .running import EVERY, Running, rows
from .test_contract import ask, chat
from .upstream import Upstream

CHAT = "/v1/chat/completions"
ROW = """
[[upstreams]]
name = "{name}"
dialect = "{dialect}"
url = "{url}"
key_variable = {keys}
models = ["{name}-only"]
aliases = {{ {aliases} }}
timeouts = {{ connect = 1.0, read = 1.0 }}
"""
FAULTS = ("500", "521", "429", "exhausted", "slow", "silent", "sorry")
KEYS = {"KEY_A": "key-a", "KEY_B": "key-b", "KEY_C": "key-c"}


def _config(url: str, dead: str) -> str:
    firsts = ", ".join(f'{fault} = "chat-{fault}"' for fault in FAULTS)
    seconds = ", ".join(f'{fault} = "claude-sonnet-4-5"' for fault in FAULTS)
    keys = '["KEY_A", "KEY_B", "KEY_C"]'
    rows = [
        ROW.format(
            name="dead", dialect="openai_chat", url=dead, keys='"TEST_KEY"', aliases='gone = "x"'
        ),
        ROW.format(
            name="first",
            dialect="openai_chat",
            url=url,
            keys='"TEST_KEY"',
            aliases=f'smart = "chat-flap", last = "chat-500", wrong = "chat-refused", {firsts}',
        ),
        ROW.format(
            name="second",
            dialect="anthropic_messages",
            url=url,
            keys='"TEST_KEY"',
            aliases=f'gone = "claude-x", smart = "claude-x", last = "claude-500", wrong = "claude-x", {seconds}',
        ),
        ROW.format(
            name="many", dialect="openai_chat", url=url, keys=keys, aliases='spread = "chat-keyed"'
        ),
    ]
    return "".join(rows)


@pytest.fixture(scope="module")
def backed(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        config = _config(upstream.url, f"http://127.0.0.1:{dead.getsockname()[1]}")
        running = Running(tmp_path_factory.mktemp("backed"), config, environment=KEYS)
        yield running
        running.stop()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("alias", ["gone", *FAULTS])
def test_the_next_row_answers_in_its_own_dialect(
    backed: Running, upstream: Upstream, alias: str, stream: bool
) -> None:
    upstream.seen.clear()
    upstream.problems.clear()
    body = chat(
        alias, ("system", "Be brief."), ("user", f"Hi {alias} {stream}"), stream=stream, seed=3
    )
    status, headers, said = ask(backed, CHAT, body)
    assert status == 200
    assert headers["x-cannery-upstream"] == "second"
    text = said if stream else json.dumps(said).encode()
    assert b"echo" in text
    assert upstream.problems == []
    assert "x-cannery-losses" in headers
    last = upstream.seen[-1]
    assert last.dialect == "anthropic_messages"
    assert last.json["system"] == "Be brief." or last.json["system"][0]["text"] == "Be brief."
    # Nothing of the failed attempt is left in the answer.
    assert "retry-after" not in headers


def test_metrics_log_and_journal_tell(backed: Running) -> None:
    before = backed.metrics().get('cannery_fallbacks_total{upstream="first",next="second"}', 0)
    assert ask(backed, CHAT, chat("500", ("user", "tell")))[0] == 200
    found = backed.metrics()
    assert found['cannery_fallbacks_total{upstream="first",next="second"}'] == before + 1
    backed.settle()
    path = backed.store / "gateway" / "exchanges.jsonl"
    line = json.loads(path.read_text().splitlines()[-1])
    assert (line["upstream"], line["failed_upstreams"]) == ("second", ["first"])
    backed.wait_for_log('"failed_upstreams":["first"]')


def test_what_the_caller_did_wrong_goes_to_no_other(backed: Running, upstream: Upstream) -> None:
    upstream.seen.clear()
    status, headers, _ = ask(backed, CHAT, chat("wrong", ("user", "Hi")))
    assert (status, headers["x-cannery-upstream"]) == (400, "first")
    assert len(upstream.seen) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_when_all_fail_the_last_error_is_told(backed: Running, stream: bool) -> None:
    status, headers, said = ask(backed, CHAT, chat("last", ("user", "Hi"), stream=stream))
    assert (status, headers["x-cannery-upstream"]) == (500, "second")
    assert said["error"]["message"] == "it broke: told 500"


def test_a_conversation_stays_with_who_answered_it(backed: Running, upstream: Upstream) -> None:
    """The first row fails once; the conversation goes on with the second, and a new one begins with the first."""
    history: list[tuple[str, Any]] = [("user", "the question of a long talk")]
    for turn in range(3):
        upstream.seen.clear()
        upstream.attempts["chat-flap"] = -1 if turn == 0 else 1
        status, headers, said = ask(backed, CHAT, chat("smart", *history))
        assert (status, headers["x-cannery-upstream"]) == (200, "second"), turn
        assert len(upstream.seen) == (2 if turn == 0 else 1)
        history += [
            ("assistant", said["choices"][0]["message"]["content"]),
            ("user", f"go on {turn}"),
        ]
    status, headers, _ = ask(backed, CHAT, chat("smart", ("user", "another talk")))
    assert (status, headers["x-cannery-upstream"]) == (200, "first")


def test_keys_of_a_row_are_spread_stay_with_a_conversation_and_stand_in_for_each_other(
    backed: Running, upstream: Upstream
) -> None:
    def used(*said: tuple[str, Any]) -> list[str]:
        upstream.seen.clear()
        assert ask(backed, CHAT, chat("spread", *said))[0] == 200
        return [seen.headers["authorization"].removeprefix("Bearer ") for seen in upstream.seen]

    first = {number: used(("user", f"talk {number}")) for number in range(12)}
    assert {key for keys in first.values() for key in keys} == set(KEYS.values())
    for number, keys in first.items():
        again = used(("user", f"talk {number}"), ("assistant", "Yes."), ("user", "go on"))
        assert again == keys
    exhausted = first[0][0]
    upstream.exhausted_keys.add(exhausted)
    try:
        tried = used(("user", "talk 0"), ("assistant", "Yes."), ("user", "and on"))
        assert tried[0] == exhausted
        assert len(tried) == 2
        # From now on the conversation is with the other key.
        assert used(("user", "talk 0"), ("assistant", "Yes."), ("user", "further")) == tried[1:]
    finally:
        upstream.exhausted_keys.clear()


def test_a_stream_that_has_begun_is_not_begun_again(upstream: Upstream, tmp_path: Path) -> None:
    rows = [
        ROW.format(
            name=name,
            dialect="openai_chat",
            url=upstream.url,
            keys='"TEST_KEY"',
            aliases=f'm = "chat-{fault}"',
        )
        for name, fault in (("first", "cut"), ("second", "fine"))
    ]
    running = Running(tmp_path, "".join(rows), record=False)
    _, headers, said = ask(running, CHAT, chat("m", ("user", "Hi"), stream=True))
    running.stop()
    assert headers["x-cannery-upstream"] == "first"
    assert b"broke off" in said


FIRST_WORDS = ("overloaded", "mute", "stuck")


@pytest.fixture(scope="module")
def beginning(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A row of each dialect for an alias of its own, and one row behind all of them."""
    aliases = [f"{name}-{fault}" for name in EVERY for fault in FIRST_WORDS]
    config = rows(upstream.url, timeouts="{ connect = 1.0, read = 1.0 }")
    for name in EVERY:
        mine = ", ".join(f'"{name}-{fault}" = "{name}-{fault}"' for fault in FIRST_WORDS)
        models = f'models = ["{name}-*"]\n'
        config = config.replace(models, f"models = []\naliases = {{ {mine} }}\n")
    all_aliases = ", ".join(f'"{alias}" = "fine"' for alias in aliases)
    config += ROW.format(
        name="behind",
        dialect="openai_chat",
        url=upstream.url,
        keys='"TEST_KEY"',
        aliases=all_aliases,
    )
    running = Running(tmp_path_factory.mktemp("beginning"), config)
    yield running
    running.stop()


@pytest.mark.parametrize("fault", FIRST_WORDS)
@pytest.mark.parametrize("name", EVERY)
def test_a_stream_that_fails_before_it_says_anything_is_asked_of_the_next_row(
    beginning: Running, upstream: Upstream, name: str, fault: str
) -> None:
    for path in (CHAT, "/v1/messages"):
        upstream.seen.clear()
        body = chat(f"{name}-{fault}", ("user", f"Hi {name} {fault} {path}"), stream=True)
        body["max_tokens"] = 50
        status, headers, said = ask(beginning, path, body)
        assert (status, headers["x-cannery-upstream"]) == (200, "behind"), path
        assert b"echo" in said
        assert b"Overloaded" not in said
        assert [seen.dialect for seen in upstream.seen] == [EVERY[name], "openai_chat"]


def test_a_row_that_failed_after_its_head_leaves_no_conversation(beginning: Running) -> None:
    beginning.settle()
    before = len(ask(beginning, "/v1/conversations?limit=100")[2]["data"])
    body = chat("chat-overloaded", ("user", "a talk of its own"), stream=True)
    assert ask(beginning, CHAT, body)[0] == 200
    beginning.settle()
    assert len(ask(beginning, "/v1/conversations?limit=100")[2]["data"]) == before + 1


def test_the_last_row_tells_its_error_in_the_stream(gateway: Running) -> None:
    status, headers, said = ask(
        gateway, CHAT, chat("anthropic-overloaded", ("user", "Hi"), stream=True)
    )
    assert (status, headers["x-cannery-upstream"]) == (200, "anthropic")
    assert b"Overloaded" in said


def test_a_row_that_thinks_for_long_is_waited_for_no_longer_than_a_ping(
    upstream: Upstream, tmp_path: Path
) -> None:
    """Its caller gets pings meanwhile, and no other row is asked any more."""
    config = "[server]\nping_seconds = 1.0\n" + "".join(
        ROW.format(
            name=name,
            dialect="openai_chat",
            url=upstream.url,
            keys='"TEST_KEY"',
            aliases=f'm = "chat-{fault}"',
        ).replace("read = 1.0", "read = 5.0")
        for name, fault in (("first", "late"), ("second", "fine"))
    )
    running = Running(tmp_path, config, record=False)
    _, headers, said = ask(running, CHAT, chat("m", ("user", "Hi"), stream=True))
    running.stop()
    assert headers["x-cannery-upstream"] == "first"
    assert said.startswith(b":")
    assert b"six" in said
