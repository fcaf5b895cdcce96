"""Endpoints that speak a known dialect: every row of docs/variants.md, against a server that keeps what it is sent."""

from __future__ import annotations

import base64
import itertools
import json
import re
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anthropic
import boto3
import botocore.auth
import botocore.exceptions
import httpx
import openai
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from cannery.dialects import find_dialect
from cannery.errors import ConfigurationError
from cannery.families.bedrock.chunks import AWS_CHUNKS
from cannery.gateway import echo
from cannery.gateway.settings import parse_settings
from cannery.translation import nativize_response, normalize_request
from cannery.wire.contract import StreamOptions
from cannery.wire.framing import AWS_EVENT_STREAM
from cannery.wire.sse import FrameReader

from .running import Running, wait_for

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
    "vertex-open": (
        "deepseek-ai/deepseek-v3",
        (f"{VERTEX}/us-central1/endpoints/openapi/chat/completions",) * 2,
        ("authorization", "Bearer test-VERTEX_TOKEN"),
        {"model": "deepseek-ai/deepseek-v3"},
    ),
    "azure": (
        "gpt-5-mini",
        ("/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21",) * 2,
        ("api-key", "test-AZURE_OPENAI_API_KEY"),
        {"messages": [{"role": "user", "content": "Hi"}], "model": None},
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
        self.status = 200
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
                self.send_response(outer.status)
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
        if path.endswith("/invoke-with-response-stream"):
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
    server.row = next(row for row in ROWS if row["name"] == "bedrock-claude")
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


def test_an_error_of_bedrock_is_told_in_the_words_of_the_caller(
    gateway: Running, server: Server
) -> None:
    server.answer, server.status = {"message": "too many requests"}, 429
    body = {"model": CASES["bedrock-claude"][0], "max_tokens": 9}
    body |= {"messages": [{"role": "user", "content": "Hi"}]}
    try:
        told = httpx.post(f"{gateway.url}/v1/messages", json=body, timeout=30)
    finally:
        server.answer, server.status = None, 200
    assert told.status_code == 429
    assert told.json()["error"] == {"type": "rate_limit_error", "message": "too many requests"}


def test_betas_of_a_header_go_into_the_body_for_bedrock(gateway: Running, server: Server) -> None:
    server.row = next(row for row in ROWS if row["name"] == "bedrock-claude")
    server.seen.clear()
    body = {"model": CASES["bedrock-claude"][0], "max_tokens": 9}
    body |= {"messages": [{"role": "user", "content": "Hi"}]}
    headers = {"anthropic-beta": "one-1,two-2", "anthropic-version": "2023-06-01"}
    told = httpx.post(f"{gateway.url}/v1/messages", json=body, headers=headers, timeout=30)
    assert told.status_code == 200
    ((_, sent, raw),) = server.seen
    assert json.loads(raw)["anthropic_beta"] == ["one-1", "two-2"]
    assert json.loads(raw)["anthropic_version"] == "bedrock-2023-05-31"
    assert not {"anthropic-beta", "anthropic-version"} & set(sent)


def test_a_variant_that_a_dialect_does_not_have_is_refused_at_the_start() -> None:
    row = 'name = "a"\nurl = "http://127.0.0.1:1"\ndialect = "cohere_chat"\nvariant = "vertex"\n'
    with pytest.raises(ConfigurationError, match="cohere_chat has no variant 'vertex'"):
        parse_settings(f"[[upstreams]]\n{row}", "x.toml")


# --- clients of these services -----------------------------------------------------------------

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
ARN = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.x-1:0"
SECRET = "made-up-secret"
HI: Any = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def locked(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway with keys that records, before the server as first-party Messages and as InvokeModel."""
    folder = tmp_path_factory.mktemp("locked")
    (folder / "keys").write_text(f"alice: {SECRET}\n")
    text = f"""
[keys]
file = "{folder / "keys"}"

[[upstreams]]
name = "first"
url = "{server.url}"
dialect = "anthropic_messages"
key_variable = "PROVIDER_KEY"
models = ["claude-*"]

[[upstreams]]
name = "again"
url = "{server.url}"
dialect = "anthropic_messages"
variant = "bedrock"
key_variable = "PROVIDER_KEY"
models = ["us.anthropic.*"]
"""
    running = Running(folder, text, environment={"PROVIDER_KEY": "of-the-provider"})
    yield running
    assert running.stop() == 0


def signed(url: str, **given: Any) -> Any:
    keys = {"aws_access_key": "alice", "aws_secret_key": SECRET, **given}
    return anthropic.AnthropicBedrock(base_url=url, aws_region="eu-west-1", max_retries=0, **keys)


@pytest.mark.parametrize("prefix", ["", "/bedrock", "/anthropic"])
@pytest.mark.parametrize("model", ["echo", CLAUDE.replace("us.anthropic", "echo-x"), "echo-x;y"])
def test_a_signed_call_of_claude_on_bedrock_opens_the_gateway(
    locked: Running, prefix: str, model: str
) -> None:
    answer = signed(locked.url + prefix).messages.create(model=model, max_tokens=9, messages=HI)
    assert answer.content[0].text == "echo: Hi"


@pytest.mark.parametrize(
    "given", [{"aws_secret_key": "wrong"}, {"aws_access_key": "bob"}], ids=["secret", "name"]
)
def test_a_wrong_signature_of_claude_on_bedrock_is_refused(
    locked: Running, given: dict[str, str]
) -> None:
    with pytest.raises(anthropic.AuthenticationError, match="signature"):
        signed(locked.url, **given).messages.create(model="echo", max_tokens=9, messages=HI)


def test_a_token_opens_the_gateway_for_vertex(locked: Running) -> None:
    url = f"{locked.url}/v1"
    made = anthropic.AnthropicVertex(
        base_url=url, region="r", project_id="p", access_token=SECRET, max_retries=0
    )
    wrong = made.copy(access_token="wrong")
    told = made.messages.create(model="echo", max_tokens=9, messages=HI)
    assert told.content[0].text == "echo: Hi"
    assert made.messages.count_tokens(model="echo", messages=HI).input_tokens > 0
    with pytest.raises(anthropic.AuthenticationError):
        wrong.messages.create(model="echo", max_tokens=9, messages=HI)


def test_a_key_of_azure_opens_the_gateway(locked: Running) -> None:
    made = openai.AzureOpenAI(
        azure_endpoint=locked.url, api_key=SECRET, api_version="2024-10-21", max_retries=0
    )
    wrong = made.copy(api_key="wrong")
    told = made.chat.completions.create(model="echo", messages=HI)
    assert told.choices[0].message.content == "echo: Hi"
    with pytest.raises(openai.AuthenticationError):
        wrong.chat.completions.create(model="echo", messages=HI)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["claude-x", CLAUDE])
def test_claude_on_bedrock_passes_to_messages_and_to_bedrock_and_is_recorded(
    locked: Running, server: Server, model: str, stream: bool
) -> None:
    server.row, server.answer = {"dialect": "anthropic_messages"}, None
    server.seen.clear()
    before = locked.recorded()
    made = signed(locked.url).beta.messages
    asked: Any = {"model": model, "max_tokens": 9, "messages": HI, "betas": ["one-1"]}
    if stream:
        with made.stream(**asked) as events:
            text = "".join(events.text_stream)
    else:
        text = made.create(**asked).content[0].text
    assert text == "echo: Hi"
    ((path, headers, body),) = server.seen
    sent = json.loads(body)
    if model == CLAUDE:
        assert path.startswith(f"/model/{model}/invoke")
        assert sent["anthropic_beta"] == ["one-1"]
        assert sent["anthropic_version"] == "bedrock-2023-05-31"
        assert not {"model", "stream"} & set(sent)
        assert headers["authorization"] == "Bearer of-the-provider"
    else:
        assert path == "/v1/messages"
        assert headers["anthropic-beta"] == "one-1"
        assert headers["x-api-key"] == "of-the-provider"
        assert sent["model"] == model
        assert bool(sent.get("stream")) is stream
        assert not {"anthropic_version", "anthropic_beta"} & set(sent)
    assert SECRET not in str((path, headers, body))
    wait_for(lambda: locked.recorded() > before, "it was not recorded")


@pytest.mark.parametrize(
    "path",
    [
        "/model/..%2F..%2Fadmin/invoke",
        "/model/us.anthropic.%2F..%2F..%2Fadmin/invoke",
        "/v1/projects/p/locations/l/publishers/anthropic/models/..%2F..%2Fx:rawPredict",
        "/v1/projects/p/locations/l/publishers/google/models/gemini%2F..%2Fx:generateContent",
        "/openai/deployments/gpt-5%2F..%2Fx/chat/completions",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(locked: Running, server: Server, path: str) -> None:
    server.seen.clear()
    body = {"anthropic_version": "x", "max_tokens": 9, "messages": HI, "contents": "Hi"}
    headers = {"authorization": f"Bearer {SECRET}"}
    told = httpx.post(locked.url + path, json=body, headers=headers, timeout=30)
    assert told.status_code == 404, told.text
    assert server.seen == []


def boto(url: str) -> Any:
    return boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="key",
    )


@pytest.mark.parametrize("value", [None, 7])
def test_a_body_of_another_model_than_claude_is_refused_in_the_words_of_aws(
    gateway: Running, value: Any
) -> None:
    made = boto(gateway.url)
    body: dict[str, Any] = {"inputText": "Hi"} | ({} if value is None else {"anthropic_version": 7})
    with pytest.raises(
        botocore.exceptions.ClientError, match="anthropic_version: is required"
    ) as refused:
        made.invoke_model(modelId=ARN, body=json.dumps(body).encode())
    assert refused.value.response["Error"]["Code"] == "ValidationException"


def test_boto3_invokes_claude(gateway: Running, server: Server) -> None:
    server.row, server.answer = {"dialect": "openai_chat"}, None
    made = boto(gateway.url)
    asked = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": HI}
    body = json.dumps(asked).encode()
    told = made.invoke_model(modelId="llama-3", body=body)
    assert json.loads(told["body"].read())["content"] == [{"type": "text", "text": "echo: Hi"}]
    events = made.invoke_model_with_response_stream(modelId="llama-3", body=body)["body"]
    said = [json.loads(event["chunk"]["bytes"]) for event in events]
    assert [said[0]["type"], said[-1]["type"]] == ["message_start", "message_stop"]
    deltas = [event["delta"] for event in said if event["type"] == "content_block_delta"]
    assert "".join(delta["text"] for delta in deltas) == "echo: Hi"


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=6))
def test_packed_events_are_the_same_in_any_split(noise: bytes, cuts: list[int]) -> None:
    """Events go into chunks and come out of them, whatever they say and however the bytes are cut."""
    text = noise.decode("utf-8", "replace")
    events = [{"type": "a", "text": text}, {"type": "ping"}, {"type": "b"}]
    framing = find_dialect("anthropic_messages").service.streams.framing
    data = b"".join(framing.write(str(event["type"]), event) for event in events)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    frames = FrameReader()
    parts = [data[start:end] for start, end in itertools.pairwise(edges)]
    packed = b"".join(AWS_CHUNKS.pack(frame) for part in parts for frame in frames.feed(part))
    reader = AWS_EVENT_STREAM.reader()
    halves = (packed[: len(packed) // 2], packed[len(packed) // 2 :])
    found = [AWS_CHUNKS.unpack(frame) for half in halves for frame in reader.feed(half)]
    assert found == [event for event in events if event["type"] != "ping"]
