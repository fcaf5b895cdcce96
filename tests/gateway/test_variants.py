"""Endpoints that speak a known dialect: every row of docs/variants.md, against a server that keeps what it is sent."""

from __future__ import annotations

import base64
import json
import re
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import botocore.auth
import httpx
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from cannery.dialects import find_dialect
from cannery.gateway import echo
from cannery.translation import nativize_response, normalize_request
from cannery.wire.contract import StreamOptions
from cannery.wire.framing import AWS_EVENT_STREAM

from .running import Running

PAGE = Path(__file__).resolve().parents[2] / "docs" / "variants.md"
ROWS: list[dict[str, Any]] = [
    row
    for block in re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    for row in tomllib.loads(block)["upstreams"]
]
NAMES = [row["name"] for row in ROWS]
VERTEX = "/v1/projects/my-project/locations"
# The model that is asked for; the paths, whole and streamed; how the key is shown; fields of the body, None for none.
CASES: dict[str, tuple[str, tuple[str, str], tuple[str, str], dict[str, Any]]] = {
    "bedrock": (
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.x-1:0",
        tuple(
            f"/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.x-1%3A0/{end}"
            for end in ("converse", "converse-stream")
        ),
        ("sigv4", ""),
        {
            "modelId": None,
            "model": None,
            "messages": [{"role": "user", "content": [{"text": "Hi"}]}],
        },
    ),
    "bedrock-key": (
        "meta.llama4-v1:0",
        ("/model/meta.llama4-v1%3A0/converse", "/model/meta.llama4-v1%3A0/converse-stream"),
        ("authorization", "Bearer test-AWS_BEARER_TOKEN_BEDROCK"),
        {},
    ),
    "bedrock-claude": (
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        (
            "/model/us.anthropic.claude-sonnet-4-5-20250929-v1:0/invoke",
            "/model/us.anthropic.claude-sonnet-4-5-20250929-v1:0/invoke-with-response-stream",
        ),
        ("sigv4", ""),
        {"anthropic_version": "bedrock-2023-05-31", "model": None, "stream": None},
    ),
    "vertex-claude": (
        "claude-sonnet-4-5@20250929",
        tuple(
            f"{VERTEX}/us-east5/publishers/anthropic/models/claude-sonnet-4-5@20250929:{verb}"
            for verb in ("rawPredict", "streamRawPredict")
        ),
        ("authorization", "Bearer test-VERTEX_TOKEN"),
        {"anthropic_version": "vertex-2023-10-16", "model": None},
    ),
    "vertex-gemini": (
        "gemini-3-pro",
        (
            f"{VERTEX}/us-central1/publishers/google/models/gemini-3-pro:generateContent",
            f"{VERTEX}/us-central1/publishers/google/models/gemini-3-pro:streamGenerateContent?alt=sse",
        ),
        ("authorization", "Bearer test-VERTEX_TOKEN"),
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    ),
    "azure": (
        "gpt-5-mini",
        ("/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21",) * 2,
        ("api-key", "test-AZURE_OPENAI_API_KEY"),
        {"messages": [{"role": "user", "content": "Hi"}]},
    ),
    "azure-v1": (
        "gpt-5",
        ("/openai/v1/chat/completions",) * 2,
        ("api-key", "test-AZURE_OPENAI_API_KEY"),
        {"model": "gpt-5"},
    ),
    "openrouter": (
        "anthropic/claude-sonnet-4.5",
        ("/api/v1/chat/completions",) * 2,
        ("authorization", "Bearer test-OPENROUTER_API_KEY"),
        {"model": "anthropic/claude-sonnet-4.5"},
    ),
    "groq": (
        "llama-3.3-70b",
        ("/openai/v1/chat/completions",) * 2,
        ("authorization", "Bearer test-GROQ_API_KEY"),
        {},
    ),
    "xai": (
        "grok-4",
        ("/v1/chat/completions",) * 2,
        ("authorization", "Bearer test-XAI_API_KEY"),
        {},
    ),
    "deepseek": (
        "deepseek-chat",
        ("/v1/chat/completions",) * 2,
        ("authorization", "Bearer test-DEEPSEEK_API_KEY"),
        {},
    ),
    "vllm": ("qwen3", ("/v1/chat/completions",) * 2, ("authorization", ""), {}),
}
AWS = Credentials("AKIDEXAMPLE", "made-up-aws-secret")


class Server:
    """Keeps what it is asked, and answers in the dialect of the row that is tested."""

    def __init__(self) -> None:
        self.row: dict[str, Any] = {}
        self.answer: Any = None
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.seen.append((self.path, headers, body))
                kind, told = outer.reply(self.path, body)
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def reply(self, path: str, body: bytes) -> tuple[str, bytes]:
        if self.answer is not None:
            return "application/json", json.dumps(self.answer).encode()
        named = self.row.get("dialect", "openai_chat")
        spoken = [named] if isinstance(named, str) else named
        name = "openai_chat" if "/chat/" in path else spoken[0]
        dialect = find_dialect(name)
        response = echo.answer(normalize_request(body, name))
        streams = "stream" in path.lower() or json.loads(body).get("stream") is True
        if not streams:
            return "application/json", nativize_response(response, name).body
        writer = dialect.stream_writer(StreamOptions(include_usage=True))
        events = [*map(writer.write, echo.events(response)), writer.close()]
        if self.row.get("streams") == "aws_chunks":
            return AWS_EVENT_STREAM.media_type, b"".join(map(_packed, events))
        return dialect.service.streams.framing.media_type, b"".join(events)


def _packed(events: bytes) -> bytes:
    """Server-sent events as Bedrock sends them: the data of each in base64."""
    data = [line[6:] for line in events.split(b"\n") if line.startswith(b"data: ")]
    chunks = [{"bytes": base64.b64encode(each).decode(), "p": "abc"} for each in data]
    return b"".join(AWS_EVENT_STREAM.write("chunk", chunk) for chunk in chunks)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.server.shutdown()
    running.server.server_close()


@pytest.fixture(scope="module")
def gateway(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """All rows of the page, at the address of the server; of each URL only the path stays, and the region."""
    text = "\n".join(re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))
    text = re.sub(r'url = "https?://([^/"]+)', lambda _: f'url = "{server.url}', text)
    text = text.replace('auth = "sigv4"', 'auth = "sigv4"\nregion = "us-east-1"')
    variables = {row["key_variable"] for row in ROWS if "key_variable" in row}
    environment = {name: f"test-{name}" for name in variables}
    environment |= {"AWS_ACCESS_KEY_ID": AWS.access_key, "AWS_SECRET_ACCESS_KEY": AWS.secret_key}
    running = Running(
        tmp_path_factory.mktemp("variants"), text, record=False, environment=environment
    )
    yield running
    assert running.stop() == 0


def ask(gateway: Running, model: str, *, stream: bool) -> str:
    """The answer to a Chat request."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "stream": stream}
    told = httpx.post(f"{gateway.url}/v1/chat/completions", json=body, timeout=30)
    assert told.status_code == 200, told.text
    if not stream:
        return str(told.json()["choices"][0]["message"]["content"])
    lines = [line[6:] for line in told.text.splitlines() if line.startswith("data: {")]
    choices = [choice for line in lines for choice in json.loads(line)["choices"]]
    assert choices[-1]["finish_reason"] == "stop"
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def check_signature(url: str, path: str, headers: dict[str, str], body: bytes) -> None:
    """The request has the signature that botocore would give it."""
    claimed = headers["authorization"]
    signed = re.search(r"SignedHeaders=([^,]+)", claimed)
    assert signed is not None
    request = AWSRequest("POST", url + path, data=body)
    for name in signed[1].split(";"):
        request.headers[name] = headers[name]
    request.context["timestamp"] = headers["x-amz-date"]
    auth = botocore.auth.SigV4Auth(AWS, "bedrock", "us-east-1")
    text = auth.string_to_sign(request, auth.canonical_request(request))
    assert claimed.endswith(f"Signature={auth.signature(text, request)}")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_row_reaches_its_endpoint(
    gateway: Running, server: Server, name: str, stream: bool
) -> None:
    model, paths, (header, value), fields = CASES[name]
    server.row, server.answer = next(row for row in ROWS if row["name"] == name), None
    server.seen.clear()
    assert ask(gateway, model, stream=stream) == "echo: Hi"
    ((path, headers, body),) = server.seen
    assert path == paths[stream]
    if header == "sigv4":
        check_signature(server.url, path, headers, body)
    else:
        assert headers.get(header, "") == value
    for extra, told in server.row.get("headers", {}).items():
        assert headers[extra.lower()] == told
    sent = json.loads(body)
    assert {key: sent.get(key) for key in fields} == fields


def test_every_row_of_the_page_is_tested() -> None:
    assert sorted(CASES) == sorted(NAMES)
    assert all(urlsplit(row["url"]).hostname for row in ROWS)


def test_an_exception_in_chunks_reaches_the_caller(gateway: Running, server: Server) -> None:
    server.row, server.answer = next(row for row in ROWS if row.get("streams")), None
    told = AWS_EVENT_STREAM.write("throttlingException", {"message": "too many tokens"})
    reply = server.reply
    server.reply = lambda path, body: (AWS_EVENT_STREAM.media_type, told)  # type: ignore[method-assign]
    try:
        body = {"model": CASES["bedrock-claude"][0], "stream": True}
        body |= {"messages": [{"role": "user", "content": "Hi"}]}
        answer = httpx.post(f"{gateway.url}/v1/chat/completions", json=body, timeout=30)
    finally:
        server.reply = reply  # type: ignore[method-assign]
    assert "too many tokens" in answer.text
    assert "error" in answer.text


def test_thoughts_of_openrouter_are_told_and_go_back(gateway: Running, server: Server) -> None:
    details = [{"type": "reasoning.text", "text": "Hm.", "signature": "c2ln", "index": 0}]
    message = {
        "role": "assistant",
        "content": "So.",
        "reasoning": "Hm.",
        "reasoning_details": details,
    }
    server.answer = {
        "id": "gen-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    model = CASES["openrouter"][0]
    asked = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    told = httpx.post(f"{gateway.url}/v1/messages", json=asked, timeout=30).json()
    assert [block.get("thinking", block.get("text")) for block in told["content"]] == ["Hm.", "So."]
    again = {"model": model, "messages": [{"role": "user", "content": "Hi"}, message]}
    server.seen.clear()
    httpx.post(f"{gateway.url}/v1/chat/completions", json=again, timeout=30)
    assert json.loads(server.seen[0][2])["messages"][1]["reasoning_details"] == details
