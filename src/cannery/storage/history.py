"""Histories by meaning: the chain of digests that recognition looks up, continued where it was left.

``messages.identity.prefix_digests`` says what the chain is; here it can be put down after any canister
and taken up again, so that indexing what is new does not read what is old. Thoughts take no part, because
clients send histories back without them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

from cannery.messages import AnyCanister, InvocationCanisterClass, ResultCanisterClass
from cannery.messages.identity import ROOT, digest, prefix_digests

_ORPHAN = b"orphan"


def _nobody(identifier: str) -> int | None:  # noqa: ARG001 - a history that begins has no calls
    return None


class Chain:
    """The digest of a history so far, how many calls it made, and which of them had an id (``find``)."""

    def __init__(
        self, digest: bytes = ROOT, calls: int = 0, find: Callable[[str], int | None] = _nobody
    ) -> None:
        self.digest = digest
        self.calls = calls
        self._find = find
        self._ordinals: dict[str, int] = {}

    def extend(self, canisters: Iterable[AnyCanister]) -> Iterator[bytes | None]:
        """Go on with more canisters: the digest after each, or None where it adds nothing."""
        for canister in canisters:
            # Alone, a canister adds something exactly if it has a digest.
            (alone,) = prefix_digests((canister,), reasoning=False)
            if alone is None:
                yield None
                continue
            own = digest(canister)
            if isinstance(canister, InvocationCanisterClass):
                self._ordinals[canister.identifier] = self.calls
                self.calls += 1
            elif isinstance(canister, ResultCanisterClass):
                ordinal = self.ordinal_of(canister.invocation_id)
                own += _ORPHAN if ordinal is None else b"%d" % ordinal
            self.digest = hashlib.sha256(self.digest + own).digest()
            yield self.digest

    def ordinal_of(self, identifier: str) -> int | None:
        """Which of the calls had an id last, counted from 0."""
        ordinal = self._ordinals.get(identifier)
        return self._find(identifier) if ordinal is None else ordinal
