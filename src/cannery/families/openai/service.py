"""Shared by OpenAI's two dialects: headers, the variant, and endpoints that are not conversations."""

from __future__ import annotations

from msgspec.structs import replace

from cannery.wire.contract import Route, Variant
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


def azure(path: str, version: str) -> Variant:
    """A dialect as Azure OpenAI serves it.

    https://learn.microsoft.com/azure/ai-foundry/openai/reference (2026-11-18)
    """
    return Variant(
        "azure",
        (Route("POST", path, "generate", safe=""),),
        replace(HEADERS, key="api-key"),
        query=f"api-version={version}",
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
