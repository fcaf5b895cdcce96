"""What both dialects of Google's service have around bodies."""

from __future__ import annotations

from cannery.wire.service import Headers

HEADERS = Headers(
    key="x-goog-api-key",
    tell=("x-goog-api-key", "x-goog-api-client"),
    agents=("google-genai", "gemini"),
)
