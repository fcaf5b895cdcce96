"""Storage beside other libraries: ratios within one run, on one machine, interleaved.

    python bench/storage.py [--quick] [--only CONTENDER] [--json FILE] [MEASURE ...]

Measures: append, growth, writers, load, tail, fork, filing, disk, verify; all of them by default.

Every contender runs in its own environment and measures the baseline itself: in its own process, in rounds of changing
order, each timed slice after a ``sync``. The results are the medians of the ratios of the rounds. The baseline of
writing is a bare JSONL file with fdatasync after each message, that of loading the same file read with the standard
library. The data is in the folder of ``TMPDIR``, or of ``BENCH_DIR`` if it is set, which must not be in memory.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import programs
import results
from peers.storing import Said, Storage, inline, jsonl
from timing import spread

CONTENDERS = ["cannery", "postgresql", "sqlite", "openai_agents", "langchain", "llm"]
WORDS = ("the", "of", "and", "to", "in", "is", "you", "that", "it", "was", "for", "on", "are", "as")
NUMBERED = [word + str(number) for word in WORDS for number in range(50)]
GOALS = {
    "append": "at most 1.3",
    "append, sqlite:FILE": "at most 1.5",
    "growth": "at most 1.1",
    "writers": "at most 0.3",
    "load": "at most 0.5",
    "tail": "without reading the rest",
    "fork": "at most 3 syncs, 1 KB",
    "disk": "at most 0.30",
    "verify": "at least 300 MB/s",
}


class Scale(NamedTuple):
    """The amount of work; Cannery is always measured with the longest conversations."""

    rounds: int
    slice: int
    corpus: int  # the messages that are loaded
    largest: int  # the length of the longest conversation

    def of(self, peer: Any) -> Scale:
        """The same with the longest conversations, for Cannery."""
        return self._replace(corpus=10_000, largest=100_000) if is_ours(peer) else self


QUICK = Scale(rounds=5, slice=40, corpus=2_000, largest=10_000)
FULL = Scale(rounds=9, slice=150, corpus=10_000, largest=100_000)


def is_ours(peer: Any) -> bool:
    """Whether a contender is Cannery; some measures apply to it only."""
    return bool(peer.__name__ == "peers.cannery")


def text(chance: random.Random, size: int) -> str:
    """Text of a given length that compresses like prose."""
    return " ".join(chance.choices(NUMBERED, k=size // 5 + 1))[:size]


def mixed(seed: int, count: int) -> list[Said]:
    """Messages with a realistic distribution of sizes: many short, some of a few kilobytes, few longer."""
    chance = random.Random(seed)
    sizes = chance.choices([80, 300, 900, 2500, 8000, 30000], [30, 30, 18, 14, 6, 2], k=count)
    return [Said("user", text(chance, size)) for size in sizes]


def numbered(count: int) -> Iterator[list[Said]]:
    """A number of short messages, in batches of a thousand."""
    for start in range(0, count, 1000):
        yield [Said("user", f"message {start + index}") for index in range(min(1000, count))]


def corpus(count: int) -> list[Said]:
    """A chat with repeated prompts, tool results and images, as agents produce them."""
    chance = random.Random(5)
    repeated = [text(chance, 6000) for _ in range(20)]
    pictures = [chance.randbytes(40_000) for _ in range(10)]
    found: list[Said] = []
    for index in range(count):
        kind = index % 10
        if kind in {0, 5}:
            found.append(Said("user", chance.choice(repeated)))
        elif kind == 7 and index % 50 == 7:
            found.append(Said("user", image=chance.choice(pictures)))
        elif kind in {3, 8}:
            found.append(Said("assistant", text(chance, 2500)))
        else:
            found.append(Said("assistant", text(chance, 250)))
    return found


@contextmanager
def folder_for(name: str) -> Iterator[Path]:
    """A temporary folder on a disk."""
    path = Path(tempfile.mkdtemp(prefix=f"bench-{name}-", dir=os.environ.get("BENCH_DIR")))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def opened(make: Callable[[Path], Storage], folder: Path) -> Iterator[Storage]:
    """A store in a new folder, closed afterwards."""
    folder.mkdir(parents=True)
    storage = make(folder)
    try:
        yield storage
    finally:
        storage.close()


def timed(work: Callable[[], object]) -> float:
    """Wall-clock seconds, measured after pending writes have finished."""
    os.sync()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cpu_seconds(work: Callable[[], object]) -> float:
    """The CPU time of all threads."""
    start = time.process_time()
    work()
    return time.process_time() - start


def batches(scale: Scale) -> list[list[Said]]:
    """Different messages for every round, so that deduplication gains nothing."""
    return [mixed(turn, scale.slice) for turn in range(scale.rounds + 1)]


def appending(append: Callable[[Said], object], said: list[list[Said]]) -> Callable[[int], None]:
    """Append the messages of a round, one by one."""

    def run(turn: int) -> None:
        for what in said[turn]:
            append(what)

    return run


def in_turns(runs: Mapping[str, Callable[[int], object]], rounds: int) -> dict[str, list[float]]:
    """The seconds of each run in each round, in changing order, without the first round."""
    order = list(runs)
    found: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        random.Random(turn).shuffle(order)
        for name in order:
            seconds = timed(partial(runs[name], turn))
            if turn:
                found[name].append(seconds)
    return found


def beside(times: dict[str, list[float]], name: str, base: str) -> dict[str, float]:
    """The spread of the ratios of one run to another."""
    return spread([own / floor for own, floor in zip(times[name], times[base], strict=True)])


def size_of(folder: Path) -> int:
    """The bytes of the files in a folder."""
    return sum(item.stat().st_size for item in folder.rglob("*") if item.is_file())


# The measures of each contender. A measure takes the peer and the scale and yields rows.


def measure_append(peer: Any, scale: Scale) -> Iterator[results.Row]:
    """Durable append of mixed sizes, beside JSONL + fdatasync; for Cannery also in one SQLite file."""
    said = batches(scale)
    makers = {"base": jsonl, "append": peer.storage}
    if is_ours(peer):
        makers["append, sqlite:FILE"] = peer.storage_in_one_file
    with folder_for("append") as folder, ExitStack() as stack:
        runs = {}
        for number, (name, make) in enumerate(makers.items()):
            store = stack.enter_context(opened(make, folder / str(number)))
            runs[name] = appending(store.append, said)
        times = in_turns(runs, scale.rounds)
    for name in list(makers)[1:]:
        yield {"what": name, **beside(times, name, "base")}


def measure_growth(peer: Any, scale: Scale) -> Iterator[results.Row]:
    """Whether the cost of an append is the same in a long conversation."""
    counts = [count for count in (1000, 10_000, 100_000) if count <= scale.of(peer).largest]
    said = batches(scale)
    with folder_for("growth") as folder:
        stores = {}
        for count in counts:
            own = folder / str(count)
            own.mkdir()
            stores[count] = peer.storage(own)
            for part in numbered(count):
                stores[count].fill(part)
        runs = {str(count): appending(store.append, said) for count, store in stores.items()}
        times = in_turns(runs, scale.rounds)
        for store in stores.values():
            store.close()
    for count in counts[1:]:
        yield {"what": "growth", "messages": count, **beside(times, str(count), "1000")}


def measure_load(peer: Any, scale: Scale) -> Iterator[results.Row]:
    """Loading 10,000 messages with their content, and their size on disk."""
    said = corpus(scale.of(peer).corpus)
    with folder_for("load") as folder, opened(jsonl, folder / "base") as base:
        base.fill(said)
        with opened(peer.storage, folder / "own") as own:
            for start in range(0, len(said), 500):
                own.fill(said[start : start + 500])
            loaded: Any = own.load()
            assert len(loaded) == len(said)
            runs: dict[str, Callable[[int], object]]
            runs = {"base": lambda _: base.load(), "own": lambda _: own.load()}
            times = in_turns(runs, scale.rounds)
            yield {"what": "load", "messages": len(said), **beside(times, "own", "base")}
            if own.verify:
                yield from _verified(own.verify, said, scale)
        ratio = size_of(folder / "own") / size_of(folder / "base")
        yield {"what": "disk", "messages": len(said), "median": round(ratio, 4)}


def _verified(
    verify: Callable[[], object], said: list[Said], scale: Scale
) -> Iterator[results.Row]:
    verify()
    best = min(cpu_seconds(verify) for _ in range(3 if scale == QUICK else 7))
    stored = len({(one.text, one.image) for one in said})
    once = {(one.text, one.image): len(inline(one)) for one in said}
    yield {
        "what": "verify",
        "megabytes_said": round(sum(len(inline(one)) for one in said) / best / 1e6, 1),
        "megabytes_stored": round(sum(once.values()) / best / 1e6, 1),
        "messages": round(len(said) / best),
        "distinct": stored,
    }


def measure_fork(peer: Any, scale: Scale) -> Iterator[results.Row]:
    """The cost of a second conversation with the same history, if a contender supports it."""
    for count in (1000, scale.of(peer).largest):
        with folder_for("fork") as folder, opened(peer.storage, folder / "own") as own:
            if not own.fork:
                return
            for part in numbered(count):
                own.fill(part)
            own.fork()
            with counted_syncs() as syncs:
                before = size_of(folder)
                seconds = timed(own.fork)
            added = size_of(folder) - before
            row = {"what": "fork", "messages": count, "bytes": added}
            if is_ours(peer):
                row["syncs"] = len(syncs)
            yield {**row, "microseconds": round(seconds * 1e6)}


@contextmanager
def counted_syncs() -> Iterator[list[int]]:
    """Count the syncs of Cannery's directory store; those of peers are not counted."""
    syncs: list[int] = []
    try:
        system: Any = importlib.import_module("cannery.backends.directory.files").OperatingSystem
    except ImportError:
        yield syncs
        return
    real = system.sync

    def counting(self: Any, fd: int) -> None:
        syncs.append(fd)
        real(self, fd)

    system.sync = counting
    try:
        yield syncs
    finally:
        system.sync = real


def shared(scale: Scale, seed: int) -> list[list[list[Said]]]:
    """Different messages for every round and each of sixteen writers."""
    first = 1_000_000 * seed
    return [
        [mixed(first + 16 * turn + writer, scale.slice) for writer in range(16)]
        for turn in range(scale.rounds + 1)
    ]


def measure_writers(peer: Any, scale: Scale) -> Iterator[results.Row]:
    """Sixteen threads, and sixteen tasks, beside one thread, per message; for Cannery only."""
    if not is_ours(peer):
        return
    cannery: Any = importlib.import_module("cannery")
    said = batches(scale)
    with folder_for("writers") as folder, cannery.open_store(folder / "store") as store:
        one = store.create()
        many = [store.create() for _ in range(16)]
        awaited = importlib.import_module("cannery.storage").AsyncStore(store)

        def write(conversation: Any, said: list[Said]) -> None:
            for what in said:
                conversation.append(cannery.user(what.text))

        def together(conversations: list[Any], parts: list[list[list[Said]]], turn: int) -> None:
            pairs = zip(conversations, parts[turn], strict=True)
            threads = [threading.Thread(target=write, args=pair) for pair in pairs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        runs: dict[str, Callable[[int], object]] = {
            "alone": lambda turn: write(one, said[turn]),
            "16 threads, 16 conversations": partial(together, many, shared(scale, 1)),
            "16 threads, one conversation": partial(together, [one] * 16, shared(scale, 2)),
            "16 tasks, 16 conversations": partial(as_tasks, awaited, many, shared(scale, 3)),
            "16 tasks, one conversation": partial(as_tasks, awaited, [one] * 16, shared(scale, 4)),
        }
        times = in_turns(runs, scale.rounds)
    for name in list(times)[1:]:
        each = [seconds / 16 for seconds in times[name]]
        ratios = beside({"own": each, "base": times["alone"]}, "own", "base")
        yield {"what": "writers", "kind": name, **ratios}


def as_tasks(
    store: Any, conversations: list[Any], parts: list[list[list[Said]]], turn: int
) -> None:
    """Write with one asyncio task per writer."""
    cannery: Any = importlib.import_module("cannery")

    async def write(conversation: Any, said: list[Said]) -> None:
        for what in said:
            await conversation.append(cannery.user(what.text))

    async def run() -> None:
        handles = [await store.get(conversation.identifier) for conversation in conversations]
        await asyncio.gather(*map(write, handles, parts[turn]))

    asyncio.run(run())


def exchanges(turn: int, count: int) -> list[list[Said]]:
    """Chats of one question and one answer under the same prompt, as a gateway files them."""
    chance = random.Random(turn)
    prompt = Said("supervisor", text(chance, 400))
    return [
        [prompt, Said("user", text(chance, 300)), Said("assistant", text(chance, 600))]
        for _ in range(count)
    ]


def measure_filing(peer: Any, scale: Scale) -> Iterator[results.Row]:
    """Filing new histories, singly and in batches, beside one durable line of JSONL each."""
    if not is_ours(peer):
        return
    cannery: Any = importlib.import_module("cannery")
    said = [exchanges(turn, scale.slice) for turn in range(2 * scale.rounds + 2)]
    spent: dict[str, list[float]] = {"alone": [], "20 at once": []}

    def file(kind: str, work: Callable[[list[Any]], object], step: int, turn: int) -> None:
        turns = said[2 * turn + (kind == "alone")]
        made = [[getattr(cannery, one.role)(one.text) for one in history] for history in turns]
        seconds = cpu_seconds(
            lambda: [work(made[at : at + step]) for at in range(0, len(made), step)]
        )
        spent[kind].append(seconds / len(made) * 1e6)

    with (
        folder_for("filing") as folder,
        opened(jsonl, folder / "base") as base,
        cannery.open_store(folder / "store") as store,
    ):
        runs: dict[str, Callable[[int], object]] = {
            "base": lambda turn: [base.fill(history) for history in said[2 * turn]],
            "alone": partial(file, "alone", lambda some: store.file(some[0]), 1),
            "20 at once": partial(file, "20 at once", store.file_many, 20),
        }
        times = in_turns(runs, scale.rounds)
    for kind, found in spent.items():
        cost = {"microseconds": round(statistics.median(found[1:]))}
        yield {"what": "filing", "kind": kind, **beside(times, kind, "base"), **cost}


def measure_tail(peer: Any, scale: Scale) -> Iterator[results.Row]:
    """The last 50 of 100,000 messages beside those of 1,000."""
    if not is_ours(peer):
        return
    cannery: Any = importlib.import_module("cannery")
    with folder_for("tail") as folder, cannery.open_store(folder / "store") as store:
        conversations = {}
        for count in (1000, 100_000):
            conversations[str(count)] = store.create()
            for part in numbered(count):
                conversations[str(count)].append([cannery.user(one.text) for one in part])
        runs: dict[str, Callable[[int], object]] = {
            name: partial(_tails, conversation) for name, conversation in conversations.items()
        }
        times = in_turns(runs, scale.rounds)
    yield {"what": "tail", "messages": 100_000, **beside(times, "100000", "1000")}


def _tails(conversation: Any, _: int) -> None:
    for _ in range(20):
        assert len(conversation.load(-50)) == 50


MEASURES: dict[str, Callable[[Any, Scale], Iterator[results.Row]]] = {
    "append": measure_append,
    "growth": measure_growth,
    "writers": measure_writers,
    "load": measure_load,
    "tail": measure_tail,
    "fork": measure_fork,
    "filing": measure_filing,
}
# Measures that are part of another one.
ALSO = {"disk": "load", "verify": "load"}


def show(row: results.Row) -> None:
    """Print one row, with its goal if it has one."""
    name = " ".join(
        [
            row["what"],
            *(f"{row[key]:,}" for key in ("messages",) if key in row),
            row.get("kind", ""),
        ]
    )
    value = f"{row['median']:.3f} ×" if "median" in row else ""
    others = ", ".join(
        f"{row[key]:,} {key}"
        for key in ("syncs", "bytes", "microseconds", "megabytes_said", "megabytes_stored")
        if key in row
    )
    goals = GOALS if row["contender"] == "cannery" else {}
    goal = f"goal {goals[row['what']]}" if row["what"] in goals else ""
    print(f"{row['contender']:14} {name:34} {value}{others}   {goal}", flush=True)


def main() -> None:
    """Measure the given measures, or all."""
    parser = programs.parser_of(__doc__, CONTENDERS)
    known = [*MEASURES, *ALSO]
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=", ".join(known))
    options = parser.parse_args()
    wanted = {ALSO.get(name, name) for name in options.measures or MEASURES}
    if wanted - set(MEASURES):
        parser.error(f"there are {', '.join(known)}")

    def measure(contender: str) -> Iterator[results.Row]:
        peer = importlib.import_module(f"peers.{contender}")
        for name, find in MEASURES.items():
            if name in wanted:
                for row in find(peer, QUICK if options.quick else FULL):
                    yield {"contender": contender, **row}

    programs.run(Path(__file__), CONTENDERS, options, measure, show, *sorted(wanted))


if __name__ == "__main__":
    main()
