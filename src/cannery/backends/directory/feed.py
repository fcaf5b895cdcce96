"""The lines of the change log: each names a change and has a checksum that continues the one before it.

Section 9 of ``docs/storage-format.md``. A file begins with a random identity, so a checksum also identifies the file
and its history: a place in a file that was lost, restored or damaged is not mistaken for another.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from cannery.backends.directory.files import Files, write_whole
from cannery.backends.directory.layout import CHANGES, changes_name, number_of

_HEADER = "feed"
_CHECK = len(" 00000000\n")
LONGEST = 256
NONE = "-"
GONE = "gone"


class Line(NamedTuple):
    """One line: its words, None if its checksum is wrong, and its end with its checksum."""

    words: list[str] | None
    end: int
    chain: int


def encode(text: str, chain: int) -> tuple[bytes, int]:
    """A line that follows a checksum, and its own checksum."""
    data = text.encode()
    chain = zlib.crc32(data, chain)
    return b"%b %08x\n" % (data, chain), chain


def encode_header(after: int | None) -> tuple[bytes, int]:
    """The first line of a file; ``after`` is the last checksum of the file before it, None if it continues none."""
    before = NONE if after is None else f"{after:08x}"
    return encode(f"{_HEADER} {os.urandom(8).hex()} {before}", 0)


def chain_at(data: bytes) -> int | None:
    """The checksum in the last of some lines; None if these bytes do not end in a line."""
    if len(data) < _CHECK or data[-1:] != b"\n" or data[-_CHECK : -_CHECK + 1] != b" ":
        return None
    try:
        return int(data[-_CHECK + 1 : -1], 16)
    except ValueError:
        return None


def decode(data: bytes, start: int, chain: int) -> Iterator[Line]:
    """The lines in some bytes, which start at an offset of a file after a line with a checksum."""
    for row in data.splitlines(keepends=True):
        start += len(row)
        stated = chain_at(row)
        text = row[:-_CHECK]
        is_sound = stated is not None and zlib.crc32(text, chain) == stated
        chain = chain if stated is None else stated
        yield Line(text.decode("ascii", "replace").split(" ") if is_sound else None, start, chain)


def after_of(line: Line) -> int | None:
    """The checksum that a header continues; None if it continues none, or is not a header."""
    match line.words:
        case [kind, _, after] if kind == _HEADER and after != NONE:
            return int(after, 16)
    return None


def is_header(line: Line) -> bool:
    """Whether a line is the first of a file."""
    return line.words is not None and line.words[0] == _HEADER


def generations(files: Files) -> list[int]:
    """The numbers of the files, in order."""
    numbers = (number_of(name) for name in files.names(CHANGES))
    return sorted(number for number in numbers if number is not None)


def end_of(files: Files, generation: int) -> tuple[int, int] | None:
    """The end of a file and its checksum; None if it cannot be continued."""
    try:
        fd = files.open(changes_name(generation))
    except FileNotFoundError:
        return None
    try:
        size = files.size(fd)
        head = next(decode(files.read(fd, LONGEST, 0), 0, 0), None)
        if head is None or not is_header(head):
            return None
        if head.end == size:
            return size, head.chain
        last = files.read(fd, min(size, 2 * LONGEST), max(size - 2 * LONGEST, 0))
        before = last[: last.rfind(b"\n", 0, -1) + 1]
        chain = chain_at(before)
        for line in decode(last[len(before) :], 0, 0 if chain is None else chain):
            if line.words is not None:
                return size, line.chain
        return None
    finally:
        files.close(fd)


def begin(files: Files) -> None:
    """Start a new file that continues none: followers must examine everything."""
    generation = max(generations(files), default=0) + 1
    write_whole(files, changes_name(generation), encode_header(None)[0], durable=True)
    # Journaled operations for it must find the file.
    files.sync_directory(CHANGES)
