"""Processes that work on pieces of a file, in order, with memory that they share with their parent.

Each process is forked with two slots of its own, in which it leaves its output. A piece is told through a pipe: a range
of a file that the process reads itself, or bytes, which the parent puts into the slot. Nothing large goes through a
pipe, and a process that ends early ends everything.
"""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from cannery.cli.complaints import Complaint

# Takes a piece and what its output is given to, and returns a value with room for an ``output`` of bytes.
Work = Callable[[Any, Callable[[bytes], object]], Any]
_AHEAD = 2
_SLOT = 8 << 20


class Workers:
    """So many processes that turn a piece into a value, and hand over its ``output`` as they get it."""

    def __init__(self, count: int, work: Work) -> None:
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

    def run(self, pieces: Iterable[Any]) -> Iterator[Any]:
        """What became of each piece, in order; its output is bytes, there until the next one is asked for."""
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


@contextlib.contextmanager
def _alive() -> Iterator[None]:
    """A pipe that is closed at its other end is that of a process which is no more."""
    try:
        yield
    except (EOFError, ConnectionError):
        raise Complaint("a process that was translating has died") from None


def _send(pipe: Connection, memory: mmap.mmap, slot: int, piece: Any) -> None:
    if isinstance(piece, bytes) and len(piece) <= _SLOT:
        memory[: len(piece)] = piece
        piece = len(piece)
    with _alive():
        pipe.send((slot, piece))


def _received(pipe: Connection, memory: mmap.mmap) -> Iterator[Any]:
    """What a process answered, its output still in the memory that it lies in."""
    with _alive():
        value, length, more = pipe.recv()
    if more:
        value.output = memory[:length] + more
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
    work: Work,
) -> None:
    """Work until the parent is gone; Ctrl-C is for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for end in foreign:
        end.close()
    try:
        while True:
            slot, given = pipe.recv()
            memory = slots[slot]
            output = _Output(memory)
            value = work(memory[:given] if isinstance(given, int) else given, output.write)
            pipe.send((value, *output.left()))
    except (EOFError, ConnectionError):
        return


class _Output:
    """What a process leaves in its slot, and what does not fit there."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._length = 0
        self._more: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Take bytes; the slot is not needed for what came in it any more."""
        end = self._length + len(data)
        if self._more or end > _SLOT:
            self._more.append(data)
        else:
            self._memory[self._length : end] = data
            self._length = end

    def left(self) -> tuple[int, bytes]:
        """How much is in the slot, and what comes after it."""
        return self._length, b"".join(self._more)
