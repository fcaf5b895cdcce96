"""How light the library is: the CPU time of ``import cannery``, and a million messages in memory.

Each figure comes from fresh interpreters. Import time is the median, over interleaved runs, of the
CPU time that the import adds to a bare interpreter. Memory is the growth of the resident set.
"""

import argparse
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

IMPORT_GOAL = 80  # milliseconds of CPU over bare Python
MEMORY_GOAL = 240  # megabytes for a million messages
MESSAGES = 1_000_000

TIMING = "import time; print(time.process_time())"


def interpret(program: str) -> str:
    """What a fresh, isolated interpreter prints."""
    finished = subprocess.run(
        [sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True
    )
    return finished.stdout


def import_times(runs: int) -> dict[str, list[float]]:
    """The CPU milliseconds that ``import msgspec`` and ``import cannery`` add, run by run."""
    added: dict[str, list[float]] = {"msgspec": [], "cannery": []}
    interpret("import cannery")  # compiled files are written now
    for _ in range(runs):
        bare = float(interpret(TIMING))
        for name, times in added.items():
            times.append((float(interpret(f"import {name}; {TIMING}")) - bare) * 1000)
    return added


def slowest_imports(count: int = 8) -> list[str]:
    """The modules whose own import takes longest, as Python reports it."""
    finished = subprocess.run(
        [sys.executable, "-I", "-X", "importtime", "-c", "import cannery"],
        check=True,
        capture_output=True,
        text=True,
    )
    rows = []
    for line in finished.stderr.splitlines()[1:]:
        own, _, name = line.removeprefix("import time:").split("|")
        rows.append((int(own), name.strip()))
    return [f"{own / 1000:.1f} ms  {name}" for own, name in sorted(rows, reverse=True)[:count]]


# --- the million messages: run in a child, one way each ---------------------------------------------


def texts_only(count: int) -> list[Any]:
    """Nothing but the texts: what no library can do without."""
    return [f"message number {number}" for number in range(count)]


def built(count: int) -> list[Any]:
    """As an application makes them: with the builders, each at its own time."""
    from cannery import assistant, user

    makers = (user, assistant)
    return [makers[number & 1](f"message number {number}") for number in range(count)]


def decoded(count: int) -> list[Any]:
    """As a decoder makes them: unchecked, all received at one time."""
    from cannery.messages.canisters import new_assistant, new_user
    from cannery.messages.checked import now

    when = now()
    makers = (new_user, new_assistant)
    return [makers[number & 1](f"message number {number}", when) for number in range(count)]


def digested(count: int) -> list[Any]:
    """As the store keeps them at work: decoded, each with its digest."""
    from cannery import digest

    canisters = decoded(count)
    for canister in canisters:
        digest(canister)
    return canisters


# Way of making -> whether the goal holds for it.
WAYS: dict[str, tuple[Callable[[int], list[Any]], bool]] = {
    "texts": (texts_only, False),
    "built": (built, True),
    "decoded": (decoded, True),
    "digested": (digested, False),
}


def resident_bytes() -> int:
    """The resident set of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - one number
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure_memory(way: str, count: int) -> None:
    """Print the bytes that the messages take and the seconds it took to make them."""
    make, _ = WAYS[way]
    make(10)
    gc.collect()
    before = resident_bytes()
    started = time.process_time()
    messages = make(count)
    seconds = time.process_time() - started
    gc.collect()
    print(resident_bytes() - before, seconds)
    assert len(messages) == count


def memory(way: str, count: int) -> tuple[int, float]:
    """The same, from a fresh interpreter."""
    program = [sys.executable, __file__, "--child", way, "--messages", str(count)]
    finished = subprocess.run(program, check=True, capture_output=True, text=True)
    taken, seconds = finished.stdout.split()
    return int(taken), float(seconds)


def verdict(value: float, goal: float) -> str:
    """Whether a goal is met, in a word."""
    return "ok" if value < goal else "FAILED"


def main() -> int:
    """Measure and print a table; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=21, help="interpreters for each import time")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        measure_memory(options.child, options.messages)
        return 0
    failed = False
    print(f"{'what':34} {'measured':>12} {'goal':>8}")
    for name, times in import_times(options.runs).items():
        middle, least = statistics.median(times), min(times)
        row = f"{f'import {name}, CPU over bare':34} {middle:9.1f} ms"
        row += f" {IMPORT_GOAL:5} ms  {verdict(middle, IMPORT_GOAL)}" if name == "cannery" else ""
        print(f"{row:66} {least:.1f} ms at least")
        if name == "cannery" and middle >= IMPORT_GOAL:
            failed = True
            print("\n".join(f"    {slow}" for slow in slowest_imports()))
    for way, (make, has_goal) in WAYS.items():
        taken, seconds = memory(way, options.messages)
        megabytes = taken / 1e6 * MESSAGES / options.messages
        label = f"{options.messages:,} {way}"
        row = f"{label:34} {megabytes:9.0f} MB"
        row += f" {MEMORY_GOAL:5} MB  {verdict(megabytes, MEMORY_GOAL)}" if has_goal else " " * 11
        failed = failed or (has_goal and megabytes >= MEMORY_GOAL)
        each = (
            f"{taken / options.messages:.0f} bytes, {seconds / options.messages * 1e6:.2f} µs each"
        )
        print(f"{row:66} {each}: {(make.__doc__ or '').partition(':')[0].lower()}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
