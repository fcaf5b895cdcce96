"""The headers of OpenAI's service, which both of its dialects have."""

from __future__ import annotations

from cannery.wire.service import Headers

HEADERS = Headers(
    forwarded=("openai-beta", "openai-organization", "openai-project"),
    returned=(
        "openai-model",
        "openai-organization",
        "openai-processing-ms",
        "openai-version",
    ),
)
