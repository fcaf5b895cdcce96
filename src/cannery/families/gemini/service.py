"""What both dialects of Google's service have around bodies."""

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
