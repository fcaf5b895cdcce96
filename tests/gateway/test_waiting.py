"""What waits for a store that is away, and replies that wait for their record."""

from __future__ import annotations

import http.client
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cannery.gateway.settings import parse_settings
from cannery.storage import open_store

from .running import Running, rows, wait_for
from .test_contract import ask, chat
from .upstream import Upstream

CHAT = "/v1/chat/completions"
MEGABYTE = 1 << 20


def test_what_waits_for_a_store_is_bounded_in_bytes(tmp_path: Path) -> None:
    """100 × 4 MB while the store is away stay below 200 MB, and go back within ten seconds of its return."""
    running = Running(tmp_path)
    ask(running, CHAT, chat("echo", ("user", "before")))
    running.settle()
    usual = running.rss()
    away = tmp_path / "away"
    running.store.rename(away)
    most = 0
    for number in range(100):
        body = chat("echo", ("user", f"{number} " + "word " * (4 * MEGABYTE // 5)))
        status, _, _ = ask(running, CHAT, body)
        assert status == 200
        most = max(most, running.rss())
    assert most < 200 * MEGABYTE
    found = running.metrics()
    assert 0 < found["cannery_recording_queue_bytes"] < 40 * MEGABYTE
    assert running.recorded("dropped") > 80
    assert ask(running, "/readyz")[0] == 503
    away.rename(running.store)
    wait_for(lambda: running.rss() < usual + 64 * MEGABYTE, "memory does not go back", 10)
    running.settle()
    assert running.metrics()["cannery_recording_queue_bytes"] == 0
    assert running.recorded() >= 2
    assert running.stop() == 0


def test_a_queue_of_bytes_must_be_possible() -> None:
    for text in ("queue_bytes = 0", 'acknowledge = "perhaps"'):
        with pytest.raises(ValueError, match="recording"):
            parse_settings(f"[recording]\n{text}\n")
    with pytest.raises(ValueError, match="syncs nothing"):
        parse_settings('[recording]\nacknowledge = "durable"\ndurability = "os"\n')


# --- replies that wait for their record -------------------------------------------------------


@pytest.fixture
def durable(upstream: Upstream, tmp_path: Path) -> Iterator[Running]:
    config = '[recording]\nacknowledge = "durable"\n' + rows(upstream.url)
    running = Running(tmp_path, config)
    yield running
    running.stop()


def _kept(running: Running) -> set[str]:
    store = open_store(str(running.store))
    kept = {summary.identifier for summary in store.list()}
    store.close()
    return kept


@pytest.mark.parametrize("stream", [False, True])
def test_what_was_acknowledged_outlives_a_kill(durable: Running, stream: bool) -> None:
    """The process is killed the moment the last of many replies has been read to its end."""
    named: list[str] = []
    for number, model in enumerate(("echo", "chat-m", "anthropic-m", "gemini-m", "responses-m")):
        body = chat(model, ("user", f"question {number}"), stream=stream)
        connection = http.client.HTTPConnection("127.0.0.1", durable.port, timeout=30)
        connection.request("POST", CHAT, json.dumps(body))
        answer = connection.getresponse()
        said = answer.read()
        assert (b"[DONE]" in said) == stream
        named.append(str(answer.headers["x-cannery-conversation"]))
        connection.close()
    durable.signal(signal.SIGKILL)
    durable.process.wait(10)
    assert set(named) <= _kept(durable)


def test_the_end_of_a_stream_waits_for_its_record(durable: Running) -> None:
    """While the store is away a reply goes on to its last event, and no further."""
    ask(durable, CHAT, chat("echo", ("user", "before")))
    away = durable.folder / "away"
    durable.store.rename(away)
    said: list[bytes] = []

    def read(model: str) -> None:
        body = chat(model, ("user", f"question for {model}"), stream=True)
        connection = http.client.HTTPConnection("127.0.0.1", durable.port, timeout=30)
        connection.request("POST", CHAT, json.dumps(body))
        answer = connection.getresponse()
        while chunk := answer.read1(65536):
            said.append(chunk)
        connection.close()

    models = ("chat-m", "anthropic-m", "echo")
    threads = [threading.Thread(target=read, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    time.sleep(1)
    heard = b"".join(said)
    assert heard.count(b"echo") >= len(models)
    assert b"[DONE]" not in heard
    assert b'"finish_reason":"stop"' not in heard
    away.rename(durable.store)
    for thread in threads:
        thread.join(20)
    assert b"".join(said).count(b"[DONE]") == len(models)


def test_a_reply_that_cannot_be_recorded_is_an_error(upstream: Upstream, tmp_path: Path) -> None:
    config = '[recording]\nacknowledge = "durable"\nqueue = 1\n' + rows(upstream.url)
    running = Running(tmp_path, config)
    ask(running, CHAT, chat("echo", ("user", "before")))
    away = tmp_path / "away"
    running.store.rename(away)
    waiting = threading.Thread(target=ask, args=(running, CHAT, chat("echo", ("user", "first"))))
    waiting.start()
    time.sleep(0.5)
    status, _, said = ask(running, CHAT, chat("chat-m", ("user", "second")))
    assert (status, said["error"]["code"]) == (503, "not_recorded")
    status, _, streamed = ask(running, CHAT, chat("chat-m", ("user", "third"), stream=True))
    assert status == 200
    assert b"could not be recorded" in streamed
    assert b"[DONE]" not in streamed
    away.rename(running.store)
    waiting.join(20)
    running.stop()


def test_by_default_a_reply_does_not_wait(upstream: Upstream, tmp_path: Path) -> None:
    running = Running(tmp_path, rows(upstream.url))
    ask(running, CHAT, chat("echo", ("user", "before")))
    away = tmp_path / "away"
    running.store.rename(away)
    begun = time.monotonic()
    answers: list[Any] = [ask(running, CHAT, chat("chat-m", ("user", "now"))) for _ in range(3)]
    assert {status for status, _, _ in answers} == {200}
    assert time.monotonic() - begun < 25  # of the 30 seconds that a reply would wait
    away.rename(running.store)
    running.settle()
    running.stop()
