"""The spending of other gateways: every two seconds the additions to the usage log are counted for its keys.

All gateways that share a store append the usage of their exchanges to its log. So a budget is enforced everywhere at
most ``PERIOD`` seconds after the exchange that used it up was recorded. If no key has a budget, nothing is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from cannery.errors import CanneryError
from cannery.gateway.logs import Log
from cannery.gateway.quotas import Quotas
from cannery.gateway.recorder import Recorder
from cannery.storage import Store
from cannery.storage.exchanges import Follower

PERIOD = 2.0


class Spending:
    """Follows the log of the recorder's store while the gateway runs."""

    def __init__(
        self, recorder: Recorder, quotas: Quotas, has_budgets: Callable[[], bool], log: Log
    ) -> None:
        self._recorder = recorder
        self._quotas = quotas
        self._has_budgets = has_budgets
        self._log = log
        self._lock = threading.Lock()
        self._follower: Follower | None = None
        self._is_known = True
        self._task: asyncio.Task[None] | None = None
        # The earlier spending is known before calls are accepted.
        recorder.when_open = self.begin

    def begin(self, store: Store) -> None:
        """Read the spending so far; called on another thread than the loop's."""
        with self._lock:
            self._follower = Follower(store)
        self._read()

    def start(self) -> None:
        """Start polling."""
        self._task = asyncio.get_running_loop().create_task(self._go_round())

    async def stop(self) -> None:
        """Stop polling."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _go_round(self) -> None:
        while True:
            await asyncio.sleep(PERIOD)
            if not self._has_budgets():
                continue
            try:
                await asyncio.get_running_loop().run_in_executor(None, self._read)
                self._is_known = True
            except (CanneryError, OSError) as error:
                if self._is_known:
                    self._log.write("warning", "spending_unknown", problem=str(error))
                self._is_known = False

    def _read(self) -> None:
        with self._lock:
            if self._follower is None or not self._has_budgets():
                return
            records, is_all = self._follower.read(f"{datetime.now(UTC):%Y-%m}")
        if records or is_all:
            self._recorder.on_loop(
                lambda found: self._quotas.take(found, self._recorder.name, is_all=is_all), records
            )
