"""Histories by meaning: the digests that recognition looks up.

``messages.identity`` says what they are. Thoughts take no part, because clients send histories back without them.
"""

from __future__ import annotations

from collections.abc import Sequence

from cannery.messages import AnyCanister, Role, prefix_digests

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
