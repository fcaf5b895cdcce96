"""Server-sent events without I/O: bytes in any split become frames, frames become bytes.

Lines end in LF, CR LF or CR; a frame ends at an empty line. UTF-8 is decoded a whole line at a time, so that a split
inside a character is harmless.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from cannery.messages.json_text import decode_json
from cannery.wire.bodies import encode

# The data that ends the streams of many servers.
DONE = "[DONE]"


class Frame(Struct, frozen=True, gc=False):
    """One event: its name ("" if it has none) and its data."""

    name: str
    data: str


class FrameReader:
    """Consumes bytes and gives the frames that they complete."""

    def __init__(self) -> None:
        # The pieces of an incomplete line; joining them at each chunk would copy all of it each time.
        self._pieces: list[bytes] = []
        self._name = ""
        self._data: list[str] = []
        self._has_data = False
        self._after_return = False
        self._is_first_line = True

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """The frames completed by these bytes."""
        if self._after_return and chunk:
            # The LF of a CR LF that was split between two chunks.
            chunk = chunk.removeprefix(b"\n")
            self._after_return = False
        if b"\r" in chunk:
            self._after_return = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *lines = chunk.split(b"\n")
        if first:
            self._pieces.append(first)
        if not lines:
            return
        lines.insert(0, b"".join(self._pieces))
        last = lines.pop()
        self._pieces = [last] if last else []
        for line in lines:
            frame = self._line(line)
            if frame is not None:
                yield frame

    def close(self) -> Iterator[Frame]:
        """The frame completed by the end of the stream, if one is in progress.

        Some servers omit the last empty line. A truncated line completes nothing.
        """
        last, self._pieces = b"".join(self._pieces), []
        for line in (last, b""):
            frame = self._line(line)
            if frame is not None and not (last and is_cut(frame.data)):
                yield frame

    def _line(self, line: bytes) -> Frame | None:
        if self._is_first_line:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._is_first_line = False
        if not line:
            return self._dispatch()
        text = line.decode("utf-8", "replace")
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._has_data = True
        elif field == "event":
            self._name = value
        return None

    def _dispatch(self) -> Frame | None:
        frame = Frame(self._name, "\n".join(self._data)) if self._has_data else None
        self._name, self._data, self._has_data = "", [], False
        return frame


def is_cut(data: str) -> bool:
    """Whether data looks like a truncated JSON event: only its beginning, or only its end."""
    data = data.strip()
    if not data or data == DONE:
        return False
    try:
        decode_json(data)
    except ValueError:
        return True
    return False


# Clients that split at Unicode line ends (httpx, google-genai) would end a frame at these.
_LINE_ENDS = (
    (b"\xc2\x85", rb"\u0085"),
    (b"\xe2\x80\xa8", rb"\u2028"),
    (b"\xe2\x80\xa9", rb"\u2029"),
)


def one_line(value: Any) -> bytes:
    """The JSON of a value without any character that a client treats as a line end."""
    encoded = encode(value)
    if b"\n" in encoded or b"\r" in encoded:
        # Text that is already JSON is sent unchanged; its line ends can only stand between tokens.
        encoded = encoded.translate(None, b"\r\n")
    if not encoded.isascii():
        for character, escape in _LINE_ENDS:
            encoded = encoded.replace(character, escape)
    return encoded


def data_frame(value: Any) -> bytes:
    """A frame without a name whose data is JSON."""
    return b"data: " + one_line(value) + b"\n\n"


def named_frame(name: str, value: Any) -> bytes:
    """A frame with a name whose data is JSON."""
    return b"event: " + name.encode() + b"\ndata: " + one_line(value) + b"\n\n"


def foreign_frame(name: str, value: Any) -> bytes:
    """The same for a name from outside; a name that does not fit on a line is omitted."""
    return named_frame(name, value) if name.isprintable() else data_frame(value)
