"""Storage beside its peers: ratios in one run, on one machine, interleaved.

    python bench/storage.py [append growth writers load tail fork disk verify]

Every timed slice follows a ``sync``, contenders take turns in changing order, and a row shows the median of the
ratios of the rounds. The baseline of writing is a bare JSONL file with fdatasync after each message, that of
loading the same file read with the standard library. Peers that are not installed are left out.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import random
import shutil
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from cannery.backends.directory.files import OperatingSystem
from cannery.messages import ImageContentClass, UserCanisterClass, assistant, user
from cannery.storage import Store, StoredConversation, open_store

ROUNDS = 7
SLICE = 150
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ("the", "of", "and", "to", "in", "is", "you", "that", "it", "was", "for", "on", "are", "as")


def text(chance: random.Random, size: int) -> str:
    """So many characters that compress as prose does."""
    words = [chance.choice(WORDS) + str(chance.randrange(50)) for _ in range(size // 5 + 1)]
    return " ".join(words)[:size]


def mixed(seed: int, count: int) -> list[str]:
    """Texts as chats have them: many short, some of a few kilobytes, few of many."""
    chance = random.Random(seed)
    sizes = chance.choices([80, 300, 900, 2500, 8000, 30000], [30, 30, 18, 14, 6, 2], k=count)
    return [text(chance, size) for size in sizes]


def plain_line(said: str) -> bytes:
    """A message with everything inline."""
    record = {
        "role": "user",
        "content": {"type": "text", "text": said},
        "timestamp": "2026-01-01T00:00:00Z",
    }
    return json.dumps(record).encode() + b"\n"


# Contenders: each is made in a folder and gives a function that appends one text durably.


def bare_jsonl(folder: Path) -> Callable[[str], object]:
    """The baseline: one write and one fdatasync a message."""
    fd = os.open(folder / "messages.jsonl", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def append(said: str) -> None:
        os.write(fd, plain_line(said))
        os.fdatasync(fd)

    return append


def cannery_sync(folder: Path) -> Callable[[str], object]:
    """Ours at its default level."""
    conversation = open_store(folder / "store").create()
    return lambda said: conversation.append(user(said, WHEN))


def sqlite_full(folder: Path) -> Callable[[str], object]:
    """SQLite in WAL mode with full syncs."""
    connection = sqlite3.connect(folder / "messages.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, body TEXT)")
    query = "INSERT INTO messages (body) VALUES (?)"
    return lambda said: connection.execute(query, (plain_line(said).decode(),))


def openai_agents(folder: Path) -> Callable[[str], object]:
    """SQLiteSession of openai-agents."""
    session = importlib.import_module("agents").SQLiteSession("bench", folder / "agents.sqlite")
    loop = asyncio.new_event_loop()

    def append(said: str) -> None:
        loop.run_until_complete(session.add_items([{"role": "user", "content": said}]))

    return append


def simonw_llm(folder: Path) -> Callable[[str], object]:
    """The log of llm: a response is written to its database."""
    llm: Any = importlib.import_module("llm")
    database = importlib.import_module("sqlite_utils").Database(str(folder / "llm.sqlite"))
    importlib.import_module("llm.migrations").migrate(database)

    class Echo(llm.Model):  # type: ignore[misc]
        """A model that answers at once."""

        model_id = "echo"
        can_stream = False

        def execute(self, *_: Any, **__: Any) -> Iterator[str]:
            """Say nothing."""
            yield "ok"

    model = Echo()
    conversation = llm.Conversation(model=model)

    def append(said: str) -> None:
        response = conversation.prompt(said)
        response.text()
        response.log_to_db(database)
        conversation.responses.clear()

    return append


CONTENDERS: dict[str, Callable[[Path], Callable[[str], object]]] = {
    "JSONL + fdatasync": bare_jsonl,
    "cannery": cannery_sync,
    "SQLite WAL FULL": sqlite_full,
    "openai-agents": openai_agents,
    "llm": simonw_llm,
}


@contextmanager
def folder_for(name: str) -> Iterator[Path]:
    """A folder on the disk that the program runs from, not in memory."""
    path = Path(tempfile.mkdtemp(prefix=f"bench-{name}-", dir=os.environ.get("BENCH_DIR")))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def timed(work: Callable[[], object]) -> float:
    """Seconds, after the disk has come to rest."""
    os.sync()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def each(work: Callable[[str], object], said: list[str]) -> None:
    """Do something with every text."""
    for what in said:
        work(what)


def append_all(conversation: StoredConversation, said: list[str]) -> None:
    """Append every text, one by one."""
    for what in said:
        conversation.append(user(what, WHEN))


def row(name: str, value: str, goal: str = "") -> None:
    """One line of the table."""
    print(f"| {name:44} | {value:>24} | {goal:24} |", flush=True)


def measure_append() -> None:
    """Durable append of mixed sizes."""
    with folder_for("append") as folder:
        ready: dict[str, Callable[[str], object]] = {}
        for name, make in CONTENDERS.items():
            own = folder / name.replace(" ", "-")
            own.mkdir()
            try:
                ready[name] = make(own)
            except ImportError:
                row(f"append, {name}", "not installed")
        ratios: dict[str, list[float]] = {name: [] for name in ready}
        order = list(ready)
        for turn in range(ROUNDS + 1):
            said = mixed(turn, SLICE)
            random.Random(turn).shuffle(order)
            times = {name: timed(partial(each, ready[name], said)) for name in order}
            if turn:
                for name, seconds in times.items():
                    ratios[name].append(seconds / times["JSONL + fdatasync"])
    for name, found in ratios.items():
        goal = "at most 1.3" if name == "cannery" else ""
        row(f"append, {name}", f"{statistics.median(found):.2f} × JSONL", goal)


def measure_growth() -> None:
    """Whether an append costs the same in a long conversation."""
    said = mixed(0, SLICE)
    with folder_for("growth") as folder, open_store(folder / "store") as store:
        short, long = store.create(), store.create()
        short.append(user(one, WHEN) for one in mixed(1, 1000))
        for part in range(100):
            long.append([user(f"message {part} {index}", WHEN) for index in range(1000)])
        found = []
        for turn in range(ROUNDS + 1):
            pair = [short, long] if turn % 2 else [long, short]
            times = {one: timed(partial(append_all, one, said)) for one in pair}
            if turn:
                found.append(times[long] / times[short])
    row(
        "append at 100,000 beside 1,000 messages",
        f"{statistics.median(found):.2f} ×",
        "at most 1.1",
    )


def measure_writers() -> None:
    """Sixteen threads beside one, per message."""
    with folder_for("writers") as folder, open_store(folder / "store") as store:
        one = store.create()
        many = [store.create() for _ in range(16)]
        said = mixed(3, SLICE)

        def alone() -> None:
            for what in said:
                one.append(user(what, WHEN))

        def together(conversations: list[Any]) -> None:
            def write(conversation: Any) -> None:
                for what in said:
                    conversation.append(user(what, WHEN))

            threads = [threading.Thread(target=write, args=(each,)) for each in conversations]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        found: dict[str, list[float]] = {"16 conversations": [], "one conversation": []}
        for turn in range(ROUNDS + 1):
            single = timed(alone)
            for name, conversations in (
                ("16 conversations", many),
                ("one conversation", [one] * 16),
            ):
                ratio = timed(partial(together, conversations)) / 16 / single
                if turn:
                    found[name].append(ratio)
    for name, ratios in found.items():
        row(f"16 writers, {name}", f"{statistics.median(ratios):.2f} × of one", "at most 0.3")


def corpus(count: int) -> list[Any]:
    """A chat with repeated prompts, tool results and pictures, as agents make them."""
    chance = random.Random(5)
    repeated = [text(chance, 6000) for _ in range(20)]
    pictures = [ImageContentClass(chance.randbytes(40_000), "image/png") for _ in range(10)]
    found: list[Any] = []
    for index in range(count):
        kind = index % 10
        if kind in {0, 5}:
            found.append(user(chance.choice(repeated), WHEN))
        elif kind == 7 and index % 50 == 7:
            found.append(UserCanisterClass(chance.choice(pictures), WHEN))
        elif kind in {3, 8}:
            found.append(assistant(text(chance, 2500), WHEN))
        else:
            found.append(assistant(text(chance, 250), WHEN))
    return found


def inline_line(canister: Any) -> bytes:
    """A message of the corpus with everything inline, pictures as base64."""
    import base64

    content: dict[str, Any] = {"type": "text", "text": canister.text}
    if isinstance(canister.content, ImageContentClass):
        data = base64.b64encode(canister.content.data).decode()
        content = {"type": "image", "mime_type": "image/png", "data": data}
    record = {"role": canister.role.value, "content": content, "timestamp": "2026-01-01T00:00:00Z"}
    return json.dumps(record).encode() + b"\n"


def with_corpus(folder: Path) -> tuple[Path, Store, str]:
    """The corpus as plain JSONL and in a store of ours."""
    canisters = corpus(10_000)
    plain = folder / "plain.jsonl"
    plain.write_bytes(b"".join(map(inline_line, canisters)))
    with open_store(folder / "store") as store:
        conversation = store.create()
        for start in range(0, len(canisters), 500):
            conversation.append(canisters[start : start + 500])
    return plain, open_store(folder / "store", cache_bytes=0), conversation.identifier


def measure_load() -> None:
    """Loading 10,000 messages, hydrated and verified, and the disk that they take."""
    with folder_for("load") as folder:
        plain, store, identifier = with_corpus(folder)

        def load_plain() -> list[Any]:
            with plain.open("rb") as file:
                return [json.loads(line) for line in file]

        found = []
        for turn in range(ROUNDS + 1):
            base = timed(load_plain)
            ours = timed(lambda: store.get(identifier).hydrate())
            if turn:
                found.append(ours / base)
        row(
            "load 10,000, hydrated and verified",
            f"{statistics.median(found):.2f} × JSONL",
            "at most 0.5",
        )
        lazily = [
            timed(lambda: store.get(identifier).load()) / timed(load_plain) for _ in range(ROUNDS)
        ]
        row("load 10,000, content on demand", f"{statistics.median(lazily):.2f} × JSONL")
        store.close()
        size = sum(item.stat().st_size for item in (folder / "store").rglob("*") if item.is_file())
        row(
            "disk, corpus with duplicates",
            f"{size / plain.stat().st_size:.2f} × JSONL",
            "at most 0.30",
        )


def measure_tail() -> None:
    """The last 50 of 100,000 messages beside those of 1,000."""
    with folder_for("tail") as folder, open_store(folder / "store") as store:
        short, long = store.create(), store.create()
        short.append(user(f"message {index}", WHEN) for index in range(1000))
        for part in range(100):
            long.append([user(f"message {part} {index}", WHEN) for index in range(1000)])
        found = []
        for _ in range(ROUNDS):
            base = timed(lambda: [short.load(-50) for _ in range(20)])
            found.append(timed(lambda: [long.load(-50) for _ in range(20)]) / base)
    row(
        "last 50 of 100,000 beside 1,000",
        f"{statistics.median(found):.2f} ×",
        "without reading the rest",
    )


def measure_fork() -> None:
    """What a fork costs in syncs and bytes."""
    syncs = 0
    real = OperatingSystem.sync

    def counting(self: OperatingSystem, fd: int) -> None:
        nonlocal syncs
        syncs += 1
        real(self, fd)

    OperatingSystem.sync = counting  # type: ignore[method-assign]
    with folder_for("fork") as folder, open_store(folder / "store") as store:
        for count in (1000, 100_000):
            conversation = store.create()
            for start in range(0, count, 1000):
                conversation.append(
                    [user(f"message {start + index}", WHEN) for index in range(1000)]
                )
            conversation.fork(count // 2)
            before = syncs
            found = [timed(partial(conversation.fork, count // 2)) for _ in range(20)]
            spent = (syncs - before) / 20
            fork = conversation.fork(count // 2)
            made = folder / "store" / "conversations" / fork.identifier
            size = sum(item.stat().st_size for item in made.iterdir())
            value = f"{spent:.2f} syncs, {size} bytes, {statistics.median(found) * 1e6:.0f} µs"
            row(f"fork of {count:,}", value, "at most 3 syncs, 1 KB")
    OperatingSystem.sync = real  # type: ignore[method-assign]


def measure_verify() -> None:
    """How fast everything is verified, in bytes of content and lines."""
    with folder_for("verify") as folder:
        plain, store, _ = with_corpus(folder)
        report = store.verify()
        best = min(timed(store.verify) for _ in range(3))
        logical = report.content_bytes + sum(
            item.stat().st_size for item in (folder / "store" / "conversations").rglob("*.jsonl")
        )
        row("verify, bytes stored", f"{logical / best / 1e6:.0f} MB/s", "at least 300 MB/s")
        row("verify, bytes said", f"{plain.stat().st_size / best / 1e6:.0f} MB/s")
        store.close()


MEASURES = {
    "append": measure_append,
    "growth": measure_growth,
    "writers": measure_writers,
    "load": measure_load,
    "tail": measure_tail,
    "fork": measure_fork,
    "verify": measure_verify,
}


def main() -> None:
    """Measure what was asked for, or everything."""
    row("what", "found", "goal")
    row("---", "---", "---")
    for name, measure in MEASURES.items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            measure()


if __name__ == "__main__":
    main()
