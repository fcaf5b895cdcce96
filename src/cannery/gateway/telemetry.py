"""OpenTelemetry: a span for each exchange with the GenAI attributes, if the SDK is here and an exporter is configured.

Names are those of the conventions for inference spans as of November 2026; what is said never becomes an attribute. A
span belongs to the trace that the caller names in ``traceparent``. Bodies are read once more for it, so that calls
cost nothing while nobody asks for traces.

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

from cannery.errors import CanneryError
from cannery.gateway.calls import Call
from cannery.gateway.logs import Log
from cannery.gateway.routing import vendor_of
from cannery.gateway.upstreams import Upstream
from cannery.messages import Controls, FinishReason, Request, Response, Usage, absent
from cannery.wire.contract import Dialect
from cannery.wire.places import Places

_KINDS = frozenset({"generate", "stream"})
_FINISHES = {
    FinishReason.StopSequence: "stop",
    FinishReason.Tool: "tool_call",
    FinishReason.Filter: "content_filter",
    FinishReason.Refusal: "content_filter",
}
_CONTROLS = {
    "max_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "seed": "gen_ai.request.seed",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
}
_USAGE = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cache_read": "gen_ai.usage.cache_read.input_tokens",
    "cache_write": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
}
_PORTS = {"http": 80, "https": 443}
_FAREWELL_SECONDS = 2.0


def is_configured(environment: Mapping[str, str]) -> bool:
    """Whether somebody asked for traces."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    if exporter:
        return exporter != "none"
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return any(environment.get(name) for name in endpoints)


class Telemetry:
    """Makes spans of exchanges that have ended."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("cannery.gateway")
        trace = import_module("opentelemetry.trace")
        self._client = trace.SpanKind.CLIENT
        self._error = trace.Status(trace.StatusCode.ERROR)
        context = import_module("opentelemetry.trace.propagation.tracecontext")
        self._extract = context.TraceContextTextMapPropagator().extract

    @classmethod
    def of(cls, log: Log, environment: Mapping[str, str] = os.environ) -> Telemetry | None:
        """Telemetry, if it is configured; if the SDK is not installed, the log says so."""
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
        return cls(provider)

    def end(self, call: Call, upstream: Upstream | None) -> None:
        """Make the span of an exchange; other calls have none."""
        if call.kind not in _KINDS:
            return
        now = time_ns()
        begun = now - int((perf_counter() - call.started) * 1e9)
        found = attributes(call, upstream)
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
        """Send what is waiting; a collector that is not there is not waited for."""
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(_FAREWELL_SECONDS)


def attributes(call: Call, upstream: Upstream | None) -> dict[str, Any]:
    """What the conventions want to know of an exchange."""
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
        **_asked(call),
        **_answered(call, target),
    }
    return {name: value for name, value in found.items() if value is not None}


def _server_of(upstream: Upstream | None) -> dict[str, Any]:
    if upstream is None or upstream.is_echo:
        return {}
    parts = urlsplit(upstream.row.url)
    port = parts.port or _PORTS.get(parts.scheme)
    return {"server.address": parts.hostname, "server.port": port}


def _asked(call: Call) -> dict[str, Any]:
    """What the request asks for beside the conversation."""
    try:
        request: Request = call.dialect.read_request(call.body, Places())
    except CanneryError:
        return {}
    controls: Controls = request.controls
    found: dict[str, Any] = {
        attribute: getattr(controls, name)
        for name, attribute in _CONTROLS.items()
        if getattr(controls, name) is not absent
    }
    if controls.stop is not absent:
        found["gen_ai.request.stop_sequences"] = list(controls.stop)
    if isinstance(controls.candidates, int) and controls.candidates != 1:
        found["gen_ai.request.choice.count"] = controls.candidates
    if controls.output is not absent:
        found["gen_ai.output.type"] = "text" if controls.output.kind == "text" else "json"
    return found


def _answered(call: Call, target: Dialect) -> dict[str, Any]:
    """What the answer says of itself."""
    response = call.answered
    if isinstance(response, bytes):
        try:
            response = target.read_response(response, Places())
        except CanneryError:
            return {}
    if not isinstance(response, Response):
        return {}
    found: dict[str, Any] = {}
    if isinstance(response.identifier, str):
        found["gen_ai.response.id"] = response.identifier
    if isinstance(response.model, str):
        found["gen_ai.response.model"] = response.model
    if isinstance(response.finish, FinishReason):
        reason = _FINISHES.get(response.finish, response.finish.value)
        found["gen_ai.response.finish_reasons"] = [reason]
    if isinstance(response.usage, Usage):
        for name, attribute in _USAGE.items():
            value = getattr(response.usage, name)
            if value is not absent:
                found[attribute] = value
    return found


def _trace_headers(call: Call) -> dict[str, str]:
    found = {name: call.header(name) for name in ("traceparent", "tracestate")}
    return {name: str(value) for name, value in found.items() if value is not None}


def _resource(environment: Mapping[str, str]) -> Any:
    """Who sends the spans: what the environment says, or else our own name."""
    resources = import_module("opentelemetry.sdk.resources")
    named = environment.get("OTEL_SERVICE_NAME") or (
        "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    )
    return resources.Resource.create({} if named else {"service.name": "cannery"})


def _exporter(environment: Mapping[str, str], export: Any) -> Any:
    if environment.get("OTEL_TRACES_EXPORTER") == "console":
        return export.ConsoleSpanExporter()
    return import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter").OTLPSpanExporter()
