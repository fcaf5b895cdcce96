"""What both dialects of OpenAI's service have: its headers, and the endpoints that are no conversation."""

from __future__ import annotations

from cannery.wire.service import Headers, Host

HOST = Host(
    "https://api.openai.com/v1",
    ("OPENAI_API_KEY",),
    ("gpt-*", "chatgpt-*", "codex-*", "o1*", "o3*", "o4*"),
)

HEADERS = Headers(
    forwarded=("openai-beta", "openai-organization", "openai-project"),
    returned=(
        "openai-model",
        "openai-organization",
        "openai-processing-ms",
        "openai-version",
    ),
)

PASSED = (
    "/audio",
    "/batches",
    "/completions",
    "/embeddings",
    "/files",
    "/fine_tuning",
    "/images",
    "/moderations",
    "/responses",
    "/uploads",
    "/vector_stores",
)
