"""Retention in the background: every hour conversations older than their scope keeps them are deleted and freed.

``[retention]`` of the configuration sets the times; without it nothing is ever deleted. Each run is logged with scopes
and counts, never with message contents.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from cannery.errors import CanneryError
from cannery.gateway.logs import Log
from cannery.storage import Collection, Expired, KeepDays, Store

_FIRST = 60.0
_PERIOD = 3600.0


class _Run(NamedTuple):
    """The result of one run."""

    expired: tuple[Expired, ...]
    freed: Collection | None


class Retainer:
    """Deletes by age while the gateway runs; ``store`` gives the store, None while it is unavailable."""

    def __init__(
        self,
        store: Callable[[], Store | None],
        keep: KeepDays,
        log: Log,
        *,
        first: float = _FIRST,
        period: float = _PERIOD,
    ) -> None:
        self._store = store
        self._keep = keep
        self._log = log
        self._first = first
        self._period = period
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start; without configured times, nothing is done."""
        self._task = asyncio.get_running_loop().create_task(self._go_round())

    def keep(self, days: KeepDays) -> None:
        """Apply other times from now on; newly expired conversations are deleted with the delay of a start."""
        if days != self._keep:
            self._keep = days
            self._changed.set()
            self._log.write(
                "info", "retention_changed", keep_days=days.others, scopes=len(days.scopes)
            )

    async def stop(self) -> None:
        """Stop deleting; a run in progress is awaited."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _go_round(self) -> None:
        await self._wait(self._first)
        while True:
            if self._keep:
                await self._run()
            await self._wait(self._period)

    async def _wait(self, seconds: float) -> None:
        """Sleep; if the times are changed meanwhile, until the first run after that is due."""
        while True:
            try:
                await asyncio.wait_for(self._changed.wait(), seconds)
            except TimeoutError:
                return
            self._changed.clear()
            seconds = self._first

    async def _run(self) -> None:
        # A thread cannot be interrupted: stopping the gateway waits for it.
        run = asyncio.get_running_loop().run_in_executor(None, self._work)
        try:
            self._tell(await asyncio.shield(run))
        except CanneryError as error:
            self._log.write("error", "retention_failed", problem=str(error))
        except asyncio.CancelledError:
            with contextlib.suppress(CanneryError):
                self._tell(await run)
            raise

    def _work(self) -> _Run:
        store = self._store()
        if store is None:
            return _Run((), None)
        expired = store.expire(self._keep)
        return _Run(expired, store.collect_garbage() if expired else None)

    def _tell(self, run: _Run) -> None:
        counts = Counter((one.scope, one.keep_days) for one in run.expired)
        for (scope, days), count in sorted(counts.items()):
            self._log.write(
                "info", "retention_deleted", scope=scope, keep_days=days, conversations=count
            )
        if run.freed is not None:
            self._log.write(
                "info",
                "retention_freed",
                conversations=len(run.freed.conversations),
                contents=run.freed.contents,
                bytes=run.freed.freed_bytes,
            )
            for damage in run.freed.damages:
                self._log.write("warning", "retention_left", problem=str(damage))
