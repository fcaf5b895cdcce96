"""Limits per key: requests per minute, and dollars per day and month.

The spending of other gateways, and of this one before its start, is added up from the usage log in the store, to which
all of them append (``spending``). So a restart forgets nothing that was recorded, and gateways that share a store see
each other's spending. Calls in progress when a budget is used up are still answered: their cost is known only at the
end. A model without a price spends nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from time import monotonic

from msgspec import Struct

from cannery.gateway.keys import Key
from cannery.gateway.refusals import CallError, refuse
from cannery.storage.exchanges import ExchangeRecord

_MINUTE = 60.0


class Spent(Struct):
    """Dollars in one day and in one month."""

    day: str = ""
    today: float = 0.0
    month: str = ""
    this_month: float = 0.0

    def turn(self, now: datetime) -> None:
        """Reset periods that have ended."""
        day, month = f"{now:%Y-%m-%d}", f"{now:%Y-%m}"
        if self.day != day:
            self.day, self.today = day, 0.0
        if self.month != month:
            self.month, self.this_month = month, 0.0


class Quotas:
    """Counts the usage of keys: at this gateway, and at the others that share its store."""

    def __init__(self) -> None:
        self._own: dict[str, Spent] = {}
        self._others: dict[str, Spent] = {}
        self._calls: dict[str, deque[float]] = {}

    def take(self, records: Iterable[ExchangeRecord], gateway: str, *, is_all: bool) -> None:
        """Add the spending of other gateways from the log; with ``is_all`` the records are the whole log."""
        if is_all:
            self._others.clear()
        for record in records:
            if record.key is not None and record.cost and record.gateway != gateway:
                spent = _of(self._others, record.key)
                if record.time.startswith(spent.month):
                    spent.this_month += record.cost
                if record.time.startswith(spent.day):
                    spent.today += record.cost

    def check(self, key: Key) -> None:
        """Count a call; an error if its key has reached a limit."""
        if key.limits.requests_per_minute:
            self._check_rate(key, key.limits.requests_per_minute)
        if key.limits.has_budget:
            self._check_budget(key)

    def spend(self, key: Key, dollars: float) -> None:
        """Add the cost of an exchange."""
        spent = _of(self._own, key.name)
        spent.today += dollars
        spent.this_month += dollars

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
        own, others, limits = _of(self._own, key.name), _of(self._others, key.name), key.limits
        today, this_month = own.today + others.today, own.this_month + others.this_month
        now = datetime.now(UTC)
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        if limits.daily_budget and today >= limits.daily_budget:
            renewed = midnight + timedelta(days=1)
            word, budget, used = "daily", limits.daily_budget, today
        elif limits.monthly_budget and this_month >= limits.monthly_budget:
            renewed = (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)
            word, budget, used = "monthly", limits.monthly_budget, this_month
        else:
            return
        message = (
            f"key {key.name!r} has used its {word} budget: ${used:.2f} of ${budget:.2f}; "
            f"it is renewed at {renewed:%Y-%m-%d %H:%M} UTC"
        )
        raise _too_many(message, "budget_exceeded", math.ceil((renewed - now).total_seconds()))


def _of(table: dict[str, Spent], name: str) -> Spent:
    """The spending of a key in this day and month."""
    spent = table.setdefault(name, Spent())
    spent.turn(datetime.now(UTC))
    return spent


def _too_many(message: str, code: str, seconds: int) -> CallError:
    advice = [("retry-after", str(seconds)), ("x-should-retry", "false")]
    return refuse(429, message, code=code, headers=advice)
