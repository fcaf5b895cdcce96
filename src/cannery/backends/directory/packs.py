"""Content packs: append-only files of content, found by sha256 and verified on every read.

Section 5 of ``docs/storage-format.md``. The places of content in full packs come from ``.idx`` files, in the active
pack from reading its headers; both are derived. A place that turns out wrong (gc has replaced the pack) is looked up
once more.
"""

from __future__ import annotations

import functools
import hashlib
import os
import struct
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from cannery.backends._compression import compress, decompress, decompress_pieces
from cannery.backends._contract import check_size
from cannery.backends._hashing import Hashing
from cannery.backends.directory.files import Facts, Files
from cannery.backends.directory.journal import OVERWRITE, Operation
from cannery.backends.directory.layout import CONTENT, number_of, pack_name
from cannery.backends.directory.pack_index import Place, SortedPlaces, load_index, save_index
from cannery.errors import ContentNotFoundError, DamageError

HEADER = struct.Struct("<4sIQQ32sII")
_MAGIC = b"CNT1"
_PACK_MAGIC = b"CPK1"
PACK_HEADER = 16
FULL = 64 << 20

PLAIN, ZSTD, SCOPED, FREED = 0, 1, 2, 4
_SALT = 32
_STREAM = 1 << 20
_OPEN_FILES = 64
_SCAN = 1 << 18
_GATHER = 256 << 10
_GAP = 64 << 10
_TRIES = 100
# The limit for decompressed content whose size no line states: a number of bytes, or a multiple of the stored size.
_LARGE = 64 << 20
_RATIO = 1000


Read: TypeAlias = Callable[[int, int], bytes]
"""``read(length, offset)`` of one pack."""


class Record(NamedTuple):
    """A record's header as it was found."""

    place: Place
    digest: bytes
    flags: int
    check: int


def new_pack_header() -> bytes:
    """The start of a pack with a new identity."""
    head = _PACK_MAGIC + os.urandom(8)
    return head + zlib.crc32(head).to_bytes(4, "little")


def is_pack_header(head: bytes) -> bool:
    """Whether a pack has a valid beginning."""
    return head[:4] == _PACK_MAGIC and zlib.crc32(head[:12]).to_bytes(4, "little") == head[12:]


@functools.lru_cache(1024)
def salt_of(scope: str) -> bytes:
    """The salt that separates the content of scopes; empty for the unnamed scope."""
    return hashlib.sha256(b"cannery-scope\0" + scope.encode()).digest() if scope else b""


def key_of(scope: str, digest: bytes) -> bytes:
    """The key of content in packs: its digest, and in a named scope the digest of that and the scope."""
    return salted(salt_of(scope), digest)


def encode_record(key: bytes, data: bytes, scope: str = "") -> bytes:
    """A record of one content, compressed if that helps."""
    frame = compress(data)
    flags = (PLAIN if frame is None else ZSTD) | (SCOPED if scope else PLAIN)
    stored = salt_of(scope) + (data if frame is None else frame)
    return record_header(flags, len(stored), len(data), key, zlib.crc32(stored)) + stored


def record_header(flags: int, stored: int, size: int, key: bytes, check: int) -> bytes:
    """The header of a record."""
    head = HEADER.pack(_MAGIC, flags, stored, size, key, check, 0)[:-4]
    return head + zlib.crc32(head).to_bytes(4, "little")


def freed_record(stored: int) -> bytes:
    """The replacement of a freed record: nothing of its content or key is left."""
    return record_header(FREED, stored, 0, bytes(32), 0)


def decode_header(head: bytes, number: int, offset: int) -> Record | None:
    """A record's header, or None if these bytes are not one."""
    if len(head) < HEADER.size or head[:4] != _MAGIC:
        return None
    _, flags, stored, size, digest, check, own = HEADER.unpack(head)
    if zlib.crc32(head[:60]) != own:
        return None
    return Record(Place(number, offset, stored, size), digest, flags, check)


def decode_stored(stored: bytes, record: Record, hashing: Hashing) -> bytes:
    """The content of a record from its stored bytes, verified; ValueError names the problem."""
    size = record.place.size
    if len(stored) < record.place.stored:
        raise ValueError("cut short")
    return _content(stored, record.flags, size, record.digest, hashing)


def _content(stored: bytes, flags: int, size: int, key: bytes, hashing: Hashing) -> bytes:
    """Content from stored bytes, verified."""
    salt = b""
    if flags & SCOPED:
        salt, stored = stored[:_SALT], stored[_SALT:]
    content = decompress(stored, size) if flags & ZSTD else stored
    if len(content) != size or salted(salt, hashing(content).digest()) != key:
        raise ValueError("the bytes do not match the id")
    return content


def salted(salt: bytes, digest: bytes) -> bytes:
    """The key of content, from the salt of its scope and its digest."""
    return hashlib.sha256(salt + digest).digest() if salt else digest


def check_stored(read: Read, record: Record, hashing: Hashing) -> None:
    """Verify a record piece by piece, with little memory; ValueError names the problem."""
    _, offset, stored, size = record.place
    begin, end = offset + HEADER.size, offset + HEADER.size + stored
    salt = read(_SALT, begin) if record.flags & SCOPED else b""
    check = zlib.crc32(salt)

    def pieces() -> Iterator[bytes]:
        nonlocal check
        for at in range(begin + len(salt), end, _STREAM):
            piece = read(min(_STREAM, end - at), at)
            check = zlib.crc32(piece, check)
            yield piece

    digest, found = hashing(), 0
    for piece in decompress_pieces(pieces(), size) if record.flags & ZSTD else pieces():
        digest.update(piece)
        found += len(piece)
    if check != record.check:
        raise ValueError("the stored bytes do not match their checksum")
    if found != size or salted(salt, digest.digest()) != record.digest:
        raise ValueError("the bytes do not match the id")


def scan(files: Files, fd: int, number: int, start: int) -> Iterator[Record | tuple[int, int]]:
    """The headers of a pack from an offset on; a pair stands for bytes without a record."""
    size = files.size(fd)
    at = start
    window, base = b"", 0
    while at < size:
        if not base <= at <= base + len(window) - HEADER.size:
            window, base = files.read(fd, _SCAN, at), at
        record = decode_header(window[at - base : at - base + HEADER.size], number, at)
        if record is not None and at + HEADER.size + record.place.stored <= size:
            yield record
            at += HEADER.size + record.place.stored
            continue
        after = _resync(files, fd, number, at + 1, size)
        yield at, after
        at = after


def _resync(files: Files, fd: int, number: int, at: int, size: int) -> int:
    """The start of the next record, or the end of the pack."""
    while at < size:
        # Windows overlap, so that a header on an edge is found.
        data = files.read(fd, _STREAM + HEADER.size, at)
        found = data.find(_MAGIC)
        while 0 <= found < _STREAM:
            if decode_header(data[found : found + HEADER.size], number, at + found) is not None:
                return at + found
            found = data.find(_MAGIC, found + 1)
        at += _STREAM
    return size


def sound_records(records: Iterable[Record | tuple[int, int]]) -> Iterator[Record]:
    """The records that hold content."""
    return (one for one in records if isinstance(one, Record) and not one.flags & FREED)


class _Scanned(NamedTuple):
    """How far the headers of the active pack have been read."""

    number: int
    inode: int
    offset: int


class Packs:
    """All packs of a store, as this process knows them."""

    def __init__(self, files: Files, hashing: Hashing) -> None:
        self._files = files
        self.hashing = hashing
        self._lock = threading.RLock()
        self._sealed: dict[int, tuple[Facts, SortedPlaces]] = {}
        self._recent: dict[bytes, Place] = {}
        self._scanned = _Scanned(0, 0, PACK_HEADER)
        self._noted: dict[bytes, Place] = {}
        # Further places of content that is in the active pack several times.
        self._twins: dict[bytes, list[Place]] = {}
        # Records by pack and offset that are known to be gone, although an index may still list them.
        self._gone: set[tuple[int, int]] = set()
        self._open: OrderedDict[int, tuple[int, bytes]] = OrderedDict()
        self._is_fresh = False
        self.active = 0
        self.is_torn = False

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            while self._open:
                self._files.close(self._open.popitem()[1][0])

    def forget(self) -> None:
        """Forget cached places: packs may have been replaced."""
        with self._lock:
            self._is_fresh = False
            self._noted.clear()
            self._gone.clear()

    # Finding

    def find(self, digest: bytes) -> Place | None:
        """The cached place of content; ``locate`` looks it up."""
        with self._lock:
            if not self._is_fresh:
                self.refresh()
            place = self._noted.get(digest) or self._recent.get(digest)
            if place is not None and not self._gone:
                return place
            return next(self._places(digest), None)

    def _places(self, digest: bytes) -> Iterator[Place]:
        with self._lock:
            if not self._is_fresh:
                self.refresh()
            for place in (self._noted.get(digest), self._recent.get(digest)):
                if place is not None and place[:2] not in self._gone:
                    yield place
            for place in self._twins.get(digest, ()):
                if place[:2] not in self._gone:
                    yield place
            for _, places in self._sealed.values():
                for place in places.find(digest):
                    if place[:2] not in self._gone:
                        yield place

    def locate(self, digest: bytes) -> Place | None:
        """The place of content, its record checked: a caller that relies on it must not be misled by an old index."""
        return next(self._located(digest), None)

    def locate_all(self, digest: bytes) -> list[Place]:
        """Every place of content."""
        return list(dict.fromkeys(self._located(digest)))

    def _located(self, digest: bytes) -> Iterator[Place]:
        for place in list(self._places(digest)):
            if self._noted.get(digest) == place or self._is_there(place, digest):
                yield place
            else:
                self._gone.add(place[:2])

    def _is_there(self, place: Place, digest: bytes) -> bool:
        try:
            head = self._bytes(place.number, place.offset, place.offset + HEADER.size)
        except FileNotFoundError:
            return False
        record = decode_header(head, place.number, place.offset)
        return record is not None and record.digest == digest and not record.flags & FREED

    def _is_other(self, place: Place, digest: bytes) -> bool:
        """Whether a place now holds something else, or nothing, without damage."""
        try:
            head = self._bytes(place.number, place.offset, place.offset + HEADER.size)
        except FileNotFoundError:
            return True
        record = decode_header(head, place.number, place.offset)
        return record is not None and (record.digest != digest or bool(record.flags & FREED))

    def flags_at(self, place: Place) -> int:
        """The flags of a record, which may be in the journal only."""
        head = self._bytes(place.number, place.offset, place.offset + HEADER.size)
        record = decode_header(head, place.number, place.offset)
        return SCOPED if record is None else record.flags

    @staticmethod
    def keys_of(scope: str, digests: Iterable[bytes]) -> set[bytes]:
        """The keys of some contents of a scope."""
        return {key_of(scope, digest) for digest in digests}

    def drop(self, place: Place) -> None:
        """Record that a record is freed."""
        with self._lock:
            self._gone.add(place[:2])

    def learn(self, operation: Operation) -> None:
        """Apply another process's journaled records."""
        number = number_of(operation.name.rpartition("/")[2])
        if number is None or not operation.name.startswith(CONTENT):
            return
        if operation.kind == OVERWRITE:
            self.drop(Place(number, operation.offset, 0, 0))
        else:
            self.note(number, operation.offset, operation.data)

    def note(self, number: int, offset: int, data: bytes) -> None:
        """Apply records that are journaled for a pack."""
        at = PACK_HEADER if offset == 0 else 0
        with self._lock:
            while at < len(data):
                record = decode_header(data[at : at + HEADER.size], number, offset + at)
                if record is None:
                    return
                self._noted[record.digest] = record.place
                at += HEADER.size + record.place.stored
            self.active = max(self.active, number)

    def refresh(self) -> None:
        """Read the list of packs on disk."""
        for attempt in range(_TRIES):
            try:
                self._refresh()
            except FileNotFoundError:
                # gc has removed a pack between two looks.
                if attempt == _TRIES - 1:
                    raise
            else:
                return

    def _refresh(self) -> None:
        with self._lock:
            numbers = self.numbers()
            self.active = max(numbers, default=0)
            for number in self._sealed.keys() - set(numbers[:-1]):
                del self._sealed[number]
            for number in numbers[:-1]:
                self._refresh_sealed(number)
            if numbers:
                self._refresh_active(numbers[-1])
            self._is_fresh = True

    def numbers(self) -> list[int]:
        """The numbers of the packs, in order."""
        found = (number_of(name) for name in self._files.names(CONTENT) if name.endswith("pack"))
        return sorted(number for number in found if number is not None)

    def _refresh_sealed(self, number: int) -> None:
        facts = self._files.facts(pack_name(number))
        known = self._sealed.get(number)
        if facts is None or (known is not None and known[0] == facts):
            return
        self._drop_descriptor(number)
        self._believe(number)
        fd, identity = self._descriptor(number)
        places = load_index(self._files, number, identity, facts.size)
        if places is None:
            records = scan(self._files, fd, number, PACK_HEADER)
            found = [(record.digest, record.place) for record in sound_records(records)]
            places = SortedPlaces.build(found, facts.size)
            save_index(self._files, number, identity, facts.size, places)
        self._sealed[number] = (facts, places)

    def _refresh_active(self, number: int) -> None:
        facts = self._files.facts(pack_name(number))
        if facts is None:
            return
        known = self._scanned
        if (known.number, known.inode) != (number, facts.inode) or facts.size < known.offset:
            self._recent.clear()
            self._twins.clear()
            self._drop_descriptor(number)
            self._believe(number)
            known = _Scanned(number, facts.inode, PACK_HEADER)
        fd, _ = self._descriptor(number)
        at = known.offset
        self.is_torn = 0 < facts.size < PACK_HEADER
        for record in scan(self._files, fd, number, at):
            self.is_torn = not isinstance(record, Record)
            if isinstance(record, Record):
                if not record.flags & FREED:
                    self._note_recent(record)
                at = record.place.offset + HEADER.size + record.place.stored
        self._scanned = known._replace(offset=at)

    def _note_recent(self, record: Record) -> None:
        before = self._recent.get(record.digest)
        if before is not None:
            self._twins.setdefault(record.digest, []).append(before)
        self._recent[record.digest] = record.place

    def _believe(self, number: int) -> None:
        """Forget which records were gone from a pack that may be another one now."""
        self._gone = {place for place in self._gone if place[0] != number}

    # Reading

    def get(self, digest: bytes, size: int | None = None) -> bytes:
        """The content, verified."""
        failure: DamageError | None = None
        for attempt in range(2):
            for place in list(self._places(digest)):
                _check_size(digest, place, size)
                try:
                    return self._read(digest, place)
                except (ValueError, FileNotFoundError) as error:
                    where = f"{pack_name(place.number)} at {place.offset}"
                    problem = f"content sha256:{digest.hex()}: {error}"
                    if attempt and not self._is_other(place, digest):
                        failure = failure or DamageError(where, problem)
            if not attempt:
                self.forget()
                self.refresh()
        raise failure or ContentNotFoundError(f"sha256:{digest.hex()}")

    def get_many(
        self, digests: Iterable[bytes], sizes: Mapping[bytes, int]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Contents in the order in which they are stored, reading neighbours together."""
        places = self._find_many(digests)
        for place, digest in places:
            _check_size(digest, place, sizes.get(digest))
        for run in _runs(places):
            yield from self._read_run(run, sizes)

    def stream(self, key: bytes) -> Iterator[bytes]:
        """The content in pieces, verified at the end."""
        place = self.locate(key)
        if place is None:
            raise ContentNotFoundError(f"sha256:{key.hex()}")
        where = f"{pack_name(place.number)} at {place.offset}"
        record = decode_header(
            self._bytes(place.number, place.offset, place.offset + HEADER.size),
            place.number,
            place.offset,
        )
        if record is None or record.digest != key:
            # gc has moved it.
            yield self.get(key)
            return
        salt = b""
        begin, end = place.offset + HEADER.size, place.offset + HEADER.size + place.stored
        if record.flags & SCOPED:
            salt = self._bytes(place.number, begin, begin + _SALT)
            begin += _SALT
        found = self.hashing()
        try:
            pieces = self._pieces(place.number, begin, end)
            if record.flags & ZSTD:
                pieces = decompress_pieces(pieces, place.size)
            for piece in pieces:
                found.update(piece)
                yield piece
        except ValueError as error:
            raise DamageError(where, f"content sha256:{key.hex()}: {error}") from None
        if salted(salt, found.digest()) != key:
            raise DamageError(where, f"content sha256:{key.hex()}: the bytes do not match the id")

    def _pieces(self, number: int, begin: int, end: int) -> Iterator[bytes]:
        for start in range(begin, end, _STREAM):
            yield self._bytes(number, start, min(start + _STREAM, end))

    def _find_many(self, digests: Iterable[bytes]) -> list[tuple[Place, bytes]]:
        """The places of contents, in storage order."""
        places = []
        with self._lock:
            for digest in dict.fromkeys(digests):
                place = self.find(digest)
                if place is None:
                    self.refresh()
                    place = self.find(digest)
                if place is None:
                    raise ContentNotFoundError(f"sha256:{digest.hex()}")
                places.append((place, digest))
        places.sort()
        return places

    def _read_run(
        self, run: list[tuple[Place, bytes]], sizes: Mapping[bytes, int]
    ) -> Iterator[tuple[bytes, bytes]]:
        first, last = run[0][0], run[-1][0]
        begin = first.offset
        try:
            data = self._bytes(first.number, begin, last.offset + HEADER.size + last.stored)
        except FileNotFoundError:
            data = b""
        for place, digest in run:
            try:
                at = place.offset - begin
                yield digest, _decode_at(data, at, digest, place.size, self.hashing)
            except ValueError:
                yield digest, self.get(digest, sizes.get(digest))

    def _read(self, digest: bytes, place: Place) -> bytes:
        data = self._bytes(place.number, place.offset, place.offset + HEADER.size + place.stored)
        return _decode_at(data, 0, digest, place.size, self.hashing)

    def _bytes(self, number: int, start: int, stop: int) -> bytes:
        with self._lock:
            fd, _ = self._descriptor(number)
            return self._files.read(fd, stop - start, start)

    def _descriptor(self, number: int) -> tuple[int, bytes]:
        """A pack's descriptor and its identity."""
        known = self._open.get(number)
        if known is not None:
            return known
        fd = self._files.open(pack_name(number))
        head = self._files.read(fd, PACK_HEADER, 0)
        self._open[number] = (fd, head[4:12])
        if len(self._open) > _OPEN_FILES:
            self._files.close(self._open.popitem(last=False)[1][0])
        return self._open[number]

    def _drop_descriptor(self, number: int) -> None:
        known = self._open.pop(number, None)
        if known is not None:
            self._files.close(known[0])


def _check_size(digest: bytes, place: Place, size: int | None) -> None:
    """Refuse content that would take much more memory than its line says, or than is plausible without a line."""
    check_size(digest, place.size, size)
    if size is None and place.size > max(_LARGE, _RATIO * place.stored):
        problem = f"{place.stored} bytes that say they are {place.size}"
        raise DamageError(f"{pack_name(place.number)} at {place.offset}", problem)


def _decode_at(data: bytes, at: int, digest: bytes, expected: int, hashing: Hashing) -> bytes:
    """The content of a record somewhere in a buffer; the hash alone decides whether it is sound."""
    body = at + HEADER.size
    if body > len(data):
        raise ValueError("cut short")
    _, flags, stored, size, found, _, _ = HEADER.unpack_from(data, at)
    if found != digest or size != expected:
        raise ValueError("no such record")
    return _content(data[body : body + stored], flags, size, digest, hashing)


def _runs(places: list[tuple[Place, bytes]]) -> Iterator[list[tuple[Place, bytes]]]:
    """Neighbours that are worth one read."""
    run: list[tuple[Place, bytes]] = []
    pack = furthest = 0
    last = -1
    for both in places:
        number, offset, stored, _ = both[0]
        if number != pack or offset > furthest or offset > last:
            if run:
                yield run
            run = []
            pack, last = number, offset + _GATHER
        run.append(both)
        furthest = offset + HEADER.size + stored + _GAP
    if run:
        yield run
