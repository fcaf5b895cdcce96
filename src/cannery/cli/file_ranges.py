"""Ranges of a file or a pipe that several processes read, each with an offset of its own.

A range is whole lines between two offsets of a file. The data of a pipe or a compressed file is first written to an
unnamed temporary file, in which a new range overwrites a finished one.
"""

from __future__ import annotations

import io
import itertools
import os
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO

# Large enough that the cost of messages between processes is negligible.
_PIECE = 1 << 22
_PIPED = 1 << 20
# The distance between the ranges of a pipe; no line is as long.
_APART = 1 << 36
# How many bytes to read at a time when looking for the end of a line.
_LOOK = 1 << 12

Piece = tuple[int, int]


def is_plain(file: BinaryIO) -> bool:
    """Whether a file supports reading at any offset; pipes and compressed files do not."""
    is_file = isinstance(getattr(file, "raw", None), io.FileIO)
    return is_file and stat.S_ISREG(os.fstat(file.fileno()).st_mode)


def unnamed() -> Any:
    """An unnamed temporary file for the data of a pipe, in memory where the system supports it."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("pieces"), "r+b")
    import tempfile

    return tempfile.TemporaryFile()


def pieces_of(descriptor: int, start: int, jobs: int, least: int) -> Iterator[Piece]:
    """Split a file into ranges, smaller towards its end, so that all processes finish at the same time."""
    whole = os.fstat(descriptor).st_size
    while start < whole:
        size = min(_PIECE, max(least, (whole - start) // (4 * jobs)))
        end = min(_line_start(descriptor, start + size), whole)
        yield start, end
        start = end


def _line_start(descriptor: int, at: int) -> int:
    """The offset of the first line that starts at or after an offset."""
    at -= 1
    while data := os.pread(descriptor, _LOOK, at):
        found = data.find(b"\n") + 1
        if found:
            return at + found
        at += len(data)
    return at


def put_pieces(
    file: BinaryIO, first: bytes, descriptor: int, most: int, size: int = _PIPED
) -> Iterator[Piece]:
    """Split a pipe into ranges of a file; ``first`` was already read. At most ``most`` ranges are in use at once."""
    if first and not first.endswith(b"\n"):
        first += file.readline()
    slot = itertools.cycle(range(0, most * _APART, _APART))
    for source in (io.BytesIO(first), file):
        while piece := source.read(size):
            if not piece.endswith(b"\n"):
                piece += source.readline()
            start = next(slot)
            yield start, _put(descriptor, piece, start)


def _put(descriptor: int, data: bytes, at: int) -> int:
    """Write data at an offset; return the offset of its end."""
    rest = memoryview(data)
    while rest:
        count = os.pwrite(descriptor, rest, at)
        rest, at = rest[count:], at + count
    return at


def blocks_of(descriptor: int, piece: Piece, size: int) -> Iterator[list[bytes]]:
    """The lines of a range, in lists of about ``size`` bytes."""
    at, end = piece
    most = size
    while at < end and (data := os.pread(descriptor, min(most, end - at), at)):
        at += len(data)
        lines = io.BytesIO(data).readlines()
        if at < end and not data.endswith(b"\n"):
            at -= len(lines.pop())
        if lines:
            yield lines
        most = size if lines else most * 2  # the next line is longer than the limit
