"""How times are taken: thread CPU time, contenders shuffled each round, medians of ratios to the round's floor.

The floor runs in the same process and the same round as what is compared with it, so that neither the machine's
mood nor another environment's interpreter gets into a ratio.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping

FLOOR = "floor"


def cpu_seconds(run: Callable[[], object], repeats: int) -> float:
    """Thread CPU seconds of one call."""
    start = time.thread_time_ns()
    for _ in range(repeats):
        run()
    return (time.thread_time_ns() - start) / repeats / 1e9


def repeats_for(run: Callable[[], object], seconds: float) -> int:
    """How often to call so that a timed slice takes about so long; the call is warm afterwards."""
    run()
    once = cpu_seconds(run, 1)
    return max(1, round(seconds / max(once, 1e-7)))


def ratios(
    contenders: Mapping[str, Callable[[], object]], rounds: int, slice_seconds: float = 0.012
) -> dict[str, list[float]]:
    """Each contender's time as a multiple of the floor's, for every round; slow calls are steady in fewer rounds."""
    repeats = {name: repeats_for(run, slice_seconds) for name, run in contenders.items()}
    rng = random.Random(7)
    found: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    if 1 in repeats.values():
        rounds = max(3, rounds * 3 // 5)
    for _ in range(rounds):
        rng.shuffle(names)
        times = {name: cpu_seconds(contenders[name], repeats[name]) for name in names}
        for name, value in times.items():
            found[name].append(value / times[FLOOR])
    return found


def spread(values: list[float]) -> dict[str, float]:
    """The median with the quartiles around it, as a row keeps them."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {
        "median": round(statistics.median(ordered), 4),
        "low": round(ordered[last // 4], 4),
        "high": round(ordered[last - last // 4], 4),
    }
