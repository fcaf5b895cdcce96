"""What is no conversation passes to its upstream unread, keyed and metered."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import openai
import pytest

from .running import Running
from .test_contract import ask

KEY = "gateway-key"
SHOWN = {"authorization": f"Bearer {KEY}"}
ROWS = """
[keys.team]
variable = "KEY"
[[upstreams]]
name = "open"
url = "{url}/v1"
key_variable = "TEST_KEY"
models = ["gpt-4o-mini", "text-embedding-*", "whisper-*", "dall-e-*", "tts-*"]
aliases = {{ small = "text-embedding-3-small" }}
[[upstreams]]
name = "anthropic"
dialect = "anthropic_messages"
url = "{url}"
key_variable = "TEST_KEY"
models = ["claude-*"]
[[upstreams]]
name = "google"
dialect = "gemini_generate"
url = "{url}"
key_variable = "TEST_KEY"
models = ["gemini-*", "embedding-*"]
"""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append((self.command, self.path, headers, body))
        kind, said = "application/json", json.dumps({"ok": self.path}).encode()
        if "embeddings" in self.path:
            usage = {"prompt_tokens": 1000, "total_tokens": 1000}
            said = json.dumps({"data": [], "usage": usage}).encode()
        elif "speech" in self.path:
            kind, said = "audio/mpeg", bytes(range(256)) * 1000
        elif "missing" in self.path:
            said = b'{"error":{"message":"no such file","type":"x"}}'
        if "gone" in self.path:
            self.send_response(204)
            self.end_headers()
            return
        self.send_response(404 if "missing" in self.path else 200)
        self.send_header("content-type", kind)
        self.send_header("x-request-id", "up-1")
        self.send_header("x-ratelimit-remaining-requests", "9")
        self.close_connection = "broken" in self.path
        rest = 1000 if self.close_connection else 0
        self.send_header("content-length", str(len(said) + rest))
        self.end_headers()
        self.wfile.write(said)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()


@pytest.fixture(scope="module")
def other() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.seen = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def passing(other: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    url = f"http://127.0.0.1:{other.server_address[1]}"
    folder = tmp_path_factory.mktemp("passing")
    running = Running(folder, ROWS.format(url=url), environment={"KEY": KEY})
    yield running
    running.stop()


def test_embeddings_are_metered(passing: Running, other: Any) -> None:
    other.seen.clear()
    body = {"model": "text-embedding-3-small", "input": ["a", "b"], "odd": {"kept": True}}
    headers = {**SHOWN, "content-type": "application/json"}
    status, found, said = ask(passing, "/v1/embeddings", body, headers)
    assert (status, said["usage"]["prompt_tokens"]) == (200, 1000)
    assert found["x-cannery-upstream"] == "open"
    assert found["x-request-id"] == "up-1"
    assert found["x-ratelimit-remaining-requests"] == "9"
    ((method, path, sent, raw),) = other.seen
    assert (method, path, json.loads(raw)) == ("POST", "/v1/embeddings", body)
    assert sent["authorization"] == "Bearer secret-upstream-key"
    counts = passing.metrics()
    assert counts['cannery_key_tokens_total{key="team",direction="input"}'] == 1000
    assert counts['cannery_key_requests_total{key="team",kind="pass",status="200"}'] == 1


def test_what_passes_is_paid_for_after_a_restart_too(passing: Running) -> None:
    body = {"model": "gpt-4o-mini", "input": "a"}
    headers = {**SHOWN, "content-type": "application/json"}
    assert ask(passing, "/v1/embeddings", body, headers)[0] == 200
    passing.settle()
    # Budgets look in the store for what was spent before.
    lines = (passing.store / "gateway" / "exchanges.jsonl").read_text().splitlines()
    kept = json.loads(lines[-1])
    assert (kept["outcome"], kept["conversation"], kept["key"]) == ("passed", "", "team")
    assert (kept["input_tokens"], kept["cost"] > 0) == (1000, True)


def test_an_alias_is_renamed_in_json(passing: Running, other: Any) -> None:
    other.seen.clear()
    headers = {**SHOWN, "content-type": "application/json"}
    assert (
        ask(passing, "/openai/v1/embeddings", {"model": "small", "input": "x"}, headers)[0] == 200
    )
    assert json.loads(other.seen[0][3]) == {"model": "text-embedding-3-small", "input": "x"}
    assert other.seen[0][1] == "/v1/embeddings"


def test_a_form_goes_byte_for_byte_and_bytes_come_back(passing: Running, other: Any) -> None:
    other.seen.clear()
    form = (
        b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n'
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n\x00\xff\r\n--x--\r\n'
    )
    headers = {**SHOWN, "content-type": "multipart/form-data; boundary=x"}
    assert ask(passing, "/v1/audio/transcriptions", form, headers)[0] == 200
    _, path, sent, raw = other.seen[0]
    assert (path, raw, sent["content-type"]) == (
        "/v1/audio/transcriptions",
        form,
        headers["content-type"],
    )
    speech = {"model": "tts-1", "input": "Hi", "voice": "x"}
    headers = {**SHOWN, "content-type": "application/json"}
    status, found, said = ask(passing, "/v1/audio/speech", speech, headers)
    assert (status, found["content-type"]) == (200, "audio/mpeg")
    assert said == bytes(range(256)) * 1000


@pytest.mark.parametrize(
    "method,path,expected,upstream",
    [
        ("GET", "/v1/files?purpose=batch&limit=2", "/v1/files?purpose=batch&limit=2", "open"),
        ("DELETE", "/v1/files/file-1", "/v1/files/file-1", "open"),
        ("GET", "/v1/files/missing", "/v1/files/missing", "open"),
        ("POST", "/v1/batches", "/v1/batches", "open"),
        ("POST", "/v1/moderations", "/v1/moderations", "open"),
        ("POST", "/v1/images/generations", "/v1/images/generations", "open"),
        ("GET", "/anthropic/v1/messages/batches", "/v1/messages/batches", "anthropic"),
        ("GET", "/v1/messages/batches", "/v1/messages/batches", "anthropic"),
        (
            "POST",
            "/gemini/v1beta/models/embedding-001:embedContent",
            "/v1beta/models/embedding-001:embedContent",
            "google",
        ),
        ("GET", "/gemini/v1beta/files", "/v1beta/files", "google"),
    ],
)
def test_a_path_leads_to_its_row(
    passing: Running, other: Any, method: str, path: str, expected: str, upstream: str
) -> None:
    other.seen.clear()
    body = b"{}" if method == "POST" else None
    status, headers, _ = ask(passing, path, body, SHOWN, method)
    assert status == (404 if "missing" in path else 200)
    assert headers["x-cannery-upstream"] == upstream
    assert (other.seen[0][0], other.seen[0][1]) == (method, expected)


def test_keys_paths_and_queries_stay_safe(passing: Running, other: Any) -> None:
    other.seen.clear()
    assert ask(passing, "/v1/files")[0] == 401
    assert ask(passing, f"/v1/files?key={KEY}&limit=1&x={KEY}")[0] == 200
    assert other.seen[-1][1] == "/v1/files?limit=1"
    other.seen.clear()
    for path in ("/v1/files/../../secret", "/v1/files/%2e%2e/%2e%2e/secret", f"/v1/files/{KEY}"):
        assert ask(passing, path, None, SHOWN)[0] == 404
    assert other.seen == []
    assert ask(passing, "/v1/nothing", b"{}", SHOWN)[0] == 404


def test_a_reply_can_be_read_again_by_its_id(gateway: Running) -> None:
    body = {"model": "chat-model", "input": "say it again"}
    _, _, said = ask(gateway, "/v1/responses", body)
    gateway.settle()
    status, _, again = ask(gateway, f"/v1/responses/{said['id']}")
    assert (status, again["id"]) == (200, said["id"])
    assert abs(again["created_at"] - time.time()) < 60
    texts = [
        [part["text"] for item in reply["output"] for part in item.get("content", [])]
        for reply in (said, again)
    ]
    assert texts[0] == texts[1] == ["echo: say it again"]
    assert again["object"] == "response"


def test_a_reply_can_be_streamed_again_by_its_id(gateway: Running) -> None:
    _, _, said = ask(gateway, "/v1/responses", {"model": "chat-model", "input": "say it again"})
    gateway.settle()
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="k") as client:
        events = list(client.responses.retrieve(said["id"], stream=True))
        with pytest.raises(openai.BadRequestError, match="from its beginning"):
            client.responses.retrieve(said["id"], stream=True, starting_after=2)
    assert events[-1].type == "response.completed"
    assert events[-1].response.id == said["id"]
    assert events[-1].response.output_text == "echo: say it again"


def test_what_is_below_a_reply_is_passed_on(passing: Running, other: Any) -> None:
    other.seen.clear()
    path = "/v1/responses/resp_1/input_items"
    status, _, said = ask(passing, path, None, SHOWN)
    assert (status, said) == (200, {"ok": path})
    assert ask(passing, "/v1/responses/resp_1", None, SHOWN)[0] == 404


@pytest.mark.parametrize("version", ["--http1.0", "--http1.1", "--http2-prior-knowledge"])
def test_what_breaks_off_does_not_end_as_if_it_were_whole(passing: Running, version: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    url = f"{passing.url}/v1/files/broken-speech/content"
    shown = f"authorization: Bearer {KEY}"
    for _ in range(2):
        command = ["curl", "--silent", version, url, "--header", shown, "--output", "-"]
        done = subprocess.run(command, capture_output=True, check=False, timeout=30)
        assert done.returncode != 0
    passing.wait_for_log('"code":"upstream_broken"')
    assert ask(passing, "/v1/files/whole", None, SHOWN)[0] == 200


def test_an_answer_without_a_body_has_none(passing: Running) -> None:
    """A client reads its next answer right behind the head."""
    head = f"host: localhost\r\nauthorization: Bearer {KEY}\r\n"
    requests = f"DELETE /v1/files/gone HTTP/1.1\r\n{head}\r\n"
    requests += f"GET /v1/files/there HTTP/1.1\r\n{head}connection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", passing.port), timeout=10) as client:
        client.sendall(requests.encode())
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    first, _, rest = answer.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 204 ")
    assert b"transfer-encoding" not in first
    assert rest.startswith(b"HTTP/1.1 200 ")
