"""Translation beside its floor: ``orjson.loads`` + ``orjson.dumps`` of the same bytes.

Contenders are shuffled each round and timed in thread CPU time; printed are the medians of per-round ratios.
Losslessness and losses are part of the measured path: what runs is the public ``cannery.translate``.
Run with ``--quick`` for a
first look, ``--plot FILE`` for an SVG.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import orjson
from workloads import WORKLOADS

import cannery

GOALS = {"short": 2.0, "agentic": 1.4, "images": 1.3, "long": 1.3}
APPEND_GOAL = 0.1
REPEATS = {"short": 400, "agentic": 4, "images": 3, "long": 2}
PAIRS = (
    ("openai_chat", "anthropic_messages"),
    ("openai_chat", "gemini_generate"),
    ("openai_chat", "openai_responses"),
    ("anthropic_messages", "openai_chat"),
)


def timed(run: Callable[[], object], repeats: int) -> float:
    """Thread CPU nanoseconds of one call."""
    start = time.thread_time_ns()
    for _ in range(repeats):
        run()
    return (time.thread_time_ns() - start) / repeats


def ratios(
    contenders: dict[str, Callable[[], object]], repeats: int, rounds: int
) -> dict[str, float]:
    """The median over rounds of each contender's time as a multiple of the floor's."""
    rng = random.Random(7)
    found: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for _ in range(rounds):
        rng.shuffle(names)
        times = {name: timed(contenders[name], repeats) for name in names}
        for name, value in times.items():
            found[name].append(value / times["floor"])
    return {name: statistics.median(values) for name, values in found.items()}


def translation(workload: str, source: str, target: str, rounds: int) -> float:
    """Bytes to bytes, as a multiple of the floor."""
    body = source_body(workload, source)
    rendered = cannery.translate(body, source=source, target=target)
    assert len(rendered.body) > len(body) // 2
    contenders = {
        "floor": lambda: orjson.dumps(orjson.loads(body)),
        "cannery": lambda: cannery.translate(body, source=source, target=target),
    }
    return ratios(contenders, REPEATS[workload], rounds)["cannery"]


def source_body(workload: str, source: str) -> bytes:
    """The workload as a body of the source dialect."""
    body = orjson.dumps(WORKLOADS[workload]())
    if source == "openai_chat":
        return body
    return cannery.translate(body, source="openai_chat", target=source).body


def append(target: str, rounds: int) -> float:
    """One message more on the agentic conversation, written again; a multiple of the floor."""
    body = source_body("agentic", "openai_chat")
    request = cannery.normalize_request(body, "openai_chat")
    cannery.nativize_request(request, target)
    requests = [request]

    def step() -> object:
        make = cannery.assistant if len(requests) % 2 else cannery.user
        longer = requests[-1].conversation.append(make("And one message more."))
        requests.append(requests[-1].replace(conversation=longer))
        return cannery.nativize_request(requests[-1], target)

    contenders = {"floor": lambda: orjson.dumps(orjson.loads(body)), "cannery": step}
    return ratios(contenders, 2, rounds)["cannery"]


def measure(rounds: int) -> list[dict[str, object]]:
    """Every row of the table."""
    rows: list[dict[str, object]] = []
    for source, target in PAIRS:
        for workload, goal in GOALS.items():
            ratio = translation(workload, source, target, rounds)
            rows.append(
                {
                    "what": f"{source} → {target}, {workload}",
                    "ratio": round(ratio, 2),
                    "goal": goal,
                }
            )
            show(rows[-1])
    for target in ("anthropic_messages", "openai_chat"):
        rows.append(
            {
                "what": f"append one and write again, {target}",
                "ratio": round(append(target, rounds), 3),
                "goal": APPEND_GOAL,
            }
        )
        show(rows[-1])
    return rows


def show(row: dict[str, object]) -> None:
    """One row, with whether it meets its goal."""
    met = "met" if row["ratio"] <= row["goal"] else "MISSED"  # type: ignore[operator]
    print(f"{row['what']:55} {row['ratio']:>7} × floor   goal {row['goal']:<5} {met}", flush=True)


def plot(rows: list[dict[str, object]], path: Path) -> None:
    """A bar for each row with a mark at its goal, as SVG."""
    height = 22 * len(rows) + 30
    scale = 400 / max(float(row["ratio"]) for row in rows)  # type: ignore[arg-type]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="860" height="{height}" font-size="12">'
    ]
    for index, row in enumerate(rows):
        top = 22 * index + 10
        width = float(row["ratio"]) * scale  # type: ignore[arg-type]
        goal = 400 + float(row["goal"]) * scale  # type: ignore[arg-type]
        parts.append(f'<text x="4" y="{top + 13}">{row["what"]}</text>')
        parts.append(f'<rect x="400" y="{top}" width="{width:.1f}" height="16" fill="#4a7"/>')
        parts.append(f'<rect x="{goal:.1f}" y="{top - 2}" width="2" height="20" fill="#b33"/>')
        parts.append(f'<text x="{405 + width:.1f}" y="{top + 13}">{row["ratio"]}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", "utf-8")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="five rounds instead of twenty-five")
    parser.add_argument("--plot", type=Path, help="write an SVG here")
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    rows = measure(5 if options.quick else 25)
    if options.plot:
        plot(rows, options.plot)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
