"""What programs that know only Ollama ask beside the chat, of any upstream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import ollama
import pytest

from .clients import PIXEL
from .running import Running
from .test_clients import UPSTREAMS
from .upstream import Upstream

_CONFIG = """
[[upstreams]]
name = "claude"
dialect = "anthropic_messages"
url = "http://127.0.0.1:9"
models = ["claude-x"]
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Running:
    running = Running(tmp_path_factory.mktemp("ollama"), _CONFIG, record=False)
    yield running
    assert running.stop() == 0


def test_models_are_listed_and_shown(served: Running) -> None:
    client = ollama.Client(served.url)
    try:
        names = [model.model for model in client.list().models]
        assert {"claude-x", "echo"} <= set(names)
        assert {model.model for model in client.ps().models} == set(names)
        shown = client.show("claude-x")
        assert "tools" in shown.capabilities
        with pytest.raises(ollama.ResponseError) as refused:
            client.show("nobody")
        assert refused.value.status_code == 404
        assert "nobody" in str(refused.value)
    finally:
        client.close()


def test_what_is_not_offered_is_refused_in_the_words_of_ollama(served: Running) -> None:
    client = ollama.Client(served.url)
    try:
        with pytest.raises(ollama.ResponseError, match="there is nothing at POST /api/pull"):
            client.pull("claude-x")
    finally:
        client.close()


def test_the_version_is_told(served: Running) -> None:
    with urllib.request.urlopen(f"{served.url}/api/version") as answer:  # noqa: S310 - loopback
        assert json.loads(answer.read())["version"]


def test_a_request_streams_unless_it_says_otherwise(served: Running) -> None:
    body = {"model": "echo", "messages": [{"role": "user", "content": "a b c"}]}
    asked = urllib.request.Request(  # noqa: S310 - loopback
        f"{served.url}/api/chat", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(asked) as answer:  # noqa: S310 - loopback
        assert answer.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in answer.read().splitlines()]
    assert len(lines) > 2
    assert "".join(line["message"]["content"] for line in lines) == "echo: a b c"
    assert lines[-1]["done"] is True


@pytest.mark.parametrize("through", UPSTREAMS)
def test_generate_finishes_through_every_upstream(
    gateway: Running, upstream: Upstream, through: str
) -> None:
    upstream.problems.clear()
    client, model = ollama.Client(gateway.url), f"{through}-model"
    try:
        plain = client.generate(model, "Hi", system="Be brief.", options={"temperature": 0.1})
        assert (plain.response, plain.done) == ("echo: Hi", True)
        assert plain.eval_count > 0
        lines = list(client.generate(model, "one two three", stream=True))
        assert "".join(line.response for line in lines) == "echo: one two three"
        assert lines[-1].done is True
        assert lines[-1].eval_count > 0
        shown = client.generate(model, "What is this?", images=[PIXEL])
        assert "[image]" in shown.response
        with pytest.raises(ollama.ResponseError) as refused:
            client.generate(f"{through}-429", "Hi")
        assert refused.value.status_code == 429
        with pytest.raises(ollama.ResponseError) as refused:
            client.generate(model, "and then?", context=[1, 2, 3])
        assert refused.value.status_code == 422
        assert "HISTORY_MISSING at context" in str(refused.value)
    finally:
        client.close()
    assert upstream.problems == []


def test_a_model_is_loaded_by_asking_nothing(served: Running) -> None:
    client = ollama.Client(served.url)
    try:
        loaded = client.generate("echo", keep_alive="10m")
        assert (loaded.response, loaded.done, loaded.done_reason) == ("", True, "load")
        assert client.generate("echo", "").done_reason == "load"
        chat = client.chat("echo", [])
        assert (chat.message.content, chat.done_reason) == ("", "load")
        assert client.chat("echo", [], keep_alive=0).done_reason == "unload"
        with pytest.raises(ollama.ResponseError) as refused:
            client.generate("nobody")
        assert refused.value.status_code == 404
    finally:
        client.close()


def test_llm_ollama_finishes(served: Running, tmp_path: Path) -> None:
    pytest.importorskip("llm_ollama", reason="llm-ollama is not installed")
    environment = {**os.environ, "OLLAMA_HOST": served.url, "LLM_USER_PATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-m", "llm", "-m", "ollama/echo", "one two three"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "echo: one two three"
