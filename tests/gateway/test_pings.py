"""Streams whose upstream falls silent: the caller hears something that means nothing, and nothing is broken by it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from google import genai

from tests.oracles.stream_rules import check_stream_rules

from .running import EVERY, Running, rows
from .test_contract import ask, chat
from .upstream import Upstream

CHAT = "/v1/chat/completions"
TEXT = "one two three four five six"
UPSTREAMS = tuple(EVERY)


@pytest.fixture(scope="module")
def impatient(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    config = "[server]\nping_seconds = 0.3\n" + rows(upstream.url)
    running = Running(tmp_path_factory.mktemp("pings"), config)
    yield running
    running.stop()


@pytest.mark.parametrize("name", UPSTREAMS)
def test_a_silent_upstream_is_bridged_by_comments(impatient: Running, name: str) -> None:
    body = chat(f"{name}-hesitant", ("user", "Hi"), stream=True)
    status, _, said = ask(impatient, CHAT, body)
    assert status == 200
    assert said.count(b": ping\n\n") >= 2
    # Where it passes through, the second silence is in the middle of an event, and nothing is put there.
    without = said.replace(b": ping\n\n", b"")
    assert check_stream_rules("openai_chat", without) == []
    events = [line[6:] for line in said.split(b"\n") if line.startswith(b"data: {")]
    told = "".join(
        json.loads(event)["choices"][0]["delta"].get("content") or ""
        for event in events
        if json.loads(event)["choices"]
    )
    assert told == f"echo: {TEXT}"


def _hear_openai(url: str, model: str) -> str:
    client = openai.OpenAI(base_url=f"{url}/openai/v1", api_key="x")
    stream = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "Hi"}], stream=True
    )
    return "".join(part.choices[0].delta.content or "" for part in stream if part.choices)


def _hear_anthropic(url: str, model: str) -> str:
    client = anthropic.Anthropic(base_url=f"{url}/anthropic", api_key="x")
    with client.messages.stream(
        model=model, max_tokens=100, messages=[{"role": "user", "content": "Hi"}]
    ) as stream:
        return "".join(stream.text_stream)


def _hear_gemini(url: str, model: str) -> str:
    options: Any = {"base_url": f"{url}/gemini"}
    client = genai.Client(api_key="x", http_options=options)
    parts = client.models.generate_content_stream(model=model, contents="Hi")
    return "".join(part.text or "" for part in parts)


@pytest.mark.parametrize("name", UPSTREAMS)
@pytest.mark.parametrize("hear", [_hear_openai, _hear_anthropic, _hear_gemini])
def test_clients_hear_the_same_with_pings(impatient: Running, name: str, hear: Any) -> None:
    assert hear(impatient.url, f"{name}-hesitant") == f"echo: {TEXT}"


def test_a_list_is_bridged_by_white_space(impatient: Running) -> None:
    path = "/v1beta/models/chat-hesitant:streamGenerateContent"
    body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    status, _, said = ask(impatient, path, body)
    assert (status, isinstance(said, list)) == (200, True)


def test_http2_is_bridged_too(impatient: Running) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    body = json.dumps(chat("anthropic-hesitant", ("user", "Hi"), stream=True))
    command = ["curl", "--silent", "--http2-prior-knowledge", impatient.url + CHAT, "--data", body]
    done = subprocess.run(command, capture_output=True, check=True, timeout=30)
    assert b": ping\n\n" in done.stdout
    assert check_stream_rules("openai_chat", done.stdout.replace(b": ping\n\n", b"")) == []


def test_pings_can_be_switched_off(upstream: Upstream, tmp_path_factory: Any) -> None:
    config = "[server]\nping_seconds = 0\n" + rows(upstream.url)
    running = Running(tmp_path_factory.mktemp("silent"), config, record=False)
    _, _, said = ask(running, CHAT, chat("chat-hesitant", ("user", "Hi"), stream=True))
    running.stop()
    assert b"ping" not in said
