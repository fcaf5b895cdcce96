"""The usage of a conversation according to its messages: input and output tokens, and cost."""

from __future__ import annotations

from collections.abc import Iterable

from cannery.importers.pieces import facts_of
from cannery.messages import AnyCanister


def usage_line(canisters: Iterable[AnyCanister]) -> str:
    """Tokens and cost as short text; "" if no message has any."""
    read = written = 0
    cost = 0.0
    for canister in canisters:
        facts = facts_of(canister)
        usage = facts.get("usage", {})
        read += usage.get("input", 0)
        written += usage.get("output", 0)
        cost += facts.get("cost", 0)
    tokens = f"{read:,} tokens in, {written:,} out" if read or written else ""
    return ", ".join(filter(None, (tokens, f"${cost:.4f}" if cost else "")))
