"""Processes that work on pieces of a file and write what becomes of them, in order.

Each process is forked, takes a piece, tells its parent about it, goes on with the next one, and writes to the file
itself when it is its turn. A piece is told through a pipe: a range of a file that the process reads itself, or bytes,
which the parent puts into memory that they share. Nothing large goes through a pipe, and a process that ends early ends
everything.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self

from cannery.cli.complaints import Complaint

# Takes a piece, and returns what is to be said about it, and what is to be written.
Work = Callable[[Any], tuple[Any, list[bytes]]]
_SLOT = 8 << 20
# So many pieces of a process wait for their turn while it goes on with the next.
_AHEAD = 2


class Workers:
    """So many processes that take pieces and write to an open file."""

    def __init__(self, count: int, work: Work, output: int) -> None:
        self._workers: list[_Worker] = []
        for _ in range(count):
            memory = mmap.mmap(-1, _SLOT * _AHEAD)
            ours, theirs = _pipes()
            process = os.fork()
            if not process:
                # A copy of the parent's end in a child would keep the pipe open when the parent is gone.
                for pipe in (ours, *(worker.pipe for worker in self._workers)):
                    pipe.close()
                _end_after(partial(_serve, theirs, memory, work, output))
            theirs.close()
            self._workers.append(_Worker(process, ours, memory))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.end(in_a_hurry=error is not None)

    def run(self, pieces: Iterable[Any]) -> Iterator[Any]:
        """What is to be said about each piece, in order; it is written when the next one is asked for."""
        idle = deque(self._workers * _AHEAD)
        busy: deque[_Worker] = deque()
        for piece in pieces:
            if idle:
                worker = idle.popleft()
                worker.give(piece)
            else:
                worker = busy.popleft()
                yield worker.told()
                worker.write_and_take(piece)
            busy.append(worker)
        for worker in busy:
            yield worker.told()
            worker.write_and_take(None)


class _Pipe:
    """One end of a connection between two processes."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming = open(incoming, "rb")  # noqa: SIM115 - a descriptor that stays open
        self._outgoing = outgoing

    def send(self, value: Any) -> None:
        """Tell the other end."""
        data = memoryview(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
        while data:
            data = data[os.write(self._outgoing, data) :]

    def recv(self) -> Any:
        """What the other end tells; EOFError if it is gone."""
        try:
            return pickle.load(self._incoming)  # noqa: S301 - our own process wrote it
        except pickle.UnpicklingError:
            raise EOFError from None

    def close(self) -> None:
        """Tell and hear no more."""
        self._incoming.close()
        os.close(self._outgoing)


def _pipes() -> tuple[_Pipe, _Pipe]:
    """Both ends of a new connection."""
    (read_ours, write_theirs), (read_theirs, write_ours) = os.pipe(), os.pipe()
    return _Pipe(read_ours, write_ours), _Pipe(read_theirs, write_theirs)


def _end_after(run: Callable[[], None]) -> NoReturn:
    """End this process when something is done, without a second end of what its parent began."""
    status = 1
    try:
        run()
        status = 0
    finally:
        error = sys.exc_info()
        if isinstance(error[1], Exception):
            sys.excepthook(*error)
        os._exit(status)


class _Worker:
    """One of the processes, as its parent sees it."""

    def __init__(self, process: int, pipe: _Pipe, memory: mmap.mmap) -> None:
        self._process = process
        self.pipe = pipe
        self._memory = memory
        self._slot = 0
        self._told: deque[Any] = deque()

    def give(self, piece: Any) -> None:
        """A piece to work on; None if there is no more."""
        if isinstance(piece, bytes) and len(piece) <= _SLOT:
            self._slot = (self._slot + _SLOT) % (_SLOT * _AHEAD)
            place = slice(self._slot, self._slot + len(piece))
            self._memory[place] = piece
            piece = place
        with _alive():
            self.pipe.send(piece)

    def told(self) -> Any:
        """What there is to say about the first piece of which nothing was told."""
        while not self._told:
            self._hear()
        return self._told.popleft()

    def _hear(self) -> bool:
        """Whether it says that something is written, and not what there is to say about a piece."""
        with _alive():
            is_written, value = self.pipe.recv()
        if is_written and value is not None:
            raise value
        if not is_written:
            self._told.append(value)
        return bool(is_written)

    def write_and_take(self, piece: Any) -> None:
        """It is its turn: it writes the first piece that waits, and goes on with another one."""
        self.give(piece)
        while not self._hear():
            pass

    def end(self, *, in_a_hurry: bool) -> None:
        """Wait until the process is gone."""
        self.pipe.close()
        if in_a_hurry:
            os.kill(self._process, signal.SIGTERM)
        os.waitpid(self._process, 0)
        self._memory.close()


@contextlib.contextmanager
def _alive() -> Iterator[None]:
    """A pipe that is closed at its other end is that of a process which is no more."""
    try:
        yield
    except (EOFError, ConnectionError):
        raise Complaint("a process that was translating has died") from None


def _serve(pipe: _Pipe, memory: mmap.mmap, work: Work, output: int) -> None:
    """Work until the parent is gone; Ctrl-C is for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    waiting: deque[list[bytes]] = deque()
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            given = pipe.recv()
            if given is None or len(waiting) == _AHEAD:
                pipe.send((True, _write(output, waiting.popleft())))
            if given is not None:
                value, written = work(memory[given] if isinstance(given, slice) else given)
                pipe.send((False, value))
                waiting.append(written)


def _write(output: int, written: list[bytes]) -> OSError | None:
    """Write everything; what went wrong if anything did."""
    try:
        for data in written:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(output, rest) :]
    except OSError as error:
        return error
    return None
