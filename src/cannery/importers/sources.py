"""Files as streams of records: JSON arrays, JSON lines, single objects, plain or in a zip, whole or cut off.

Only one record is held at a time. What is damaged is reported in ``problems`` and ends the stream, or skips a line; it
never raises.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cannery.errors import DialectError, InputError
from cannery.importers.contract import Sample
from cannery.wire.bodies import read_value

_CHUNK = 1 << 18
_ENDINGS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
_SAMPLED = 20
_LOCAL_HEADER = b"PK\x03\x04"
_GZIP = b"\x1f\x8b"
_SQLITE = b"SQLite format 3\x00"
_scan = json.JSONDecoder().raw_decode

Progress = Callable[[int, int], None]


class Record(NamedTuple):
    """One record: where it stands, and its JSON text."""

    place: str
    raw: bytes

    @property
    def value(self) -> Any:
        """The plain value; InputError if it is no JSON."""
        return read_value("import", self.raw)


class Source:
    """One file, or one member of a zip."""

    def __init__(
        self, name: str, opened: Callable[[], Any], size: int, path: Path | None = None
    ) -> None:
        self.name = name
        self.size = size
        self.path = path
        self.problems: list[str] = []
        self.progress: Progress | None = None
        self._open = opened

    def head(self, count: int = 4096) -> bytes:
        """The first bytes."""
        with self._open() as stream:
            return _read(stream, count, [])

    def sample(self) -> Sample:
        """The beginning, for detection; reading it leaves no trace."""
        head = self.head()
        if head.startswith(_SQLITE):
            return Sample(self.name, (), head)
        kept, self.problems = self.problems, []
        told, self.progress = self.progress, None
        values = []
        for record in self.records():
            values.append(_value_of(record))
            if len(values) == _SAMPLED:
                break
        found = tuple(self.problems)
        self.problems, self.progress = kept, told
        return Sample(self.name, tuple(values), head, found)

    def records(self) -> Iterator[Record]:
        """The records: the items of an array, the lines of JSON lines, or the one object."""
        with self._open() as stream:
            buffer = _Buffer(stream, self)
            yield from buffer.records()

    def place_of(self, record: Record) -> str:
        """What a person calls the place of a record."""
        if record.place == "$":
            return self.name
        apart = "" if record.place.startswith("[") else ", "
        return f"{self.name}{apart}{record.place}"

    def values(self) -> Iterator[tuple[Record, Any]]:
        """The records with their plain values; what is no JSON is a problem."""
        for record in self.records():
            try:
                yield record, record.value
            except InputError as error:
                self.problems.append(f"{record.place}: {error}")


def _value_of(record: Record) -> Any:
    try:
        return record.value
    except DialectError:
        return None


class _Buffer:
    """The text of a source, of which only what is needed is held."""

    def __init__(self, stream: Any, source: Source) -> None:
        self._stream = stream
        self._source = source
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._read = 0
        self._is_ended = False

    def _more(self, size: int = _CHUNK) -> bool:
        """Read more text; whether there was any."""
        if self._is_ended:
            return False
        data = _read(self._stream, size, self._source.problems)
        self._is_ended = len(data) < size
        self._read += len(data)
        self._text += self._decoder.decode(data, self._is_ended)
        if self._source.progress is not None:
            self._source.progress(min(self._read, self._source.size), self._source.size)
        return bool(data)

    def _skip(self, characters: str) -> str:
        """Drop leading characters; what comes first then, "" at the end."""
        while True:
            self._text = self._text.lstrip(characters)
            if self._text or not self._more():
                return self._text[:1]

    def records(self) -> Iterator[Record]:
        self._more()
        first = self._skip(" \t\r\n\ufeff")
        if first == "[":
            self._text = self._text[1:]
            yield from self._items()
        elif first:
            yield from self._lines()

    def _items(self) -> Iterator[Record]:
        number = 0
        while True:
            first = self._skip(" \t\r\n,")
            if not first:
                self._source.problems.append(f"the file is cut off after {number} records")
                return
            if first == "]":
                return
            text = self._value()
            if text is None:
                problem = f"[{number}]: cut off or no JSON; {number} records were read"
                self._source.problems.append(problem)
                return
            yield Record(f"[{number}]", text.encode("utf-8", "replace"))
            number += 1

    def _value(self) -> str | None:
        """The text of the next JSON value, reading as much as it takes."""
        size = _CHUNK
        while True:
            try:
                _, end = _scan(self._text)
            except (ValueError, RecursionError):
                if not self._more(size):
                    return None
                size *= 2
                continue
            if end == len(self._text) and self._more():
                continue  # a number may go on
            text, self._text = self._text[:end], self._text[end:]
            return text

    def _lines(self) -> Iterator[Record]:
        """JSON lines, or one object that spans them."""
        number = 0
        first = self._line()
        if first is not None and _is_json(first):
            while first is not None:
                number += 1
                if first.strip():
                    yield Record(f"line {number}", first.encode("utf-8", "replace"))
                first = self._line()
            return
        self._text = (first or "") + self._text
        text = self._value()
        if text is None:
            self._source.problems.append("the file is cut off or no JSON")
            return
        yield Record("$", text.encode("utf-8", "replace"))

    def _line(self) -> str | None:
        start = 0
        while (end := self._text.find("\n", start)) < 0:
            start = len(self._text)
            if not self._more():
                line, self._text = self._text, ""
                return line or None
        line, self._text = self._text[: end + 1], self._text[end + 1 :]
        return line


def _is_json(text: str) -> bool:
    try:
        read_value("import", text.encode("utf-8", "replace"))
    except DialectError:
        return False
    return True


def _read(stream: Any, size: int, problems: list[str]) -> bytes:
    """Up to some bytes; damage inside a zip ends the stream and is reported."""
    parts: list[bytes] = []
    while size > 0:
        try:
            data = stream.read(size)
        except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as error:
            problems.append(f"what is packed is damaged: {error}")
            break
        if not data:
            break
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


# --- files and zips ----------------------------------------------------------------------------


def open_sources(path: str | os.PathLike[str]) -> list[Source]:
    """The file at a path, or what a zip or a folder holds."""
    place = Path(path)
    if place.is_dir():
        inner = sorted(each for each in place.rglob("*") if each.name.endswith(_ENDINGS))
        return [source for each in inner for source in open_sources(each)]
    if not place.is_file():
        raise InputError(f"no file at {str(path)!r}")
    with place.open("rb") as stream:
        head = stream.read(4)
    is_zip, is_gzip = head == _LOCAL_HEADER, head.startswith(_GZIP)
    if not is_zip:
        size = place.stat().st_size
        if is_gzip:
            return [Source(place.name, lambda: gzip.open(place), size, place)]
        return [Source(place.name, lambda: place.open("rb"), size, place)]
    try:
        with zipfile.ZipFile(place) as archive:
            members = [entry for entry in archive.infolist() if _is_wanted(entry.filename)]
    except zipfile.BadZipFile:
        return _salvage(place)
    return [
        Source(entry.filename, _member(place, entry.filename), entry.file_size) for entry in members
    ]


def _is_wanted(name: str) -> bool:
    return name.endswith((".json", ".jsonl")) and not name.startswith("__MACOSX/")


def _member(path: Path, name: str) -> Callable[[], Any]:
    return lambda: zipfile.ZipFile(path).open(name)


def _salvage(path: Path) -> list[Source]:
    """The members of a zip whose end is missing, found by their own headers."""
    found = []
    with path.open("rb") as stream:
        position = 0
        while (entry := _local_entry(stream, position)) is not None:
            if _is_wanted(entry.name):
                found.append(_salvaged(path, entry))
            known = entry.start + entry.packed
            position = known if entry.packed else _end_of_deflated(stream, entry)
    if not found:
        raise InputError(f"{path.name}: the zip is cut off and holds nothing readable")
    return found


class _Entry(NamedTuple):
    name: str
    start: int
    packed: int
    is_deflated: bool


def _local_entry(stream: Any, position: int) -> _Entry | None:
    stream.seek(position)
    header = stream.read(30)
    if len(header) < 30 or header[:4] != _LOCAL_HEADER:
        return None
    method, packed = int.from_bytes(header[8:10], "little"), int.from_bytes(header[18:22], "little")
    length, extra = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
    name = stream.read(length).decode("utf-8", "replace")
    return _Entry(name, position + 30 + length + extra, packed, method == 8)


def _salvaged(path: Path, entry: _Entry) -> Source:
    def opened() -> Any:
        return _Salvaged(path, entry)

    source = Source(entry.name, opened, max(path.stat().st_size - entry.start, 1))
    source.problems.append("the zip is cut off; what can be read of it is")
    return source


class _Salvaged(io.RawIOBase):
    """The bytes of a member as far as they go."""

    def __init__(self, path: Path, entry: _Entry) -> None:
        super().__init__()
        self._stream = path.open("rb")
        self._stream.seek(entry.start)
        self._left = entry.packed or (1 << 62)
        self._inflate = zlib.decompressobj(-15) if entry.is_deflated else None

    def read(self, size: int = -1) -> bytes:
        """Some bytes; b"" at the end or where the zip was cut."""
        while self._inflate is None or not self._inflate.eof:
            data = self._stream.read(min(size if size > 0 else _CHUNK, self._left, _CHUNK))
            self._left -= len(data)
            found = data if self._inflate is None else self._inflate.decompress(data)
            if found or not data:
                return found
        return b""

    def close(self) -> None:
        """Let go of the file."""
        self._stream.close()
        super().close()


def _end_of_deflated(stream: Any, entry: _Entry) -> int:
    """Where a member ends that does not say so: behind its data and the descriptor."""
    stream.seek(entry.start)
    inflate, position = zlib.decompressobj(-15), entry.start
    while not inflate.eof:
        data = stream.read(_CHUNK)
        if not data:
            return position + (1 << 40)
        position += len(data)
        try:
            inflate.decompress(data)
        except zlib.error:
            return position + (1 << 40)
    end = position - len(inflate.unused_data)
    stream.seek(end)
    return end + (16 if stream.read(4) == b"PK\x07\x08" else 12)
