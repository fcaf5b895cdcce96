"""Looking at every content in every pack: headers, checksums, hashes."""

from __future__ import annotations

import zlib

from cannery.backends._contract import Damage, Inspection, Progress
from cannery.backends.directory.files import Files
from cannery.backends.directory.layout import pack_name
from cannery.backends.directory.packs import (
    HEADER,
    PACK_HEADER,
    Packs,
    Record,
    decode_record,
    is_pack_header,
    scan,
)


def inspect(files: Files, packs: Packs, progress: Progress | None) -> Inspection:
    """Re-derive every hash."""
    numbers = packs.numbers()
    found = [facts.size for number in numbers if (facts := files.facts(pack_name(number)))]
    total = sum(found)
    contents = content_bytes = done = 0
    damages: list[Damage] = []
    for number in numbers:
        name = pack_name(number)
        try:
            fd = files.open(name)
        except FileNotFoundError:
            continue
        try:
            if files.size(fd) and not is_pack_header(files.read(fd, PACK_HEADER, 0)):
                damages.append(Damage(name, "damaged header"))
            for record in scan(files, fd, number, PACK_HEADER):
                if not isinstance(record, Record):
                    start, stop = record
                    damages.append(Damage(name, f"no record from byte {start} to {stop}"))
                    continue
                problem = _problem(files, fd, record)
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


def _problem(files: Files, fd: int, record: Record) -> str | None:
    data = files.read(fd, HEADER.size + record.place.stored, record.place.offset)
    if zlib.crc32(memoryview(data)[HEADER.size :]) != record.check:
        return "the stored bytes do not match their checksum"
    try:
        decode_record(data, record)
    except ValueError as error:
        return str(error)
    return None
