"""The service values that both of Google's dialects have."""

from __future__ import annotations

from cannery.wire.service import Headers, Host

HOST = Host(
    "https://generativelanguage.googleapis.com", ("GEMINI_API_KEY",), ("gemini-*", "gemma-*")
)

HEADERS = Headers(
    key="x-goog-api-key",
    tell=("x-goog-api-key", "x-goog-api-client"),
    agents=("google-genai", "gemini"),
)
