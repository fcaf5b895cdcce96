"""What the running gateway remembers of histories, so that a reply can name its conversation before anything is filed.

Clients send the whole history with every turn. The digest after each message, chained, says which
conversation holds it and up to where. A call claims its place in a conversation when it comes; a
second call for the same place gets a fork, with an id of its own from the start. The ledger
forgets the oldest histories; the store knows all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from cannery.gateway.identifiers import new_identifier

Kind: TypeAlias = Literal["new", "append", "fork", "known"]
Digest: TypeAlias = bytes
_MOST = 50_000


class Spot(NamedTuple):
    """A place in a conversation: after its first ``position`` messages."""

    identifier: str
    position: int


class Plan(NamedTuple):
    """Where an exchange is filed: the messages of the history from ``known`` on are new, and go to ``position``.

    A fork shares the first ``position`` messages of ``parent``.
    """

    kind: Kind
    identifier: str
    known: int = 0
    position: int = 0
    parent: str | None = None


class Ledger:
    """Histories by digest, and how long each conversation is."""

    def __init__(self, most: int = _MOST) -> None:
        self._spots: dict[Digest, Spot] = {}
        self._ends: dict[str, int] = {}
        self._most = most

    def find(self, digests: Sequence[Digest | None]) -> tuple[int, Spot] | None:
        """The longest known beginning of a history: how many of its messages, and where they lie."""
        for index in range(len(digests) - 1, -1, -1):
            digest = digests[index]
            if digest is not None:
                spot = self._spots.get(digest)
                if spot is not None:
                    return index + 1, spot
        return None

    def is_at_end(self, spot: Spot) -> bool:
        """Whether nothing follows a place in its conversation."""
        return self._ends.get(spot.identifier, 0) <= spot.position

    def plan(
        self,
        digests: Sequence[Digest | None],
        said_before: Callable[[], Plan | None] | None = None,
    ) -> Plan | None:
        """Where a history goes on; None if nothing of it is known.

        One that is known to its last message would be forked; ``said_before`` may have another plan for it.
        """
        found = self.find(digests)
        if found is None:
            return None
        known, spot = found
        if self.is_at_end(spot):
            return Plan("append", spot.identifier, known, spot.position)
        if said_before is not None and known == len(digests):
            plan = said_before()
            if plan is not None:
                return plan
        return self.fork(known, spot)

    def fork(self, known: int, spot: Spot) -> Plan:
        """A plan for a history that leaves its conversation at a place."""
        return Plan("fork", new_identifier(), known, spot.position, spot.identifier)

    def claim(
        self, plan: Plan, digests: Sequence[Digest | None], start: int, *, is_held: bool = False
    ) -> int:
        """Note that messages from ``start`` of a history are where a plan puts them; the position behind the last.

        A claim that is held keeps the next place for an answer that is still to come.
        """
        identifier, spots = plan.identifier, self._spots
        position = plan.position + start - plan.known
        for digest in digests[start:]:
            position += 1
            if digest is not None:
                spots[digest] = Spot(identifier, position)
        self._ends[identifier] = position + is_held
        if len(spots) > self._most or len(self._ends) > self._most:
            self._forget()
        return position

    def learn(self, digest: Digest, spot: Spot, end: int) -> None:
        """Note what the store knows."""
        self._spots[digest] = spot
        self._ends.setdefault(spot.identifier, end)

    def give_up(self, plan: Plan, position: int) -> None:
        """Let others go on from a position whose answer will not come."""
        if self._ends.get(plan.identifier) == position + 1:
            self._ends[plan.identifier] = position

    def retract(self, plan: Plan, digests: Sequence[Digest | None]) -> None:
        """Forget what a plan was to file, because it was not: others are not to go on from there."""
        for digest in digests[plan.known :]:
            spot = None if digest is None else self._spots.get(digest)
            if digest is not None and spot is not None and spot.identifier == plan.identifier:
                del self._spots[digest]
        if plan.kind == "append":
            self._ends[plan.identifier] = plan.position
        else:
            self._ends.pop(plan.identifier, None)

    def _forget(self) -> None:
        """Forget the oldest, many at once: each search for the first of a table passes by all that were deleted."""
        for table in (self._spots, self._ends):
            if len(table) > self._most:
                for oldest in list(itertools.islice(table, self._most // 10 + 1)):
                    del table[oldest]  # type: ignore[arg-type]


def named_key(name: str, digest: Digest) -> Digest:
    """The key of a history in a conversation with a given name."""
    return name.encode() + b":" + digest
