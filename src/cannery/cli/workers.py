"""Processes that work on blocks of bytes, in order, through memory that they share with their parent.

Each process is forked with two slots of its own. The parent puts a block into a slot and says its length through a
pipe; the process answers with what it has to say, and leaves the output in the slot where it fits. Nothing large is
copied through a pipe, and a process that ends early ends everything.
"""

from __future__ import annotations

import mmap
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from cannery.cli.complaints import Complaint

_AHEAD = 2
_SLOT = 8 << 20


class Workers:
    """So many processes that turn a block of bytes into a value with an ``output`` of bytes."""

    def __init__(self, count: int, work: Callable[[bytes], Any]) -> None:
        context = multiprocessing.get_context("fork")
        self._workers: list[tuple[Any, Connection, list[mmap.mmap]]] = []
        for _ in range(count):
            slots = [mmap.mmap(-1, _SLOT) for _ in range(_AHEAD)]
            ours, theirs = context.Pipe()
            # A copy of the parent's end in a child would keep the pipe open when the parent is gone.
            foreign = [ours, *(pipe for _, pipe, _ in self._workers)]
            given = (theirs, foreign, slots, work)
            process = context.Process(target=_serve, args=given, daemon=True)
            process.start()
            theirs.close()
            self._workers.append((process, ours, slots))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process, pipe, slots in self._workers:
            pipe.close()
            if error is not None:
                process.terminate()
            process.join()
            for slot in slots:
                slot.close()

    def run(self, pieces: Iterable[bytes]) -> Iterator[Any]:
        """What became of each piece, in order; an output is there until the next one is asked for."""
        waiting: deque[tuple[Connection, mmap.mmap]] = deque()
        most = len(self._workers) * _AHEAD
        for number, piece in enumerate(pieces):
            if len(waiting) == most:
                yield from _received(*waiting.popleft())
            turn = number % most
            _, pipe, slots = self._workers[turn % len(self._workers)]
            slot = turn // len(self._workers)
            _send(pipe, slots[slot], slot, piece)
            waiting.append((pipe, slots[slot]))
        while waiting:
            yield from _received(*waiting.popleft())


def _send(pipe: Connection, memory: mmap.mmap, slot: int, piece: bytes) -> None:
    if len(piece) <= _SLOT:
        memory[: len(piece)] = piece
        pipe.send((slot, len(piece)))
    else:
        pipe.send((slot, piece))


def _received(pipe: Connection, memory: mmap.mmap) -> Iterator[Any]:
    """What a process answered, its output still in the memory that it lies in."""
    try:
        value, length = pipe.recv()
    except (EOFError, ConnectionError):
        raise Complaint("a process that was translating has died") from None
    if length is None:
        yield value
        return
    with memoryview(memory) as whole, whole[:length] as output:
        value.output = output
        yield value
        value.output = b""


def _serve(
    pipe: Connection,
    foreign: list[Connection],
    slots: list[mmap.mmap],
    work: Callable[[bytes], Any],
) -> None:
    """Work until the parent is gone; Ctrl-C is for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for end in foreign:
        end.close()
    try:
        while True:
            slot, given = pipe.recv()
            memory = slots[slot]
            value = work(given if isinstance(given, bytes) else memory[:given])
            length = len(value.output)
            if length <= _SLOT:
                memory[:length], value.output = value.output, b""
            pipe.send((value, length if length <= _SLOT else None))
    except (EOFError, ConnectionError):
        return
