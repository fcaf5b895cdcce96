"""The cost of operations in growing stores: CPU time beside the same operation in the smallest store.

    python bench/growth.py [--quick] [--sizes N,N,…] [--add FILE …] [--json FILE] [BACKEND ...]

Backends: directory, sqlite, postgresql; all by default. Each size is one store of small conversations (two messages;
every hundredth has a tag and a model of its own and is forked), written with the public API. The cost of an operation
is the CPU time of this thread, and of a server's processes for it; the result is the median of several. "rebuild" is
the first search after the catalogue was lost, divided by the number of conversations: the goal is that it is linear,
and that the other costs are constant. Filling a large store takes long: ``--add`` keeps the rows of earlier runs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import results
import servers

from cannery.messages import assistant, user
from cannery.storage import Store, open_store

BACKENDS = ("directory", "sqlite", "postgresql")
SIZES = (1_000, 10_000, 100_000)
QUICK = (1_000, 10_000)
ROUNDS = 15
PART = 500
SAMPLE = 5


def clock() -> int:
    """Nanoseconds of CPU time of this thread and of the measured server."""
    return time.thread_time_ns() + servers.cpu_nanoseconds()


class Filled(NamedTuple):
    """A store, and conversations in it that have a tag, a model and a fork."""

    location: str
    path: Path
    marked: list[str]


def histories(size: int, start: int) -> Iterator[list[object]]:
    """Small conversations, each with a unique word and a common one."""
    for number in range(start, min(start + PART, size)):
        yield [user(f"question word{number} common"), assistant(f"answer {number}")]


def fill(backend: str, folder: Path, size: int, server: Any) -> Filled:
    """Fill a store with a number of conversations."""
    path = folder / f"{backend}-{size}"
    location = f"sqlite:{path}" if backend == "sqlite" else str(path)
    if server is not None:
        location = server.url()
    marked: list[str] = []
    with open_store(location, durability="os") as store:
        for start in range(0, size, PART):
            for filed in store.file_many(histories(size, start)):  # type: ignore[arg-type]
                if isinstance(filed, Exception):
                    raise filed
                if len(marked) * 100 <= start:
                    store.change_metadata(filed.identifier, tags=("marked",), model="rare")
                    filed.conversation.fork(1)
                    marked.append(filed.identifier)
        store.search("word1")
    return Filled(location, path, marked)


def operations(store: Store, filled: Filled) -> dict[str, Callable[[int], object]]:
    """The timed operations, by name; each is called with a new number."""
    names = filled.marked
    grown = store.get(names[0])
    return {
        "append": lambda n: grown.append(user(f"more {n}")),
        "file": lambda n: store.file([user(f"filed {n}"), assistant("yes")]),
        "file, known": lambda _: store.file([user("question word7 common"), assistant("answer 7")]),
        "get": lambda n: store.get(names[n % SAMPLE]),
        "load": lambda n: store.get(names[n % SAMPLE]).load(),
        "list(50)": lambda _: store.list(limit=50),
        "list(tag)": lambda _: store.list(tag="marked", limit=10),
        "list(model)": lambda _: store.list(model="rare", limit=10),
        "tree": lambda n: store.tree(names[n % SAMPLE]),
        "by prefix": lambda n: store.begin_with(names[n % SAMPLE][:20]),
        "search, rare word": lambda n: store.search(f"word{n}"),
        "search, common word": lambda _: store.search("common", limit=10),
    }


def median_of(work: Callable[[int], object], rounds: int = ROUNDS) -> float:
    """The median CPU time of an operation, in microseconds, without the first call."""
    taken = []
    for number in range(rounds + 1):
        start = clock()
        work(number)
        taken.append((clock() - start) / 1000)
    return statistics.median(taken[1:])


def collect_one(store: Store) -> float:
    """The CPU time of a gc that frees one conversation, in microseconds."""
    taken = []
    for number in range(4):
        store.create(canisters=[user(f"short-lived {number}" * 200)]).delete()
        start = clock()
        store.collect_garbage(grace=0)
        taken.append((clock() - start) / 1000)
    return statistics.median(taken[1:])


def open_once(filled: Filled) -> Callable[[int], object]:
    """Open and close a store."""
    return lambda _: open_store(filled.location).close()


def open_and_list(filled: Filled) -> Callable[[int], object]:
    """Open a store, list once, and close it."""

    def work(_: int) -> None:
        with open_store(filled.location) as store:
            store.list(limit=50)

    return work


def rebuild(filled: Filled) -> float:
    """The CPU time of the first search after the catalogue was lost."""
    with open_store(filled.location) as store:
        start = clock()
        store.rebuild_index()
        store.search("word1")
        return (clock() - start) / 1000


def measure(backend: str, folder: Path, size: int) -> Iterator[results.Row]:
    """Measure the rows of one store."""
    server = servers.postgres() if backend == "postgresql" else None
    try:
        yield from measure_filled(fill(backend, folder, size, server), size)
    finally:
        if server is not None:
            server.remove()


def measure_filled(filled: Filled, size: int) -> Iterator[results.Row]:
    """Measure the rows of a filled store."""
    with open_store(filled.location) as store:
        for name, work in operations(store, filled).items():
            yield {"what": name, "median": round(median_of(work), 1)}
        yield {"what": "gc that frees one", "median": round(collect_one(store), 1)}
    yield {"what": "open", "median": round(median_of(open_once(filled), 5), 1)}
    yield {"what": "open and list(50)", "median": round(median_of(open_and_list(filled), 5), 1)}
    yield {"what": "rebuild, each", "median": round(rebuild(filled) / size, 1)}
    if filled.path.is_dir():
        shutil.rmtree(filled.path)


def show(row: results.Row) -> None:
    """Print one line."""
    print(
        f"{row['backend']:10} {row['size']:>9,} {row['what']:20} {row['median']:>12,.1f} µs",
        flush=True,
    )


def main() -> None:
    """Measure the given backends, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller stores")
    parser.add_argument("--sizes", help="how many conversations, separated by commas")
    parser.add_argument("--add", type=Path, nargs="*", default=(), help="rows of earlier runs")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("backends", nargs="*", metavar="BACKEND", default=BACKENDS)
    options = parser.parse_args()
    sizes: tuple[int, ...] = QUICK if options.quick else SIZES
    if options.sizes is not None:
        sizes = tuple(int(size) for size in options.sizes.split(",") if size)
    recording = results.Recording("growth", quick=options.quick, contenders=["cannery"])
    for path in options.add:
        recording.rows += json.loads(path.read_text("utf-8"))["rows"]
    for backend in options.backends:
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                for row in measure(backend, Path(folder), size):
                    show(recording.add(contender="cannery", backend=backend, size=size, **row))
    if options.json:
        recording.write(options.json)


if __name__ == "__main__":
    main()
