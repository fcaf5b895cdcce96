"""Settings that Google's two dialects share."""

from __future__ import annotations

from typing import Any

from cannery.messages.absence import absent
from cannery.wire.settings import Writing, at_most

_SEEDS = range(-(2**31), 2**31)


def fit_seed(value: int, to: Writing) -> Any:
    """A seed in the range that the servers accept."""
    if value in _SEEDS:
        return value
    to.drop("Gemini takes a seed of 32 bits")
    return absent


UNSTRICT = "Gemini has no 'strict' for a function"
FIVE = at_most(5, "Gemini takes five stop sequences")
