"""What is known of exchanges beside what was said: tokens, cost, time, upstream, losses.

An exchange belongs to the position at which its answer ended. Who keeps such facts implements ``Exchanges``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from htpy import Node, div, span
from msgspec import Struct

from cannery.viewer.visible import counted, visible


class Exchange(Struct, frozen=True):
    """One exchange: its answer ends before position ``end``."""

    end: int
    time: str = ""
    model: str = ""
    upstream: str = ""
    dialect: str = ""
    client: str = ""
    outcome: str = "complete"
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cost: float | None = None
    seconds: float | None = None
    losses: tuple[str, ...] = ()
    failed_upstreams: tuple[str, ...] = ()


class Totals(Struct, frozen=True):
    """What all exchanges of a conversation took."""

    exchanges: int = 0
    tokens: int = 0
    cost: float | None = None
    client: str = ""
    upstream: str = ""


class Exchanges(Protocol):
    """Where facts about exchanges are found."""

    def of(self, identifier: str) -> Sequence[Exchange]:
        """Those of a conversation, in order."""


class NoExchanges:
    """Nothing is known but what was said."""

    def of(self, identifier: str) -> Sequence[Exchange]:  # noqa: ARG002 - the same for all
        """None."""
        return ()


def totals(exchanges: Iterable[Exchange]) -> Totals:
    """The sum of exchanges."""
    found = list(exchanges)
    costs = [each.cost for each in found if each.cost is not None]
    return Totals(
        len(found),
        sum(each.input_tokens + each.output_tokens for each in found),
        sum(costs) if costs else None,
        next((each.client for each in reversed(found) if each.client), ""),
        next((each.upstream for each in reversed(found) if each.upstream), ""),
    )


def by_position(exchanges: Iterable[Exchange]) -> Mapping[int, Exchange]:
    """Exchanges by the position of the last message of their answer."""
    return {each.end - 1: each for each in exchanges}


def money(dollars: float) -> str:
    """A sum for a person."""
    return f"${dollars:.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.2g}"


def short_count(count: int) -> str:
    """A number of tokens for a person: 950, 12.3k, 1.2M."""
    if count < 1000:
        return str(count)
    if count < 1_000_000:
        return f"{count / 1000:.1f}".removesuffix(".0") + "k"
    return f"{count / 1_000_000:.1f}".removesuffix(".0") + "M"


def facts_html(exchange: Exchange) -> Node:
    """A line with the facts of an exchange."""
    told: list[Node] = []
    if exchange.input_tokens or exchange.output_tokens:
        cached = (
            f", {short_count(exchange.cache_read_tokens)} cached"
            if exchange.cache_read_tokens
            else ""
        )
        told.append(
            span(
                title=f"{exchange.input_tokens:,} tokens in{cached}, {exchange.output_tokens:,} out"
            )[
                f"{short_count(exchange.input_tokens)} in · {short_count(exchange.output_tokens)} out"
            ]
        )
    if exchange.cost is not None:
        told.append(span[money(exchange.cost)])
    if exchange.seconds is not None:
        told.append(span[f"{exchange.seconds:.1f} s"])
    via = " · ".join(visible(word) for word in (exchange.model, exchange.upstream) if word)
    if via:
        told.append(span[via])
    if exchange.failed_upstreams:
        told.append(
            span(".warn")[f"after {', '.join(map(visible, exchange.failed_upstreams))} failed"]
        )
    if exchange.losses:
        title = ", ".join(exchange.losses)
        told.append(span(".warn", title=title)[counted(len(exchange.losses), "loss", "losses")])
    if exchange.outcome != "complete":
        told.append(span(".bad")[f"answer {visible(exchange.outcome)}"])
    return div(".facts")[told] if told else None
