"""Bulk translation: one body a line in, one body a line out, in order, in bounded memory, on several cores.

Lines travel in blocks of about a megabyte. A block is translated in one go; what went wrong and what was lost comes
back beside the output. With several processes (``workers``) at most two blocks for each are under way.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from msgspec import Struct

from cannery.errors import CanneryError
from cannery.translation import translate
from cannery.wire.losses import Loss, Rendered, Repair

BLOCK = 1 << 20


class Task(Struct, frozen=True):
    """What to do with every line."""

    source: str
    target: str
    policy: str = "warn"
    kind: str = "request"
    model: str | None = None
    keeps_losses: bool = False


class Block(Struct):
    """What became of some lines: the output, and everything that has to be said about it."""

    lines: int = 0
    size: int = 0
    output: bytes = b""
    failures: list[tuple[int, str]] = []
    counts: dict[tuple[str, str], int] = {}
    examples: dict[tuple[str, str], tuple[int, Loss | Repair]] = {}
    losses: list[tuple[int, Loss]] = []


def blocks(file: BinaryIO, first: bytes = b"") -> Iterator[bytes]:
    """Whole lines, about a megabyte at a time; ``first`` was read before."""
    held = first
    while data := file.read(BLOCK):
        held += data
        end = held.rfind(b"\n") + 1
        if end:
            yield held[:end]
            held = held[end:]
    if held:
        yield held


def translate_block(data: bytes, task: Task) -> Block:
    """The lines of one block, translated; a bad one is left out and named."""
    block = Block(size=len(data), failures=[], counts={}, examples={}, losses=[])
    say = functools.partial(translate, source=task.source, target=task.target, policy=task.policy)
    if task.kind != "request" or task.model is not None:
        say = functools.partial(say, kind=task.kind, model=task.model)
    is_counted = task.policy != "allow" or task.keeps_losses
    output: list[bytes] = []
    seen = Rendered(b"")
    repeats = number = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            rendered = say(line)
        except (CanneryError, RecursionError) as error:
            if line.strip():
                block.failures.append((number, str(error) or "nested too deeply"))
            continue
        output.append(rendered.body)
        if is_counted and (rendered.losses or rendered.repairs):
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
    # The block ends in a newline unless it is the last one.
    block.lines = number - 1 if data.endswith(b"\n") else number
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


def run(pieces: Iterable[bytes], task: Task, jobs: int) -> Iterator[Block]:
    """The blocks in order, translated by so many processes."""
    if jobs <= 1:
        for piece in pieces:
            yield translate_block(piece, task)
        return
    from cannery.cli.workers import Workers

    with Workers(jobs, lambda piece: translate_block(piece, task)) as workers:
        yield from workers.run(pieces)
