"""Structured logs: one JSON object per line on standard error, with the request id, written in the background.

Message contents and keys are never logged; losses with their paths are logged at level debug.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_FLUSH_SECONDS = 0.2
_encode = msgspec.json.Encoder(enc_hook=str).encode


class Log:
    """Takes facts and writes lines."""

    def __init__(self, level: str = "info", stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lines: list[bytes] = []
        self._is_scheduled = False
        self.set_level(level)

    def set_level(self, level: str) -> None:
        """Write only lines of at least this level."""
        self._least = LEVELS[level]
        self.is_debug = self._least <= LEVELS["debug"]
        self.is_info = self._least <= LEVELS["info"]

    def write(self, level: str, event: str, **facts: Any) -> None:
        """Write one line, soon."""
        if LEVELS[level] < self._least:
            return
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._lines.append(_encode({"time": time, "level": level, "event": event, **facts}))
        if self._is_scheduled:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
            return
        self._is_scheduled = True
        loop.call_later(_FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        """Write what is waiting."""
        self._is_scheduled = False
        lines, self._lines = self._lines, []
        if not lines:
            return
        try:
            self._stream.write(b"\n".join(lines).decode() + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            # Standard error is closed; calls continue.
            return


class Bridge(logging.Handler):
    """Writes the library's own log records (role transformations in development mode) as the same lines."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        level = record.levelname.lower()
        shown = level if level in LEVELS else "info"
        self._log.write(shown, "library", logger=record.name, text=record.getMessage())
