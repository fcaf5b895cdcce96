"""Progress on stderr: one line with rate and time left, drawn by rich; nothing without rich or without a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from cannery.cli.terminal import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

# Shorter work shows no progress line.
_PATIENCE = 0.3


class Progress:
    """Counts towards a total (0: unknown); ``unit`` "B" counts bytes."""

    def __init__(
        self, what: str, total: int = 0, unit: str = "items", *, quiet: bool = False
    ) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = 0
        self._is_shown = not quiet and is_terminal(sys.stderr)
        self._begin = time.monotonic() + _PATIENCE
        self._bar: Bar | None = None
        self._task: TaskID | None = None

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
        """The progress callback of the library."""
        self.total = total
        self.move(done)

    def advance(self, step: int = 1) -> None:
        """Add to the amount done."""
        self.move(self.done + step)

    def move(self, done: int) -> None:
        """Set the amount done."""
        self.done = done
        if not self._is_shown or (self._bar is None and time.monotonic() < self._begin):
            return
        if self._bar is None:
            self._bar = self._drawn()
            if self._bar is None:
                self._is_shown = False
                return
            self._task = self._bar.add_task(self.what, total=None)
            self._bar.start()
        if self._task is not None:
            self._bar.update(self._task, completed=done, total=self.total or None)

    def clear(self) -> None:
        """Remove the progress line."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
            self._is_shown = False

    def _drawn(self) -> Bar | None:
        try:
            from rich import progress as rich
            from rich.console import Console
        except ImportError:
            return None
        amounts: list[Any] = [rich.DownloadColumn(), rich.TransferSpeedColumn()]
        if self.unit != "B":
            amounts = [rich.MofNCompleteColumn(), rich.TextColumn(self.unit)]
        return rich.Progress(
            rich.TextColumn("{task.description}"),
            rich.BarColumn(20),
            *amounts,
            rich.TimeRemainingColumn(compact=True),
            console=Console(stderr=True),
            transient=True,
        )
