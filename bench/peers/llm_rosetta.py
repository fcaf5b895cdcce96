"""llm-rosetta: its function for requests."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import orjson

from peers import PAIRS, Json, Pair, Translation, renamed, through

PACKAGE = "llm-rosetta"
EXTRAS = ()

NAMES = {
    "openai_chat": "openai_chat",
    "openai_responses": "openai_responses",
    "anthropic_messages": "anthropic",
    "gemini_generate": "google",
}


def translations() -> dict[Pair, Translation]:
    """Convert with explicit source and target, so that no time is spent on detection."""
    convert: Any = importlib.import_module("llm_rosetta").convert

    def translate(pair: Pair, body: Json) -> Any:
        model = body.get("model", "gemini-2.5-pro")  # Gemini's is in the URL
        return convert(body, NAMES[pair[1]], source_provider=NAMES[pair[0]], model=model)

    return {pair: through(partial(translate, pair)) for pair in PAIRS}


def bulk() -> Translation:
    """Convert the renamed turns to its model, and back to Chat."""
    convert: Any = importlib.import_module("llm_rosetta").convert

    def translate(line: bytes) -> bytes:
        body = {"model": "m", "messages": renamed(orjson.loads(line))}
        written = convert(body, "openai_chat", source_provider="openai_chat", force_conversion=True)
        return orjson.dumps({"messages": written["messages"]})

    return translate


def held(count: int) -> list[Any]:
    """Messages in the type of its model."""
    converter = importlib.import_module("llm_rosetta").OpenAIChatConverter()
    roles = ("user", "assistant")
    messages = [
        {"role": roles[number & 1], "content": f"message number {number}"}
        for number in range(count)
    ]
    return list(converter.request_from_provider({"model": "m", "messages": messages})["messages"])
