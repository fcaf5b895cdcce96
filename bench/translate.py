"""Translation beside its peers and its floor: ``orjson.loads`` + ``orjson.dumps`` of the same bytes.

    python bench/translate.py [--quick] [--only CONTENDER] [--json FILE]

Every contender runs in its own environment, one after the other, and measures the floor itself: in its own process, in
the same rounds, shuffled, in thread CPU time. Printed are the medians of per-round ratios, and of five processes except
with ``--quick``. What runs for us is the public ``cannery.translate``, losses included. Every output is compared with
its source, and what is not in it stands beside its figure. ``CLIFFS`` are bodies that differ a little from the
workloads; they have no goal.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import programs
import results
import timing
from completeness import dropped
from peers import OURS, PAIRS, TO_ANTHROPIC, Pair
from workloads import CLIFFS, WORKLOADS, encoded, said_by

CONTENDERS = [
    "cannery",
    "floor",
    "any_llm",
    "pydantic_ai",
    "langchain",
    "litellm",
    "llm_rosetta",
]
GOALS = {"short": 2.0, "agentic": 1.4, "images": 1.3, "long": 1.3}
APPEND_GOAL = 0.1


def floor(body: bytes) -> object:
    """Parsing and writing the same bytes, without looking at them."""
    return orjson.dumps(orjson.loads(body))


def cells(contender: str, translations: dict[Pair, Any]) -> Iterator[tuple[Pair, str]]:
    """What a contender is measured on: all pairs of the workloads; of the cliffs one pair, and all for us."""
    for pair in (*PAIRS, *OURS):
        if pair not in translations:
            continue
        for workload in WORKLOADS:
            yield pair, workload
        if contender == "cannery" or pair == TO_ANTHROPIC:
            for workload in CLIFFS:
                yield pair, workload


def measure(contender: str, rounds: int) -> Iterator[results.Row]:
    """Every row of one contender, in this process."""
    peer: Any = importlib.import_module(f"peers.{contender}")
    translations = peer.translations()
    for pair, workload in cells(contender, translations):
        said = said_by(workload)
        body = encoded(workload, pair[0])
        if hasattr(peer, "source"):
            body = peer.source(said, pair)
        row = {"contender": contender, "source": pair[0], "target": pair[1], "workload": workload}
        translate = translations[pair]
        try:
            missing = dropped(said, orjson.loads(translate(body)))
        except Exception as error:  # noqa: BLE001 - a peer that cannot do it is a finding
            yield {**row, "failed": f"{type(error).__name__}: {error}"[:120]}
            continue
        found = timing.ratios(
            {timing.FLOOR: partial(floor, body), "it": partial(translate, body)}, rounds
        )
        if missing and hasattr(peer, "reported"):
            row["reported"] = peer.reported(body, pair)
        yield {**row, **timing.spread(found["it"]), "dropped": missing}
    if hasattr(peer, "copied"):
        yield from copies(peer, rounds)
    if hasattr(peer, "appending"):
        yield from appends(peer, rounds)


def copies(peer: Any, rounds: int) -> Iterator[results.Row]:
    """How long it takes to copy the bytes, as a multiple of the floor."""
    for workload in WORKLOADS:
        body = encoded(workload)
        runs = {timing.FLOOR: partial(floor, body), "it": partial(peer.copied, body)}
        found = timing.ratios(runs, rounds)["it"]
        yield {"contender": "memcpy", "workload": workload, **timing.spread(found)}


def appends(peer: Any, rounds: int) -> Iterator[results.Row]:
    """One message more on the agentic conversation, written again; a multiple of the floor of the whole body."""
    body = encoded("agentic")
    steps: dict[str, Callable[[], object]] = peer.appending(body)
    for target, step in steps.items():
        found = timing.ratios({timing.FLOOR: partial(floor, body), "it": step}, rounds)["it"]
        yield {"contender": "cannery", "append": target, **timing.spread(found)}


def show(row: results.Row) -> None:
    """One row, with its goal where it has one."""
    if "append" in row:
        what, goal = f"append one, write again, {row['append']}", APPEND_GOAL
    else:
        pair = f"{row['source']} → {row['target']}, " if "source" in row else ""
        what, goal = f"{pair}{row['workload']}", GOALS.get(row["workload"], 0.0)
    if "failed" in row:
        print(f"{row['contender']:12} {what:56} {row['failed']}", flush=True)
        return
    verdict = ""
    if goal and row["contender"] == "cannery":
        verdict = f"goal {goal:<4} {'met' if row['median'] <= goal else 'MISSED'}"
    lost = f"dropped: {', '.join(row['dropped'])}" if row.get("dropped") else ""
    print(f"{row['contender']:12} {what:56} {row['median']:8.3f} × {verdict}{lost}", flush=True)


def main() -> None:
    """Measure every contender in its environment, or one of them in this process."""
    options = programs.parser_of(__doc__, CONTENDERS).parse_args()
    rounds, processes = (5, 1) if options.quick else (7, 5)
    programs.run(
        Path(__file__),
        CONTENDERS,
        options,
        partial(measure, rounds=rounds),
        show,
        processes=processes,
    )


if __name__ == "__main__":
    main()
