"""What nobody gets below without a trick: copying the bytes, and the loop that a person writes by hand."""

from __future__ import annotations

import orjson
from by_hand import as_anthropic

from peers import TO_ANTHROPIC, Json, Pair, Translation, renamed, through

NOTE = "a loop over dicts, written by hand: no model, no check, no report of losses"


def copied(body: bytes) -> bytes:
    """A copy of the bytes, nothing else."""
    return bytes(memoryview(body))


def translations() -> dict[Pair, Translation]:
    """The loop that also makes the benchmark's Anthropic bodies."""
    return {TO_ANTHROPIC: through(as_anthropic)}


def _bulk(line: Json) -> Json:
    return {"messages": renamed(line)}


def bulk() -> Translation:
    """Two names changed in every turn."""
    return lambda line: orjson.dumps(_bulk(orjson.loads(line)))


def held(count: int) -> list[object]:
    """Nothing but the texts: what no library can do without."""
    return [f"message number {number}" for number in range(count)]
