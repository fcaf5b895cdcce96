"""Histories by meaning: the chain of digests that recognition looks up, continued where it was left.

``messages.identity.prefix_digests`` says what the chain is; here it can be put down after any canister
and taken up again, so that indexing what is new does not read what is old. Thoughts take no part, because
clients send histories back without them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from cannery.messages import AnyCanister, InvocationCanisterClass, ResultCanisterClass
from cannery.messages.identity import ROOT, digest, prefix_digests

_ORPHAN = b"orphan"


class Chain(Struct):
    """The digest of a history so far, and which call ids stand at which place in it."""

    digest: bytes = ROOT
    calls: int = 0
    ordinals: dict[str, int] = {}

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
                self.ordinals[canister.identifier] = self.calls
                self.calls += 1
            elif isinstance(canister, ResultCanisterClass):
                ordinal = self.ordinals.get(canister.invocation_id)
                own += _ORPHAN if ordinal is None else b"%d" % ordinal
            self.digest = hashlib.sha256(self.digest + own).digest()
            yield self.digest

    def encode(self) -> bytes:
        """As the index keeps it."""
        return msgspec.msgpack.encode(self)


decode_chain = msgspec.msgpack.Decoder(Chain).decode
