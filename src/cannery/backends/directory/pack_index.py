"""The index of one full pack, sorted by digest: loaded in one read, searched by bisection.

Derived from the pack and bound to its identity and length; a file that does not match is not used.
"""

from __future__ import annotations

import contextlib
import struct
import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cannery.backends.directory.files import Files, read_whole, write_whole
from cannery.backends.directory.layout import pack_index_name

_HEAD = struct.Struct("<8s8sQQ")
_MAGIC = b"CNRYINDX"
_ROW = struct.Struct("<32sQQQ")


class Place(NamedTuple):
    """The place of a content: pack, offset of its record, stored length and real length."""

    number: int
    offset: int
    stored: int
    size: int


class SortedPlaces:
    """Places of one pack, as rows sorted by digest."""

    def __init__(self, rows: bytes, number: int, length: int) -> None:
        self.rows = rows
        self._length = length
        self._number = number
        # The first eight bytes of each digest as an integer: bisect then runs without Python code.
        self._heads = array(
            "Q", b"".join(rows[at : at + 8] for at in range(0, len(rows), _ROW.size))
        )
        if sys.byteorder == "little":
            self._heads.byteswap()

    @classmethod
    def build(cls, places: Sequence[tuple[bytes, Place]], length: int) -> SortedPlaces:
        """Build the sorted places of a pack of a given size."""
        number = places[0][1].number if places else 0
        rows = b"".join(_ROW.pack(digest, *place[1:]) for digest, place in sorted(places))
        return cls(rows, number, length)

    def find(self, digest: bytes) -> Iterator[Place]:
        """The place of a content."""
        head = int.from_bytes(digest[:8], "big")
        at = bisect_left(self._heads, head)
        while at < len(self._heads) and self._heads[at] == head:
            found, offset, stored, size = _ROW.unpack_from(self.rows, at * _ROW.size)
            # A forged file may have a valid checksum and wrong places.
            if found == digest and offset + stored <= self._length:
                yield Place(self._number, offset, stored, size)
            at += 1

    def __iter__(self) -> Iterator[tuple[bytes, Place]]:
        for digest, offset, stored, size in _ROW.iter_unpack(self.rows):
            yield digest, Place(self._number, offset, stored, size)

    def __len__(self) -> int:
        return len(self._heads)


def load_index(files: Files, number: int, identity: bytes, length: int) -> SortedPlaces | None:
    """The places of a pack, or None if they were not saved, or for another pack."""
    data = read_whole(files, pack_index_name(number))
    if data is None or len(data) < _HEAD.size + 4:
        return None
    if zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
        return None
    magic, of, pack_length, count = _HEAD.unpack_from(data)
    if (magic, of, pack_length) != (_MAGIC, identity, length):
        return None
    if len(data) != _HEAD.size + count * _ROW.size + 4:
        return None
    return SortedPlaces(data[_HEAD.size : -4], number, length)


def save_index(
    files: Files, number: int, identity: bytes, length: int, places: SortedPlaces
) -> None:
    """Save the places of a pack; if the medium refuses, they are derived again next time."""
    body = _HEAD.pack(_MAGIC, identity, length, len(places)) + places.rows
    with contextlib.suppress(OSError):
        write_whole(
            files,
            pack_index_name(number),
            body + zlib.crc32(body).to_bytes(4, "little"),
            durable=False,
        )
