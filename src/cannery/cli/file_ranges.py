"""Ranges of a file or a pipe that several processes read, each with an offset of its own.

A range is whole lines between two offsets of a file. The data of a pipe or a compressed file is first written to an
unnamed temporary file, in which a new range overwrites one that is done.
"""

from __future__ import annotations

import io
import itertools
import os
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO

# Large enough that talking about a piece costs nothing beside it.
_PIECE = 1 << 22
_PIPED = 1 << 20
# How far apart pieces of a pipe lie: no line is as long.
_APART = 1 << 36
# How far to look at a time for the end of a line.
_LOOK = 1 << 12

Piece = tuple[int, int]


def is_plain(file: BinaryIO) -> bool:
    """Whether a file can be read in any place; not so a pipe and what is packed."""
    is_file = isinstance(getattr(file, "raw", None), io.FileIO)
    return is_file and stat.S_ISREG(os.fstat(file.fileno()).st_mode)


def unnamed() -> Any:
    """A file for what comes through a pipe, in memory where there are such files."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("pieces"), "r+b")
    import tempfile

    return tempfile.TemporaryFile()


def pieces_of(descriptor: int, start: int, jobs: int, least: int) -> Iterator[Piece]:
    """The pieces of a file, smaller towards its end, so that all processes are done at the same time."""
    whole = os.fstat(descriptor).st_size
    while start < whole:
        size = min(_PIECE, max(least, (whole - start) // (4 * jobs)))
        end = min(_line_start(descriptor, start + size), whole)
        yield start, end
        start = end


def _line_start(descriptor: int, at: int) -> int:
    """Where the first line starts that does not start before a place."""
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
    """The pieces of a pipe, of which ``first`` was read before; all but so many are done when one is asked for."""
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
    """Write to a place of a file; where the data ends."""
    rest = memoryview(data)
    while rest:
        count = os.pwrite(descriptor, rest, at)
        rest, at = rest[count:], at + count
    return at


def blocks_of(descriptor: int, piece: Piece, size: int) -> Iterator[list[bytes]]:
    """The lines of a piece, about so many bytes at a time."""
    at, end = piece
    most = size
    while at < end and (data := os.pread(descriptor, min(most, end - at), at)):
        at += len(data)
        lines = io.BytesIO(data).readlines()
        if at < end and not data.endswith(b"\n"):
            at -= len(lines.pop())
        if lines:
            yield lines
        most = size if lines else most * 2  # a line that is longer
