"""Spans as a collector gets them: over OTLP, with the attributes of the GenAI conventions, without what was said."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import cannery
from cannery.gateway.telemetry import captures_content

from .running import Running, rows
from .test_contract import ask, chat
from .upstream import Upstream

service = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
    reason="needs the extra 'telemetry'; `make test` installs it",
)

CHAT = "/v1/chat/completions"
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
CLIENT, ERROR = 3, 2  # Span.SpanKind and Status.StatusCode


class Collector:
    """A collector that keeps what it is sent."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[Any] = []
        self.paths: list[str] = []
        kept = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                kept.take(self.path, body)
                answer = service.ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self, path: str, body: bytes) -> None:
        self.paths.append(path)
        request = service.ExportTraceServiceRequest.FromString(body)
        for group in request.resource_spans:
            self.resources.append(facts(group.resource.attributes))
            for scope in group.scope_spans:
                self.spans += scope.spans

    def span(self, request_id: str) -> Any:
        """The span of one call, once it has come."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for span in list(self.spans):
                if facts(span.attributes)["cannery.request_id"] == request_id:
                    return span
            time.sleep(0.02)
        raise AssertionError(f"there is no span of {request_id}")

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def facts(attributes: Any) -> dict[str, Any]:
    return {pair.key: value_of(pair.value) for pair in attributes}


def value_of(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(item) for item in value.array_value.values]
    return getattr(value, kind)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


def exporting(collector: Collector) -> dict[str, str]:
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }


@pytest.fixture(scope="module")
def traced(
    upstream: Upstream, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("traced")
    running = Running(folder, rows(upstream.url), environment=exporting(collector))
    yield running
    assert running.stop() == 0


def call(
    traced: Running, collector: Collector, path: str, body: Any, request_id: str, **headers: str
) -> tuple[Any, dict[str, Any]]:
    """The span of a call, and its attributes."""
    ask(traced, path, body, {"x-request-id": request_id, **headers})
    span = collector.span(request_id)
    return span, facts(span.attributes)


@pytest.mark.parametrize(
    "name,provider,operation",
    [
        ("chat", "openai", "chat"),
        ("responses", "openai", "chat"),
        ("anthropic", "anthropic", "chat"),
        ("gemini", "gcp.gemini", "generate_content"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_exchange_is_a_span_with_the_attributes_of_the_conventions(
    traced: Running,
    collector: Collector,
    upstream: Upstream,
    name: str,
    provider: str,
    operation: str,
    stream: bool,
) -> None:
    body = {
        **chat(f"{name}-model", ("user", "a private matter")),
        "max_tokens": 50,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "stream": stream,
        "stream_options": {"include_usage": True} if stream else None,
    }
    body = {key: value for key, value in body.items() if value is not None}
    span, found = call(traced, collector, CHAT, body, f"one-{name}-{stream}")
    assert span.name == f"{operation} {name}-model"
    assert span.kind == CLIENT
    assert span.status.code == 0
    assert span.end_time_unix_nano > span.start_time_unix_nano
    address, port = upstream.server.server_address[:2]
    expected = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": f"{name}-model",
        "gen_ai.response.model": f"{name}-model",
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.stop_sequences": ["END"],
        "gen_ai.response.finish_reasons": ["stop"],
        "server.address": address,
        "server.port": port,
        "http.response.status_code": 200,
        "cannery.dialect": "openai_chat",
        "cannery.upstream": name,
    }
    assert {key: found.get(key) for key in expected} == expected
    assert found["gen_ai.usage.input_tokens"] > 0
    assert found["gen_ai.usage.output_tokens"] > 0
    assert found["gen_ai.conversation.id"]
    assert found.get("gen_ai.request.stream", False) is stream
    assert ("gen_ai.response.time_to_first_chunk" in found) is stream
    if not stream:
        assert found["gen_ai.response.id"]
    assert "error.type" not in found
    assert "private matter" not in str(found)


@pytest.mark.parametrize("wanted", ["true", "SPAN_ONLY", "span_and_event"])
def test_what_is_said_is_in_the_span_where_it_is_wanted(
    tmp_path: Path, collector: Collector, upstream: Upstream, wanted: str
) -> None:
    variables = {**exporting(collector), CAPTURE: wanted}
    running = Running(tmp_path, rows(upstream.url), environment=variables)
    try:
        body = {**chat("anthropic-model", ("system", "Be brief."), ("user", "a private matter"))}
        _, found = call(running, collector, CHAT, body, f"said-{wanted}")
    finally:
        running.stop()
    names = ("gen_ai.input.messages", "gen_ai.output.messages")
    request = cannery.normalize_request(json.dumps({names[0]: found[names[0]]}), "otel_genai")
    assert [canister.text for canister in request.conversation] == ["Be brief.", "a private matter"]
    answer = cannery.normalize_response(json.dumps({names[1]: found[names[1]]}), "otel_genai")
    assert answer.canisters[0].text


@pytest.mark.parametrize("wanted", ["", "false", "NO_CONTENT", "EVENT_ONLY"])
def test_what_is_said_is_in_no_span_otherwise(wanted: str) -> None:
    assert not captures_content({CAPTURE: wanted})
    assert not captures_content({})


def test_an_error_is_one_in_the_span_too(traced: Running, collector: Collector) -> None:
    body = chat("anthropic-429", ("user", "x"))
    span, found = call(traced, collector, CHAT, body, "failed")
    assert (found["error.type"], found["http.response.status_code"]) == ("429", 429)
    assert span.status.code == ERROR
    span, found = call(traced, collector, CHAT, b"{", "malformed")
    assert (found["error.type"], found["gen_ai.provider.name"]) == ("400", "openai")


def test_a_call_for_a_tool_is_why_the_model_stopped(traced: Running, collector: Collector) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    body = {**chat("anthropic-model", ("user", "call f")), "tools": tools}
    _, found = call(traced, collector, CHAT, body, "tool")
    assert found["gen_ai.response.finish_reasons"] == ["tool_call"]


def test_a_span_belongs_to_the_trace_of_the_caller(traced: Running, collector: Collector) -> None:
    body = chat("echo", ("user", "x"))
    parent = f"00-{TRACE}-{PARENT}-01"
    span, found = call(traced, collector, CHAT, body, "child", traceparent=parent)
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert found["gen_ai.provider.name"] == "echo"
    span, _ = call(traced, collector, CHAT, body, "orphan", traceparent="nonsense")
    assert span.parent_span_id == b""


def test_who_sends_is_said_and_only_exchanges_are_sent(
    traced: Running, collector: Collector
) -> None:
    ask(traced, "/v1/models", headers={"x-request-id": "a-list"})
    call(traced, collector, CHAT, chat("echo", ("user", "x")), "after-the-list")
    assert "a-list" not in {
        facts(span.attributes)["cannery.request_id"] for span in collector.spans
    }
    assert {resource["service.name"] for resource in collector.resources} == {"cannery"}
    assert set(collector.paths) == {"/v1/traces"}


def test_what_is_waiting_is_sent_when_the_gateway_stops(tmp_path: Path) -> None:
    collector = Collector()
    environment = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/elsewhere",
        "OTEL_SERVICE_NAME": "mine",
        "OTEL_BSP_SCHEDULE_DELAY": "600000",
    }
    running = Running(tmp_path, record=False, environment=environment)
    ask(running, CHAT, chat("echo", ("user", "x")), {"x-request-id": "last"})
    assert running.stop() == 0
    assert [facts(span.attributes)["cannery.request_id"] for span in collector.spans] == ["last"]
    assert collector.resources[0]["service.name"] == "mine"
    assert collector.paths == ["/elsewhere"]
    collector.close()


def test_a_collector_that_is_not_there_disturbs_nobody(tmp_path: Path) -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "OTEL_BSP_SCHEDULE_DELAY": "10",
    }
    running = Running(tmp_path, record=False, environment=environment)
    for _ in range(20):
        assert ask(running, CHAT, chat("echo", ("user", "x")))[0] == 200
    assert running.stop() == 0


def test_spans_on_the_console_are_json(tmp_path: Path) -> None:
    environment = {"OTEL_TRACES_EXPORTER": "console"}
    running = Running(tmp_path, record=False, environment=environment)
    ask(running, CHAT, chat("echo", ("user", "x")))
    assert running.stop() == 0
    printed = running.banner[running.banner.index("\n{") :]
    assert json.loads(printed)["name"] == "chat echo"
