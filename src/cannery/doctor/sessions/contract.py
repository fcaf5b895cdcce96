"""Common parts of agents' sessions: lines that keep their bytes, and a body built from their values.

After a change the body is compared with the lines by the identity of its messages: the line of a removed message is
removed, an added message gets a line after that of the message before it, and a line whose value changed is written
again.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import msgspec

from cannery.doctor.contract import PROBLEM, Finding, Judged, Object
from cannery.doctor.shared import has_lone_surrogate
from cannery.messages.json_text import utf8
from cannery.wire.places import Path, path_text

DAMAGED = "a line of the file, which the agent reads line by line"


class Line:
    """One line: its bytes, its value if it is JSON, and the original text of that value, to detect changes."""

    __slots__ = ("before", "number", "raw", "value")

    def __init__(self, number: int, raw: bytes) -> None:
        self.number = number
        self.raw = raw
        self.value = _value(raw)
        self.before = spelled(self.value)

    @property
    def is_damaged(self) -> bool:
        """Whether it is neither JSON nor blank."""
        return self.value is None and bool(self.raw.strip())

    @property
    def object(self) -> Object:
        """Its value; {} if that is not an object."""
        return self.value if isinstance(self.value, dict) else {}


def _value(raw: bytes) -> Any:
    text = raw.strip()
    if not text:
        return None
    try:
        return json.loads(text) if has_lone_surrogate(text) else msgspec.json.decode(text)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None


def spelled(value: Any) -> str:
    """A value as compact JSON text, including lone surrogates."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Session:
    """The lines of a session and the body built from them; a format selects the lines."""

    dialect = ""
    key = "messages"

    def __init__(self, data: bytes) -> None:
        self.lines = [Line(n, raw) for n, raw in enumerate(data.splitlines(keepends=True), 1)]
        self.said: list[tuple[Any, Line]] = list(self.history())
        self.body: Object = {self.key: [message for message, _ in self.said]}
        self._judged: Judged | None = None

    @abstractmethod
    def history(self) -> Iterator[tuple[Any, Line]]:
        """The messages that the agent would send, each with its line."""

    def model(self) -> str | None:
        """The model that the session continues with."""
        return None

    def makers(self) -> dict[int, str]:
        """The model that made each message, by position."""
        return {}

    @abstractmethod
    def new_line(self, message: Any, behind: Line | None) -> bytes:
        """The line for a message that was added."""

    def relink(self, gone: list[Line], added: list[tuple[Any, Line | None]]) -> None:
        """Update references to removed lines, and to lines with a new one after them."""

    def judged(self) -> Judged:
        """The body as input of the checks."""
        if self._judged is None:
            self._judged = Judged(self.body, self.model(), 0, self.makers())
        return self._judged

    def damage(self) -> list[Finding]:
        """The lines that are truncated or contain NUL bytes."""
        return [
            Finding(
                "line-damaged",
                PROBLEM,
                f"line {line.number}",
                None,
                _damage(line.raw),
                DAMAGED,
                "2026-11-18",
                is_fixable=True,
            )
            for line in self.lines
            if line.is_damaged
        ]

    def place(self, path: Path) -> str:
        """A path of the body, with the line number for the message."""
        match path:
            case (self.key, int(index), *rest):
                lines = {id(message): line.number for message, line in self.said}
                number = lines.get(id(self.body[self.key][index]))
                where = "a new line" if number is None else f"line {number}"
                return f"{where}: {path_text(tuple(rest))}" if rest else where
            case _:
                return path_text(path)

    def written(self) -> bytes:
        """The file, with changed lines rewritten, added ones inserted and damaged ones left out."""
        known = {id(message): line for message, line in self.said}
        kept = {id(message) for message in self.body[self.key]}
        added: list[tuple[Any, Line | None]] = []
        behind: Line | None = None
        for message in self.body[self.key]:
            if id(message) in known:
                behind = known[id(message)]
            else:
                added.append((message, behind))
        gone = [line for message, line in self.said if id(message) not in kept]
        self.relink(gone, added)
        after: dict[int, list[bytes]] = {}
        for message, line in added:
            number = 0 if line is None else line.number
            after.setdefault(number, []).append(self.new_line(message, line))
        left_out = {line.number for line in gone}
        return b"".join(self._pieces(left_out, after))

    def _pieces(self, left_out: set[int], after: dict[int, list[bytes]]) -> Iterator[bytes]:
        yield from after.get(0, ())
        for line in self.lines:
            if line.number not in left_out and not line.is_damaged:
                raw = line.raw if spelled(line.value) == line.before else _bytes(line.value)
                yield raw if raw.endswith(b"\n") or line is self.lines[-1] else raw + b"\n"
            if line.number in after:
                ends = line.raw.endswith(b"\n") or line.is_damaged or line.number in left_out
                yield b"" if ends else b"\n"
                yield from after[line.number]


def _damage(raw: bytes) -> str:
    if b"\0" in raw:
        return f"the line has {raw.count(0)} NUL bytes and is not JSON"
    if not raw.endswith(b"\n"):
        return "the line is cut off: it is not JSON and has no end"
    return "the line is not JSON"


def _bytes(value: Any) -> bytes:
    return utf8(spelled(value)) + b"\n"


def line_bytes(value: Any) -> bytes:
    """A value as a line of its own."""
    return _bytes(value)


def text_of(value: Any) -> str:
    """A string, or "" for anything else."""
    return value if isinstance(value, str) else ""
