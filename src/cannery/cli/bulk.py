"""Bulk translation: one body per line in, one body per line out, in order, in bounded memory, on several cores.

Lines are processed in blocks that fit the processor's cache; failures and losses are returned beside the output. With
several worker processes (``jobs``) each reads ranges of the file itself, and writes its output in turn; the data of a
pipe is first written to an unnamed temporary file.
"""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable, Iterator
from typing import IO, BinaryIO

import msgspec
from msgspec import Struct

from cannery.cli.reports import as_data
from cannery.errors import CanneryError
from cannery.translation import translate
from cannery.wire.losses import Loss, Rendered, Repair

BLOCK = 3 << 15
# More processes would only wait for their turn to write; each uses several file descriptors.
_MOST_JOBS = 64


class Task(Struct, frozen=True):
    """The settings of a bulk translation, the same for every line."""

    source: str
    target: str
    policy: str = "warn"
    kind: str = "request"
    model: str | None = None
    keeps_losses: bool = False
    # Whether each line of the output contains losses, repairs and problems beside its body.
    tells_all: bool = False
    # Whether output ends at the first bad line.
    is_strict: bool = False
    hosted: str = "native"


class Block(Struct):
    """The result of translating some lines: the output, failures, losses and counts."""

    lines: int = 0
    size: int = 0
    output: bytes = b""
    failures: list[tuple[int, str]] = []
    counts: dict[tuple[str, str], int] = {}
    examples: dict[tuple[str, str], tuple[int, Loss | Repair]] = {}
    losses: list[tuple[int, Loss]] = []


def blocks(file: BinaryIO, first: bytes = b"", size: int = BLOCK) -> Iterator[list[bytes]]:
    """Split a file into lists of lines of about ``size`` bytes; ``first`` was already read from it."""
    if first and not first.endswith(b"\n"):
        first += file.readline()
    for lines_of in (io.BytesIO(first).readlines, file.readlines):
        while lines := lines_of(size):
            yield lines


def translate_block(lines: list[bytes], task: Task) -> Block:
    """Translate some lines; a bad one is left out of the output and reported as a failure."""
    block = Block(len(lines), sum(map(len, lines)), failures=[], counts={}, examples={}, losses=[])
    translate_line = functools.partial(
        translate, source=task.source, target=task.target, policy=task.policy
    )
    if task.kind != "request" or task.model is not None:
        translate_line = functools.partial(translate_line, kind=task.kind, model=task.model)
    if task.hosted != "native":
        translate_line = functools.partial(translate_line, hosted=task.hosted)
    output: list[bytes] = []
    seen = Rendered(b"")
    repeats = 0
    for number, line in enumerate(lines, 1):
        try:
            rendered = translate_line(line)
        except (CanneryError, RecursionError) as error:
            if line.strip():
                block.failures.append((number, str(error) or "nested too deeply"))
                if task.tells_all:
                    output.append(msgspec.json.encode({"problem": block.failures[-1][1]}))
            continue
        told = {"body": msgspec.Raw(rendered.body), **as_data(rendered)} if task.tells_all else None
        output.append(rendered.body if told is None else msgspec.json.encode(told))
        if rendered.losses or rendered.repairs:
            # Most lines of a data set have the same losses: compare before counting.
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
    """Translate the lines of a file with ``jobs`` processes; yield the result of each block in order.

    ``first`` was already read from the file. A single process writes the output of a block when the next block is
    requested.
    """
    if jobs <= 1:
        for lines in blocks(file, first):
            block = translate_block(lines, task)
            yield block
            output.write(block.output)
        return
    output.flush()
    translate_block([], task)  # loads the modules that all processes need, before they are forked
    yield from _run_beside(file, first, task, min(jobs, _MOST_JOBS), output.fileno())


def _run_beside(
    file: BinaryIO, first: bytes, task: Task, jobs: int, output: int
) -> Iterator[Block]:
    """The same with several processes, which write the output."""
    from cannery.cli import file_ranges
    from cannery.cli.workers import Workers

    is_plain = file_ranges.is_plain(file)
    with contextlib.nullcontext(file) if is_plain else file_ranges.unnamed() as shared:
        descriptor = shared.fileno()

        def work(piece: file_ranges.Piece, write: Callable[[bytes], None]) -> tuple[Block, bool]:
            whole = Block(failures=[], counts={}, examples={}, losses=[])
            for lines in file_ranges.blocks_of(descriptor, piece, BLOCK):
                block = translate_block(lines, task)
                _add(whole, block)
                if task.is_strict and block.failures:
                    return whole, False
                write(block.output)
            return whole, True

        with Workers(jobs, work, output) as workers:
            if is_plain:
                given = file_ranges.pieces_of(descriptor, file.tell() - len(first), jobs, BLOCK)
            else:
                given = file_ranges.put_pieces(file, first, descriptor, workers.most)
            yield from workers.run(given)


def _add(whole: Block, block: Block) -> None:
    """Add the result of the lines that follow."""
    before = whole.lines
    whole.lines += block.lines
    whole.size += block.size
    whole.failures += [(before + number, problem) for number, problem in block.failures]
    whole.losses += [(before + number, loss) for number, loss in block.losses]
    for key, count in block.counts.items():
        whole.counts[key] = whole.counts.get(key, 0) + count
        number, found = block.examples[key]
        whole.examples.setdefault(key, (before + number, found))
