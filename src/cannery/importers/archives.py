"""Opens members of zip and tar archives and compressed files, as streams that end at the first damage.

A stream that expands far beyond its compressed size ends as damaged, because it is a decompression bomb.
"""

from __future__ import annotations

import gzip
import io
import lzma
import shutil
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_CHUNK = 1 << 18
_LOCAL_HEADER = b"PK\x03\x04"
_EMPTY_ZIP = b"PK\x05\x06"
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_XZ = b"\xfd7zXZ\x00"
_ZSTD_METHOD = 93
_TAR_MARK = slice(257, 262)
# Text compresses to a tenth, a repetitive log to a fiftieth.
_LARGEST = 1 << 28
_GROWTH = 200

# The errors of reading a compressed file that is damaged, encrypted, or compressed by an unknown method.
DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    lzma.LZMAError,
    zlib.error,
    zstd.ZstdError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    OSError,
)


class Member(NamedTuple):
    """One file of an archive: its name, a function that opens it, its size, and a problem known from the start."""

    name: str
    opened: Callable[[], Any]
    size: int
    problem: str = ""


class BombError(OSError):
    """A stream decompresses to far more than its size."""


def unpacked(path: Path) -> tuple[Callable[[], Any] | None, list[Member] | None]:
    """A function that opens a compressed file, or the members of an archive; neither for any other file."""
    with path.open("rb") as stream:
        head = stream.read(512)
    if head.startswith((_LOCAL_HEADER, _EMPTY_ZIP)):
        return None, list(_zip_members(path))
    opened = _single(path, head)
    if opened is None:
        return (None, list(_tar_members(path))) if head[_TAR_MARK] == b"ustar" else (None, None)
    try:
        with opened() as stream:
            is_tar = stream.read(512)[_TAR_MARK] == b"ustar"
    except DAMAGE:
        is_tar = False
    return (None, list(_tar_members(path, opened))) if is_tar else (opened, None)


def _single(path: Path, head: bytes) -> Callable[[], Any] | None:
    """A function that opens a single compressed stream."""
    size = path.stat().st_size
    if head.startswith(_GZIP):
        return lambda: _Measured(gzip.open(path), size)
    if head.startswith(_ZSTD):
        return lambda: _Measured(zstd.open(path), size)
    if head.startswith(_XZ):
        return lambda: _Measured(lzma.open(path), size)
    return None


class _Measured(io.RawIOBase):
    """A stream that raises BombError if it expands too far."""

    def __init__(self, stream: Any, packed: int) -> None:
        super().__init__()
        self._stream = stream
        self._most = max(_LARGEST, packed * _GROWTH)
        self._given = 0

    def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes."""
        data: bytes = self._stream.read(_CHUNK if size < 0 else min(size, _CHUNK))
        self._given += len(data)
        if self._given > self._most:
            told = f"unpacks to more than {_GROWTH} times its size; refused after"
            raise BombError(f"{told} {self._given:,} bytes")
        return data

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()


# --- tar ---------------------------------------------------------------------------------------


class _Tar:
    """A tar with random access; a compressed one is decompressed to an unnamed temporary file."""

    def __init__(self, path: Path, opened: Callable[[], Any] | None) -> None:
        file = path.open("rb") if opened is None else tempfile.TemporaryFile()  # noqa: SIM115 - see __del__
        self._file: IO[bytes] = file
        if opened is not None:
            with opened() as stream:
                shutil.copyfileobj(stream, self._file, _CHUNK)
            self._file.seek(0)
        self.archive = tarfile.open(fileobj=self._file)  # noqa: SIM115 - it owns nothing

    def __del__(self) -> None:
        self._file.close()

    def open(self, entry: tarfile.TarInfo) -> Any:
        """Open a file; its stream keeps the archive open."""
        stream: Any = self.archive.extractfile(entry)
        return _Owned(stream, self)


class _Owned(io.RawIOBase):
    """A stream that keeps a reference to its archive."""

    def __init__(self, stream: Any, owner: _Tar) -> None:
        super().__init__()
        self._stream = stream
        self._owner = owner

    def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes."""
        data: bytes = self._stream.read(size)
        return data


def _tar_members(path: Path, opened: Callable[[], Any] | None = None) -> Iterator[Member]:
    try:
        tar = _Tar(path, opened)
        for entry in tar.archive:
            if entry.isreg():
                yield Member(entry.name, partial(tar.open, entry), entry.size)
    except DAMAGE as error:
        yield Member(path.name, io.BytesIO, 0, f"the archive is damaged: {error}")


# --- zip ---------------------------------------------------------------------------------------


def _zip_members(path: Path) -> Iterator[Member]:
    size = path.stat().st_size
    try:
        # It stays open as long as its members may be opened.
        archive = zipfile.ZipFile(path)
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    except DAMAGE:
        yield from _salvage(path)
        return
    if sum(entry.file_size for entry in entries) > max(_LARGEST, size * _GROWTH):
        told = f"the archive unpacks to more than {_GROWTH} times its size; refused"
        yield Member(path.name, io.BytesIO, 0, told)
        return
    for entry in entries:
        opened = partial(_zip_member, path, archive, entry)
        yield Member(entry.filename, opened, entry.file_size)


def _zip_member(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Any:
    if entry.compress_type == _ZSTD_METHOD:
        return _Measured(_zstd_member(path, entry), entry.compress_size)
    return _Measured(archive.open(entry), entry.compress_size)


def _zstd_member(path: Path, entry: zipfile.ZipInfo) -> Any:
    """A member compressed with zstd, which ``zipfile`` supports only from Python 3.14 on."""
    with path.open("rb") as stream:
        local = _local_entry(stream, entry.header_offset)
        if local is None:
            raise zipfile.BadZipFile("no header where the table of contents says")
        stream.seek(local.start)
        return zstd.open(io.BytesIO(stream.read(entry.compress_size)))


class _Entry(NamedTuple):
    name: str
    start: int
    packed: int
    is_deflated: bool


def _salvage(path: Path) -> Iterator[Member]:
    """The members of a truncated zip, found by their local headers."""
    with path.open("rb") as stream:
        position = 0
        while (entry := _local_entry(stream, position)) is not None:
            told = "the zip is cut off; only its readable part is imported"
            size = max(path.stat().st_size - entry.start, 1)
            yield Member(entry.name, _salvaged(path, entry), size, told)
            known = entry.start + entry.packed
            position = known if entry.packed else _end_of_deflated(stream, entry)


def _salvaged(path: Path, entry: _Entry) -> Callable[[], Any]:
    return lambda: _Measured(_Salvaged(path, entry), path.stat().st_size)


def _local_entry(stream: Any, position: int) -> _Entry | None:
    stream.seek(position)
    header = stream.read(30)
    if len(header) < 30 or header[:4] != _LOCAL_HEADER:
        return None
    method, packed = int.from_bytes(header[8:10], "little"), int.from_bytes(header[18:22], "little")
    length, extra = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
    name = stream.read(length).decode("utf-8", "replace")
    return _Entry(name, position + 30 + length + extra, packed, method == 8)


class _Salvaged(io.RawIOBase):
    """The readable bytes of a member of a truncated zip."""

    def __init__(self, path: Path, entry: _Entry) -> None:
        super().__init__()
        self._stream = path.open("rb")
        self._stream.seek(entry.start)
        self._left = entry.packed or (1 << 62)
        self._inflate = zlib.decompressobj(-15) if entry.is_deflated else None

    def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes; b"" at the end or where the zip was truncated."""
        inflate = self._inflate
        while inflate is None or not inflate.eof:
            most = size if size > 0 else _CHUNK
            if inflate is None:
                data = self._stream.read(min(most, self._left))
                self._left -= len(data)
                return data
            data = inflate.unconsumed_tail or self._stream.read(min(_CHUNK, self._left))
            if not inflate.unconsumed_tail:
                self._left -= len(data)
            found = inflate.decompress(data, most)
            if found or not data:
                return found
        return b""

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()


def _end_of_deflated(stream: Any, entry: _Entry) -> int:
    """The end of a member whose header has no size: after its data and the descriptor."""
    stream.seek(entry.start)
    inflate, position = zlib.decompressobj(-15), entry.start
    while not inflate.eof:
        data = stream.read(_CHUNK)
        if not data:
            return position + (1 << 40)
        position += len(data)
        try:
            while data and not inflate.eof:
                inflate.decompress(data, _CHUNK)
                data = inflate.unconsumed_tail
        except zlib.error:
            return position + (1 << 40)
    end = position - len(inflate.unused_data)
    stream.seek(end)
    return end + (16 if stream.read(4) == b"PK\x07\x08" else 12)
