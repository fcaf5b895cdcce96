"""Bulk translation of ShareGPT records to Chat beside other libraries, per line.

    python bench/bulk.py [--quick] [--only CONTENDER] [--json FILE]

The floor is ``orjson.loads`` + ``orjson.dumps`` of each line. As in ``translate.py``, every contender measures it in
its own process, in the same shuffled rounds, in thread CPU time on one core. Among the peers only LangChain knows
ShareGPT's role names: for the others a loop renames two keys per turn, and their own types do the rest. No peer reads
records with calls, so these have a row for Cannery only. Cannery is measured twice: with a call of
``cannery.translate`` for every line, and with the function of ``cannery translate`` for a file, which translates blocks
of lines.

The gain of a second process is measured with the command itself, ``--jobs 1`` and ``--jobs 2`` alternately on a large
file: in wall-clock time, and in CPU time of all processes. The start time is measured as well, with a file of one line.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import programs
import results
import timing
from workloads import WORDS

CONTENDERS = ["cannery", "floor", "langchain", "litellm", "llm_rosetta"]
GOAL = 5.0
JOBS = 2
LINES = 200_000
Times = tuple[float, float]  # wall-clock time, and CPU time of all processes


def _sentence(rng: random.Random, length: int) -> str:
    count = max(1, length // 6)
    return " ".join(rng.choice(WORDS) for _ in range(count)) + "."


def chats(rng: random.Random, count: int) -> list[bytes]:
    """Conversations as people share them: two to eight turns, short questions and long answers."""
    lines = []
    for number in range(count):
        turns = []
        for _ in range(rng.randrange(1, 5)):
            turns.append({"from": "human", "value": _sentence(rng, rng.randrange(20, 400))})
            turns.append({"from": "gpt", "value": _sentence(rng, rng.randrange(100, 1600))})
        lines.append(orjson.dumps({"id": f"chat_{number}", "conversations": turns}))
    return lines


def short(rng: random.Random, count: int) -> list[bytes]:
    """Two to four turns of one short sentence each."""
    lines = []
    for number in range(count):
        turns = []
        for _ in range(rng.randrange(1, 3)):
            turns.append({"from": "human", "value": _sentence(rng, 30)})
            turns.append({"from": "gpt", "value": _sentence(rng, 90)})
        lines.append(orjson.dumps({"id": f"chat_{number}", "conversations": turns}))
    return lines


def calls(rng: random.Random, count: int) -> list[bytes]:
    """A question, a call, its result and an answer, with tools in a string."""
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    tools = json.dumps(
        [{"name": "search", "description": _sentence(rng, 60), "parameters": schema}]
    )
    lines = []
    for _ in range(count):
        call = {"name": "search", "arguments": {"query": _sentence(rng, 30)}}
        turns = [
            {"from": "human", "value": _sentence(rng, 200)},
            {"from": "function_call", "value": json.dumps(call)},
            {"from": "observation", "value": json.dumps({"found": _sentence(rng, 300)})},
            {"from": "gpt", "value": _sentence(rng, 500)},
        ]
        lines.append(orjson.dumps({"conversations": turns, "tools": tools}))
    return lines


WORKLOADS: dict[str, Callable[[random.Random, int], list[bytes]]] = {
    "chats": chats,
    "short": short,
    "calls": calls,
}


def checked(lines: list[bytes], translate: Callable[[bytes], bytes]) -> None:
    """Stop unless every turn is a message with its text."""
    for line in lines[:20]:
        turns = orjson.loads(line)["conversations"]
        written = translate(line)
        messages = orjson.loads(written)["messages"]
        assert len(messages) == len(turns)
        for turn in turns:
            if turn["from"] in {"human", "gpt"}:
                assert turn["value"] in {message["content"] for message in messages}


def written(translate: Callable[[bytes, io.BytesIO], None], data: bytes, sink: io.BytesIO) -> None:
    """Translate a file into an existing buffer, which models the page cache."""
    sink.seek(0)
    translate(data, sink)


def measure(contender: str, rounds: int) -> Iterator[results.Row]:
    """Every row of one contender, in this process."""
    peer: Any = importlib.import_module(f"peers.{contender}")
    translate = peer.bulk()
    for workload, make in WORKLOADS.items():
        if workload == "calls" and contender != "cannery":
            continue
        lines = make(random.Random(5), 500)
        checked(lines, translate)

        def floor(lines: list[bytes] = lines) -> None:
            for line in lines:
                orjson.dumps(orjson.loads(line))

        def it(lines: list[bytes] = lines) -> None:
            for line in lines:
                translate(line)

        row = {"contender": contender, "workload": workload}
        found = timing.ratios({timing.FLOOR: floor, "it": it}, rounds)["it"]
        yield {**row, "way": "a call a line", **timing.spread(found)}
        if hasattr(peer, "bulk_file"):
            file = partial(written, peer.bulk_file(), b"".join(line + b"\n" for line in lines))
            sink = io.BytesIO()
            file(sink)
            assert len(sink.getvalue().splitlines()) == len(lines)
            file = partial(file, sink)
            found = timing.ratios({timing.FLOOR: floor, "it": file}, rounds)["it"]
            yield {**row, "way": "a file", **timing.spread(found)}
    if contender == "cannery":
        yield from measure_jobs(rounds)


def command(file: Path, jobs: int) -> Times:
    """The wall-clock and CPU time of translating a file with a number of processes."""
    words = ["translate", str(file), "--lines", "--from", "sharegpt", "--to", "openai_chat", "-q"]
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "cannery", *words, "--jobs", str(jobs)], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return took, used.ru_utime + used.ru_stime


def measure_jobs(rounds: int) -> Iterator[results.Row]:
    """Measure the gain of a second process."""
    for workload in ("chats", "calls"):
        lines = [line + b"\n" for line in WORKLOADS[workload](random.Random(5), 2000)]
        with tempfile.TemporaryDirectory() as folder:
            small, large = Path(folder, "small.jsonl"), Path(folder, "large.jsonl")
            small.write_bytes(lines[0])
            with large.open("wb") as file:
                for _ in range(LINES // len(lines)):
                    file.writelines(lines)
            found = [
                (command(large, 1), command(large, JOBS), command(small, 1))
                for _ in range(max(1, rounds // 4))
            ]
        yield {"contender": "cannery", "workload": workload, "jobs": JOBS, **gain(found)}


def gain(found: list[tuple[Times, Times, Times]]) -> results.Row:
    """Medians over rounds: one process, several, and the start time."""
    wall = [[times[0] for times in each] for each in found]
    cpu = [[times[1] for times in each] for each in found]
    started = [(one - start) / (more - start) for one, more, start in wall]
    return {
        **timing.spread([one / more for one, more, _ in wall]),
        "started": round(statistics.median(started), 4),
        "cpu": round(statistics.median(more / one for one, more, _ in cpu), 4),
        "wall_seconds": [round(statistics.median(times), 3) for times in zip(*wall, strict=True)],
        "cpu_seconds": [round(statistics.median(times), 3) for times in zip(*cpu, strict=True)],
    }


def show_jobs(row: results.Row) -> None:
    """Print the gain of a second process, with the times that it is computed from."""
    print(
        f"{row['contender']:12} {row['workload'] + ', ' + str(row['jobs']) + ' processes':24} {row['median']:8.3f} ×"
        f" as fast as one, {row['started']:.3f} × once started, CPU {row['cpu']:.3f} ×"
    )
    for name in ("wall", "cpu"):
        one, more, start = row[f"{name}_seconds"]
        print(f"{'':37} {name}: one {one} s, more {more} s, start {start} s", flush=True)


def show(row: results.Row) -> None:
    """Print one row, with its goal if it has one."""
    if "jobs" in row:
        show_jobs(row)
        return
    what = f"{row['workload']}, {row['way']}"
    verdict = ""
    if row["contender"] == "cannery":
        verdict = f"goal {GOAL} {'met' if row['median'] <= GOAL else 'MISSED'}"
    print(f"{row['contender']:12} {what:24} {row['median']:8.3f} × {verdict}", flush=True)


def main() -> None:
    """Measure every contender in its environment, or one of them in this process."""
    options = programs.parser_of(__doc__, CONTENDERS).parse_args()
    rounds = 5 if options.quick else 25
    programs.run(Path(__file__), CONTENDERS, options, partial(measure, rounds=rounds), show)


if __name__ == "__main__":
    main()
