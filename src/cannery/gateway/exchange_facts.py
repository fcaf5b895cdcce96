"""Facts about the exchanges of a conversation, found in the journal.

The journal is read once, and then only what was added; of each line the place is kept under its conversation, and the
line itself is read when it is asked for.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from cannery.gateway.journal import Line
from cannery.viewer.facts import Exchange

_MOST = 64 << 20
_PIECE = 4 << 20


class _Named(Struct):
    conversation: str


_name = msgspec.json.Decoder(_Named).decode
_line = msgspec.json.Decoder(Line).decode


class JournalFacts:
    """What the journal knows of exchanges, the latest of a large one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._places: dict[str, array[int]] = {}
        self._read = 0
        self._inode = 0
        self._lock = threading.Lock()

    def of(self, identifier: str) -> Sequence[Exchange]:
        """The exchanges of a conversation, in order."""
        if self._path is None:
            return ()
        try:
            with self._path.open("rb") as file, self._lock:
                self._catch_up(file.fileno())
                places = list(self._places.get(identifier, ()))
                return [
                    each
                    for place in places
                    if (each := self._exchange(file.fileno(), place)) is not None
                ]
        except OSError:
            return ()

    def _catch_up(self, descriptor: int) -> None:
        """Take note of the lines that were added."""
        status = os.fstat(descriptor)
        if status.st_ino != self._inode or status.st_size < self._read:
            self._places.clear()
            self._inode, self._read = status.st_ino, max(0, status.st_size - _MOST)
        while self._read < status.st_size:
            data = os.pread(descriptor, _PIECE, self._read)
            end = data.rfind(b"\n") + 1
            if not end:
                return
            at = self._read
            for raw in data[:end].splitlines(keepends=True):
                self._note(raw, at)
                at += len(raw)
            self._read += end

    def _note(self, raw: bytes, at: int) -> None:
        try:
            name = _name(raw).conversation
        except msgspec.MsgspecError:
            return
        self._places.setdefault(name, array("q")).append(at)

    def _exchange(self, descriptor: int, place: int) -> Exchange | None:
        raw = os.pread(descriptor, 65_536, place).partition(b"\n")[0]
        try:
            line = _line(raw)
        except msgspec.MsgspecError:
            return None
        return Exchange(
            end=line.position,
            time=line.time,
            model=line.model or "",
            upstream=line.upstream,
            dialect=line.dialect,
            client=line.client or "",
            outcome=line.outcome,
            input_tokens=line.input_tokens,
            output_tokens=line.output_tokens,
            cache_read_tokens=line.cache_read_tokens,
            cost=line.cost,
            losses=line.losses,
            failed_upstreams=line.failed_upstreams,
        )
