"""JSON values one after another, as ``jq`` reads them: lines, arrays, objects over many lines, in any order.

The items of an array at the top are records; so is every other value at the top. Only one record is held at a time.
Bytes that are no JSON are a problem with line and offset, and reading goes on at the next line that begins a value.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from cannery.messages.json_text import find_lone_surrogate
from cannery.wire.bodies import read_value

_CHUNK = 1 << 18
# A record that is longer is not read: it would not fit into memory beside its value.
_LONGEST = 1 << 30
# How near the end of the text an error may come from what has not been read yet: an escape is 6 characters long.
_EDGE = 16
_MOST_PROBLEMS = 200
_BROKEN = re.compile("[\udc80-\udcff]+")
_REPLACED = re.compile("\ufffd")
_BLANK = re.compile("[\\s,\x1e\ufeff]*")
_FIRST_LETTERS = 40
# Numbers are only measured here; ``read_value`` reads them.
_scan = json.JSONDecoder(parse_int=lambda _: 0, parse_float=lambda _: 0.0).raw_decode
_decode = msgspec.json.Decoder().decode
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_UNSET: Any = object()


class Problems(list[str]):
    """What is wrong with a source, in words; beyond a few hundred only counted."""

    def __init__(self) -> None:
        super().__init__()
        self.left_out = 0

    def append(self, problem: str) -> None:
        """Tell a problem."""
        if len(self) < _MOST_PROBLEMS:
            super().append(problem)
        else:
            self.left_out += 1

    def told(self) -> list[str]:
        """Every problem, and how many more there were."""
        more = [f"{self.left_out:,} more problems"] if self.left_out else []
        return [*self, *more]


class Record(NamedTuple):
    """One record: where it stands, its JSON text, and the value at the top that it is, or is an item of."""

    place: str
    raw: bytes
    group: int = 0
    is_item: bool = False
    known: Any = _UNSET

    @property
    def value(self) -> Any:
        """The plain value; DialectError if it is no JSON."""
        return read_value("import", self.raw) if self.known is _UNSET else self.known


def encoding_of(head: bytes) -> str:
    """The encoding of a text by its first bytes: its mark, or where the zeros of its first letter stand."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    if len(head) > 3 and head[0] and not head[1] and head[2]:
        return "utf-16-le"
    if len(head) > 3 and not head[0] and head[1] and not head[2]:
        return "utf-16-be"
    return "utf-8"


class _BadValue(Exception):  # noqa: N818 - a signal between two methods, never seen outside
    """What begins here is no JSON."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class ValueReader:
    """The records of a stream of bytes; ``read`` gives up to so many of them."""

    def __init__(
        self,
        read: Callable[[int], bytes],
        problems: list[str],
        progress: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._stream = read
        self._problems = problems
        self._progress = progress
        self._decoder: Any = None
        self._encoding = "utf-8"
        self._text = ""
        # Where reading stands in the text, and what lies before the text: bytes and lines.
        self._at = 0
        self._bytes = 0
        # A place up to which line breaks have been counted.
        self._counted = 0
        self._lines = 0
        self._read = 0
        self._is_ended = False
        # The last line that began with a value, for places: a second value on it is told by its column.
        self._line_taken = 0
        self._has_lost_array = False

    # --- text ------------------------------------------------------------------------------------

    def _more(self, size: int = _CHUNK) -> bool:
        """Read more text behind what is there; whether there was any."""
        if self._is_ended:
            return False
        data = self._stream(size)
        self._is_ended = len(data) < size
        if self._decoder is None:
            self._encoding = encoding_of(data)
            errors = "surrogateescape" if self._encoding == "utf-8" else "replace"
            self._decoder = codecs.getincrementaldecoder(self._encoding)(errors)
        self._read += len(data)
        self._drop()
        self._text += self._decoder.decode(data, self._is_ended)
        self._progress(self._read)
        return bool(data)

    def _drop(self) -> None:
        """Let go of the text before the present place."""
        self._line_at(self._at)
        gone, self._text = self._text[: self._at], self._text[self._at :]
        self._bytes += self._size(gone)
        self._at = self._counted = 0

    def _size(self, text: str) -> int:
        if text.isascii():
            return len(text) * {"utf-8": 1, "utf-32": 4}.get(self._encoding, 2)
        encoding = self._encoding if self._encoding != "utf-16" else "utf-16-le"
        return len(text.encode(encoding, "surrogateescape" if encoding == "utf-8" else "replace"))

    def _line_at(self, position: int) -> int:
        """The number of the line of a place that is not before the last one that was asked for."""
        self._lines += self._text.count("\n", self._counted, position)
        self._counted = max(self._counted, position)
        return self._lines + 1

    def _where(self, position: int) -> str:
        """A place as a person finds it: its line, and how many bytes come before it."""
        offset = self._bytes + self._size(self._text[:position])
        line = self._line_at(self._at) + self._text.count("\n", self._at, position)
        return f"line {line}, byte {offset}"

    def _peek(self) -> str:
        """The next letter that is not blank; "" at the end."""
        while True:
            self._at = _BLANK.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    # --- values ----------------------------------------------------------------------------------

    def records(self) -> Iterator[Record]:
        """Every record, in order."""
        group = 0
        while first := self._peek():
            if first == "[":
                yield from self._items(group)
            elif first == "]" and self._has_lost_array:
                self._at += 1
                self._has_lost_array = False
            else:
                yield from self._single(group)
            group += 1

    def _single(self, group: int) -> Iterator[Record]:
        """A value at the top."""
        line = self._line_of_value()
        if line is not None:
            yield self._record(line[0], self._at + len(line[0]), group, known=line[1])
            return
        try:
            end = self._end()
        except _BadValue as bad:
            self._skip(bad.problem)
            return
        yield self._record(self._text[self._at : end], end, group)

    def _line_of_value(self) -> tuple[str, Any] | None:
        """The rest of the line if it is one value, as in JSON lines: that needs no look at its inside."""
        start = self._at
        while (end := self._text.find("\n", start)) < 0:
            # A long line may be one object of many; then it is not a line of its own.
            if len(self._text) - self._at > _CHUNK or not self._more():
                end = len(self._text)
                break
            start = self._at
        line = self._text[self._at : end].rstrip()
        try:
            return line, _decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None

    def _end(self) -> int:
        """Where the value that begins here ends, reading as much as it takes."""
        while True:
            try:
                _, end = _scan(self._text, self._at)
            except RecursionError:
                raise _BadValue("nested too deeply") from None
            except json.JSONDecodeError as error:
                self._read_on(error)
                continue
            except ValueError as error:
                raise _BadValue(str(error)) from None
            # A number or a word may go on behind what was read.
            if end == len(self._text) and self._text[end - 1] not in '}]"' and self._more():
                continue
            return end

    def _read_on(self, error: json.JSONDecodeError) -> None:
        """Read more if an error may come from the end of what was read; else it is one."""
        held = len(self._text) - self._at
        is_open = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _EDGE
        if held > _LONGEST:
            raise _BadValue(f"a record longer than {_LONGEST >> 20} MiB")
        if not is_open or not self._more(max(_CHUNK, held)):
            if error.msg.startswith("Unterminated") or error.pos >= len(self._text.rstrip()):
                raise _BadValue("the file is cut off inside a record")
            raise _BadValue(f"not JSON ({error.msg} at {self._where(error.pos)})")

    def _items(self, group: int) -> Iterator[Record]:
        """The items of an array, each a record."""
        begin = self._line_at(self._at)
        before = "" if group == 0 else f"line {begin}"
        self._at += 1
        number = 0
        while True:
            first = self._peek()
            if not first:
                told = f"the file is cut off after {number} records"
                self._problems.append(f"{self._where(self._at)}: {told}")
                return
            if first == "]":
                self._at += 1
                return
            try:
                end = self._end()
            except _BadValue as bad:
                self._skip(f"{bad.problem}; {number} records were read before")
                if self._text[self._at : self._at + 1] != "{":
                    self._has_lost_array = True
                    return
                number += 1
                continue
            place = f"{before}[{number}]"
            yield self._record(self._text[self._at : end], end, group, place)
            number += 1

    def _record(
        self, text: str, end: int, group: int, place: str = "", known: Any = _UNSET
    ) -> Record:
        """The record up to a position, and step behind it."""
        is_item = bool(place)
        place = place or self._place_of_value(text)
        if not text.isascii():
            text = self._told_breaks(text)
        # A line that was decoded whole has none.
        if known is _UNSET and (half := find_lone_surrogate(text)) >= 0:
            told = "half of a surrogate pair, read as U+FFFD"
            self._problems.append(f"{self._where(self._at + half)}: {told}")
        self._at = end
        return Record(place, text.encode("utf-8", "replace"), group, is_item, known)

    def _told_breaks(self, text: str) -> str:
        """A text without bytes that its encoding does not have; they are told."""
        broken = (_BROKEN if self._encoding == "utf-8" else _REPLACED).search(text)
        if broken is None:
            return text
        name, where = self._encoding.upper(), self._where(self._at + broken.start())
        self._problems.append(f"{where}: bytes that are not {name}, read as U+FFFD")
        return _BROKEN.sub("\ufffd", text)

    def _place_of_value(self, text: str) -> str:
        line = self._line_at(self._at)
        if line == 1 and not self._line_taken and "\n" in text.strip():
            self._line_taken = 1
            return "$"
        if line == self._line_taken:
            column = self._at - self._text.rfind("\n", 0, self._at)
            return f"line {line}:{column}"
        self._line_taken = line
        return f"line {line}"

    def _skip(self, problem: str) -> None:
        """Tell what is wrong, and go on at the next line that begins a value, or at the end."""
        where = self._where(self._at)
        begin = self._text[self._at : self._at + _FIRST_LETTERS].partition("\n")[0]
        before = self._bytes + self._size(self._text[: self._at])
        # In a file that is written over many lines, what is further to the right is inside of something.
        indent = self._text[self._text.rfind("\n", 0, self._at) + 1 : self._at]
        blank = "" if indent.strip() else indent
        next_value = re.compile(rf"\n{blank}(?=[{{\[])")
        while (found := next_value.search(self._text, self._at)) is None:
            # What was looked at is not needed again, but for the last line break.
            last = self._text.rfind("\n", self._at)
            self._at = len(self._text) if last < 0 else max(last, self._at)
            if not self._more():
                self._at = len(self._text)
                break
        else:
            self._at = found.end()
        left = self._bytes + self._size(self._text[: self._at]) - before
        self._problems.append(f"{where}: {problem}; {left:,} bytes left out, {_shown(begin)}")


def _shown(text: str) -> str:
    """The beginning of what could not be read."""
    return repr(_BROKEN.sub("\ufffd", text))
