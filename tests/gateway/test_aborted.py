"""Questions whose answer broke off: what is kept of them, and what becomes of that when they are asked again."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from cannery.storage import open_store

from .running import Running, rows, wait_for
from .test_contract import ask, chat
from .upstream import Upstream

CHAT = "/v1/chat/completions"
ONE, TWO = ("user", "one"), ("user", "two")
ANSWERED = ("assistant", "echo: one")


def complete(running: Running, *said: tuple[str, Any]) -> None:
    assert ask(running, CHAT, chat("chat-m", *said))[0] == 200
    running.settle()


def break_off(running: Running, *said: tuple[str, Any]) -> None:
    """Ask, and hang up when the answer has begun."""
    before = running.recorded("aborted")
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
    connection.request("POST", CHAT, json.dumps(chat("chat-endless", *said, stream=True)))
    connection.getresponse().read(40)
    connection.close()
    wait_for(lambda: running.recorded("aborted") > before, "it is not filed")


def kept(running: Running) -> list[tuple[tuple[str, ...], list[str]]]:
    """The tags and texts of all conversations that lists show."""
    running.settle()
    with open_store(str(running.store)) as store:
        return [
            (one.tags, [canister.text for canister in store.get(one.identifier).load()])  # type: ignore[union-attr]
            for one in store.list()
        ]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("said", [(ONE,), (ONE, ANSWERED, TWO)])
def test_a_question_that_is_answered_after_all_is_not_marked_any_more(
    upstream: Upstream, tmp_path: Path, said: tuple[tuple[str, Any], ...], restarts: bool
) -> None:
    running = Running(tmp_path, rows(upstream.url))
    if len(said) > 1:
        complete(running, ONE)
    break_off(running, *said)
    texts = [text for _, text in said]
    assert kept(running) == [(("aborted",), texts)]
    if restarts:
        running.stop()
        running = Running(tmp_path, rows(upstream.url))
    complete(running, *said)
    try:
        assert kept(running) == [((), [*texts, f"echo: {texts[-1]}"])]
    finally:
        running.stop()


@pytest.mark.parametrize("said", [(ONE,), (ONE, ANSWERED, TWO)])
def test_a_conversation_that_has_its_answer_is_not_marked_for_a_question_asked_again(
    upstream: Upstream, tmp_path: Path, said: tuple[tuple[str, Any], ...]
) -> None:
    """After a restart the ledger does not know that it was answered; the store does."""
    running = Running(tmp_path, rows(upstream.url))
    complete(running, ONE)
    if len(said) > 1:
        complete(running, *said)
    whole = kept(running)
    running.stop()
    running = Running(tmp_path, rows(upstream.url))
    break_off(running, *said)
    try:
        assert kept(running) == whole
    finally:
        running.stop()


def test_a_fork_of_a_marked_conversation_is_not_marked(upstream: Upstream, tmp_path: Path) -> None:
    running = Running(tmp_path, rows(upstream.url))
    complete(running, ONE)
    break_off(running, ONE, ANSWERED, TWO)
    complete(running, ONE, ANSWERED, ("user", "another"))
    try:
        assert sorted(kept(running)) == [
            ((), ["one", "echo: one", "another", "echo: another"]),
            (("aborted",), ["one", "echo: one", "two"]),
        ]
    finally:
        running.stop()
