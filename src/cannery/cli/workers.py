"""Processes that take pieces of a file and write what becomes of them, in order.

All wait at one pipe, and whoever is free takes the next piece from it. The turn to write goes from piece to piece as a
byte in a pipe. The process that has it writes block by block, while a block is still in the processor's cache, as one
process alone does; another one keeps what it has, looks for its turn after each block, and goes on with the next piece
before it waits. Nothing large goes through the pipes, and a process that ends early ends everything.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import pickle
import select
import signal
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, NoReturn, Self

from cannery.cli.complaints import Complaint
from cannery.cli.file_ranges import Piece

Write = Callable[[bytes], None]
# Takes a piece and something that writes; returns what is to be said about it, and whether anything may follow it.
Work = Callable[[Piece, Write], tuple[Any, bool]]

# So many finished pieces of a process wait for their turn while it works on another one.
_KEPT = 1
# So many pieces of a process are given at a time: one more than it can hold, so that it never waits for one.
_GIVEN = _KEPT + 2
# glibc gives memory back to the system and asks for it again with every piece, until so much was free at once.
_ROOM = 1 << 24
# What fits into a pipe need not wait for whoever reads it, and others need not wait for who writes it.
_PIPE = 1 << 18
_GIFT = struct.Struct("qqq")
_SIZE = struct.Struct("q")


class Workers:
    """So many processes that take pieces and write to an open file."""

    def __init__(self, count: int, work: Work, output: int) -> None:
        _widen(output)
        # How many pieces are given and not told about at most.
        self.most = count * _GIVEN
        taken, self._gifts = os.pipe()
        turns = [os.pipe() for _ in range(count * (_KEPT + 1))]
        for waits in (taken, *(incoming for incoming, _ in turns)):
            os.set_blocking(waits, False)  # another process may have been faster
        os.write(turns[0][1], b"\n")
        gc.freeze()  # who looks for garbage writes to each object, and so takes a copy of what all share
        self._processes: list[int] = []
        self._told: list[int] = []
        for _ in range(count):
            told, tells = os.pipe()
            process = os.fork()
            if not process:
                # A copy of the parent's end in a child would keep the pipe open when the parent is gone.
                for ours in (self._gifts, told, *self._told):
                    os.close(ours)
                _end_after(_Process(taken, turns, tells, work, output).serve)
            os.close(tells)
            self._processes.append(process)
            self._told.append(told)
        for theirs in (taken, *(end for turn in turns for end in turn)):
            os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for ours in (self._gifts, *self._told):
            os.close(ours)
        for process in self._processes:
            if error is not None:
                os.kill(process, signal.SIGTERM)
            os.waitpid(process, 0)

    def run(self, pieces: Iterable[Piece]) -> Iterator[Any]:
        """What is to be said about each piece, in order, once it is written.

        The next piece is asked for when fewer than ``most`` are given and not told about.
        """
        following = iter(pieces)
        known: dict[int, Any] = {}
        given = told = 0
        while True:
            piece = next(following, None) if given - told < self.most else None
            if piece is not None:
                with _alive():
                    os.write(self._gifts, _GIFT.pack(given, *piece))
                given += 1
            elif told == given:
                return
            else:
                while told not in known:
                    known.update(self._hear())
                value = known.pop(told)
                if isinstance(value, OSError):
                    raise value
                yield value
                told += 1

    def _hear(self) -> dict[int, Any]:
        """What processes say about pieces, by number, as soon as one of them says anything."""
        poll = select.poll()
        for told in self._told:
            poll.register(told, select.POLLIN)
        with _alive():
            return dict(_receive(told) for told, _ in poll.poll())


def _widen(output: int) -> None:
    """Let a pipe hold more, where that can be said."""
    # Whatever is no pipe says so, and a system may allow no more.
    with contextlib.suppress(OSError, AttributeError):
        if fcntl.fcntl(output, fcntl.F_GETPIPE_SZ) < _PIPE:
            fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, _PIPE)


@contextlib.contextmanager
def _alive() -> Iterator[None]:
    """A pipe that is closed at its other end is that of a process which is no more."""
    try:
        yield
    except (EOFError, ConnectionError):
        raise Complaint("a process that was translating has died") from None


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


class _Kept:
    """A piece that is not written yet, or not to its end."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.output: list[bytes] = []
        self.told: Any = None
        self.is_whole = False
        # Whether another piece may be written behind this one.
        self.goes_on = True


class _Process:
    """One of the processes, as it sees itself."""

    def __init__(
        self, gifts: int, turns: list[tuple[int, int]], tells: int, work: Work, output: int
    ) -> None:
        self._gifts, self._turns, self._tells = gifts, turns, tells
        self._work, self._output = work, output
        self._kept: deque[_Kept] = deque()
        self._has_turn = False

    def serve(self) -> None:
        """Work until the parent is gone; Ctrl-C is for the parent."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        bytes(_ROOM)
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                self._wait()
                self._write()
                if len(self._kept) <= _KEPT:
                    self._take()

    def _wait(self) -> None:
        """Until there is something to take, if there is room for it, or it is the turn of what is kept."""
        poll = select.poll()
        # Whatever it waits for, it hears that the parent is gone.
        poll.register(self._gifts, select.POLLIN if len(self._kept) <= _KEPT else 0)
        if self._kept:
            poll.register(self._turn(self._kept[0].number)[0], select.POLLIN)
        if dict(poll.poll()).get(self._gifts, 0) & select.POLLHUP:
            raise EOFError

    def _turn(self, number: int) -> tuple[int, int]:
        """Both ends of the pipe in which the turn of a piece comes."""
        return self._turns[number % len(self._turns)]

    def _take(self) -> None:
        """Work on the next piece, unless another process has taken it."""
        try:
            number, *piece = _GIFT.unpack(_read(self._gifts, _GIFT.size))
        except BlockingIOError:
            return
        kept = _Kept(number)
        self._kept.append(kept)

        def write(output: bytes) -> None:
            kept.output.append(output)
            self._write()

        kept.told, kept.goes_on = self._work((piece[0], piece[1]), write)
        kept.is_whole = True
        self._write()

    def _write(self) -> None:
        """Write as much of what is kept as it is the turn of."""
        while self._kept and self._may_write(self._kept[0].number):
            first = self._kept[0]
            problem = _write(self._output, first.output)
            first.output.clear()
            if problem is None and not first.is_whole:
                return
            self._kept.popleft()
            _send(self._tells, (first.number, problem or first.told))
            if problem is None and first.goes_on:
                os.write(self._turn(first.number + 1)[1], b"\n")
            self._has_turn = False

    def _may_write(self, number: int) -> bool:
        """Whether it is the turn of a piece."""
        if not self._has_turn:
            with contextlib.suppress(BlockingIOError):
                self._has_turn = bool(os.read(self._turn(number)[0], 1))
        return self._has_turn


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


def _send(pipe: int, value: Any) -> None:
    """Tell whoever reads a pipe."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    rest = memoryview(_SIZE.pack(len(data)) + data)
    while rest:
        rest = rest[os.write(pipe, rest) :]


def _receive(pipe: int) -> Any:
    """What was sent; EOFError if nobody can send any more."""
    (size,) = _SIZE.unpack(_read(pipe, _SIZE.size))
    return pickle.loads(_read(pipe, size))  # noqa: S301 - our own process wrote it


def _read(pipe: int, size: int) -> bytes:
    """So many bytes; EOFError at the end."""
    parts: list[bytes] = []
    while size:
        data = os.read(pipe, size)
        if not data:
            raise EOFError
        parts.append(data)
        size -= len(data)
    return b"".join(parts)
