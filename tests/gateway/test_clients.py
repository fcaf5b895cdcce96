"""Every official SDK through every upstream dialect: plain, streamed, tools, an image, an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cohere
import httpx
import pytest

from .clients import CLIENTS, SCENARIOS, Chat, run
from .running import ROWS, Running
from .upstream import RETRY_AFTER, Upstream

UPSTREAMS = tuple(ROWS)
OLD = {
    "openai-1": ("chat", "responses"),
    "anthropic-0": ("messages",),
    "google-genai-1": ("gemini",),
}
OLD_FOLDER = Path(os.environ.get("CANNERY_CLIENTS") or Path(sys.prefix) / "clients")


_OPENAI = ("invalid_request_error", "authentication_error", "rate_limit_error", "server_error")
_CLAUDE = (*_OPENAI[:3], "api_error")
_GOOGLE = ("INVALID_ARGUMENT", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "INTERNAL")
# How each API names the errors 400, 401, 429 and 500, where it has names for them.
KINDS = {
    "chat": (*_OPENAI, "api_error"),
    "responses": (*_OPENAI, "api_error"),
    "messages": _CLAUDE,
    "gemini": _GOOGLE,
    "interactions": ("invalid_request", "unauthenticated", "resource_exhausted", "internal"),
    "mistral": (
        "invalid_request_error",
        "authentication_error",
        "rate_limited",
        "internal_server_error",
    ),
    "bedrock": (
        *("ValidationException", "UnrecognizedClientException"),
        *("ThrottlingException", "InternalServerException"),
    ),
}
STATUSES = (400, 401, 429, 500, 500)


def expected(scenario: str, model: str, said: Any, client: str = "") -> None:
    match scenario:
        case "plain":
            assert said == {"text": "echo: Hi", "output": True}
        case "streamed":
            assert said == {"text": "echo: one two three", "output": True}
        case "tool" | "streamed_tool":
            assert said["name"] == "get_weather"
            assert said["arguments"] == {"city": "echo"}
            assert "4 degrees" in said["text"]
        case "image":
            assert said["text"].startswith("echo: What is this?")
            assert "[image]" in said["text"]
        case "error":
            status = int(model.rpartition("-")[2])
            assert said["status"] == status
            assert f"told {status}" in said["message"]
            assert said.get("retry", RETRY_AFTER) == RETRY_AFTER
            api = client.partition("_")[0]
            kinds = zip(KINDS.get(api, ()), STATUSES, strict=False)
            assert said.get("kind") in (None, *(kind for kind, code in kinds if code == status))
        case "broken":
            assert said


@pytest.fixture(scope="module")
def made(gateway: Running) -> Iterator[dict[str, Chat]]:
    """One client of each SDK: making them takes longer than what they do here."""
    clients = {name: kind(gateway.url) for name, kind in CLIENTS.items()}
    yield clients
    for client in clients.values():
        client.close()


def jobs_of(upstream: str) -> list[tuple[str, str]]:
    return [(scenario, f"{upstream}-{word}") for scenario, word in SCENARIOS]


@pytest.mark.parametrize("through", UPSTREAMS)
@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_each_sdk_through_each_upstream(
    made: dict[str, Chat], upstream: Upstream, client: str, through: str
) -> None:
    upstream.problems.clear()
    for scenario, model in jobs_of(through):
        (said,) = run(made[client], [(scenario, model)])
        expected(scenario, model, said, client)
    assert upstream.problems == []


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_each_sdk_with_the_built_in_echo(made: dict[str, Chat], client: str) -> None:
    jobs = [(scenario, "echo") for scenario, word in SCENARIOS if word == "model"]
    for (scenario, model), said in zip(jobs, run(made[client], jobs), strict=True):
        expected(scenario, model, said)


@pytest.mark.parametrize(
    "generation,client",
    [(generation, client) for generation, clients in OLD.items() for client in clients],
)
def test_an_old_generation_of_each_sdk(gateway: Running, generation: str, client: str) -> None:
    folder = OLD_FOLDER / generation
    if not folder.is_dir():
        pytest.skip(f"needs {generation}: scripts/e2e_clients.py installs it")
    jobs = [job for through in UPSTREAMS for job in jobs_of(through)]
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
    for (scenario, model), said in zip(jobs, json.loads(done.stdout), strict=True):
        expected(scenario, model, said, client)


def test_the_old_api_of_cohere_is_refused_with_the_way_out(gateway: Running) -> None:
    with httpx.Client() as http:
        old = cohere.Client("k", base_url=gateway.url, httpx_client=http)
        with pytest.raises(cohere.BadRequestError, match="to /v2/chat"):
            old.chat(message="hi", model="echo")
