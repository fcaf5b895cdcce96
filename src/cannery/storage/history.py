"""Histories by meaning: the chain of digests that recognition looks up, continued where it was left.

``messages.identity`` says what the chain is; here it can be put down after any canister and taken up again, so that
indexing what is new does not read what is old. Thoughts take no part, because clients send histories back without
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cannery.messages import AnyCanister, Role, prefix_digests
from cannery.messages.identity import ROOT, PrefixChain

# What an application says before anybody speaks: where conversations begin, not what they are.
_SETUP = frozenset({Role.Supervisor, Role.Document})


def recognition_digests(history: Sequence[AnyCanister]) -> list[bytes | None]:
    """The digests by which a history is recognised, one a canister; None where it shows nothing of its own.

    That is where a canister adds nothing, and where only instructions and documents came so far: all chats of a
    product begin with them. A history of nothing else is recognised as a whole.
    """
    return without_setup(history, list(prefix_digests(history, reasoning=False)))


def without_setup(
    history: Sequence[AnyCanister], digests: list[bytes | None]
) -> list[bytes | None]:
    """The digests of a history, None where nobody has spoken yet; the last one stays if nobody does."""
    last = 0
    for index, digest in enumerate(digests):
        if digest is not None:
            last = index
            if history[index].role not in _SETUP:
                break
    return [None] * last + digests[last:]


def _nobody(identifier: str) -> int | None:  # noqa: ARG001 - a history that begins has no calls
    return None


class Chain(PrefixChain):
    """The digest of a history so far and how many calls it made; ``find`` says which of them had an id last."""

    def __init__(
        self, digest: bytes = ROOT, calls: int = 0, find: Callable[[str], int | None] = _nobody
    ) -> None:
        super().__init__(reasoning=False)
        self._chain = digest
        self._calls = calls
        self._ordinals = _Ordinals(find)

    @property
    def digest(self) -> bytes:
        """What was said so far."""
        return self._chain

    @property
    def calls(self) -> int:
        """How many calls were made so far."""
        return self._calls

    def ordinal_of(self, identifier: str) -> int | None:
        """Which of the calls had an id last, counted from 0."""
        return self._ordinals.get(identifier)


class _Ordinals(dict[str, int]):
    """Calls by id: those made since the chain was taken up, and behind them those that were made before."""

    def __init__(self, find: Callable[[str], int | None]) -> None:
        super().__init__()
        self._find = find

    def get(self, identifier: str, default: Any = None) -> Any:
        """The ordinal of a call, or None."""
        own = super().get(identifier)
        if own is None:
            own = self._find(identifier)
        return default if own is None else own
