"""Values of a strategy outside of a test, the same in every run."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st


def draw(strategy: st.SearchStrategy[Any], number: int) -> list[Any]:
    """Values of a strategy, the same in every run."""
    drawn: list[Any] = []

    @seed(20261118)
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(value=strategy)
    def collect(value: Any) -> None:
        drawn.append(value)

    collect()
    return drawn
