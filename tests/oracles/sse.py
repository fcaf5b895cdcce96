"""Server-sent events, read by the rules of the WHATWG specification; independent of any SDK."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_END_OF_LINE = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class Frame:
    """One dispatched event: its name, if it has one, and its data lines joined."""

    event: str | None
    data: str

    @property
    def value(self) -> Any:
        """The data as JSON."""
        return json.loads(self.data)


def frames(transcript: bytes) -> list[Frame]:
    """The frames of a whole transcript; a frame that no blank line ends is dropped."""
    found: list[Frame] = []
    name: str | None = None
    lines: list[str] = []
    for line in _END_OF_LINE.split(transcript.decode("utf-8-sig"))[:-1]:
        if not line:
            if lines:
                found.append(Frame(name, "\n".join(lines)))
            name, lines = None, []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            lines.append(value)
    return found


def render(frame: Frame) -> bytes:
    """The bytes of one frame."""
    head = f"event: {frame.event}\n" if frame.event else ""
    body = "".join(f"data: {line}\n" for line in frame.data.split("\n"))
    return (head + body + "\n").encode()
