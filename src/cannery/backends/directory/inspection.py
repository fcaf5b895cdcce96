"""Inspects what the layers above do not read: the names in the folders; headers, checksums and hashes of content."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from cannery.backends._contract import Damage, Inspection, Progress, is_identifier
from cannery.backends._hashing import Hashing
from cannery.backends._seals import seal, seal_copies, unseal_copies
from cannery.backends.directory.files import Files, read_whole
from cannery.backends.directory.layout import CONVERSATIONS, metadata_name, pack_name
from cannery.backends.directory.packs import (
    FREED,
    HEADER,
    PACK_HEADER,
    PLAIN,
    Packs,
    Record,
    check_stored,
    decode_stored,
    is_pack_header,
    scan,
)

_WINDOW = 256 << 10


def identifiers_of(files: Files) -> tuple[list[str], list[str]]:
    """The conversations of a store, and entries with such names that are not folders."""
    folders = {name for name in files.folders(CONVERSATIONS) if is_identifier(name)}
    strange = {name for name in files.names(CONVERSATIONS) if is_identifier(name)} - folders
    return sorted(folders), sorted(strange)


def inspect(files: Files, packs: Packs, progress: Progress | None) -> Inspection:
    """Re-derive every hash."""
    numbers = packs.numbers()
    found = [facts.size for number in numbers if (facts := files.facts(pack_name(number)))]
    total = sum(found)
    contents = content_bytes = done = 0
    damages = [
        Damage(f"{CONVERSATIONS}/{name}", "a link or a file in the place of a conversation")
        for name in identifiers_of(files)[1]
    ]
    damages += _damaged_metadata(files)
    for number in numbers:
        name = pack_name(number)
        try:
            fd = files.open(name)
        except FileNotFoundError:
            continue
        try:
            if files.size(fd) and not is_pack_header(files.read(fd, PACK_HEADER, 0)):
                damages.append(Damage(name, "damaged header"))
            window = _Window(files, fd)
            for record in scan(files, fd, number, PACK_HEADER):
                if not isinstance(record, Record):
                    start, stop = record
                    damages.append(Damage(name, f"no record from byte {start} to {stop}"))
                    continue
                if record.flags & FREED:
                    continue
                problem = _problem(window, record, packs.hashing)
                if problem:
                    where = f"{name} at {record.place.offset}"
                    damages.append(
                        Damage(where, f"content sha256:{record.digest.hex()}: {problem}")
                    )
                contents += 1
                content_bytes += record.place.size
                if progress:
                    progress(done + record.place.offset, total)
            done += files.size(fd)
        finally:
            files.close(fd)
    if progress:
        progress(total, total)
    return Inspection(contents, content_bytes, tuple(damages))


def _damaged_metadata(files: Files) -> Iterator[Damage]:
    """Metadata with one damaged copy; if all copies are damaged, reading it raises."""
    for identifier in identifiers_of(files)[0]:
        name = metadata_name(identifier)
        data = read_whole(files, name)
        if data is None:
            continue
        raw = unseal_copies(data)
        if raw is not None and data not in (seal_copies(raw), seal(raw, 0)):
            yield Damage(name, "one of two copies of the metadata is damaged", is_lost=False)


class _Window:
    """One file read forwards, in pieces that fit the processor's cache."""

    def __init__(self, files: Files, fd: int) -> None:
        self._files = files
        self._fd = fd
        self._start = 0
        self._data = b""

    def read(self, length: int, offset: int) -> bytes:
        """Read a number of bytes, or fewer at the end."""
        at = offset - self._start
        if at < 0 or at + length > len(self._data):
            self._data = self._files.read(self._fd, max(length, _WINDOW), offset)
            self._start, at = offset, 0
        return self._data[at : at + length]


def _problem(window: _Window, record: Record, hashing: Hashing) -> str | None:
    """The damage of a record whose header is sound."""
    try:
        if max(record.place.stored, record.place.size) > _WINDOW:
            check_stored(window.read, record, hashing)
            return None
        stored = window.read(record.place.stored, record.place.offset + HEADER.size)
        # The hash of plain content covers all that its checksum does; a compressed frame may hide a flipped bit from
        # it.
        if record.flags != PLAIN and zlib.crc32(stored) != record.check:
            return "the stored bytes do not match their checksum"
        decode_stored(stored, record, hashing)
    except ValueError as error:
        return str(error)
    return None
