"""Time measurement: thread CPU time, contenders shuffled each round, medians of ratios to the round's floor.

The floor runs in the same process and the same round as the code compared with it, so that a ratio does not depend on
the load of the machine or on another environment's interpreter. Bodies that must be new in every call are created
outside of the timed slice.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

FLOOR = "floor"
# The maximum duration of a timed slice of the floor, and the limits of its calls.
SLICE_SECONDS = 0.0002
CALLS = range(3, 61)


def cpu_seconds(run: Callable[[], object], repeats: int) -> float:
    """Thread CPU seconds of one call."""
    start = time.thread_time_ns()
    for _ in range(repeats):
        run()
    return (time.thread_time_ns() - start) / repeats / 1e9


def repeats_for(run: Callable[[], object], seconds: float) -> int:
    """The number of calls for a timed slice of about the given length; the function is warm afterwards."""
    run()
    once = cpu_seconds(run, 1)
    return max(1, round(seconds / max(once, 1e-7)))


def ratios(
    contenders: Mapping[str, Callable[[], object]], rounds: int, slice_seconds: float = 0.012
) -> dict[str, list[float]]:
    """The ratios of each contender's time to the floor's, by round; slow calls vary less and get fewer rounds."""
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


Take = Callable[[bytes], object]
Fresh = Callable[[], bytes]


def each(run: Take, bodies: Sequence[bytes]) -> float:
    """Thread CPU seconds per call, over bodies that are each used once."""
    start = time.thread_time_ns()
    for body in bodies:
        run(body)
    return (time.thread_time_ns() - start) / len(bodies) / 1e9


def all_of(calls: Sequence[Callable[[], object]]) -> float:
    """Thread CPU seconds of several different calls together."""
    start = time.thread_time_ns()
    for call in calls:
        call()
    return (time.thread_time_ns() - start) / 1e9


def fresh_times(runs: Mapping[str, tuple[Take, Fresh]], rounds: int) -> list[dict[str, float]]:
    """The seconds of every run in every round, with new bodies in each call; the floor determines their number."""
    floor, fresh = runs[FLOOR]
    once = each(floor, [fresh() for _ in range(10)])
    calls = min(max(CALLS.start, int(SLICE_SECONDS / max(once, 1e-9))), CALLS.stop - 1)
    rng = random.Random(7)
    names = list(runs)
    for take, make in runs.values():
        each(take, [make() for _ in range(3)])  # warm
    found = []
    for _ in range(rounds):
        rng.shuffle(names)
        bodies = {name: [runs[name][1]() for _ in range(calls)] for name in names}
        found.append({name: each(runs[name][0], bodies[name]) for name in names})
    return found


def spread(values: list[float]) -> dict[str, float]:
    """The median and the quartiles, for a row."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {
        "median": round(statistics.median(ordered), 4),
        "low": round(ordered[last // 4], 4),
        "high": round(ordered[last - last // 4], 4),
    }


def at_share(values: Sequence[float], share: float) -> float:
    """The smallest value that is not exceeded by a given share of the values."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]
