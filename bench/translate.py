"""Translation beside other libraries and the floor: ``orjson.loads`` + ``orjson.dumps`` of the same bytes.

    python bench/translate.py [--quick] [--only CONTENDER] [--json FILE]

First recorded bodies of real clients (``captures.py``): every pair of dialects, with the total over all bodies, the
median, the ninetieth percentile and the worst body, and the same bodies once each in one mixed pass; those of agents
have rows of their own. Then one chat in many spellings (``spellings.py``), four workloads, and a conversation that
grows by one message.

Every contender runs in its own environment, one after the other, and measures the floor itself: in its own process, in
the same rounds, shuffled, in thread CPU time. For Cannery the public ``cannery.translate`` is measured, including
losses. Every output is compared with its source, and missing parts are listed beside the figure.
"""

from __future__ import annotations

import importlib
import random
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import programs
import results
import timing
from captures import BODIES, Captured, missing
from completeness import dropped
from peers import PAIRS, TO_ANTHROPIC, Pair, Translation
from spellings import PLAIN, spelled
from workloads import WORKLOADS, encoded, said_by

CONTENDERS = [
    "cannery",
    "floor",
    "any_llm",
    "pydantic_ai",
    "langchain",
    "litellm",
    "llm_rosetta",
]


def floor(body: bytes) -> object:
    """Parse and write the same bytes."""
    return orjson.dumps(orjson.loads(body))


def measure(contender: str, rounds: int) -> Iterator[results.Row]:
    """Measure all rows of one contender, in this process."""
    peer: Any = importlib.import_module(f"peers.{contender}")
    translations: dict[Pair, Translation] = peer.translations()
    pairs = [pair for pair in PAIRS if pair in translations]
    for row in measured(peer, translations, pairs, rounds):
        yield {"contender": contender, **row}
    if hasattr(peer, "copied"):
        yield from copies(peer, rounds)
    if hasattr(peer, "appending"):
        yield from appends(peer, rounds)


def measured(
    peer: Any, translations: dict[Pair, Translation], pairs: list[Pair], rounds: int
) -> Iterator[results.Row]:
    """Measure the rows that every contender has."""
    taken: dict[Pair, list[Captured]] = {}
    # A contender with an input form of its own is measured with Chat sources only, because that form is made from them.
    chat = [pair for pair in pairs if pair[0] == "openai_chat"]
    for pair in chat if _restates(peer) else pairs:
        named = {"source": pair[0], "target": pair[1]}
        taken[pair], row = over_bodies(peer, translations[pair], pair, "captured", rounds)
        yield {**named, **row}
        if BODIES["agents"](pair[0]):
            yield {**named, **over_bodies(peer, translations[pair], pair, "agents", rounds)[1]}
    if set(pairs) == set(PAIRS):
        calls = [(translations[pair], body) for pair in pairs for body in taken[pair]]
        yield {"captured": 0, "source": "all", "target": "all", "mixed": mixed(calls, rounds)}
    for pair in pairs:
        named = {"source": pair[0], "target": pair[1]}
        if hasattr(peer, "appending") or (pair == TO_ANTHROPIC and not hasattr(peer, "source")):
            for row in over_spellings(translations[pair], pair, rounds):
                yield {**named, **row}
        for workload in WORKLOADS:
            yield {**named, **over_workload(peer, translations[pair], pair, workload, rounds)}


# --- bodies of clients ---------------------------------------------------------------------------


def over_bodies(
    peer: Any, translate: Translation, pair: Pair, kind: str, rounds: int
) -> tuple[list[Captured], results.Row]:
    """The bodies of a kind and a pair that a contender accepts, and their figures."""
    found: list[tuple[Captured, list[dict[str, float]]]] = []
    failed: list[str] = []
    lost = 0
    for body in BODIES[kind](pair[0]):
        try:
            stated = body
            if _restates(peer):
                stated = body.restated(lambda said: bytes(peer.source(said, pair)))
            written = translate(stated.numbered(0))
        except Exception as error:  # noqa: BLE001 - a peer that cannot do it is a finding
            failed.append(f"{body.name}: {type(error).__name__}")
            continue
        lost += missing(body, body.numbered(0), written)
        found.append((stated, _times(translate, stated, rounds)))
    row: results.Row = {kind: len(found), "failed_bodies": failed, "missing": lost}
    if pair in getattr(peer, "PARTIAL", {}):
        row["partial"] = peer.PARTIAL[pair]
    bodies = [body for body, _ in found]
    if not bodies:
        return [], row
    row["mixed"] = mixed([(translate, body) for body in bodies], rounds)
    return bodies, {**row, **_figures(found)}


def _restates(peer: Any) -> bool:
    return hasattr(peer, "source")


def _times(translate: Translation, body: Captured, rounds: int) -> list[dict[str, float]]:
    runs = {timing.FLOOR: (floor, body.fresh), "it": (translate, body.fresh)}
    return timing.fresh_times(runs, rounds)


def _figures(found: list[tuple[Captured, list[dict[str, float]]]]) -> results.Row:
    """The total over all bodies, and the distribution of the ratios of single bodies."""
    totals = [
        sum(times["it"] for times in together) / sum(times[timing.FLOOR] for times in together)
        for together in zip(*(times for _, times in found), strict=True)
    ]
    ratios = {
        body.name: statistics.median(one["it"] / one[timing.FLOOR] for one in times)
        for body, times in found
    }
    worst = max(ratios, key=ratios.__getitem__)
    return {
        "total": round(statistics.median(totals), 4),
        "median": round(statistics.median(ratios.values()), 4),
        "p90": round(timing.at_share(list(ratios.values()), 0.9), 4),
        "worst": round(ratios[worst], 4),
        "worst_body": worst,
    }


def mixed(calls: list[tuple[Translation, Captured]], rounds: int) -> float:
    """Every body once per round, in random order: the sum of the times as a multiple of the floor's."""
    rng = random.Random(7)
    found = []
    for _ in range(rounds):
        rng.shuffle(calls)
        fresh = [body.fresh() for _, body in calls]
        translated = [partial(calls[n][0], body) for n, body in enumerate(fresh)]
        ours = timing.all_of(translated)
        found.append(ours / timing.all_of([partial(floor, body) for body in fresh]))
    return round(statistics.median(found), 4)


# --- spellings, workloads, appends ---------------------------------------------------------------


def over_spellings(translate: Translation, pair: Pair, rounds: int) -> Iterator[results.Row]:
    """One chat in many spellings, each as a multiple of the plain one; the plain one as a multiple of the floor."""
    bodies = spelled(pair[0])
    taken = {name: body for name, body in bodies.items() if _takes(translate, body)}
    if PLAIN not in taken:
        return
    runs = {name: (translate, body.fresh) for name, body in taken.items()}
    times = timing.fresh_times({timing.FLOOR: (floor, bodies[PLAIN].fresh), **runs}, rounds * 3)
    for name in bodies:
        if name not in taken:
            yield {"spelling": name, "failed": "refused"}
            continue
        beside = timing.FLOOR if name == PLAIN else PLAIN
        yield {"spelling": name, **timing.spread([one[name] / one[beside] for one in times])}


def _takes(translate: Translation, body: Captured) -> bool:
    try:
        translate(body.fresh())
    except Exception:  # noqa: BLE001 - a peer that cannot do it is a finding
        return False
    return True


def over_workload(
    peer: Any, translate: Translation, pair: Pair, workload: str, rounds: int
) -> results.Row:
    """One of the four workloads, with the parts that its translation drops."""
    said = said_by(workload)
    body = peer.source(said, pair) if _restates(peer) else encoded(workload, pair[0])
    row: results.Row = {"workload": workload}
    try:
        lost = dropped(said, orjson.loads(translate(body)))
    except Exception as error:  # noqa: BLE001 - a peer that cannot do it is a finding
        return {**row, "failed": f"{type(error).__name__}: {error}"[:120]}
    runs: dict[str, Callable[[], object]] = {
        timing.FLOOR: partial(floor, body),
        "it": partial(translate, body),
    }
    found = timing.ratios(runs, rounds)
    if lost and hasattr(peer, "reported"):
        row["reported"] = peer.reported(body, pair)
    return {**row, **timing.spread(found["it"]), "dropped": lost}


def copies(peer: Any, rounds: int) -> Iterator[results.Row]:
    """The time of copying the bytes, as a multiple of the floor."""
    for workload in WORKLOADS:
        body = encoded(workload)
        runs = {timing.FLOOR: partial(floor, body), "it": partial(peer.copied, body)}
        found = timing.ratios(runs, rounds)["it"]
        yield {"contender": "memcpy", "workload": workload, **timing.spread(found)}


def appends(peer: Any, rounds: int) -> Iterator[results.Row]:
    """Append one message to the agentic conversation and write it again; a multiple of the floor of the whole body."""
    body = encoded("agentic")
    steps: dict[str, Callable[[], object]] = peer.appending(body)
    for target, step in steps.items():
        found = timing.ratios({timing.FLOOR: partial(floor, body), "it": step}, rounds)["it"]
        yield {"contender": "cannery", "append": target, **timing.spread(found)}


# --- the program ---------------------------------------------------------------------------------


def show(row: results.Row) -> None:
    """Print one row."""
    pair = f"{row['source']} → {row['target']}, " if "source" in row else ""
    kind = next((kind for kind in BODIES if kind in row), None)
    if kind is not None:
        figures = [f"{name} {row[name]:.2f}" for name in FIGURES if name in row]
        bodies = f"{row[kind]} {kind} bodies"
        notes = (
            f"{len(row.get('failed_bodies', ()))} refused, {row.get('missing', 0)} texts missing"
        )
        print(f"{row['contender']:12} {pair}{bodies}: {', '.join(figures)} ({notes})", flush=True)
        return
    what = row.get("append") or row.get("spelling") or row.get("workload")
    found = row["failed"] if "failed" in row else f"{row['median']:8.3f} ×"
    lost = f" dropped: {', '.join(row['dropped'])}" if row.get("dropped") else ""
    print(f"{row['contender']:12} {pair}{what:24} {found}{lost}", flush=True)


FIGURES = ("total", "mixed", "median", "p90", "worst")


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
