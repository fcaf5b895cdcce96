"""Cost, budgets and requests a minute, per key."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cannery.gateway.prices import Prices
from cannery.messages import Usage

from .running import Running, wait_for
from .scripted import Scripted
from .test_contract import ask, chat
from .upstream import Upstream

CHAT = "/v1/chat/completions"
KEYS = {"ALICE": "key-of-alice", "BOB": "key-of-bob", "CAROL": "key-of-carol"}
CONFIG = """
[keys.alice]
variable = "ALICE"
daily_budget = 0.0000001
[keys.bob]
variable = "BOB"
requests_per_minute = 3
[keys.carol]
variable = "CAROL"
"""
ROW = """
[[upstreams]]
name = "{name}"
dialect = "{dialect}"
url = "{url}"
models = ["{models}"]
"""


def _rows(url: str) -> str:
    dialects = {
        "openai_chat": "gpt-4o*",
        "anthropic_messages": "claude-*",
        "gemini_generate": "gemini-*",
        "openai_responses": "gpt-5*",
    }
    return "".join(
        ROW.format(name=name, dialect=name, url=url, models=models)
        for name, models in dialects.items()
    )


def shown(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {KEYS[name]}"}


@pytest.fixture
def metered(upstream: Upstream, tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path, CONFIG + _rows(upstream.url), environment=KEYS)
    yield running
    running.stop()


def records(running: Running) -> list[dict[str, Any]]:
    running.settle()
    path = running.store / "gateway" / "exchanges.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- prices -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model,usage,dollars",
    [
        ("gpt-4o", Usage(1000, 100), 0.0035),
        ("gpt-4o", Usage(1000, 100, 500), 0.002875),
        ("claude-sonnet-4-5", Usage(1000, 100, 500, 100), 0.003225),
        ("models/gemini-2.0-flash", Usage(1_000_000, 0), 0.1),
    ],
)
def test_cache_reads_and_writes_have_their_own_price(
    model: str, usage: Usage, dollars: float
) -> None:
    found = Prices().cost(model, "http://127.0.0.1:1", usage)
    assert found is not None
    assert found.dollars == pytest.approx(dollars)


def test_a_price_may_depend_on_the_size() -> None:
    prices = Prices()
    small = prices.cost("gemini-2.5-pro", "", Usage(100_000, 0))
    large = prices.cost("gemini-2.5-pro", "", Usage(300_000, 0))
    assert small is not None
    assert large is not None
    assert large.dollars > 4 * small.dollars


def test_what_is_not_in_the_list_has_no_price() -> None:
    assert Prices().cost("nobody-knows-it", "", Usage(1, 1)) is None
    assert Prices().cost("gpt-4o", "", None) is None


# --- what is told -----------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash", "gpt-5-mini"])
def test_tokens_and_cost_are_recorded_and_in_the_metrics(
    metered: Running, model: str, stream: bool
) -> None:
    body = chat(model, ("user", "Hi"), stream=stream)
    if stream:
        body["stream_options"] = {"include_usage": True}
    assert ask(metered, CHAT, body, shown("CAROL"))[0] == 200
    (line,) = records(metered)
    assert line["key"] == "carol"
    assert line["input_tokens"] > 0
    assert line["cost"] > 0
    found = metered.metrics()
    (cost,) = [value for name, value in found.items() if name.startswith("cannery_cost_dollars")]
    assert cost == pytest.approx(line["cost"], rel=1e-3)
    (name,) = [name for name in found if name.startswith("cannery_cost_dollars")]
    assert 'key="carol"' in name
    assert found['cannery_key_requests_total{key="carol",kind="generate",status="200"}'] == 1
    assert found['cannery_key_tokens_total{key="carol",direction="input"}'] == line["input_tokens"]


# --- what is enforced -------------------------------------------------------------------------

PATHS: list[tuple[str, Any]] = [
    (CHAT, chat("gpt-4o", ("user", "Hi"))),
    (CHAT, chat("claude-sonnet-4-5", ("user", "Hi"), stream=True)),
    ("/v1/messages", {**chat("claude-sonnet-4-5", ("user", "Hi")), "max_tokens": 5}),
    ("/v1/messages/count_tokens", chat("claude-sonnet-4-5", ("user", "Hi"))),
    ("/v1/responses", {"model": "gpt-5-mini", "input": "Hi"}),
    ("/v1/models", None),
    ("/v1/conversations/x", None),
]


@pytest.mark.parametrize("first", [0, 1, 2, 4])
def test_a_budget_that_is_used_up_is_429_on_every_path(metered: Running, first: int) -> None:
    path, body = PATHS[first]
    assert ask(metered, path, body, shown("ALICE"))[0] == 200
    wait_for(lambda: ask(metered, path, body, shown("ALICE"))[0] == 429, "it is not used up")
    for path, body in PATHS:
        status, headers, said = ask(metered, path, body, shown("ALICE"))
        assert status == 429, path
        assert 0 < int(headers["retry-after"]) <= 86_400
        message = said["error"]["message"]
        assert "key 'alice' has used its daily budget" in message
        assert "renewed at" in message
    # Another key is none the worse.
    assert ask(metered, CHAT, PATHS[0][1], shown("CAROL"))[0] == 200


def test_a_stream_that_tells_no_tokens_spends_too(upstream: Upstream, tmp_path: Path) -> None:
    running = Running(tmp_path, CONFIG + _rows(upstream.url), environment=KEYS, record=False)
    body = chat("gpt-4o", ("user", "Hi"), stream=True)
    assert ask(running, CHAT, body, shown("ALICE"))[0] == 200
    assert ask(running, CHAT, body, shown("ALICE"))[0] == 429
    running.stop()


SAID = {"role": "assistant", "content": "Hello"}
UNTOLD = {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": []}


@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("choices", [[{"index": 0, "message": SAID, "finish_reason": "stop"}], []])
def test_a_whole_reply_that_tells_no_tokens_spends_too(
    tmp_path: Path, record: bool, choices: list[Any]
) -> None:
    with Scripted() as upstream:
        upstream.reply = {"status": 200, "json": {**UNTOLD, "choices": choices}}
        config = CONFIG + _rows(upstream.url)
        running = Running(tmp_path, config, environment=KEYS, record=record)
        body = chat("gpt-4o", ("user", "Hi"))
        assert ask(running, CHAT, body, shown("ALICE"))[0] == 200
        assert ask(running, CHAT, body, shown("ALICE"))[0] == 429
        running.stop()


COMPLETION = '{{"id":"1","object":"text_completion","choices":[{{"index":0,"text":"w"}}]{usage}}}'


@pytest.mark.parametrize("is_told", [True, False])
def test_a_stream_that_is_passed_on_spends_too(tmp_path: Path, is_told: bool) -> None:
    """A completion of the older API is no conversation, but costs as much."""
    usage = ',"usage":{"prompt_tokens":700,"completion_tokens":50,"total_tokens":750}'
    events = [COMPLETION.format(usage="")] * 40 + [COMPLETION.format(usage=usage)] * is_told
    with Scripted() as upstream:
        stream = "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])
        upstream.reply = {"status": 200, "stream": stream}
        config = CONFIG + _rows(upstream.url)
        running = Running(tmp_path, config, environment=KEYS)
        body = {"model": "gpt-4o", "prompt": "Hi " * 200, "stream": True}
        asked = {**shown("ALICE"), "content-type": "application/json"}
        assert ask(running, "/v1/completions", body, asked)[0] == 200
        running.settle()
        (record,) = records(running)
        tokens = record["input_tokens"], record["output_tokens"]
        assert tokens == ((700, 50) if is_told else (len(json.dumps(body)) // 4, 41))
        assert record["cost"] > 0
        assert ask(running, "/v1/completions", body, asked)[0] == 429
        running.stop()


@pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
@pytest.mark.parametrize("how", ["endless", "silent"])
def test_who_hangs_up_spends_too(upstream: Upstream, tmp_path: Path, path: str, how: str) -> None:
    running = Running(tmp_path, CONFIG + _rows(upstream.url), environment=KEYS)
    said = chat(f"claude-sonnet-4-5-{how}", ("user", "Hi"), stream=how == "endless", max_tokens=5)
    body = json.dumps(said).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n"
    head += f"authorization: Bearer {KEYS['ALICE']}\r\ncontent-type: application/json\r\n\r\n"
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as client:
        client.sendall(head.encode() + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        if how == "endless":
            assert b" 200 " in client.recv(100)
        else:
            wait_for(lambda: upstream.seen, "nothing is asked")
    name = 'cannery_key_requests_total{key="alice",kind="generate",status="499"}'
    wait_for(lambda: running.metrics().get(name), "it is not noticed")
    assert ask(running, CHAT, chat("gpt-4o", ("user", "Hi")), shown("ALICE"))[0] == 429
    assert [(one["key"], one["outcome"]) for one in records(running)] == [("alice", "aborted")]
    running.stop()
    again = Running(tmp_path, CONFIG + _rows(upstream.url), environment=KEYS)
    assert ask(again, CHAT, chat("gpt-4o", ("user", "Hi")), shown("ALICE"))[0] == 429
    again.stop()


@pytest.mark.parametrize("backend", ["directory", "sqlite"])
def test_spending_outlives_a_restart(upstream: Upstream, tmp_path: Path, backend: str) -> None:
    config = CONFIG + _rows(upstream.url)
    place = str(tmp_path / "store") if backend == "directory" else f"sqlite:{tmp_path}/a.sqlite"
    where = ("--store", place)
    first = Running(tmp_path, config, *where, record=None, environment=KEYS)
    assert ask(first, CHAT, PATHS[0][1], shown("ALICE"))[0] == 200
    assert first.stop() == 0
    second = Running(tmp_path, config, *where, record=None, environment=KEYS)
    assert ask(second, CHAT, PATHS[0][1], shown("ALICE"))[0] == 429
    second.stop()


def test_requests_a_minute_are_counted_on_every_path(metered: Running) -> None:
    found = [ask(metered, path, body, shown("BOB"))[0] for path, body in PATHS[:3]]
    assert found == [200, 200, 200]
    for path, body in PATHS:
        status, headers, said = ask(metered, path, body, shown("BOB"))
        assert status == 429, path
        assert 0 < int(headers["retry-after"]) <= 60
        assert "has made 3 requests within a minute" in said["error"]["message"]
    assert ask(metered, CHAT, PATHS[0][1], shown("CAROL"))[0] == 200


def _run(*words: str) -> str:
    command = [sys.executable, "-m", "cannery", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_command_line_tells_what_things_cost(metered: Running) -> None:
    first = ask(metered, CHAT, PATHS[0][1], shown("CAROL"))[1]["x-cannery-conversation"]
    ask(metered, CHAT, chat("unknown-model", ("user", "x")), shown("CAROL"))
    ask(metered, "/v1/messages", PATHS[2][1], shown("BOB"))
    lines = records(metered)
    store = ["--store", str(metered.store)]
    found = {
        each["id"]: each["cost"] for each in json.loads(_run("list", "--cost", "--json", *store))
    }
    assert found[first] == pytest.approx(lines[0]["cost"])
    assert "$0.0" in _run("list", "--cost", *store)
    assert "$" not in _run("list", *store)
    cost = json.loads(_run("stats", "--json", *store))["cost"]
    assert cost["dollars"] == pytest.approx(sum(line["cost"] for line in lines))
    assert set(cost["by_key"]) == {"carol", "bob"}
    assert cost["input_tokens"] == sum(line["input_tokens"] for line in lines)
    text = _run("stats", *store)
    assert "key carol: $" in text


@pytest.mark.parametrize("kind", ["directory", "sqlite"])
def test_gateways_that_share_a_store_share_budgets(
    upstream: Upstream, tmp_path: Path, kind: str
) -> None:
    """What is spent at one is refused at the other a moment later; asking for models costs nothing."""
    shared = f"sqlite:{tmp_path}/shared" if kind == "sqlite" else str(tmp_path / "shared")
    config = f'[recording]\nstore = "{shared}"\n{CONFIG}' + _rows(upstream.url)
    gateways = [
        Running(tmp_path / name, config, record=None, environment=KEYS) for name in ("one", "two")
    ]
    one, two = gateways
    try:
        body = chat("gpt-4o", ("user", "Hi"))
        assert ask(one, CHAT, body, shown("CAROL"))[0] == 200
        assert ask(one, CHAT, body, {**shown("ALICE"), "x-request-id": "mine"})[0] == 200
        wait_for(lambda: ask(two, "/v1/models", None, shown("ALICE"))[0] == 429, "it may go on")
        assert ask(two, CHAT, body, shown("ALICE"))[0] == 429
        assert ask(two, CHAT, body, shown("CAROL"))[0] == 200
    finally:
        for gateway in gateways:
            gateway.stop()
