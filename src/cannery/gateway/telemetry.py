"""OpenTelemetry: a span per exchange with the GenAI attributes, if the SDK and an exporter are set up.

Names are those of the conventions for inference spans as of November 2026. Message contents become attributes, as JSON
text, only if ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` enables them. A span belongs to the trace that the
caller names in ``traceparent``. Bodies are parsed once more for it, so that calls cost nothing without traces.

https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-spans.md
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from importlib import import_module
from time import perf_counter, time_ns
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

from cannery.errors import CanneryError
from cannery.gateway.calls import Call
from cannery.gateway.logs import Log
from cannery.gateway.routing import vendor_of
from cannery.gateway.upstreams import Upstream
from cannery.messages import Response
from cannery.translation import nativize_request, nativize_response
from cannery.wire.contract import Dialect, Rendered
from cannery.wire.places import Places

_KINDS = frozenset({"generate", "stream"})
# The dialect with the attributes of the conventions, and those of them that hold message contents.
_CONVENTIONS = "otel_genai"
_CONTENT = frozenset(
    {
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.tool.definitions",
    }
)
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURING = frozenset({"true", "span_only", "span_and_event"})
_PORTS = {"http": 80, "https": 443}
_FAREWELL_SECONDS = 2.0
_split = msgspec.json.Decoder(dict[str, Raw]).decode
_decode = msgspec.json.Decoder().decode


def is_configured(environment: Mapping[str, str]) -> bool:
    """Whether traces are configured."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    if exporter:
        return exporter != "none"
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return any(environment.get(name) for name in endpoints)


def captures_content(environment: Mapping[str, str]) -> bool:
    """Whether spans are to contain message contents."""
    return environment.get(_CAPTURE, "").strip().lower() in _CAPTURING


class Telemetry:
    """Makes spans of exchanges that have ended."""

    def __init__(self, provider: Any, *, has_content: bool = False) -> None:
        self._provider = provider
        self._has_content = has_content
        self._tracer = provider.get_tracer("cannery.gateway")
        trace = import_module("opentelemetry.trace")
        self._client = trace.SpanKind.CLIENT
        self._error = trace.Status(trace.StatusCode.ERROR)
        context = import_module("opentelemetry.trace.propagation.tracecontext")
        self._extract = context.TraceContextTextMapPropagator().extract

    @classmethod
    def of(cls, log: Log, environment: Mapping[str, str] = os.environ) -> Telemetry | None:
        """Telemetry, if configured; if the SDK is not installed, the log says so."""
        if not is_configured(environment):
            return None
        try:
            trace = import_module("opentelemetry.sdk.trace")
            export = import_module("opentelemetry.sdk.trace.export")
            provider = trace.TracerProvider(resource=_resource(environment), shutdown_on_exit=False)
            provider.add_span_processor(export.BatchSpanProcessor(_exporter(environment, export)))
        except ImportError as error:
            problem = f"traces need the extra 'telemetry': {error}"
            log.write("warning", "telemetry_unavailable", problem=problem)
            return None
        return cls(provider, has_content=captures_content(environment))

    def end(self, call: Call, upstream: Upstream | None) -> None:
        """Create the span of an exchange; other calls have none."""
        if call.kind not in _KINDS:
            return
        now = time_ns()
        begun = now - int((perf_counter() - call.started) * 1e9)
        found = attributes(call, upstream, has_content=self._has_content)
        operation = found["gen_ai.operation.name"]
        span = self._tracer.start_span(
            f"{operation} {call.model}" if call.model else operation,
            context=self._extract(_trace_headers(call)),
            kind=self._client,
            start_time=begun,
            attributes=found,
        )
        if "error.type" in found:
            span.set_status(self._error)
        span.end(end_time=now)

    def close(self) -> None:
        """Send waiting spans; an unreachable collector is not waited for."""
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(_FAREWELL_SECONDS)


def attributes(
    call: Call, upstream: Upstream | None, *, has_content: bool = False
) -> dict[str, Any]:
    """The attributes of an exchange by the conventions; message contents only if enabled."""
    target = call.dialect if upstream is None else upstream.dialect_for(call.dialect)
    provider = target.service.provider or vendor_of(target)
    is_echo = upstream is not None and upstream.is_echo
    taken, given = call.tokens
    first = call.first_byte - call.started if call.first_byte and call.stream else None
    found: dict[str, Any] = {
        "gen_ai.operation.name": "chat" if is_echo else target.service.operation,
        "gen_ai.provider.name": "echo" if is_echo else provider,
        "gen_ai.request.model": call.model,
        "gen_ai.request.stream": call.stream or None,
        "gen_ai.conversation.id": call.conversation,
        "gen_ai.usage.input_tokens": taken or None,
        "gen_ai.usage.output_tokens": given or None,
        "gen_ai.response.time_to_first_chunk": None if first is None else round(first, 6),
        "http.response.status_code": call.status,
        "cannery.dialect": call.dialect.name,
        "cannery.upstream": call.upstream,
        "cannery.request_id": call.request_id,
        "cannery.losses": len(call.losses) or None,
        "error.type": str(call.status) if call.status >= 400 else None,
        **_server_of(upstream),
        **_asked(call, has_content=has_content),
        **_answered(call, target, has_content=has_content),
    }
    return {name: value for name, value in found.items() if value is not None}


def _server_of(upstream: Upstream | None) -> dict[str, Any]:
    if upstream is None or upstream.is_echo:
        return {}
    parts = urlsplit(upstream.row.url)
    port = parts.port or _PORTS.get(parts.scheme)
    return {"server.address": parts.hostname, "server.port": port}


def _asked(call: Call, *, has_content: bool) -> dict[str, Any]:
    """The attributes of the request; message contents only if enabled."""
    try:
        request = call.dialect.read_request(call.body, Places())
        return _said(nativize_request(request, _CONVENTIONS, policy="allow"), has_content)
    except CanneryError:
        return {}


def _answered(call: Call, target: Dialect, *, has_content: bool) -> dict[str, Any]:
    """The attributes of the answer; its text only if enabled."""
    response = call.answered
    try:
        if isinstance(response, bytes):
            response = target.read_response(response, Places())
        if not isinstance(response, Response):
            return {}
        return _said(nativize_response(response, _CONVENTIONS, policy="allow"), has_content)
    except CanneryError:
        return {}


def _said(rendered: Rendered, has_content: bool) -> dict[str, Any]:  # noqa: FBT001 - the only one
    """The attributes of a rendered request or answer; values that are not attribute types become JSON text."""
    found: dict[str, Any] = {}
    for name, value in _split(rendered.body).items():
        if name in _CONTENT or name.startswith("cannery."):
            if has_content:
                found[name] = str(value, "utf-8")
        else:
            found[name] = _decode(value)
    return found


def _trace_headers(call: Call) -> dict[str, str]:
    found = {name: call.header(name) for name in ("traceparent", "tracestate")}
    return {name: str(value) for name, value in found.items() if value is not None}


def _resource(environment: Mapping[str, str]) -> Any:
    """The resource of the spans: from the environment, or our own name."""
    resources = import_module("opentelemetry.sdk.resources")
    named = environment.get("OTEL_SERVICE_NAME") or (
        "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    )
    return resources.Resource.create({} if named else {"service.name": "cannery"})


def _exporter(environment: Mapping[str, str], export: Any) -> Any:
    if environment.get("OTEL_TRACES_EXPORTER") == "console":
        return export.ConsoleSpanExporter()
    return import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter").OTLPSpanExporter()
