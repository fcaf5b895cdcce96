"""Bulk translation: one body a line in, one body a line out, in order, in bounded memory, on several cores.

Lines travel in blocks of about a megabyte. A block is translated in one go; what went wrong and what was lost comes
back beside the output. At most two blocks for each process are under way.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from msgspec import Struct

from cannery.errors import CanneryError, LossError
from cannery.translation import translate
from cannery.wire.losses import Loss, Repair

BLOCK = 1 << 20
_AHEAD = 2


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
    source, target, policy, kind, model = (
        task.source,
        task.target,
        task.policy,
        task.kind,
        task.model,
    )
    output: list[bytes] = []
    add = output.append
    number = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line or line.isspace():
            continue
        try:
            rendered = translate(
                line, source=source, target=target, policy=policy, kind=kind, model=model
            )
        except (CanneryError, RecursionError) as error:
            block.failures.append((number, _problem(error)))
            continue
        add(rendered.body)
        if rendered.losses or rendered.repairs:
            _count(block, number, rendered.losses, rendered.repairs, keeps=task.keeps_losses)
    # The block ends in a newline unless it is the last one.
    block.lines = number - 1 if data.endswith(b"\n") else number
    add(b"")
    block.output = b"\n".join(output)
    return block


def _problem(error: Exception) -> str:
    if isinstance(error, LossError):
        return str(error)
    return str(error) or "nested too deeply"


def _count(
    block: Block,
    number: int,
    losses: tuple[Loss, ...],
    repairs: tuple[Repair, ...],
    *,
    keeps: bool,
) -> None:
    named: list[tuple[tuple[str, str], Loss | Repair]] = [
        ((loss.severity, loss.code), loss) for loss in losses
    ]
    named += [(("repair", repair.name), repair) for repair in repairs]
    for key, found in named:
        block.counts[key] = block.counts.get(key, 0) + 1
        block.examples.setdefault(key, (number, found))
    if keeps:
        block.losses += [(number, loss) for loss in losses]


def run(pieces: Iterable[bytes], task: Task, jobs: int) -> Iterator[Block]:
    """The blocks in order, translated by so many processes."""
    if jobs <= 1:
        for piece in pieces:
            yield translate_block(piece, task)
        return
    import multiprocessing

    context = multiprocessing.get_context("fork" if _can_fork() else None)
    with context.Pool(jobs, initializer=_ignore_interrupts) as pool:
        under_way: deque[Callable[[], Block]] = deque()
        for piece in pieces:
            under_way.append(pool.apply_async(translate_block, (piece, task)).get)
            if len(under_way) > jobs * _AHEAD:
                yield under_way.popleft()()
        while under_way:
            yield under_way.popleft()()


def _can_fork() -> bool:
    import multiprocessing

    return "fork" in multiprocessing.get_all_start_methods()


def _ignore_interrupts() -> None:
    """Ctrl-C is for the parent, which ends its children."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
