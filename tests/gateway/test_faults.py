"""What goes wrong, upstream and down: each with its own clear error, nothing lost, nothing leaked."""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cannery.storage import open_store

from .running import EVERY, Running, rows, wait_for, words
from .test_contract import ask, chat
from .upstream import RETRY_AFTER, Upstream

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
NAMES = tuple(EVERY)


@pytest.fixture(scope="module")
def impatient(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway that waits for a second, and tries twice more."""
    config = "[limits]\nreply_bytes = 16000000\n"
    config += rows(upstream.url, timeouts="{ connect = 1.0, read = 1.0 }", retries=0)
    dead = socket.socket()
    dead.bind(("127.0.0.1", 0))
    config += (
        f'[[upstreams]]\nname = "dead"\nurl = "http://127.0.0.1:{dead.getsockname()[1]}"\nmodels = ["dead"]\n'
        f'[[upstreams]]\nname = "tough"\nurl = "{upstream.url}"\nmodels = ["tough-*"]\nretries = 2\n'
        f'[[upstreams]]\nname = "weak"\nurl = "{upstream.url}"\nmodels = ["weak-*"]\n'
    )
    running = Running(tmp_path_factory.mktemp("impatient"), config)
    yield running
    dead.close()
    running.stop()


def talk(
    running: Running, model: str, path: str = CHAT, **more: Any
) -> tuple[int, dict[str, str], Any]:
    return ask(running, path, {**chat(model, ("user", "Hi")), "max_tokens": 9, **more})


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stream", [False, True])
def test_an_upstreams_429_keeps_status_message_request_id_and_advice(
    impatient: Running, name: str, path: str, stream: bool
) -> None:
    status, headers, said = talk(impatient, f"{name}-429", path, stream=stream)
    assert status == 429
    assert headers["retry-after"] == RETRY_AFTER
    assert headers["x-request-id"] == "up-429"
    assert "slow down, please" in said["error"]["message"]


@pytest.mark.parametrize("name", NAMES)
def test_an_upstreams_500_stays_one(impatient: Running, name: str) -> None:
    status, _, said = talk(impatient, f"{name}-500", MESSAGES)
    assert (status, said["type"]) == (500, "error")
    assert "it broke" in said["error"]["message"]


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_a_status_that_means_nothing_is_502(impatient: Running, path: str) -> None:
    status, _, said = talk(impatient, "chat-999", path)
    assert status == 502
    assert "status 999" in said["error"]["message"]


def test_an_error_page_becomes_an_error(impatient: Running) -> None:
    for path in (CHAT, MESSAGES):
        status, headers, said = talk(impatient, "chat-html", path)
        assert (status, headers["content-type"]) == (503, "application/json")
        assert said["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_slow_upstream_is_504(impatient: Running, stream: bool) -> None:
    for path in (CHAT, MESSAGES):
        status, _, said = talk(impatient, "chat-slow", path, stream=stream)
        assert status == 504
        assert "in time" in said["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_unpacks_to_far_more_is_502(impatient: Running, stream: bool) -> None:
    body = chat("chat-bomb", ("user", "Hi"), stream=stream)
    status, _, said = ask(impatient, "/v1/chat/completions", body)
    assert (status, said["error"]["code"]) == (502, "upstream_too_large")


def test_an_upstream_that_is_not_there_is_502(impatient: Running) -> None:
    status, _, said = talk(impatient, "dead")
    assert (status, said["error"]["code"]) == (502, "upstream_unreachable")


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("name", NAMES)
def test_garbage_is_502(impatient: Running, name: str, path: str) -> None:
    status, _, said = talk(impatient, f"{name}-garbage", path)
    assert status == 502
    assert "not a reply" in said["error"]["message"]


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", ["cut", "quit", "garbage"])
def test_a_stream_that_breaks_ends_with_an_error_in_the_callers_dialect(
    impatient: Running, name: str, path: str, fault: str
) -> None:
    status, _, said = talk(impatient, f"{name}-{fault}", path, stream=True)
    assert status == 200
    frames = [frame for frame in said.decode("utf-8", "replace").split("\n\n") if frame.strip()]
    last = json.loads(frames[-1].partition("data: ")[2])
    assert last["error"]["message"]
    assert b"[DONE]" not in said
    assert b"message_stop" not in said


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "fault,expected,words",
    [("page", 502, "not a reply"), ("sorry", 429, "no provider is free")],
    ids=["a page", "an error"],
)
def test_status_200_does_not_make_an_answer_or_a_stream(
    impatient: Running, name: str, path: str, stream: bool, fault: str, expected: int, words: str
) -> None:
    status, _, said = talk(impatient, f"{name}-{fault}", path, stream=stream)
    assert status == expected
    assert words in said["error"]["message"]


def test_a_whole_answer_that_breaks_off_is_502(impatient: Running) -> None:
    status, _, said = talk(impatient, "chat-cut")
    assert (status, said["error"]["code"]) == (502, "upstream_broken")


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_an_upstream_that_ignores_stream_is_streamed_all_the_same(
    impatient: Running, path: str
) -> None:
    status, headers, said = talk(impatient, "chat-whole", path, stream=True)
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    assert b"six" in said


def test_retries_are_as_many_as_the_row_says(impatient: Running, upstream: Upstream) -> None:
    assert talk(impatient, "weak-flaky")[0] == 503
    assert upstream.attempts["weak-flaky"] == 1
    assert talk(impatient, "tough-flaky")[0] == 200
    assert upstream.attempts["tough-flaky"] == 3
    status, headers, _ = talk(impatient, "tough-500")
    assert (status, headers["x-should-retry"]) == (500, "false")


@pytest.mark.parametrize("name", ["chat-silent", "anthropic-silent"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_hangs_up_cancels_the_upstreams_work(
    gateway: Running, upstream: Upstream, name: str, stream: bool
) -> None:
    before, seen = upstream.hang_ups, len(upstream.seen)
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=10)
    connection.request("POST", CHAT, json.dumps(chat(name, ("user", "x"), stream=stream)))
    wait_for(lambda: len(upstream.seen) > seen, "the upstream is not asked")
    connection.close()
    wait_for(lambda: upstream.hang_ups > before, "the upstream is not told")
    assert upstream.hang_ups == before + 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[1, 2]",
        b'{"model": "echo"}',
        b'{"model": "echo", "messages": 5}',
        b'{"model": "echo", "messages": [5]}',
        b'{"model": "echo", "messages": [{"content": "x"}]}',
        b'{"model": "echo", "messages": [{"role": 7, "content": "x"}]}',
        b'{"model": 7, "messages": [{"role": "user", "content": {"a": 1}}]}',
        b'{"model": "nobody-has-it", "messages": [{"role": "user", "content": "x"}]}',
        b'{"model": "echo", "messages": [{"role": "user", "content": [{"type": 1}]}]}',
        b"[" * 20000,
    ],
)
@pytest.mark.parametrize("path", [CHAT, MESSAGES, "/v1/responses"])
def test_malformed_bodies_are_refused_in_the_callers_dialect(
    gateway: Running, path: str, body: bytes
) -> None:
    status, _, said = ask(gateway, path, body)
    assert status in (200, 400, 404), said
    if status != 200:
        assert said["error"]["message"]


def test_shutdown_finishes_streams(upstream: Upstream, tmp_path: Path) -> None:
    running = Running(tmp_path, rows(upstream.url))
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    connection.request("POST", CHAT, json.dumps(chat("chat-pause", ("user", "x"), stream=True)))
    wait_for(lambda: running.metrics()["cannery_active_requests"], "the call does not come")
    stopper = threading.Thread(target=running.stop)
    stopper.start()
    said = connection.getresponse().read()
    stopper.join(20)
    connection.close()
    assert said.endswith(b"data: [DONE]\n\n")
    assert running.process.returncode == 0
    store = open_store(str(running.store))
    assert len(store.list()) == 1
    store.close()


MALFORMED = [
    b"{",
    b'{"model": "echo", "messages": [{"role": "root", "content": "x"}]}',
    b'{"messages": 1}',
    b"\xff\xfe",
]


def text_of(path: str, said: bytes, *, stream: bool) -> str:
    """What the model said, in either dialect, whole or in pieces."""
    if not stream:
        value = json.loads(said)
        return str(
            value["content"][0]["text"]
            if path == MESSAGES
            else value["choices"][0]["message"]["content"]
        )
    frames = [
        json.loads(line.removeprefix(b"data: "))
        for line in said.splitlines()
        if line.startswith(b"data: {")
    ]
    if path == MESSAGES:
        return "".join(frame.get("delta", {}).get("text", "") for frame in frames)
    return "".join(frame["choices"][0]["delta"].get("content") or "" for frame in frames)


def test_ten_thousand_calls_mixed_with_malformed_ones(upstream: Upstream, tmp_path: Path) -> None:
    """No wrong answer, no lost recording, no leak."""
    running = Running(
        tmp_path, rows(upstream.url) + "[recording]\ndurability = 'os'\n", "--log-level", "warning"
    )
    total, bad = 10_000, 200
    spoiled = set(random.Random(5).sample(range(total), bad))
    wrong: list[Any] = []

    def work(numbers: range) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
        for number in numbers:
            path, stream = (CHAT, MESSAGES)[number % 2], number % 3 == 0
            question = f"question {number % 500}"
            asked = {**chat("echo", ("user", question), stream=stream), "max_tokens": 99}
            is_bad = number in spoiled
            body = MALFORMED[number % len(MALFORMED)] if is_bad else json.dumps(asked).encode()
            connection.request("POST", path, body)
            answer = connection.getresponse()
            said = answer.read()
            if is_bad:
                is_right = answer.status == 400
            else:
                is_right = answer.status == 200
                is_right &= text_of(path, said, stream=stream) == f"echo: {question}"
            if not is_right:
                wrong.append((number, answer.status, said[:200]))
        connection.close()

    try:
        work(range(300))
        running.settle()
        before, files = running.rss(), running.open_files()
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(work, [range(start, total, 16) for start in range(16)]))
        running.settle(120)
        metrics = running.metrics()
        assert wrong == []
        good = total - bad + 300 - len(spoiled & set(range(300)))
        assert running.recorded() == good
        assert metrics["cannery_active_requests"] == 0
        assert running.recorded("failed") == running.recorded("dropped") == 0
        assert running.rss() < 120 << 20
        assert running.rss() - before < 40 << 20
        assert running.open_files() <= files + 16
    finally:
        running.stop()
    store = open_store(str(running.store))
    assert store.verify().damages == ()
    held = {tuple(words(store.get(each.identifier).load())) for each in store.list()}
    assert held == {(f"question {number}", f"echo: question {number}") for number in range(500)}
    store.close()
