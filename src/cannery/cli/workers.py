"""Worker processes that handle ranges of a file and write their output in order.

All wait for one pipe, and the first free process takes the next range from it. The turn to write passes from range to
range as a byte in a pipe. The process with the turn writes block by block, while a block is still in the processor's
cache, as a single process does; a process without it buffers its output, polls for its turn after each block, and
continues with the next range before it waits. No large data goes through the pipes, and the death of a worker process
ends the whole run.
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
# Handles a range with a function that writes; returns a result, and whether output may continue after it.
Work = Callable[[Piece, Write], tuple[Any, bool]]

# How many finished ranges of a process may wait for their turn while it works on another one.
_KEPT = 1
# How many ranges are handed out per process: one more than it can hold, so that it is never idle.
_QUEUED = _KEPT + 2
# glibc returns memory to the system after each range and requests it again, until a block of this size was freed.
_ROOM = 1 << 24
# The pipe buffer: a large one lets writer and reader proceed without waiting for each other.
_PIPE = 1 << 18
_TASK = struct.Struct("qqq")
_SIZE = struct.Struct("q")


class Workers:
    """A pool of forked processes that take ranges and write to an open file."""

    def __init__(self, count: int, work: Work, output: int) -> None:
        _widen(output)
        # The maximum number of ranges that are handed out and not finished.
        self.most = count * _QUEUED
        taken, self._tasks = os.pipe()
        turns = [os.pipe() for _ in range(count * (_KEPT + 1))]
        for waits in (taken, *(incoming for incoming, _ in turns)):
            os.set_blocking(waits, False)  # another process may have read it first
        os.write(turns[0][1], b"\n")
        gc.freeze()  # the collector writes to every object, which would copy the pages shared after fork
        self._processes: list[int] = []
        self._told: list[int] = []
        for _ in range(count):
            told, tells = os.pipe()
            process = os.fork()
            if not process:
                # A copy of the parent's end in a child would keep the pipe open after the parent has ended.
                for ours in (self._tasks, told, *self._told):
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
        for ours in (self._tasks, *self._told):
            os.close(ours)
        for process in self._processes:
            if error is not None:
                os.kill(process, signal.SIGTERM)
            os.waitpid(process, 0)

    def run(self, pieces: Iterable[Piece]) -> Iterator[Any]:
        """Yield the result of each range, in order, once its output is written.

        The next range is requested when fewer than ``most`` are handed out and not finished.
        """
        following = iter(pieces)
        known: dict[int, Any] = {}
        given = told = 0
        while True:
            piece = next(following, None) if given - told < self.most else None
            if piece is not None:
                with _alive():
                    os.write(self._tasks, _TASK.pack(given, *piece))
                given += 1
            elif told == given:
                return
            else:
                while told not in known:
                    known.update(self._receive_results())
                value = known.pop(told)
                if isinstance(value, OSError):
                    raise value
                yield value
                told += 1

    def _receive_results(self) -> dict[int, Any]:
        """Results by range number; wait until at least one process has sent one."""
        poll = select.poll()
        for told in self._told:
            poll.register(told, select.POLLIN)
        with _alive():
            return dict(_receive(told) for told, _ in poll.poll())


def _widen(output: int) -> None:
    """Enlarge the buffer of a pipe, where the system supports it."""
    # Files that are not pipes raise an error, and a system may limit the size.
    with contextlib.suppress(OSError, AttributeError):
        if fcntl.fcntl(output, fcntl.F_GETPIPE_SZ) < _PIPE:
            fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, _PIPE)


@contextlib.contextmanager
def _alive() -> Iterator[None]:
    """Convert an error of a pipe that was closed at its other end: the process there has died."""
    try:
        yield
    except (EOFError, ConnectionError):
        raise Complaint("a process that was translating has died") from None


def _end_after(run: Callable[[], None]) -> NoReturn:
    """Run a function and exit this process, without running exit code inherited from the parent."""
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
    """A range whose output is not yet completely written."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.output: list[bytes] = []
        self.told: Any = None
        self.is_whole = False
        # Whether another range may be written after this one.
        self.goes_on = True


class _Process:
    """The state of a worker process."""

    def __init__(
        self, tasks: int, turns: list[tuple[int, int]], tells: int, work: Work, output: int
    ) -> None:
        self._tasks, self._turns, self._tells = tasks, turns, tells
        self._work, self._output = work, output
        self._kept: deque[_Kept] = deque()
        self._has_turn = False

    def serve(self) -> None:
        """Work until the parent has ended; Ctrl-C is handled by the parent."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        bytes(_ROOM)
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                self._wait()
                self._write()
                if len(self._kept) <= _KEPT:
                    self._take()

    def _wait(self) -> None:
        """Wait for a range to take, if there is room for it, or for the turn to write."""
        poll = select.poll()
        # The events always include the end of the parent.
        poll.register(self._tasks, select.POLLIN if len(self._kept) <= _KEPT else 0)
        if self._kept:
            poll.register(self._turn(self._kept[0].number)[0], select.POLLIN)
        if dict(poll.poll()).get(self._tasks, 0) & select.POLLHUP:
            raise EOFError

    def _turn(self, number: int) -> tuple[int, int]:
        """Both ends of the pipe that passes the turn of a range."""
        return self._turns[number % len(self._turns)]

    def _take(self) -> None:
        """Handle the next range, unless another process has taken it."""
        try:
            number, *piece = _TASK.unpack(_read(self._tasks, _TASK.size))
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
        """Write buffered output while this process has the turn."""
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
        """Whether it is the turn of a range."""
        if not self._has_turn:
            with contextlib.suppress(BlockingIOError):
                self._has_turn = bool(os.read(self._turn(number)[0], 1))
        return self._has_turn


def _write(output: int, written: list[bytes]) -> OSError | None:
    """Write everything; return the error if there is one."""
    try:
        for data in written:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(output, rest) :]
    except OSError as error:
        return error
    return None


def _send(pipe: int, value: Any) -> None:
    """Write a pickled value with its length to a pipe."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    rest = memoryview(_SIZE.pack(len(data)) + data)
    while rest:
        rest = rest[os.write(pipe, rest) :]


def _receive(pipe: int) -> Any:
    """Read a value from a pipe; raise EOFError if its other end is closed."""
    (size,) = _SIZE.unpack(_read(pipe, _SIZE.size))
    return pickle.loads(_read(pipe, size))  # noqa: S301 - written by our own worker process


def _read(pipe: int, size: int) -> bytes:
    """Read exactly ``size`` bytes; raise EOFError at the end."""
    parts: list[bytes] = []
    while size:
        data = os.read(pipe, size)
        if not data:
            raise EOFError
        parts.append(data)
        size -= len(data)
    return b"".join(parts)
