"""Sealed lines: each ends in its ordinal and a checksum, so that it can be judged alone.

``{...,"check":"<ordinal>.<crc32>"}``: section 2 of ``docs/storage-format.md``. Because every line knows
its position, damage never shifts the others, and any position is found by bisection.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import TypeAlias

from cannery.backends._contract import Damage, Reading

_SEAL = re.compile(rb',"check":"(0|[1-9][0-9]{0,17})\.([0-9a-f]{8})"\}')
_LONGEST_SEAL = 48
_PROBE = 1 << 13
_NEAR = 1 << 16

Read: TypeAlias = Callable[[int, int], bytes]
"""``read(length, offset)`` of one log."""


def seal(line: bytes, ordinal: int) -> bytes:
    """A JSON object as a sealed line."""
    opened = b'%b,"check":"%d.' % (line[:-1], ordinal)
    return b'%b%08x"}\n' % (opened, zlib.crc32(opened))


def ordinal_of(line: bytes) -> int | None:
    """The ordinal of a sealed line, or None if the line is not what was written."""
    found = _SEAL.search(line, max(len(line) - _LONGEST_SEAL, 0))
    if found is None or found.end() != len(line):
        return None
    if zlib.crc32(memoryview(line)[:-10]) != int(found[2], 16):
        return None
    return int(found[1])


def next_position(lines: bytes) -> int:
    """The position after the last of some lines that were just sealed."""
    return int(lines[lines.rindex(b'"', -_LONGEST_SEAL, -12) + 1 : -12]) + 1


def unseal(data: bytes) -> bytes | None:
    """The JSON of a file that is one sealed line; None if it is not what was written."""
    if not data.endswith(b"\n") or ordinal_of(data[:-1]) != 0:
        return None
    return data[: data.rindex(b',"check":"')] + b"}"


def judge(data: bytes, where: str, base: int, first: int) -> Reading:
    """Judge whole lines, of which the first should have the ordinal ``first`` in a log that begins at ``base``."""
    rows = data.split(b"\n")
    tail = rows.pop()
    if not _are_as_written(rows, first):
        return _sort_out(rows, tail, where, base, first)
    if not tail:
        return Reading(first, rows)
    ordinal = first + len(rows)
    return Reading(first, rows, (_torn(where, tail, ordinal - base + 1, ordinal),))


def _are_as_written(rows: Sequence[bytes], first: int) -> bool:
    """Whether every row has a sound seal and the ordinal after the one before it.

    The same as asking ``ordinal_of`` of each, at a third of the cost, which is much of what loading costs:
    pieces of equal length are joined and compared as one.
    """
    checks = struct.pack(f">{len(rows)}I", *[zlib.crc32(row[:-10]) for row in rows])
    sealed = checks.hex("+", 4).replace("+", '"}') + '"}'
    if rows and b"".join([row[-10:] for row in rows]) != sealed.encode():
        return False
    start, stop = first, first + len(rows)
    while start < stop:
        digits = len(str(start))
        until = min(stop, 10**digits)
        ordinals = '.,"check":"'.join(map(str, range(start, until)))
        found = [row[-digits - 21 : -10] for row in rows[start - first : until - first]]
        if b"".join(found) != f',"check":"{ordinals}.'.encode():
            return False
        start = until
    return True


def _sort_out(rows: Sequence[bytes], tail: bytes, where: str, base: int, first: int) -> Reading:
    """Put what can be trusted where it says it belongs, and report the rest."""
    found: list[bytes | None] = []
    damages: list[Damage] = []
    broken: list[int] = []
    line = first - base
    for row in rows:
        line += 1
        ordinal = ordinal_of(row)
        if ordinal is not None and ordinal >= first + len(found):
            damages += _gap(where, broken, first + len(found), ordinal, line)
            found += [None] * (ordinal - first - len(found))
            found.append(row)
            broken = []
        else:
            broken.append(line)
    damages += _gap(where, broken, first + len(found), None, line)
    found += [None] * len(broken)
    if tail:
        damages.append(_torn(where, tail, line + 1, first + len(found)))
    return Reading(first, found, tuple(damages))


def _gap(
    where: str, broken: Sequence[int], position: int, until: int | None, line: int
) -> list[Damage]:
    damages = [
        Damage(where, "damaged line", number, position + index)
        for index, number in enumerate(broken)
    ]
    if until is not None and until > position and not broken:
        missing = until - position
        damages.append(Damage(where, f"{missing} line(s) missing before it", line, position))
    return damages


def _torn(where: str, tail: bytes, line: int, position: int) -> Damage:
    return Damage(where, f"torn tail of {len(tail)} bytes", line, position)


def offset_after(data: bytes, count: int) -> int | None:
    """Where the first so many lines of a log end; None if it has no more, or if anything in it is damaged."""
    rows = data.split(b"\n")
    if rows.pop() or count >= len(rows):
        return None
    first = ordinal_of(rows[0])
    if first is None or not _are_as_written(rows, first):
        return None
    return sum(map(len, rows[:count])) + count


def find_end(read: Read, size: int, where: str, base: int) -> int:
    """The position after the last line, from the end of the log alone unless that is damaged."""
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
    if ordinal is not None:
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
        # A gap that begins before what was asked for.
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
            # The log was cut meanwhile.
            break
        data += more
        cut = data.rfind(b"\n")
        last = ordinal_of(data[data.rfind(b"\n", 0, max(cut, 0)) + 1 : cut]) if cut >= 0 else None
        if last is not None and last >= stop - 1:
            return data[: cut + 1]
        length *= 2
    return data


def _first_ordinal(data: bytes, base: int) -> int:
    """The ordinal of the first line; found from the next sound one if it is damaged itself."""
    for index, row in enumerate(data.split(b"\n")):
        ordinal = ordinal_of(row)
        if ordinal is not None:
            return max(ordinal - index, base)
    return base
