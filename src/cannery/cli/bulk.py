"""Bulk translation: one body a line in, one body a line out, in order, in bounded memory, on several cores.

Lines are taken in blocks that fit the processor's cache, and those of common shape are translated in one go; what went
wrong and what was lost comes back beside the output. With several processes (``workers``) each reads its own ranges of
a file, or is handed pieces of a pipe, and writes to the output when it is its turn.
"""

from __future__ import annotations

import functools
import io
import os
import stat
from collections.abc import Iterator
from typing import IO, Any, BinaryIO

import msgspec
from msgspec import Struct

from cannery.cli.reports import as_data
from cannery.errors import CanneryError
from cannery.translation import translate, translate_lines
from cannery.wire.losses import Loss, Rendered, Repair

BLOCK = 3 << 15
# What another process does at a time is larger, so that talking about it is worth it; it holds as much at a time.
_PIECE = 1 << 21
# How far to look at a time for the end of a line.
_LOOK = 1 << 12


class Task(Struct, frozen=True):
    """What to do with every line."""

    source: str
    target: str
    policy: str = "warn"
    kind: str = "request"
    model: str | None = None
    keeps_losses: bool = False
    # Whether each line of the output tells losses, repairs and problems beside its body.
    tells_all: bool = False


class Block(Struct):
    """What became of some lines: the output, and everything that has to be said about it."""

    lines: int = 0
    size: int = 0
    output: bytes = b""
    failures: list[tuple[int, str]] = []
    counts: dict[tuple[str, str], int] = {}
    examples: dict[tuple[str, str], tuple[int, Loss | Repair]] = {}
    losses: list[tuple[int, Loss]] = []


def blocks(file: BinaryIO, first: bytes = b"", size: int = BLOCK) -> Iterator[list[bytes]]:
    """Lines, some at a time; ``first`` was read before."""
    if first and not first.endswith(b"\n"):
        first += file.readline()
    for lines_of in (io.BytesIO(first).readlines, file.readlines):
        while lines := lines_of(size):
            yield lines


def translate_block(lines: list[bytes], task: Task) -> Block:
    """Some lines, translated; a bad one is left out and named."""
    size = sum(map(len, lines))
    is_plain = task.kind == "request" and task.model is None and not task.tells_all
    if is_plain and task.policy != "strict":
        alike = translate_lines(lines, source=task.source, target=task.target)
        if alike is not None:
            return _block_of(alike, len(lines), size, task)
    return _translate_each(lines, size, task)


def _block_of(rendered: Rendered, lines: int, size: int, task: Task) -> Block:
    """Lines that lost the same."""
    block = Block(lines, size, rendered.body)
    if rendered.losses:
        block.examples = _first_examples(rendered.losses)
        block.counts = dict.fromkeys(block.examples, lines)
        if task.keeps_losses:
            numbers = range(1, lines + 1)
            block.losses = [(number, loss) for number in numbers for loss in rendered.losses]
    return block


@functools.lru_cache(maxsize=16)
def _first_examples(losses: tuple[Loss, ...]) -> dict[tuple[str, str], tuple[int, Loss | Repair]]:
    """An example of each kind of loss; block after block has the same."""
    return {key: (1, found) for key, found in _names(Rendered(b"", losses))}


def _translate_each(lines: list[bytes], size: int, task: Task) -> Block:
    """Lines that are translated one by one."""
    block = Block(len(lines), size, failures=[], counts={}, examples={}, losses=[])
    say = functools.partial(translate, source=task.source, target=task.target, policy=task.policy)
    if task.kind != "request" or task.model is not None:
        say = functools.partial(say, kind=task.kind, model=task.model)
    output: list[bytes] = []
    seen = Rendered(b"")
    repeats = 0
    for number, line in enumerate(lines, 1):
        try:
            rendered = say(line)
        except (CanneryError, RecursionError) as error:
            if line.strip():
                block.failures.append((number, str(error) or "nested too deeply"))
                if task.tells_all:
                    output.append(msgspec.json.encode({"problem": block.failures[-1][1]}))
            continue
        told = {"body": msgspec.Raw(rendered.body), **as_data(rendered)} if task.tells_all else None
        output.append(rendered.body if told is None else msgspec.json.encode(told))
        if rendered.losses or rendered.repairs:
            # Most lines of a data set lose the same: compare before counting.
            if rendered.losses == seen.losses and rendered.repairs == seen.repairs:
                repeats += 1
            else:
                _count(block, seen, repeats)
                seen, repeats = rendered, 1
                _show(block, number, rendered)
            if task.keeps_losses:
                block.losses += [(number, loss) for loss in rendered.losses]
    _count(block, seen, repeats)
    output.append(b"")
    block.output = b"\n".join(output)
    return block


def _names(rendered: Rendered) -> Iterator[tuple[tuple[str, str], Loss | Repair]]:
    for loss in rendered.losses:
        yield (loss.severity, loss.code), loss
    for repair in rendered.repairs:
        yield ("repair", repair.name), repair


def _count(block: Block, rendered: Rendered, times: int) -> None:
    for key, _ in _names(rendered):
        block.counts[key] = block.counts.get(key, 0) + times


def _show(block: Block, number: int, rendered: Rendered) -> None:
    for key, found in _names(rendered):
        block.examples.setdefault(key, (number, found))


def run(file: BinaryIO, first: bytes, task: Task, jobs: int, output: IO[bytes]) -> Iterator[Block]:
    """What there is to say about the lines of a file, in order; ``first`` was read before.

    So many processes translate them. What became of a block is written when the next one is asked for.
    """
    if jobs <= 1:
        for lines in blocks(file, first):
            block = translate_block(lines, task)
            yield block
            output.write(block.output)
        return
    from cannery.cli.workers import Workers

    ranges = _ranges(file, len(first))
    descriptor = -1 if ranges is None else file.fileno()

    def work(piece: Any) -> tuple[Block, list[bytes]]:
        given = io.BytesIO(piece) if isinstance(piece, bytes) else _opened(descriptor, piece)
        whole = Block(failures=[], counts={}, examples={}, losses=[])
        written: list[bytes] = []
        for lines in blocks(given):
            block = translate_block(lines, task)
            written.append(block.output)
            _add(whole, block)
        return whole, written

    output.flush()
    translate_block([], task)  # loads what all processes will need, before there are several
    with Workers(jobs, work, output.fileno()) as workers:
        pieces: Any = map(b"".join, blocks(file, first, _PIECE)) if ranges is None else ranges
        yield from workers.run(pieces)


def _opened(descriptor: int, between: tuple[int, int, int]) -> Any:
    return io.BufferedReader(Lines(descriptor, *between), BLOCK)


def _add(whole: Block, block: Block) -> None:
    """Take in what there is to say about the lines that follow."""
    before = whole.lines
    whole.lines += block.lines
    whole.size += block.size
    whole.failures += [(before + number, problem) for number, problem in block.failures]
    whole.losses += [(before + number, loss) for number, loss in block.losses]
    for key, count in block.counts.items():
        whole.counts[key] = whole.counts.get(key, 0) + count
        number, found = block.examples[key]
        whole.examples.setdefault(key, (before + number, found))


def _ranges(file: BinaryIO, already: int) -> list[tuple[int, int, int]] | None:
    """The pieces of a plain file of which so much is read already; None for a pipe and for what is packed."""
    if not isinstance(getattr(file, "raw", None), io.FileIO):
        return None
    about = os.fstat(file.fileno())
    if not stat.S_ISREG(about.st_mode):
        return None
    start, end = file.tell() - already, about.st_size
    return [(start, at, min(at + _PIECE, end)) for at in range(start, end, _PIECE)]


class Lines(io.RawIOBase):
    """The lines of a file that start between two places, read without moving the file's own place."""

    def __init__(self, descriptor: int, first: int, start: int, end: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._first = first
        self._at = self._line_start(start)
        self._end = self._line_start(end)

    def _line_start(self, at: int) -> int:
        """Where the first line starts that does not start before a place."""
        if at > self._first:
            at -= 1
            while data := os.pread(self._descriptor, _LOOK, at):
                found = data.find(b"\n") + 1
                if found:
                    return at + found
                at += len(data)
        return at

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, memory: Any) -> int:
        """The next bytes; none at the end."""
        most = min(len(memory), self._end - self._at)
        count = os.preadv(self._descriptor, [memoryview(memory)[:most]], self._at)
        self._at += count
        return count
