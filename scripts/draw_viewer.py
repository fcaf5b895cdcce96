"""Draw the pictures of docs/viewer.md: real exchanges through a real gateway, captured in a real browser.

    .venv/bin/python scripts/draw_viewer.py [FOLDER]

An agent works in a generated git repository: every command is run, and the agent receives its output. An upstream with
prepared answers provides the agent's text, a chat with branches and questions about an image. Everything goes through
``cannery serve`` and is displayed as it was recorded. Needs Chromium (Debian: ``apt-get install chromium``).
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BROKEN = '''"""Numbers out of text."""


def parse(text):
    """The first number of a text."""
    tokens = [word for word in text.split() if word.isdigit()]
    return int(tokens[0])
'''
TEST = """import unittest

from numbers_in_text import parse


class Parsing(unittest.TestCase):
    def test_first_number(self):
        self.assertEqual(parse("3 of 4"), 3)

    def test_nothing(self):
        self.assertIsNone(parse("no number"))


unittest.main()
"""
TOOLS = [
    {
        "name": name,
        "description": told,
        "input_schema": {
            "type": "object",
            "properties": {each: {"type": "string"} for each in members},
            "required": members[:1],
        },
    }
    for name, told, members in (
        ("Read", "Read a file.", ["file_path"]),
        ("Bash", "Run a command.", ["command", "description"]),
        ("Edit", "Replace text in a file.", ["file_path", "old_string", "new_string"]),
    )
]
SIGNATURE = base64.b64encode(bytes(range(18, 218))).decode()
OLD, NEW = "    return int(tokens[0])", "    return int(tokens[0]) if tokens else None"
SYSTEM = (
    "You are a coding agent in a terminal. Work in small steps, run the tests after every change, and say what you did "
    "in a few words. Never commit what does not pass.\n\n" + "Prefer the standard library. " * 30
)


# --- the upstream ------------------------------------------------------------------------------


class Upstream(ThreadingHTTPServer):
    """Answers each request with a prepared answer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: list[dict[str, Any]] = []
        # Requests wait until this is set.
        self.speaks = threading.Event()
        self.speaks.set()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Upstream

    def log_message(self, *_: Any) -> None:
        """Suppress the access log."""

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["content-length"]))
        said = self.server.answer
        # About the response time of a model.
        time.sleep(min(0.2 + len(json.dumps(said)) / 1000, 1.5))
        self.server.speaks.wait(30)
        has_calls = any(block["type"] == "tool_use" for block in said)
        body = json.dumps(
            {
                "id": "msg_01",
                "type": "message",
                "role": "assistant",
                "model": json.loads(asked)["model"],
                "content": said,
                "stop_reason": "tool_use" if has_calls else "end_turn",
                "stop_sequence": None,
                "usage": {
                    "input_tokens": len(asked) // 4,
                    "output_tokens": len(json.dumps(said)) // 4,
                },
            }
        ).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


# --- conversations -----------------------------------------------------------------------------


class Talk:
    """A conversation with a model through the gateway."""

    def __init__(self, base: str, upstream: Upstream, model: str, system: str = "") -> None:
        self._base, self._upstream, self._model, self._system = base, upstream, model, system
        self.messages: list[dict[str, Any]] = []
        self.name = ""

    def say(self, content: Any, *answer: dict[str, Any]) -> None:
        """Send a message, and receive an answer."""
        self._upstream.answer = list(answer)
        self.messages.append({"role": "user", "content": content})
        body = {"model": self._model, "max_tokens": 4096, "messages": self.messages}
        if self._system:
            body |= {"system": self._system, "tools": TOOLS}
        request = urllib.request.Request(  # noqa: S310 - our own gateway
            f"{self._base}/anthropic/v1/messages",
            json.dumps(body).encode(),
            {"content-type": "application/json", "user-agent": "agent/1.0"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310 - the same
            self.name = str(reply.headers["x-cannery-conversation"])
        self.messages.append({"role": "assistant", "content": list(answer)})

    def branch(self, at: int) -> Talk:
        """A copy of the talk up to a message."""
        other = Talk(self._base, self._upstream, self._model, self._system)
        other.messages = self.messages[:at]
        return other


def text(words: str) -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": words}


def call(name: str, identifier: str, **arguments: Any) -> dict[str, Any]:
    """A block that calls a tool."""
    return {"type": "tool_use", "id": identifier, "name": name, "input": arguments}


def result(identifier: str, output: str, *, failed: bool = False) -> dict[str, Any]:
    """A block that answers a call."""
    found: dict[str, Any] = {"type": "tool_result", "tool_use_id": identifier, "content": output}
    return {**found, "is_error": True} if failed else found


class Repository:
    """A git repository with a failing test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "numbers_in_text.py").write_text(BROKEN)
        (folder / "test_numbers.py").write_text(TEST)
        self.run("git init -q && git add -A && git commit -qm 'Find the first number'")

    def run(self, command: str) -> tuple[str, bool]:
        """Run a command; return its output, and whether it failed."""
        identity = {
            f"GIT_{who}_{what}": "agent"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **identity, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        printed = (done.stdout + done.stderr).replace(str(self._folder), "~/project")
        return printed.strip(), done.returncode != 0

    def edit(self, old: str, new: str) -> None:
        path = self._folder / "numbers_in_text.py"
        path.write_text(path.read_text().replace(old, new))


def agent_session(talk: Talk, repository: Repository) -> None:
    """An agent fixes a failing test, in the repository in its current state."""
    look, tests = "cat numbers_in_text.py", "python3 test_numbers.py"
    thought = {
        "type": "thinking",
        "thinking": "The test for text without a number fails. I will read the function and run the tests first.",
        "signature": SIGNATURE,
    }
    talk.say(
        "One of the tests fails. Please find out why, and mend it.",
        thought,
        text("I will read the code and run the tests."),
        call("Read", "toolu_1", file_path="numbers_in_text.py"),
        call("Bash", "toolu_2", command=tests, description="Run the tests"),
    )
    talk.say(
        [
            result("toolu_1", repository.run(look)[0]),
            result("toolu_2", repository.run(tests)[0], failed=True),
        ],
        text("`parse` takes the first of an empty list. It should give `None` instead."),
        call("Edit", "toolu_3", file_path="numbers_in_text.py", old_string=OLD, new_string=NEW),
    )
    repository.edit(OLD, NEW)
    talk.say(
        [result("toolu_3", "The file was updated.")],
        call(
            "Bash",
            "toolu_4",
            command=f"{tests} && git commit -qam 'Give None without a number' && git log --oneline",
        ),
    )
    told, _ = repository.run(
        f"{tests} && git commit -qam 'Give None without a number' && git log --oneline"
    )
    talk.say(
        [result("toolu_4", told)],
        text(
            "Mended and committed.\n\n| text | before | now |\n|---|---|---|\n| `3 of 4` | 3 | 3 |\n"
            "| `no number` | IndexError | `None` |\n\n```python\nassert parse('no number') is None\n```"
        ),
    )
    status, _ = repository.run("git status --short --branch")
    talk.say(
        "Thanks. Is anything left to commit?",
        call("Bash", "toolu_5", command="git status --short --branch"),
    )
    talk.say([result("toolu_5", status)], text("No, the working tree is clean."))


def branched_chat(talk: Talk) -> None:
    """A chat whose second question was asked in three ways."""
    talk.say(
        "Where shall we go in Lisbon on a rainy weekend?",
        text("To the tile museum, and to Alfama when it clears up."),
    )
    other, third = talk.branch(2), talk.branch(2)
    talk.say(
        "And where do we eat?",
        text("Grilled sardines in a *tasca* near the castle; book before seven."),
    )
    other.say(
        "And where do we eat, if one of us is vegan?",
        text("In Mouraria: try the lentil stew, and book before eight."),
    )
    third.say(
        "What if we have only one day?",
        text("Then skip the museum. Take tram 28 early, and walk down."),
    )


def picture(width: int = 420, height: int = 220) -> bytes:
    """A PNG of hills in the evening."""
    rows = []
    for y in range(height):
        row = bytearray([0])
        for x in range(width):
            hill = 140 + 22 * math.sin(x / 47) + 9 * math.sin(x / 13)
            shade = (70, 60, 90) if y > hill else (250 - y // 2, 150 + y // 4, 90 + y // 2)
            row += bytes(min(255, part) for part in shade)
        rows.append(bytes(row))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"".join(rows)))
        + chunk(b"IEND", b"")
    )


def picture_chat(talk: Talk) -> None:
    """A question about an image."""
    source = {
        "type": "base64",
        "media_type": "image/png",
        "data": base64.b64encode(picture()).decode(),
    }
    talk.say(
        [{"type": "image", "source": source}, text("Which time of day is it here?")],
        text("Evening: the sky is orange above dark hills."),
    )


# --- pictures ----------------------------------------------------------------------------------


@contextmanager
def serving(folder: Path, upstream: Upstream) -> Iterator[str]:
    """Run a gateway with its upstream, and yield its address."""
    config = folder / "gateway.toml"
    url = f"http://127.0.0.1:{upstream.server_address[1]}"
    config.write_text(
        f'[[upstreams]]\nname = "anthropic"\nurl = "{url}"\ndialect = "anthropic_messages"\nmodels = ["claude-*"]\n'
    )
    command = [
        sys.executable,
        "-m",
        "cannery.gateway",
        "--config",
        str(config),
        "--port",
        "0",
        "--store",
        str(folder / "store"),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        found = process.stdout and re.search(r"http://[\d.:]+", process.stdout.readline())
        if not found or process.stdout is None:
            raise SystemExit("the gateway does not start")
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield found[0]
        process.terminate()


def shots(agent: str, chat: str, image: str, exported: str) -> dict[str, tuple[str, str, int, int]]:
    """The pictures: address, colour scheme, width and height."""
    return {
        "list": ("/ui", "light", 1200, 560),
        "conversation": (f"/ui/c/{agent}", "light", 1200, 900),
        "conversation-dark": (f"/ui/c/{agent}?at=8#m8", "dark", 1200, 800),
        "picker": (f"/ui/c/{chat}", "light", 1200, 640),
        "branches": (f"/ui/c/{chat}/tree", "light", 1200, 480),
        "compare": ("/ui/compare?a={a}&b={b}", "light", 1200, 560),
        "as": (f"/ui/c/{agent}/as?to=openai_chat&model=gpt-5", "light", 1280, 860),
        "doctor": (f"/ui/c/{agent}/doctor", "light", 1200, 560),
        "search": ("/ui?q=number", "light", 1200, 560),
        "image": (f"/ui/c/{image}", "light", 1200, 640),
        "phone": (f"/ui/c/{agent}", "dark", 390, 760),
        "export": (exported, "light", 1200, 800),
    }


def draw(base: str, wanted: dict[str, tuple[str, str, int, int]], folder: Path) -> None:
    """Open every page, and save a screenshot."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, (path, scheme, width, height) in wanted.items():
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,  # type: ignore[arg-type]  # one of two words
            )
            page = context.new_page()
            page.goto(path if path.startswith("file:") else base + path)
            page.wait_for_timeout(700)
            page.screenshot(path=str(folder / f"viewer-{name}.png"))
            context.close()
            print(f"viewer-{name}.png")
        browser.close()


def main() -> None:
    """Draw all pictures."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    upstream = Upstream()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "repository").mkdir()
        with serving(folder, upstream) as base:
            chat = Talk(base, upstream, "claude-opus-4-5")
            branched_chat(chat)
            image = Talk(base, upstream, "claude-sonnet-4-5")
            picture_chat(image)
            agent = Talk(base, upstream, "claude-sonnet-4-5", SYSTEM)
            agent_session(agent, Repository(folder / "repository"))
            address = f"{base}/ui/c/{chat.name}/tree.json"
            with urllib.request.urlopen(address, timeout=30) as reply:  # noqa: S310 - the same
                branches = [branch["id"] for branch in json.load(reply)["branches"]]
            wanted = shots(agent.name, chat.name, image.name, export(folder, agent.name))
            path, *rest = wanted["compare"]
            wanted["compare"] = (path.format(a=branches[0], b=branches[1]), *rest)  # type: ignore[assignment]
            draw(base, wanted, target)
            draw_running(base, Talk(base, upstream, "claude-opus-4-5"), upstream, target)


def export(folder: Path, name: str) -> str:
    """Export a conversation to one file, and return its address."""
    path = folder / "session.html"
    where = ["--store", str(folder / "store"), "--output", str(path)]
    command = [sys.executable, "-m", "cannery", "export", name, "--as", "html", *where]
    subprocess.run(command, check=True, capture_output=True)
    return f"file://{path}"


def draw_running(base: str, talk: Talk, upstream: Upstream, target: Path) -> None:
    """Draw the list while a new request runs."""
    upstream.speaks.clear()
    question = "Which of our tests is the slowest, and why?"
    asking = threading.Thread(target=talk.say, args=(question, text("The one that waits.")))
    asking.start()
    time.sleep(1)
    draw(base, {"running": ("/ui", "light", 1200, 380)}, target)
    upstream.speaks.set()
    asking.join()


if __name__ == "__main__":
    main()
