"""What each key may use: requests a minute, and dollars a day and a month.

Spending is kept in a file beside the journal, written a moment after it changes, so that a restart forgets nothing.
What is under way when a budget is used up is still answered: what it costs is known at its end only. A model that has
no price spends nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections import deque
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

import msgspec
from msgspec import Struct

from cannery.gateway.keys import Key
from cannery.gateway.refusals import CallError, refuse

_MINUTE = 60.0
_WRITE_SECONDS = 0.5


class _Spent(Struct):
    """Dollars in one day and in one month."""

    day: str = ""
    today: float = 0.0
    month: str = ""
    this_month: float = 0.0

    def turn(self, now: datetime) -> None:
        """Begin anew what is over."""
        day, month = f"{now:%Y-%m-%d}", f"{now:%Y-%m}"
        if self.day != day:
            self.day, self.today = day, 0.0
        if self.month != month:
            self.month, self.this_month = month, 0.0


_decode = msgspec.json.Decoder(dict[str, _Spent]).decode


class Quotas:
    """Counts what keys use."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._spent: dict[str, _Spent] = {}
        self._calls: dict[str, deque[float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        if path is not None:
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                self._spent = _decode(path.read_bytes())

    def check(self, key: Key) -> None:
        """Count a call; a refusal if its key may make no more of them now."""
        if key.limits.requests_per_minute:
            self._check_rate(key, key.limits.requests_per_minute)
        if key.limits.has_budget:
            self._check_budget(key)

    def spend(self, key: Key, dollars: float) -> None:
        """Note what an exchange cost."""
        spent = self._of(key)
        spent.today += dollars
        spent.this_month += dollars
        if self._path is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_WRITE_SECONDS, self.write)

    def write(self) -> None:
        """Write down what was spent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._path is None or not self._spent:
            return
        # A store that is away has it written with the next exchange.
        with contextlib.suppress(OSError):
            new = self._path.with_suffix(".new")
            with os.fdopen(
                os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
            ) as file:
                file.write(msgspec.json.encode(self._spent))
            new.replace(self._path)

    def _of(self, key: Key) -> _Spent:
        spent = self._spent.setdefault(key.name, _Spent())
        spent.turn(datetime.now(UTC))
        return spent

    def _check_rate(self, key: Key, most: int) -> None:
        now = monotonic()
        calls = self._calls.setdefault(key.name, deque())
        while calls and now - calls[0] >= _MINUTE:
            calls.popleft()
        if len(calls) >= most:
            wait = math.ceil(_MINUTE - (now - calls[0]))
            message = (
                f"key {key.name!r} has made {most} requests within a minute; try again in {wait} s"
            )
            raise _too_many(message, "rate_limited", wait)
        calls.append(now)

    def _check_budget(self, key: Key) -> None:
        spent, limits = self._of(key), key.limits
        now = datetime.now(UTC)
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        if limits.daily_budget and spent.today >= limits.daily_budget:
            renewed = midnight + timedelta(days=1)
            word, budget, used = "daily", limits.daily_budget, spent.today
        elif limits.monthly_budget and spent.this_month >= limits.monthly_budget:
            renewed = (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)
            word, budget, used = "monthly", limits.monthly_budget, spent.this_month
        else:
            return
        message = (
            f"key {key.name!r} has used its {word} budget: ${used:.2f} of ${budget:.2f}; "
            f"it is renewed at {renewed:%Y-%m-%d %H:%M} UTC"
        )
        raise _too_many(message, "budget_exceeded", math.ceil((renewed - now).total_seconds()))


def _too_many(message: str, code: str, seconds: int) -> CallError:
    advice = [("retry-after", str(seconds)), ("x-should-retry", "false")]
    return refuse(429, message, code=code, headers=advice)
