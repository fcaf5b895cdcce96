"""The cost of an exchange, from the price list in the genai-prices package: nothing is fetched.

A model is looked up under the provider of the row's URL, otherwise by its name alone. A model that is not in the list
has no price, which differs from a price of zero. Rates are kept as floats: the list's own arithmetic takes as long as a
whole pass-through.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from cannery.messages import Usage, absent

_MILLION = 1_000_000
_MOST_KNOWN = 4096


class Cost(NamedTuple):
    """The cost of an exchange in dollars, and the model's name in the price list."""

    dollars: float
    model: str


class _Rates(NamedTuple):
    """Dollars per million tokens; ``tiers`` is the list's price if it depends on the number of tokens."""

    model: str
    taken: float
    given: float
    cache_read: float
    cache_write: float
    tiers: Any


class Prices:
    """Looks prices up."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Rates | None] = {}

    def load(self) -> None:
        """Load the list, which takes a tenth of a second, before a call needs it."""
        _find("", "")

    def cost(self, model: str | None, url: str, usage: Usage | None) -> Cost | None:
        """The cost of an answer of a model at a row's URL; None without a price or usage."""
        if model is None or usage is None:
            return None
        key = (model, url)
        if key in self._known:
            rates = self._known[key]
        else:
            rates = _find(model, url)
            if len(self._known) < _MOST_KNOWN:
                self._known[key] = rates
        return None if rates is None else Cost(_dollars(rates, usage), rates.model)


def _dollars(rates: _Rates, usage: Usage) -> float:
    read = 0 if usage.cache_read is absent else int(usage.cache_read)
    written = 0 if usage.cache_write is absent else int(usage.cache_write)
    if rates.tiers is not None:
        from genai_prices import Usage as Counted

        counted = Counted(
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_read_tokens=read,
            cache_write_tokens=written,
        )
        return float(rates.tiers.calc_price(counted)["total_price"])
    plain = max(0, usage.input - read - written)
    total = plain * rates.taken + usage.output * rates.given
    total += read * rates.cache_read + written * rates.cache_write
    return total / _MILLION


def _find(model: str, url: str) -> _Rates | None:
    from genai_prices import Usage as Counted
    from genai_prices import calc_price

    name = model.rpartition("/")[2] if model.startswith("models/") else model
    for place in (url, None):
        try:
            found = calc_price(Counted(), name, provider_api_url=place)
        except LookupError:
            continue
        return _rates(found.model.id, found.model.get_prices(datetime.now(UTC)))
    return None


def _rates(model: str, price: Any) -> _Rates:
    parts = [price.input_mtok, price.output_mtok, price.cache_read_mtok, price.cache_write_mtok]
    if any(hasattr(part, "tiers") for part in parts):
        return _Rates(model, 0.0, 0.0, 0.0, 0.0, price)
    taken = float(parts[0] or 0)
    read, written = (taken if part is None else float(part) for part in parts[2:])
    return _Rates(model, taken, float(parts[1] or 0), read, written, None)
