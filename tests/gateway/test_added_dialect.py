"""The example of CONTRIBUTING.md as one added file and one data folder: everything finds it, nothing else is edited."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.running import Running

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "example_dialect"
OTHERS = ("openai_chat", "openai_responses", "anthropic_messages", "gemini_generate")
ADD = "import cannery.dialects\ncannery.dialects.__path__.append({folder!r})\n"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The surroundings of a Python whose package of dialects has one more file."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (source,) = (block for block in blocks if 'NAME = "example_chat"' in block)
    folder = tmp_path_factory.mktemp("added")
    (folder / "dialects").mkdir()
    (folder / "dialects" / "example_chat.py").write_text(source, encoding="utf-8")
    added = ADD.format(folder=str(folder / "dialects"))
    (folder / "sitecustomize.py").write_text(added, encoding="utf-8")
    path = os.pathsep.join([str(folder), str(ROOT / "src")])
    return {**os.environ, "PYTHONPATH": path}


@pytest.fixture(scope="module")
def gateway(
    environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("gateway"), environment=environment, record=False)
    yield running
    running.stop()


def body(kind: str) -> Any:
    return json.loads((DATA / kind / "talk.json").read_bytes())["body"]


def run(environment: dict[str, str], *arguments: str, given: bytes = b"") -> bytes:
    ran = subprocess.run(
        [sys.executable, *arguments], input=given, env=environment, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout


def in_library(environment: dict[str, str], program: str, given: Any) -> Any:
    source = (
        f"import json, sys, cannery\ngiven = json.load(sys.stdin)\nprint(json.dumps({program}))"
    )
    return json.loads(run(environment, "-c", source, given=json.dumps(given).encode()))


@pytest.mark.parametrize("kind", ["requests", "responses"])
def test_the_same_dialect_gets_its_body_back(environment: dict[str, str], kind: str) -> None:
    one = kind.removesuffix("s")
    program = (
        f"json.loads(cannery.nativize_{one}(cannery.normalize_{one}(given, 'example_chat'),"
        " 'example_chat').body)"
    )
    assert in_library(environment, program, body(kind)) == body(kind)


@pytest.mark.parametrize("kind", ["requests", "responses"])
@pytest.mark.parametrize("target", OTHERS)
def test_others_and_back(environment: dict[str, str], kind: str, target: str) -> None:
    one = kind.removesuffix("s")
    program = (
        f"[json.loads(cannery.translate(cannery.translate(given, source='example', target='{target}',"
        f" kind='{one}', model=None).body, source='{target}', target='example', kind='{one}').body),"
        f" [loss.path for loss in cannery.translate(given, source='example', target='{target}',"
        f" kind='{one}').losses]]"
    )
    back, losses = in_library(environment, program, body(kind))
    said = body(kind)
    if kind == "requests":
        spoken = [{"role": turn["role"], "text": turn["text"]} for turn in said["turns"]]
        assert back["turns"] == spoken
        assert back["limit"] == said["limit"]
        assert {"turns[1].mood", "voice"} <= set(losses)
    else:
        assert (back["text"], back["ended"], back["tokens"]) == (
            said["text"],
            said["ended"],
            said["tokens"],
        )
        assert "queue" in losses


def test_streams_are_read_in_any_split_and_written(environment: dict[str, str]) -> None:
    given = (DATA / "streams" / "talk.ndjson").read_text()
    program = (
        "[b''.join(cannery.translate_stream([given.encode()[at:at + size] for at in"
        " range(0, len(given), size)], source='example', target='example')).decode()"
        " for size in (1, 7, 1000)]"
    )
    for written in in_library(environment, program, given):
        lines = [json.loads(line) for line in written.splitlines()]
        assert "".join(line.get("text", "") for line in lines) == "Hello to you"
        assert lines[-1] == {"done": True, "ended": "stop", "tokens": {"in": 5, "out": 3}}


def test_the_command_line_translates_to_and_from_it(environment: dict[str, str]) -> None:
    command = ("-m", "cannery", "translate", "--to")
    given = json.dumps(body("requests")).encode()
    chat = run(environment, *command, "openai_chat", given=given)
    assert json.loads(chat)["messages"][1] == {"role": "user", "content": "Hello"}
    back = run(environment, *command, "example_chat", given=chat)
    assert json.loads(back)["turns"][1] == {"role": "user", "text": "Hello"}
    stream = (DATA / "streams" / "talk.ndjson").read_bytes()
    assert b"chat.completion.chunk" in run(environment, *command, "openai", given=stream)


def talk(gateway: Running, **more: Any) -> tuple[str, bytes]:
    sent = {"model": "echo", "turns": [{"role": "user", "text": "Hello"}], **more}
    asked = urllib.request.Request(  # noqa: S310 - loopback
        f"{gateway.url}/v1/talk",
        json.dumps(sent).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(asked) as answer:  # noqa: S310 - loopback
        return answer.headers["content-type"], answer.read()


def test_the_gateway_serves_its_route(gateway: Running) -> None:
    _, said = talk(gateway)
    answer = json.loads(said)
    assert answer["text"] == "echo: Hello"
    assert answer["id"].startswith("talk-")


def test_the_gateway_streams_in_its_framing(gateway: Running) -> None:
    kind, said = talk(gateway, stream=True)
    lines = [json.loads(line) for line in said.splitlines()]
    assert kind == "application/x-ndjson"
    assert "".join(line.get("text", "") for line in lines) == "echo: Hello"
    assert lines[-1]["done"] is True
