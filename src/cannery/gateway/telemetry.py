"""OpenTelemetry: a span for each call with the GenAI attributes, if the SDK is here and an exporter is configured.

Names are those of the semantic conventions 0.66b2; what is said never becomes an attribute.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from time import perf_counter, time_ns
from typing import Any

from cannery.gateway.calls import Call

_PROVIDERS = {"openai": "openai", "anthropic": "anthropic", "gemini": "gcp.gemini"}
_OPERATIONS = {"generate": "chat", "stream": "chat"}


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
    """Makes spans of calls that have ended."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Telemetry | None:
        """Telemetry, if it is configured and the SDK is installed."""
        if not is_configured(environment):
            return None
        try:
            trace = import_module("opentelemetry.sdk.trace")
            export = import_module("opentelemetry.sdk.trace.export")
            provider = trace.TracerProvider()
            provider.add_span_processor(export.BatchSpanProcessor(_exporter(environment, export)))
        except ImportError:
            return None
        return cls(provider.get_tracer("cannery.gateway"))

    def end(self, call: Call) -> None:
        """Make the span of a call."""
        now = time_ns()
        begun = now - int((perf_counter() - call.started) * 1e9)
        operation = _OPERATIONS.get(call.kind, call.kind)
        name = f"{operation} {call.model}" if call.model else operation
        span = self._tracer.start_span(name, start_time=begun, attributes=attributes(call))
        span.end(end_time=now)


def attributes(call: Call) -> dict[str, Any]:
    """What the conventions want to know of a call."""
    vendor = call.dialect.name.partition("_")[0]
    taken, given = call.tokens
    found: dict[str, Any] = {
        "gen_ai.operation.name": _OPERATIONS.get(call.kind, call.kind),
        "gen_ai.provider.name": _PROVIDERS.get(vendor, vendor),
        "gen_ai.request.model": call.model,
        "gen_ai.conversation.id": call.conversation,
        "gen_ai.usage.input_tokens": taken or None,
        "gen_ai.usage.output_tokens": given or None,
        "gen_ai.response.time_to_first_chunk": round(call.first_byte - call.started, 6)
        if call.first_byte
        else None,
        "http.response.status_code": call.status,
        "cannery.upstream": call.upstream,
        "cannery.request_id": call.request_id,
        "cannery.losses": len(call.losses) or None,
        "error.type": str(call.status) if call.status >= 400 else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _exporter(environment: Mapping[str, str], export: Any) -> Any:
    if environment.get("OTEL_TRACES_EXPORTER") == "console":
        return export.ConsoleSpanExporter()
    return import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter").OTLPSpanExporter()
