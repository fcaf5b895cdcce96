"""The gateway's own record of exchanges: one JSON line each, beside the conversations.

It holds what a conversation has no place for: tokens, model, upstream, how the exchange ended, and
the id under which a caller knows the reply. Callers that continue by such an id are served from it
after a restart. What the disk refuses waits in memory and goes on where it stopped; a line that a
crash has torn is closed off, so that it takes no other with it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

_TAIL = 16 << 20
_LARGEST = 256 << 20
_MOST_WAITING = 16 << 20


class Line(Struct, frozen=True, omit_defaults=True):
    """One exchange."""

    time: str
    request_id: str
    conversation: str
    position: int
    outcome: str
    dialect: str
    upstream: str
    model: str | None = None
    reply: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    failed_upstreams: tuple[str, ...] = ()
    key: str | None = None
    client: str | None = None
    session: str | None = None
    kind: str | None = None
    why: str | None = None
    finish: str | None = None
    losses: tuple[str, ...] = ()
    tools: Any = None


_decode = msgspec.json.Decoder(Line).decode
_encode = msgspec.json.Encoder().encode


class Journal:
    """Appends lines to a file, and reads its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = self._open()
        self._waiting = b"" if self._is_whole() else b"\n"

    def _open(self) -> Any:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return os.fdopen(descriptor, "ab", buffering=0)

    def write(self, lines: list[Line]) -> None:
        """Append lines; a file that has grown too large makes way for a new one."""
        if len(self._waiting) < _MOST_WAITING:
            self._waiting += b"".join(_encode(line) + b"\n" for line in lines)
        if self._file.tell() > _LARGEST:
            self._file.close()
            self.path.replace(self.path.with_suffix(".old.jsonl"))
            self._file = self._open()
        while self._waiting:
            self._waiting = self._waiting[self._file.write(self._waiting) :]

    def _is_whole(self) -> bool:
        """Whether the file ends where a line ends."""
        with self.path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return True
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def tail(self) -> list[Line]:
        """The latest lines; what cannot be read is left out."""
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            if size > _TAIL:
                file.readline()
            found = []
            for raw in file:
                try:
                    found.append(_decode(raw))
                except msgspec.MsgspecError:
                    continue
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()
