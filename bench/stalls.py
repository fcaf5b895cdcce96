"""How long appends wait for gc or a rebuild of the catalogue in another process: p50, p99 and the maximum.

    python bench/stalls.py [--quick] [--json FILE] [BACKEND ...]

Backends: directory, sqlite, postgresql. One process appends small messages durably, to 200 conversations in turn, one
of them long, and times each append. In parallel runs nothing, or a process that repeatedly deletes conversations, one
of them long, and collects them, or one that repeatedly rebuilds the catalogue. Measured on a file system in memory,
where all remaining waiting is Cannery's, and on the disk of ``TMPDIR`` (or ``BENCH_DIR``), whose own stalls are shown
by the rows "nothing" and those of a bare JSONL file.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path

import results
import servers

from cannery.messages import AnyCanister, assistant, user
from cannery.storage import Store, open_store

BACKENDS = ("directory", "sqlite", "postgresql")
CONVERSATIONS = 2_000
GROWN = 200
LENGTH = 5_000
FREED_LENGTH = 500
SECONDS = 10.0
QUICK = 4.0
LONG = "content that lies beside the lines " * 100
GOAL = 0.1
MEMORY = "/dev/shm"  # noqa: S108 - a folder of our own is created in it
_context = multiprocessing.get_context("spawn")


def messages(count: int) -> list[AnyCanister]:
    """A long conversation."""
    return [user(f"question {number} of a long conversation") for number in range(count)]


def collect(location: str, is_over: Event) -> None:
    """Repeatedly delete and free conversations."""
    number = 0
    with open_store(location) as store:
        while not is_over.is_set():
            for _ in range(20):
                number += 1
                store.create(canisters=[user(f"{number} {LONG}"), assistant("short")]).delete()
            store.create(canisters=messages(FREED_LENGTH)).delete()
            store.collect_garbage(grace=0)


def rebuild(location: str, is_over: Event) -> None:
    """Repeatedly rebuild the catalogue."""
    with open_store(location) as store:
        while not is_over.is_set():
            store.rebuild_index()


BESIDE: dict[str, Callable[[str, Event], None] | None] = {
    "nothing": None,
    "gc": collect,
    "rebuild": rebuild,
}


def fill(location: str) -> Store:
    """Fill a store with small conversations."""
    store = open_store(location)
    store.file_many(
        [
            user(f"question {number}"),
            assistant(f"answer {number} {LONG if number % 10 == 0 else ''}"),
        ]
        for number in range(CONVERSATIONS)
    )
    store.list(limit=1)
    return store


def timed(append: Callable[[int], object], seconds: float) -> list[float]:
    """The seconds of each append, in sequence."""
    taken = []
    until = time.perf_counter() + seconds
    number = 0
    while (begun := time.perf_counter()) < until:
        append(number)
        taken.append(time.perf_counter() - begun)
        number += 1
    return taken


def bare(folder: Path) -> Callable[[int], object]:
    """Append a line and sync: the speed of the disk."""
    file = os.open(folder / "bare.jsonl", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def append(number: int) -> None:
        os.write(file, b'{"role":"user","content":"more %d"}\n' % number)
        os.fdatasync(file)

    return append


def measure(
    backend: str, place: str, folder: Path, seconds: float, recording: results.Recording
) -> None:
    """Measure the rows of one backend in one place."""
    path = folder / backend
    server = servers.postgres(str(folder.parent)) if backend == "postgresql" else None
    location = f"sqlite:{path}" if backend == "sqlite" else str(path)
    if server is not None:
        location = server.url()
    try:
        beside_each(backend, place, location, seconds, recording)
    finally:
        if server is not None:
            server.remove()


def beside_each(
    backend: str, place: str, location: str, seconds: float, recording: results.Recording
) -> None:
    """Measure the rows of one store."""
    with fill(location) as store:
        grown = [store.create() for _ in range(GROWN - 1)]
        grown.append(store.create(canisters=messages(LENGTH)))
        for name, work in BESIDE.items():
            is_over = _context.Event()
            beside = None
            if work is not None:
                beside = _context.Process(target=work, args=(location, is_over), daemon=True)
                beside.start()
                # It has no effect until it has imported its modules.
                time.sleep(1.0)
            taken = timed(lambda n: grown[n % GROWN].append(user(f"more {n}")), seconds)
            is_over.set()
            if beside is not None:
                beside.join()
            add(recording, backend, place, name, taken)


def add(
    recording: results.Recording, backend: str, place: str, beside: str, taken: list[float]
) -> None:
    """Add one row, in milliseconds."""
    cut = statistics.quantiles(taken, n=100)
    figures = [round(1000 * one, 2) for one in (cut[49], cut[98], max(taken))]
    late = sum(one > GOAL for one in taken)
    recording.add(
        contender="cannery" if backend != "JSONL" else "JSONL",
        backend=backend,
        place=place,
        beside=beside,
        appends=len(taken),
        median=figures[0],
        p99=figures[1],
        longest=figures[2],
        late=late,
    )
    print(
        f"{place:7} {backend:10} beside {beside:8} {len(taken):7,} appends"
        f"  p50 {figures[0]:8.2f}  p99 {figures[1]:8.2f}  longest {figures[2]:8.2f} ms  {late} over 100 ms",
        flush=True,
    )


def main() -> None:
    """Measure the given backends, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="shorter")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("backends", nargs="*", metavar="BACKEND", default=BACKENDS)
    options = parser.parse_args()
    seconds = QUICK if options.quick else SECONDS
    recording = results.Recording("stalls", quick=options.quick, contenders=["cannery"])
    places = {"memory": MEMORY, "disk": os.environ.get("BENCH_DIR")}
    for place, parent in places.items():
        with tempfile.TemporaryDirectory(dir=parent) as folder:
            add(recording, "JSONL", place, "nothing", timed(bare(Path(folder)), seconds))
            for backend in options.backends:
                measure(backend, place, Path(folder), seconds, recording)
    if options.json:
        recording.write(options.json)


if __name__ == "__main__":
    main()
