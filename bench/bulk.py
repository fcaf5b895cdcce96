"""Bulk translation of ShareGPT records to Chat beside its floor: ``orjson.loads`` + ``orjson.dumps`` of each line.

Contenders are shuffled each round and timed in thread CPU time on one core; printed are the medians of the ratios.
What runs is the public ``cannery.translate``, losses included. Run with ``--quick`` for a first look.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from pathlib import Path

import orjson
from translate import ratios
from workloads import WORDS

import cannery

GOAL = 1.2


def _sentence(rng: random.Random, length: int) -> str:
    count = max(1, length // 6)
    return " ".join(rng.choice(WORDS) for _ in range(count)) + "."


def chats(rng: random.Random, count: int) -> list[bytes]:
    """Conversations as people shared them: two to eight turns, short questions and long answers."""
    lines = []
    for number in range(count):
        turns = []
        for _ in range(rng.randrange(1, 5)):
            turns.append({"from": "human", "value": _sentence(rng, rng.randrange(20, 400))})
            turns.append({"from": "gpt", "value": _sentence(rng, rng.randrange(100, 1600))})
        lines.append(orjson.dumps({"id": f"chat_{number}", "conversations": turns}))
    return lines


def short(rng: random.Random, count: int) -> list[bytes]:
    """Two to four turns of one short sentence each."""
    lines = []
    for number in range(count):
        turns = []
        for _ in range(rng.randrange(1, 3)):
            turns.append({"from": "human", "value": _sentence(rng, 30)})
            turns.append({"from": "gpt", "value": _sentence(rng, 90)})
        lines.append(orjson.dumps({"id": f"chat_{number}", "conversations": turns}))
    return lines


def calls(rng: random.Random, count: int) -> list[bytes]:
    """A question, a call, its result and an answer, with tools in a string."""
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    tools = json.dumps(
        [{"name": "search", "description": _sentence(rng, 60), "parameters": schema}]
    )
    lines = []
    for _ in range(count):
        call = {"name": "search", "arguments": {"query": _sentence(rng, 30)}}
        turns = [
            {"from": "human", "value": _sentence(rng, 200)},
            {"from": "function_call", "value": json.dumps(call)},
            {"from": "observation", "value": json.dumps({"found": _sentence(rng, 300)})},
            {"from": "gpt", "value": _sentence(rng, 500)},
        ]
        lines.append(orjson.dumps({"conversations": turns, "tools": tools}))
    return lines


WORKLOADS: dict[str, Callable[[random.Random, int], list[bytes]]] = {
    "chats": chats,
    "short": short,
    "calls": calls,
}


def measure(workload: str, rounds: int) -> float:
    """One workload as a multiple of the floor."""
    lines = WORKLOADS[workload](random.Random(5), 500)
    for line in lines[:20]:
        written = orjson.loads(
            cannery.translate(line, source="sharegpt", target="openai_chat").body
        )
        assert len(written["messages"]) == len(orjson.loads(line)["conversations"])

    def floor() -> None:
        for line in lines:
            orjson.dumps(orjson.loads(line))

    def ours() -> None:
        for line in lines:
            cannery.translate(line, source="sharegpt", target="openai_chat")

    return ratios({"floor": floor, "cannery": ours}, 4, rounds)["cannery"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="five rounds instead of twenty-five")
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    rows = []
    for workload in WORKLOADS:
        ratio = measure(workload, 5 if options.quick else 25)
        met = "met" if ratio <= GOAL else "MISSED"
        rows.append({"what": f"sharegpt → openai_chat, {workload}", "ratio": ratio, "goal": GOAL})
        print(f"{rows[-1]['what']:40} {ratio:6.2f} × floor   goal {GOAL} {met}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
