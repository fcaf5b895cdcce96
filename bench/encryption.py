"""The cost of encryption: CPU time of operations of an encrypted store beside the same ones of a plain store.

    python bench/encryption.py [--quick] [--json FILE] [BACKEND ...]

Both stores contain the same conversations, and are measured alternately: each figure is the median of several rounds,
and the ratio that of two medians. Messages are of mixed sizes; every tenth is long enough to be stored as content of
its own. "search" is for a word that does not occur.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import results
import servers

from cannery.messages import AnyCanister, assistant, user
from cannery.storage import Store, open_store

BACKENDS = ("directory", "sqlite", "postgresql")
LONG, SMALL = 2_000, 1_000
ROUNDS = 9


def clock() -> int:
    """Nanoseconds of CPU time of this thread and of the measured server."""
    return time.thread_time_ns() + servers.cpu_nanoseconds()


def message(number: int) -> AnyCanister:
    """A message; some are long."""
    text = f"{number} " + "some words " * (3 + number % 40)
    return user(text if number % 10 else text * 20)


class Measured:
    """A filled store, and the operations to measure."""

    def __init__(self, location: str, key: str | None, path: Path | None) -> None:
        self.store: Store = open_store(location, encryption_key=key, cache_bytes=0)
        self.path = path
        self.long = self.store.create(canisters=[message(number) for number in range(LONG)])
        self.grown = self.store.create()
        self.number = LONG
        for number in range(SMALL):
            self.store.file([user(f"question {number}"), assistant("answer")])
        self.store.search("question", limit=1)

    def operations(self) -> dict[str, Callable[[], object]]:
        """The timed operations, by name."""
        store, name = self.store, self.long.identifier
        return {
            "append": lambda: self.grown.append(message(self.next()), durability="os"),
            "append 100": lambda: self.grown.append(
                [message(self.next()) for _ in range(100)], durability="os"
            ),
            "file": lambda: store.file([user(f"new {self.next()}"), assistant("answer")]),
            f"load {LONG:,}": lambda: store.get(name).load(),
            f"load {LONG:,}, hydrated": lambda: store.get(name).load(hydrate=True),
            "list(50)": lambda: store.list(limit=50),
            "search": lambda: store.search("nowhere"),
            "verify": store.verify,
        }

    def next(self) -> int:
        """A number that was not used before."""
        self.number += 1
        return self.number

    def size(self) -> int:
        """The bytes on disk after closing; 0 if the store is on a server."""
        self.store.close()
        if self.path is None:
            return 0
        files = [self.path] if self.path.is_file() else self.path.rglob("*")
        return sum(path.stat().st_size for path in files if path.is_file())


def measure(backend: str, folder: Path, rounds: int, recording: results.Recording) -> None:
    """Measure the rows of one backend."""
    key = folder / "key"
    key.write_text("5a" * 32, "ascii")
    server = servers.postgres() if backend == "postgresql" else None
    try:
        pair = []
        for setting in (None, f"file:{key}"):
            path = folder / f"{backend}-{setting is not None}"
            location = f"sqlite:{path}" if backend == "sqlite" else str(path)
            location = location if server is None else server.url()
            pair.append(Measured(location, setting, None if server else path))
        for what in pair[0].operations():
            times = _times(what, pair, rounds)
            _add(recording, backend, what, *map(statistics.median, times))
        sizes = [one.size() for one in pair]
        if all(sizes):
            _add(recording, backend, "disk", *sizes)
    finally:
        if server is not None:
            server.remove()


def _times(what: str, pair: list[Measured], rounds: int) -> list[list[float]]:
    times: list[list[float]] = [[], []]
    for _ in range(rounds if what != "verify" else 3):
        for at, measured in enumerate(pair):
            work = measured.operations()[what]
            start = clock()
            work()
            times[at].append((clock() - start) / 1000)
    return times


def _add(
    recording: results.Recording, backend: str, what: str, plain: float, encrypted: float
) -> None:
    row: dict[str, Any] = {
        "contender": "cannery",
        "backend": backend,
        "what": what,
        "plain": round(plain, 1),
        "median": round(encrypted / plain, 3),
    }
    recording.add(**row)
    unit = "bytes" if what == "disk" else "µs"
    print(f"{backend:10} {what:22} {plain:12,.1f} {unit} × {row['median']:.2f}", flush=True)


def main() -> None:
    """Measure the given backends, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("backends", nargs="*", metavar="BACKEND", default=BACKENDS)
    options = parser.parse_args()
    recording = results.Recording("encryption", quick=options.quick, contenders=["cannery"])
    for backend in options.backends:
        with tempfile.TemporaryDirectory() as folder:
            measure(backend, Path(folder), 3 if options.quick else ROUNDS, recording)
    if options.json:
        recording.write(options.json)


if __name__ == "__main__":
    main()
