"""Every official SDK through every upstream dialect: plain, streamed, tools, an image, an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .clients import CLIENTS, SCENARIOS, run
from .running import Running
from .upstream import Upstream

UPSTREAMS = (
    "chat",
    "responses",
    "anthropic",
    "gemini",
    "mistral",
    "ollama",
    "cohere",
    "interactions",
    "bedrock",
)
OLD = {
    "openai-1": ("chat", "responses"),
    "anthropic-0": ("messages",),
    "google-genai-1": ("gemini",),
}
OLD_FOLDER = Path(os.environ.get("CANNERY_CLIENTS") or Path(sys.prefix) / "clients")


def expected(scenario: str, said: Any) -> None:
    match scenario:
        case "plain":
            assert said == {"text": "echo: Hi", "output": True}
        case "streamed":
            assert said == {"text": "echo: one two three", "output": True}
        case "tool":
            assert said["name"] == "get_weather"
            assert said["arguments"] == {"city": "echo"}
            assert "4 degrees" in said["text"]
        case "image":
            assert said["text"].startswith("echo: What is this?")
            assert "[image]" in said["text"]
        case "error":
            assert said["status"] == 429
            assert "slow down, please" in said["message"]


def model_of(upstream: str, scenario: str) -> str:
    return f"{upstream}-429" if scenario == "error" else f"{upstream}-model"


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("through", UPSTREAMS)
@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_each_sdk_through_each_upstream(
    gateway: Running, upstream: Upstream, client: str, through: str, scenario: str
) -> None:
    upstream.problems.clear()
    (said,) = run(client, gateway.url, [(scenario, model_of(through, scenario))])
    expected(scenario, said)
    assert upstream.problems == []


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_each_sdk_with_the_built_in_echo(gateway: Running, client: str) -> None:
    scenarios = [scenario for scenario in SCENARIOS if scenario != "error"]
    for scenario, said in zip(
        scenarios, run(client, gateway.url, [(each, "echo") for each in scenarios]), strict=True
    ):
        expected(scenario, said)


@pytest.mark.parametrize(
    "generation,client",
    [(generation, client) for generation, clients in OLD.items() for client in clients],
)
def test_an_old_generation_of_each_sdk(gateway: Running, generation: str, client: str) -> None:
    folder = OLD_FOLDER / generation
    if not folder.is_dir():
        pytest.skip(f"needs {generation}: scripts/e2e_clients.py installs it")
    jobs = [
        (scenario, model_of(through, scenario)) for through in UPSTREAMS for scenario in SCENARIOS
    ]
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).parent / "clients.py"),
            client,
            gateway.url,
            json.dumps(jobs),
        ],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for (scenario, _), said in zip(jobs, json.loads(done.stdout), strict=True):
        expected(scenario, said)
