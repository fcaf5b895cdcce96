"""Runs each contender of a program in a process of its environment, which prints rows as JSON lines."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import environments
import results
from results import Row


def parser_of(document: str | None, contenders: list[str]) -> argparse.ArgumentParser:
    """A parser with the arguments common to all programs."""
    parser = argparse.ArgumentParser(description=(document or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--only", choices=contenders, help="one contender")
    parser.add_argument("--contender", choices=contenders, help=argparse.SUPPRESS)
    return parser


def run(
    program: Path,
    contenders: list[str],
    options: argparse.Namespace,
    measure: Callable[[str], Iterator[Row]],
    show: Callable[[Row], None],
    *arguments: str,
    processes: int = 1,
) -> None:
    """Measure one contender in this process, or each in its own environment, in a number of processes."""
    if options.contender:
        for row in measure(options.contender):
            print(json.dumps(row), flush=True)
        return
    present = available([options.only] if options.only else contenders)
    recording = results.Recording(program.stem, quick=options.quick, contenders=present)
    quick = ["--quick"] if options.quick else []
    for contender in present:
        runs = [child(contender, program, *quick, *arguments) for _ in range(processes)]
        for row in runs[0] if processes == 1 else pooled([list(rows) for rows in runs]):
            show(recording.add(**row))
    if options.json:
        recording.write(options.json)


def pooled(runs: Sequence[Sequence[Row]]) -> Iterator[Row]:
    """The rows of several processes with the medians of their figures: memory layout differs between processes."""
    for same in zip(*runs, strict=True):
        found = {
            figure: round(statistics.median(row[figure] for row in same), 4)
            for figure in ("median", "low", "high", "total", "mixed", "p90", "worst")
            if figure in same[0]
        }
        yield {**same[0], **found}


def child(contender: str, program: Path, *arguments: str) -> Iterator[Row]:
    """Run a program in a contender's environment; it prints one row of JSON per line."""
    python = environments.python_of(contender)
    assert python is not None
    process = subprocess.Popen(
        [str(python), "-W", "ignore", str(program), "--contender", contender, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environments.quiet(),
    )
    with silenced(process) as lines:
        for line in lines:
            if line.startswith("{"):
                yield json.loads(line)


@contextmanager
def silenced(process: subprocess.Popen[str]) -> Iterator[Iterator[str]]:
    """The lines that a child prints; its stderr is shown only if it fails."""
    grumbled: list[str] = []
    assert process.stdout is not None
    assert process.stderr is not None
    listener = threading.Thread(target=lambda: grumbled.extend(process.stderr or ()), daemon=True)
    listener.start()
    yield iter(process.stdout)
    if process.wait():
        listener.join(5)
        print("".join(grumbled[-15:]), file=sys.stderr)
        raise RuntimeError(f"a contender failed: {process.args!r}")


def available(contenders: list[str]) -> list[str]:
    """The contenders whose environments are built; the others are reported."""
    missing = [name for name in contenders if environments.python_of(name) is None]
    if missing:
        print(f"left out, not installed: {', '.join(missing)}", flush=True)
    return [name for name in contenders if name not in missing]
