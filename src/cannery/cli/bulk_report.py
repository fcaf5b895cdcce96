"""The report of bulk translation on stderr, and the file of losses, which is written during the run."""

from __future__ import annotations

import argparse
import contextlib
from types import TracebackType
from typing import IO, Self

import msgspec

from cannery.cli.bulk import Block
from cannery.cli.complaints import Complaint
from cannery.cli.files import note, writing
from cannery.cli.progress import Progress
from cannery.cli.reports import loss_data
from cannery.cli.tables import aligned
from cannery.wire.losses import Loss, Repair
from cannery.wording import counted

_MOST = 20


class BulkReport:
    """Counts blocks; a context manager that writes the losses file and shows progress."""

    def __init__(self, options: argparse.Namespace, source: str, size: int) -> None:
        self._options, self._source = options, source
        self._progress = Progress("translating", size, "B", quiet=options.quiet)
        self._counts: dict[tuple[str, str], int] = {}
        self._examples: dict[tuple[str, str], tuple[int, Loss | Repair]] = {}
        self._failures: list[dict[str, object]] = []
        self._file: IO[bytes] | None = None
        self._stack = contextlib.ExitStack()
        self._comma = b""
        self.lines = 0
        self.failed = 0

    def __enter__(self) -> Self:
        self._stack.enter_context(self._progress)
        if self._options.losses:
            self._file = self._stack.enter_context(writing(self._options.losses))
            told = {"source": self._source, "target": self._options.to}
            self._file.write(msgspec.json.encode(told)[:-1] + b',"losses":[')
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            rest = {"failures": self._failures, "lines": self.lines}
            self._file.write(b"\n]," + msgspec.json.encode(rest)[1:] + b"\n")
        self._stack.__exit__(kind, error, trace)

    def add(self, block: Block) -> None:
        """Add the result of some lines."""
        for number, problem in block.failures:
            self._fail(self.lines + number, problem)
        for key, count in block.counts.items():
            number, found = block.examples[key]
            self._examples.setdefault(key, (self.lines + number, found))
            self._counts[key] = self._counts.get(key, 0) + count
        if self._file is not None:
            self._write(block, self._file)
        self.lines += block.lines
        self._progress.advance(block.size)

    def _write(self, block: Block, file: IO[bytes]) -> None:
        for number, loss in block.losses:
            comma, self._comma = self._comma, b","
            entry = {"line": self.lines + number, **loss_data(loss)}
            file.write(comma + b"\n" + msgspec.json.encode(entry))

    def _fail(self, line: int, problem: str) -> None:
        if self._options.strict:
            raise Complaint(f"line {line}: {problem}", "Without --strict bad lines are left out")
        self.failed += 1
        if self._file is not None:
            self._failures.append({"line": line, "problem": problem})
        if self.failed <= _MOST:
            self._progress.clear()
            note(f"line {line}: {problem}", quiet=self._options.quiet)
        elif self.failed == _MOST + 1:
            note("… more bad lines follow", quiet=self._options.quiet)

    def conclude(self) -> None:
        """Print the summary."""
        options = self._options
        bad = f", {self.failed:,} bad" if self.failed else ""
        done = f"{self._source} → {options.to}: {counted(self.lines, 'line')}{bad}"
        note(done, quiet=options.quiet)
        if self._counts and options.policy == "warn":
            rows = [
                [kind, name, f"{count:,}", *self._example(kind, name)]
                for (kind, name), count in sorted(self._counts.items())
            ]
            header = ["", "what", "times", "first at", "for example"]
            note(aligned(header, rows, numbers="times", indent="  "), quiet=options.quiet)

    def _example(self, kind: str, name: str) -> tuple[str, str]:
        line, found = self._examples[kind, name]
        return f"line {line}, {found.path}", found.detail
