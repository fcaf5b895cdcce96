"""Progress: one line on stderr with rate and time left, and nothing at all where stderr is no terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from cannery.cli.tables import size
from cannery.cli.terminal import is_terminal, width

_INTERVAL = 0.1
_BAR = 20


class Progress:
    """Counts towards a total (0: unknown) and shows it ten times a second at most."""

    def __init__(
        self, what: str, total: int = 0, unit: str = "items", *, quiet: bool = False
    ) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = 0
        self._is_shown = not quiet and is_terminal(sys.stderr)
        self._began = time.monotonic()
        self._next = self._began + 3 * _INTERVAL
        self._was_drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def __call__(self, done: int, total: int) -> None:
        """What the library calls while it works."""
        self.total = total
        self.move(done)

    def advance(self, step: int = 1) -> None:
        """So much more is done."""
        self.move(self.done + step)

    def move(self, done: int) -> None:
        """So much is done in all."""
        self.done = done
        if self._is_shown and (now := time.monotonic()) >= self._next:
            self._next = now + _INTERVAL
            self._draw(now - self._began)

    def clear(self) -> None:
        """Take the line away."""
        if self._was_drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._was_drawn = False

    def _draw(self, seconds: float) -> None:
        rate = self.done / seconds if seconds else 0.0
        parts = [self.what, self._amount(), f"{self._shown(rate)}/s"]
        if self.total and rate:
            filled = min(_BAR, _BAR * self.done // self.total)
            parts.insert(1, "█" * filled + "░" * (_BAR - filled))
            parts.append(f"{_clock((self.total - self.done) / rate)} left")
        sys.stderr.write("\r\x1b[K" + "  ".join(parts)[: width() - 1])
        sys.stderr.flush()
        self._was_drawn = True

    def _amount(self) -> str:
        total = f"/{self._shown(self.total)}" if self.total else ""
        return f"{self._shown(self.done)}{total}" + (f" {self.unit}" if self.unit != "B" else "")

    def _shown(self, number: float) -> str:
        return size(number) if self.unit == "B" else f"{number:,.0f}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(int(seconds), 0), 60)
    return f"{minutes}:{rest:02}"
