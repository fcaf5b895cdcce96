"""Reads a sequence of JSON values, as ``jq`` does: lines, arrays, objects over several lines, in any order.

The items of a top-level array are records; so is every other top-level value. Only one record is in memory at a time.
Invalid JSON is a problem with line and offset, and reading continues at the next line that begins a value.
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
# A longer record is not read: it would not fit into memory together with its value.
_LONGEST = 1 << 30
# An error this close to the end of the text may disappear when more is read: an escape is 6 characters long.
_EDGE = 16
_MOST_PROBLEMS = 200
_BROKEN = re.compile("[\udc80-\udcff]+")
_REPLACED = re.compile("\ufffd")
_BLANK = re.compile("[\\s,\x1e\ufeff]*")
_FIRST_LETTERS = 40
# Only finds the ends of values; ``read_value`` decodes them.
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
    """The problems of a source, as text; beyond a few hundred they are only counted."""

    def __init__(self) -> None:
        super().__init__()
        self.left_out = 0

    def append(self, problem: str) -> None:
        """Add a problem."""
        if len(self) < _MOST_PROBLEMS:
            super().append(problem)
        else:
            self.left_out += 1

    def told(self) -> list[str]:
        """Every problem, and the number of those not stored."""
        more = [f"{self.left_out:,} more problems"] if self.left_out else []
        return [*self, *more]


class Record(NamedTuple):
    """One record: its place, its JSON text, and the number of its top-level value; ``is_item`` for an array's item."""

    place: str
    raw: bytes
    group: int = 0
    is_item: bool = False
    known: Any = _UNSET

    @property
    def value(self) -> Any:
        """The decoded value; DialectError if it is invalid."""
        return read_value("import", self.raw) if self.known is _UNSET else self.known


def encoding_of(head: bytes) -> str:
    """Detect the encoding of a text: by its byte order mark, or by the zeros of its first character."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    if len(head) > 3 and head[0] and not head[1] and head[2]:
        return "utf-16-le"
    if len(head) > 3 and not head[0] and head[1] and not head[2]:
        return "utf-16-be"
    return "utf-8"


class _BadValue(Exception):  # noqa: N818 - a signal between two methods, never seen outside
    """Invalid JSON begins here."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class ValueReader:
    """Reads the records of a byte stream; ``read`` returns up to a number of bytes."""

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
        # The current position in the text, and the bytes and lines before the text.
        self._at = 0
        self._bytes = 0
        # The position up to which line breaks are counted.
        self._counted = 0
        self._lines = 0
        self._read = 0
        self._is_ended = False
        # The last line that began with a value, for places: a second value on it is identified by its column.
        self._line_taken = 0
        self._has_lost_array = False

    # --- text ------------------------------------------------------------------------------------

    def _more(self, size: int = _CHUNK) -> bool:
        """Read more text; return whether there was any."""
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
        """Discard the text before the current position."""
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
        """The line number of a position; positions must not decrease between calls."""
        self._lines += self._text.count("\n", self._counted, position)
        self._counted = max(self._counted, position)
        return self._lines + 1

    def _where(self, position: int) -> str:
        """A position for the user: its line and byte offset."""
        offset = self._bytes + self._size(self._text[:position])
        line = self._line_at(self._at) + self._text.count("\n", self._at, position)
        return f"line {line}, byte {offset}"

    def _peek(self) -> str:
        """The next character that is not white space; "" at the end."""
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
        """Read a top-level value."""
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
        """Decode the rest of the line if it is a single value, as in JSON lines."""
        start = self._at
        while (end := self._text.find("\n", start)) < 0:
            # A long line may be one of many lines of an object; then it is read as a part of a value.
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
        """The end of the value that begins here; reads as much text as it needs."""
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
            # A number or a word may continue after the text read so far.
            if end == len(self._text) and self._text[end - 1] not in '}]"' and self._more():
                continue
            return end

    def _read_on(self, error: json.JSONDecodeError) -> None:
        """Read more if the error may come from the end of the text; otherwise raise it."""
        held = len(self._text) - self._at
        is_open = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _EDGE
        if held > _LONGEST:
            raise _BadValue(f"a record longer than {_LONGEST >> 20} MiB")
        if not is_open or not self._more(max(_CHUNK, held)):
            if error.msg.startswith("Unterminated") or error.pos >= len(self._text.rstrip()):
                raise _BadValue("the file is cut off inside a record")
            raise _BadValue(f"not JSON ({error.msg} at {self._where(error.pos)})")

    def _items(self, group: int) -> Iterator[Record]:
        """Read the items of an array, each a record."""
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
        """Make the record up to a position, and advance."""
        is_item = bool(place)
        place = place or self._place_of_value(text)
        if not text.isascii():
            text = self._told_breaks(text)
        # A line that was decoded has none.
        if known is _UNSET and (half := find_lone_surrogate(text)) >= 0:
            told = "half of a surrogate pair, read as U+FFFD"
            self._problems.append(f"{self._where(self._at + half)}: {told}")
        self._at = end
        return Record(place, text.encode("utf-8", "replace"), group, is_item, known)

    def _told_breaks(self, text: str) -> str:
        """Replace bytes that are invalid in the encoding, and report them."""
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
        """Report invalid JSON, and advance to the next line that begins a value, or to the end."""
        where = self._where(self._at)
        begin = self._text[self._at : self._at + _FIRST_LETTERS].partition("\n")[0]
        before = self._bytes + self._size(self._text[: self._at])
        # In an indented file, lines with deeper indentation are inside of a value.
        indent = self._text[self._text.rfind("\n", 0, self._at) + 1 : self._at]
        blank = "" if indent.strip() else indent
        next_value = re.compile(rf"\n{blank}(?=[{{\[])")
        while (found := next_value.search(self._text, self._at)) is None:
            # The searched text is not needed again, except for the last line break.
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
    """The beginning of the text that could not be read."""
    return repr(_BROKEN.sub("\ufffd", text))
