"""The lower bounds: copying the bytes, and a loop written by hand."""

from __future__ import annotations

import orjson
from by_hand import as_anthropic

from peers import TO_ANTHROPIC, Json, Pair, Translation, renamed, through

NOTE = "a loop over dicts, written by hand: no model, no check, no report of losses"


def copied(body: bytes) -> bytes:
    """Copy the bytes."""
    return bytes(memoryview(body))


def translations() -> dict[Pair, Translation]:
    """The loop that also writes the benchmark's Anthropic bodies."""
    return {TO_ANTHROPIC: through(as_anthropic)}


def _bulk(line: Json) -> Json:
    return {"messages": renamed(line)}


def bulk() -> Translation:
    """Rename two keys in every turn."""
    return lambda line: orjson.dumps(_bulk(orjson.loads(line)))


def held(count: int) -> list[object]:
    """Only the texts, which every library has to hold."""
    return [f"message number {number}" for number in range(count)]
