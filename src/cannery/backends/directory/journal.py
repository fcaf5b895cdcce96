"""The journal: changes as lists of positioned writes, durable before any other file is changed.

Section 6 of ``docs/storage-format.md`` has the layout. This module handles the bytes; ``commits`` decides when they are
written, synced and placed.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cannery.backends.directory.files import Files
from cannery.backends.directory.layout import JOURNAL, STATE, check_written
from cannery.errors import DamageError, StorageError, StoreUnavailableError

START = 4096
CAPACITY = 8 << 20
WRITE, REPLACE, OVERWRITE = 1, 2, 3

_HEADER = struct.Struct("<8sIIQQ")
_MAGIC = b"CNRYJRNL"
_VERSION = 1
_RECORD = struct.Struct("<4sIQQQ")
_RECORD_MAGIC = b"CJR1"
# The fields of a record after its magic and checksum.
_PLACE = struct.Struct("<QQQ")
_OPERATION = struct.Struct("<BBHIQQ")
_SLOT = struct.Struct("<QQQI")
_PROGRESS = struct.Struct("<QQQ")
# The slots of ``journal.state``.
_WRITTEN, _PLACED, _ABANDONED = 0, 64, 128
_TRIES = 1000
# No file of a store is this long.
_FURTHEST = 1 << 44
_STEPS = (256 << 10, 1 << 20)


class Operation(NamedTuple):
    """Write bytes at the end of a file (WRITE), over existing ones (OVERWRITE), or in place of the file (REPLACE)."""

    kind: int
    name: str
    offset: int
    data: bytes


class Draft:
    """The operations of one record while they are gathered, change by change.

    Writes to one file are adjacent, because offsets are assigned in order; so they are merged.
    """

    __slots__ = ("_overwrites", "_replaced", "_writes", "size")

    def __init__(self) -> None:
        self._overwrites: list[Operation] = []
        self._writes: dict[str, tuple[int, list[bytes]]] = {}
        self._replaced: dict[str, bytes] = {}
        self.size = 0

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Write bytes at the end of a file."""
        found = self._writes.get(name)
        if found is None:
            self._writes[name] = (offset, [data])
        else:
            found[1].append(data)
        self.size += len(data)

    def replace(self, name: str, data: bytes) -> None:
        """Replace a file."""
        self._replaced[name] = data
        self.size += len(data)

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Overwrite bytes of a file, without changing its length."""
        self._overwrites.append(Operation(OVERWRITE, name, offset, data))
        self.size += len(data)

    def operations(self) -> list[Operation]:
        """The gathered operations."""
        writes = [
            Operation(WRITE, name, offset, b"".join(pieces))
            for name, (offset, pieces) in self._writes.items()
        ]
        replaced = [Operation(REPLACE, name, 0, data) for name, data in self._replaced.items()]
        return writes + self._overwrites + replaced


class Progress(NamedTuple):
    """A slot of ``journal.state``: how far a step has come in an epoch."""

    epoch: int
    position: int
    pending: int = 0


def encode_record(epoch: int, position: int, operations: Sequence[Operation]) -> bytes:
    """A record for one place in the journal."""
    pieces: list[bytes] = []
    for kind, name, offset, data in operations:
        called = name.encode()
        pieces += (_OPERATION.pack(kind, 0, len(called), 0, offset, len(data)), called, data)
    payload = b"".join(pieces)
    where = _PLACE.pack(epoch, position, len(payload))
    check = zlib.crc32(payload, zlib.crc32(where)).to_bytes(4, "little")
    return b"".join((_RECORD_MAGIC, check, where, payload, bytes(-len(payload) % 8)))


def decode_payload(payload: bytes) -> Iterator[Operation]:
    """The operations of one record."""
    at = 0
    while at < len(payload):
        if at + _OPERATION.size > len(payload):
            raise DamageError(JOURNAL, "an operation that is cut short")
        kind, _, name_length, _, offset, length = _OPERATION.unpack_from(payload, at)
        at += _OPERATION.size
        end = at + name_length + length
        if kind not in {WRITE, REPLACE, OVERWRITE} or end > len(payload) or offset > _FURTHEST:
            raise DamageError(JOURNAL, "an operation of an unknown kind")
        name = check_written(payload[at : at + name_length].decode("ascii", "replace"))
        yield Operation(kind, name, offset, payload[at + name_length : end])
        at = end


def _epoch_in(head: bytes) -> int | None:
    if len(head) < _HEADER.size:
        return None
    magic, version, check, epoch, _ = _HEADER.unpack(head)
    if magic != _MAGIC or version != _VERSION or zlib.crc32(head[16:]) != check:
        return None
    return int(epoch)


def has_header(files: Files) -> bool:
    """Whether a folder holds a journal of this format, and so is a store."""
    try:
        fd = files.open(JOURNAL)
    except FileNotFoundError:
        return False
    try:
        return _epoch_in(files.read(fd, _HEADER.size, 0)) is not None
    finally:
        files.close(fd)


class Journal:
    """The journal file and the state beside it."""

    def __init__(self, files: Files) -> None:
        self._files = files
        with contextlib.ExitStack() as undo:
            self._fd = files.open(JOURNAL, create=True)
            undo.callback(files.close, self._fd)
            self._state = files.open(STATE, create=True)
            undo.callback(files.close, self._state)
            self._shared = files.share(self._state, 192)
            undo.pop_all()
        self._allocated = 0
        self._is_closed = False
        # The last value of each slot, which rarely changes.
        nothing = (b"", Progress(0, 0))
        self._seen = dict.fromkeys((_WRITTEN, _PLACED, _ABANDONED), nothing)

    def close(self) -> None:
        """Close both files."""
        self._is_closed = True
        self._files.close(self._fd)
        self._files.close(self._state)

    def epoch(self) -> int | None:
        """The epoch that the header names; None for a new journal or a damaged header."""
        return _epoch_in(self._files.read(self._fd, _HEADER.size, 0))

    def is_blank(self) -> bool:
        """Whether nothing has ever been written, so that a missing header is not damage."""
        return not self._files.read(self._fd, _HEADER.size, 0).strip(b"\0")

    def is_small(self) -> bool:
        """Whether no space for records is allocated."""
        return self._files.size(self._fd) <= START

    def begin(self, *, shrink: bool = False) -> int:
        """Begin a new epoch, durably: all earlier records in the journal become void."""
        epoch = int.from_bytes(os.urandom(8), "little") | 1
        rest = struct.pack("<QQ", epoch, 0)
        head = struct.pack("<8sII", _MAGIC, _VERSION, zlib.crc32(rest))
        self._files.write(self._fd, head + rest, 0)
        self._files.sync(self._fd)
        if shrink or self._files.size(self._fd) > 2 * CAPACITY:
            self._files.truncate(self._fd, START)
            self._files.sync(self._fd)
        self._allocated = 0
        return epoch

    def write(self, record: bytes, position: int) -> None:
        """Write a record at a place, over existing zeros."""
        if position + len(record) > self._allocated:
            self._allocate(position + len(record))
        self._files.write(self._fd, record, position)

    def _allocate(self, needed: int) -> None:
        size = max(self._files.size(self._fd), START)
        if needed > size:
            step = _STEPS[size >= _STEPS[1]]
            target = size + -(-(needed - size) // step) * step
            self._files.write(self._fd, bytes(target - size), size)
            self._files.sync(self._fd)
            size = target
        self._allocated = size

    def sync(self) -> None:
        """Make all records durable."""
        self._files.sync(self._fd)

    def operations(self, start: int, stop: int) -> Iterator[tuple[int, Operation]]:
        """The operations between two places that are known to hold whole records, with each record's end."""
        data = self._files.read(self._fd, stop - start, start)
        at = 0
        while at < len(data):
            magic, _, _, position, length = _RECORD.unpack(
                data[at : at + _RECORD.size].ljust(_RECORD.size, b"\0")
            )
            if magic != _RECORD_MAGIC or position != start + at:
                raise StorageError(f"journal: no record at {start + at}")
            body = at + _RECORD.size
            at = body + length + -length % 8
            for operation in decode_payload(data[body : body + length]):
                yield start + at, operation

    def valid_end(self, epoch: int, start: int = START) -> int:
        """The end of the unbroken run of valid records."""
        size = self._files.size(self._fd)
        while (after := self._after_valid(epoch, start, size)) is not None:
            start = after
        return start

    def has_valid_behind(self, epoch: int, start: int) -> bool:
        """Whether a valid record of the epoch exists after a place."""
        size = self._files.size(self._fd)
        # A truncated file may end in the padding of its last valid record.
        data = self._files.read(self._fd, max(size - start, 0), start)
        at = data.find(_RECORD_MAGIC)
        while at >= 0:
            if (start + at) % 8 == 0 and self._after_valid(epoch, start + at, size) is not None:
                return True
            at = data.find(_RECORD_MAGIC, at + 1)
        return False

    def _after_valid(self, epoch: int, at: int, size: int) -> int | None:
        head = self._files.read(self._fd, _RECORD.size, at)
        if len(head) < _RECORD.size:
            return None
        magic, check, of, position, length = _RECORD.unpack(head)
        if (magic, of, position) != (_RECORD_MAGIC, epoch, at) or at + length > size:
            return None
        payload = self._files.read(self._fd, length, at + _RECORD.size)
        if len(payload) < length or zlib.crc32(payload, zlib.crc32(head[8:])) != check:
            return None
        return at + _RECORD.size + int(length) + -int(length) % 8

    def keep_aside(self) -> str:
        """Copy a damaged journal to a file of its own."""
        name = f"{JOURNAL}.damaged-{os.urandom(4).hex()}"
        fd = self._files.open(name, create=True)
        try:
            self._files.write(fd, self._files.read(self._fd, self._files.size(self._fd), 0), 0)
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        return name

    def written(self) -> Progress | None:
        """The end of written records; guarded by the write lock. None if unreliable."""
        return self._slot(_WRITTEN)

    def placed(self) -> Progress | None:
        """The end of the records that are durable and placed; guarded by the commit lock."""
        return self._slot(_PLACED)

    def note_written(self, progress: Progress) -> None:
        """Publish the end of written records."""
        self._note(progress, _WRITTEN)

    def note_placed(self, progress: Progress) -> None:
        """Publish the end of placed records."""
        self._note(progress, _PLACED)

    def abandoned(self) -> Progress:
        """The last abandoned epoch and its place, and how many were abandoned (``pending``)."""
        return self._slot(_ABANDONED) or Progress(0, 0)

    def note_abandoned(self, progress: Progress) -> None:
        """Publish that an epoch is abandoned: records after a place in it are not durable."""
        self._note(progress, _ABANDONED)

    def _slot(self, offset: int) -> Progress | None:
        if self._is_closed:
            # A reader sees this process's last state, and a writer is refused by the locks.
            return self._seen[offset][1]
        for _ in range(_TRIES):
            data = self._shared[offset : offset + _SLOT.size]
            seen, progress = self._seen[offset]
            if data == seen:
                return progress
            if len(data) < _SLOT.size:
                return None
            epoch, position, pending, check = _SLOT.unpack(data)
            if zlib.crc32(data[:24]) == check:
                progress = Progress(epoch, position, pending)
                self._seen[offset] = (bytes(data), progress)
                return progress
            # Another process may be writing it at this moment.
        return None

    def _note(self, progress: Progress, offset: int) -> None:
        body = _PROGRESS.pack(*progress)
        slot = body + zlib.crc32(body).to_bytes(4, "little")
        try:
            self._shared[offset : offset + _SLOT.size] = slot
        except OSError as error:
            raise StoreUnavailableError(f"{STATE}: {error}") from error
        self._seen[offset] = (slot, progress)
