"""Retention in the background: every hour what is older than its scope keeps it is deleted and freed.

``[retention]`` of the configuration says for how long; without it nothing is ever deleted. Each run is logged with
scopes and counts, never with what was said.
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
    """What one run did."""

    expired: tuple[Expired, ...]
    freed: Collection | None


class Retainer:
    """Deletes by age while the gateway runs; ``store`` gives the store, None while it is away."""

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
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, if anything is to be deleted by age."""
        if self._keep:
            self._task = asyncio.get_running_loop().create_task(self._go_round())

    async def stop(self) -> None:
        """Delete no more; a run that has begun is waited for."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _go_round(self) -> None:
        await asyncio.sleep(self._first)
        while True:
            # A thread cannot be stopped halfway: stopping the gateway waits for it.
            run = asyncio.get_running_loop().run_in_executor(None, self._work)
            try:
                self._tell(await asyncio.shield(run))
            except CanneryError as error:
                self._log.write("error", "retention_failed", problem=str(error))
            except asyncio.CancelledError:
                with contextlib.suppress(CanneryError):
                    self._tell(await run)
                raise
            await asyncio.sleep(self._period)

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
