"""Sealed lines: each ends in its ordinal and a checksum, so that it can be verified alone.

``{...,"check":"<ordinal>.<crc32>"}``: section 2 of ``docs/storage-format.md``. Because every line has its position,
damage never shifts the others, and any position is found by bisection. A row with a valid seal is a line, even if the
newline around it is damaged; a row without a seal that another program wrote is read and reported as unsealed; any
other row is damage.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.backends._contract import Damage, Reading
from cannery.backends._seals import LONGEST_SEAL, SEAL, are_as_written, ordinal_of

# A seal with a damaged name, which must not make a line of ours look like one of another program.
_NAMELESS_SEAL = re.compile(rb'"\s*:\s*"[0-9]{1,18}\.[0-9a-f]{8}"\s*\}\s*$')
_CHECK = 10
# A line that claims that more than this are missing before it is not trusted: each would need memory.
_MOST_MISSING = 1 << 20
_SHORTEST = len(b'{"check":"0.00000000"}\n')
_PROBE = 1 << 13
_NEAR = 1 << 16

Read: TypeAlias = Callable[[int, int], bytes]
"""``read(length, offset)`` of one log."""


def judge(data: bytes, where: str, base: int, first: int) -> Reading:
    """Verify lines, of which the first should have the ordinal ``first`` in a log that begins at ``base``."""
    rows = data.split(b"\n")
    tail = rows.pop()
    if not tail and are_as_written(rows, first):
        return Reading(first, rows)
    sorting = _Sorting(where, first, first - base)
    for row in rows:
        sorting.add(row)
    if tail:
        sorting.add(tail, is_cut=True)
    return sorting.reading()


class _Piece(NamedTuple):
    """A part of a row; the ordinal of its seal, if it has a valid one."""

    data: bytes
    ordinal: int | None


class _Sorting:
    """Puts valid lines at their positions, and reports the rest."""

    def __init__(self, where: str, first: int, line: int) -> None:
        self._where = where
        self._first = first
        self._line = line
        self._found: list[bytes | None] = []
        self._damages: list[Damage] = []
        self._broken: list[tuple[int, str]] = []

    def add(self, row: bytes, *, is_cut: bool = False) -> None:
        """Process a row; ``is_cut`` if no newline ends it."""
        self._line += 1
        if not row.strip():
            self._report("an empty line", is_lost=False)
            return
        pieces = list(_pieces(row))
        for number, (data, ordinal) in enumerate(pieces, 1):
            is_last = number == len(pieces)
            if ordinal is not None and 0 <= ordinal - self.end <= _MOST_MISSING:
                self._place(data, ordinal)
            elif ordinal is None and is_plain(data):
                self._settle()
                self._report(
                    "unsealed: written by another program, and not verified", is_lost=False
                )
                self._found.append(data)
            else:
                cut = f"torn tail of {len(data)} bytes" if is_cut and is_last else "damaged line"
                self._broken.append((self._line, cut))
                continue
            if is_cut or not is_last:
                self._report("the newline after it is damaged", before=1, is_lost=False)

    @property
    def end(self) -> int:
        """The position after the last line that is not damaged."""
        return self._first + len(self._found)

    def _report(self, problem: str, *, before: int = 0, is_lost: bool = True) -> None:
        position = self.end - before
        self._damages.append(Damage(self._where, problem, self._line, position, is_lost))

    def _place(self, data: bytes, ordinal: int) -> None:
        missing = ordinal - self.end
        self._name_broken()
        if missing and not self._broken:
            self._report(f"{missing} line(s) missing before it")
        self._found += [None] * missing
        self._found.append(data)
        self._broken = []

    def _name_broken(self) -> None:
        self._damages += [
            Damage(self._where, problem, line, self.end + index)
            for index, (line, problem) in enumerate(self._broken)
        ]

    def _settle(self) -> None:
        """Without an ordinal that tells how many lines were damaged, each of them counts as one."""
        self._name_broken()
        self._found += [None] * len(self._broken)
        self._broken = []

    def reading(self) -> Reading:
        """The result."""
        self._settle()
        return Reading(self._first, self._found, tuple(self._damages))


def _pieces(row: bytes) -> Iterator[_Piece]:
    """The lines in a row (several if a newline between them is damaged), and the remaining bytes."""
    ordinal = ordinal_of(row)
    if ordinal is not None:
        yield _Piece(row, ordinal)
        return
    start = at = check = 0
    view = memoryview(row)
    for found in SEAL.finditer(row):
        end = found.end()
        check = zlib.crc32(view[at : end - _CHECK], check)
        at = end - _CHECK
        if check == int(found[2], 16):
            yield _Piece(row[start:end], int(found[1]))
            # A damaged newline may be any byte, or missing.
            start = at = end + (row[end : end + 2] != b'{"')
            check = 0
    if start < len(row):
        yield _Piece(row[start:], None)


class _Plain(Struct, gc=False):
    """Any JSON object; with a seal it would be ours."""

    check: Raw | UnsetType = UNSET


_decode_plain = msgspec.json.Decoder(_Plain).decode


def is_plain(row: bytes) -> bool:
    """Whether a row is an object of another program, and not a damaged line of ours."""
    if _NAMELESS_SEAL.search(row, max(len(row) - LONGEST_SEAL, 0)):
        return False
    try:
        return _decode_plain(row).check is UNSET
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False


def end_of_tail(tail: bytes) -> int:
    """The place of the newline that ends the last line of a log: after it, or in place of a damaged one."""
    *_, last = _pieces(tail)
    if last.ordinal is None:
        return len(tail)
    return tail.rindex(last.data) + len(last.data)


def offset_after(data: bytes, base: int, position: int) -> int | None:
    """The offset of the first line of a log that certainly has a position or a later one; None if there is none."""
    sorting = _Sorting("", base, 0)
    offset = 0
    for row in data.removesuffix(b"\n").split(b"\n"):
        first = next(_pieces(row), None)
        is_behind = first is not None and first.ordinal is not None and first.ordinal >= position
        if is_behind or sorting.end >= position:
            return offset if offset < len(data) else None
        sorting.add(row)
        offset += len(row) + 1
    return None


def find_end(read: Read, size: int, where: str, base: int) -> int:
    """The position after the last line, read from the end of the log alone unless that is damaged."""
    if size == 0:
        return base
    length = min(size, _PROBE)
    while True:
        data = read(length, size - length)
        start = data.rfind(b"\n", 0, len(data) - 1)
        if start >= 0 or length == size:
            break
        length = min(size, length * 8)
    last = data[start + 1 : -1]
    ordinal = ordinal_of(last) if data.endswith(b"\n") else None
    if ordinal is not None and 0 <= ordinal - base <= size // _SHORTEST + _MOST_MISSING:
        return ordinal + 1
    return base + len(judge(read(size, 0), where, base, base).lines)


def read_range(
    read: Read, size: int, where: str, base: int, start: int, stop: int | None
) -> Reading:
    """The lines from one position to before another, reading little else."""
    if start <= base and stop is None:
        return judge(read(size, 0), where, base, base)
    offset = _seek(read, size, start) if start > base else 0
    data = _read_until(read, size, offset, stop)
    first = _first_ordinal(data, base) if offset else base
    whole = judge(data, where, base, first)
    begin = max(start, first)
    until = None if stop is None else max(stop - first, 0)
    inside = tuple(
        damage
        for damage in whole.damages
        if damage.position is None
        or (damage.position >= begin and (stop is None or damage.position < stop))
    )
    lines = whole.lines[begin - first : until]
    if lines and lines[0] is None and all(damage.position != begin for damage in inside):
        # A gap that begins before the requested range.
        inside = (Damage(where, "line(s) missing", position=begin), *inside)
    return Reading(begin, lines, inside)


def _seek(read: Read, size: int, start: int) -> int:
    """The start of some line at or not far before a position."""
    low, high = 0, size
    while high - low > _NEAR:
        middle = (low + high) // 2
        probe = _line_after(read, size, middle, high)
        if probe is None:
            high = middle
            continue
        offset, ordinal = probe
        if ordinal <= start:
            low = offset
        else:
            high = middle
    return low


def _line_after(read: Read, size: int, offset: int, limit: int) -> tuple[int, int] | None:
    """The first sound line that starts after an offset and before a limit: its start and ordinal."""
    length = _PROBE
    while True:
        data = read(min(length, size - offset), offset)
        at = data.find(b"\n")
        while at >= 0 and offset + at + 1 < limit:
            after = data.find(b"\n", at + 1)
            if after < 0:
                break
            ordinal = ordinal_of(data[at + 1 : after])
            if ordinal is not None:
                return offset + at + 1, ordinal
            at = after
        is_all = offset + len(data) >= size or len(data) < length
        if is_all or (at >= 0 and offset + at + 1 >= limit):
            return None
        length *= 4


def _read_until(read: Read, size: int, offset: int, stop: int | None) -> bytes:
    """Whole lines from an offset on, until one has reached a position."""
    if stop is None:
        return read(size - offset, offset)
    data = b""
    length = _NEAR * 2
    while offset + len(data) < size:
        more = read(min(length, size - offset - len(data)), offset + len(data))
        if not more:
            # The log was truncated meanwhile.
            break
        data += more
        cut = data.rfind(b"\n")
        last = ordinal_of(data[data.rfind(b"\n", 0, max(cut, 0)) + 1 : cut]) if cut >= 0 else None
        if last is not None and last >= stop - 1:
            return data[: cut + 1]
        length *= 2
    return data


def _first_ordinal(data: bytes, base: int) -> int:
    """The ordinal of the first line, derived from the next sound one if it is damaged itself."""
    for index, row in enumerate(data.split(b"\n")):
        ordinal = ordinal_of(row)
        if ordinal is not None:
            return max(ordinal - index, base)
    return base
