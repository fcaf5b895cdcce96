"""What the running gateway remembers of histories, so that a reply can name its conversation before anything is filed.

Clients send the whole history with every turn. The digest after each message, chained, says which conversation of a
session holds it and up to where (``storage.recognition`` has the rules). A call claims its place in a conversation when
it comes; a second call for the same place gets a fork, with an id of its own from the start. The ledger forgets the
oldest histories; the store knows all of them.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from cannery.gateway.identifiers import new_identifier
from cannery.messages import AnyCanister, conversation_digest

Kind: TypeAlias = Literal["new", "append", "fork", "known", "repeat"]
Digest: TypeAlias = bytes
_MOST = 40_000


class Spot(NamedTuple):
    """A place in a conversation: after its first ``position`` messages.

    What adds nothing to a history, such as reminders and thoughts, belongs to what was said before it where nothing is
    said behind it: so many such messages (``silent``) stand before the place, and ``tail`` is their digest.
    """

    identifier: str
    position: int
    silent: int = 0
    tail: bytes = b""


class Plan(NamedTuple):
    """Where an exchange is filed: the messages of the history from ``known`` on are new, and go to ``position``.

    A fork shares the first ``position`` messages of ``parent``; one that repeats it shares all of them. ``why`` says by
    what the history was recognised.
    """

    kind: Kind
    identifier: str
    known: int = 0
    position: int = 0
    parent: str | None = None
    why: str = "new"


class Asked(NamedTuple):
    """A history with its digests: the space of its session, and how much stands before what the model said."""

    space: bytes
    history: Sequence[AnyCanister]
    digests: Sequence[Digest | None]
    unanswered: int
    is_apart: bool = False
    has_session: bool = False

    @property
    def spoken(self) -> int:
        """How long it is without what adds nothing at its end."""
        end = len(self.digests)
        while end and self.digests[end - 1] is None:
            end -= 1
        return end

    def has_tail(self, known: int, spot: Spot) -> bool:
        """Whether what adds nothing before a place follows what is known of the history too."""
        end = known + spot.silent
        if any(self.digests[known:end]) or not spot.silent:
            return False
        return conversation_digest(self.history[known:end]) == spot.tail


class Ledger:
    """Histories by digest within the space of a session, and how long each conversation is."""

    def __init__(self, most: int = _MOST) -> None:
        self._spots: dict[Digest, Spot] = {}
        self._ends: dict[str, int] = {}
        self._most = most

    def find(self, space: bytes, digests: Sequence[Digest | None]) -> tuple[int, Spot] | None:
        """The longest known beginning of a history: how many of its messages, and where they lie."""
        spots = self._spots
        for index in range(len(digests) - 1, -1, -1):
            digest = digests[index]
            if digest is not None:
                spot = spots.get(space + digest)
                if spot is not None:
                    return index + 1, spot
        return None

    def holds(self, identifier: str) -> bool:
        """Whether a conversation is among those of the latest histories."""
        return identifier in self._ends

    def is_answered(self, asked: Asked) -> bool:
        """Whether something that the model said in a history is known, so that no search is needed."""
        found = self.find(asked.space, asked.digests)
        return found is not None and found[0] > asked.unanswered

    def is_at_end(self, spot: Spot) -> bool:
        """Whether nothing follows a place in its conversation."""
        return self._ends.get(spot.identifier, 0) <= spot.position

    def plan(
        self, asked: Asked, said_before: Callable[[], Plan | None] | None = None
    ) -> Plan | None:
        """Where a history goes on; None if nothing of it is known.

        One that is known to its last message would be forked; ``said_before`` may have another plan for it.
        """
        found = self.find(asked.space, asked.digests)
        if asked.is_apart or found is None or found[0] <= asked.unanswered:
            elsewhere = self._elsewhere(asked)
            if elsewhere is not None and (found is None or elsewhere[0] > found[0]):
                return self.fork(*elsewhere, "history")
        if found is None:
            return None
        known, spot = found
        why = "session" if asked.has_session else "history"
        why = why if known > asked.unanswered else "question"
        behind = known + spot.silent if asked.has_tail(known, spot) else known
        if self.is_at_end(spot) and not asked.is_apart:
            return Plan("append", spot.identifier, behind, spot.position, None, why)
        if said_before is not None and known == asked.spoken:
            plan = said_before()
            if plan is not None:
                return plan
        return self.fork(behind, spot, why)

    def _elsewhere(self, asked: Asked) -> tuple[int, Spot] | None:
        """What another session holds of a history, if the model said something in it and it goes on."""
        if not asked.has_session:
            return None
        found = self.find(ANYWHERE, asked.digests)
        if found is None or found[0] <= asked.unanswered:
            return None
        return found if any(asked.digests[found[0] :]) else None

    def fork(self, known: int, spot: Spot, why: str) -> Plan:
        """A plan for a history that leaves its conversation at a place."""
        return Plan("fork", new_identifier(), known, spot.position, spot.identifier, why)

    def claim(self, plan: Plan, asked: Asked, start: int, *, is_held: bool = False) -> int:
        """Note that messages from ``start`` of a history are where a plan puts them; the position behind the last.

        A claim that is held keeps the next place for an answer that is still to come.
        """
        identifier, spots, space = plan.identifier, self._spots, asked.space
        position = plan.position + start - plan.known
        for index in range(start, len(asked.digests)):
            position += 1
            digest = asked.digests[index]
            if digest is not None:
                spots[space + digest] = spot = Spot(identifier, position)
                if index >= asked.unanswered:
                    spots[ANYWHERE + digest] = spot
        self._move_behind(asked, identifier, position)
        self._ends[identifier] = position + is_held
        if len(spots) > self._most or len(self._ends) > self._most:
            self._forget_oldest()
        return position

    def _move_behind(self, asked: Asked, identifier: str, end: int) -> None:
        """Let what was said last in a conversation hold what adds nothing behind it, up to its end."""
        last = asked.spoken
        if not 0 < last < len(asked.digests):
            return
        for space in (asked.space, ANYWHERE):
            key = space + (asked.digests[last - 1] or b"")
            spot = self._spots.get(key)
            if spot is not None and spot.identifier == identifier:
                tail = asked.history[last:]
                self._spots[key] = Spot(identifier, end, len(tail), conversation_digest(tail))

    def learn(self, space: bytes, digest: Digest, spot: Spot, end: int) -> None:
        """Note what the store knows."""
        self._spots[space + digest] = spot
        self._ends[spot.identifier] = max(end, self._ends.get(spot.identifier, 0))

    def give_up(self, plan: Plan, position: int) -> None:
        """Let others go on from a position whose answer will not come."""
        if self._ends.get(plan.identifier) == position + 1:
            self._ends[plan.identifier] = position

    def retract(self, plan: Plan, asked: Asked) -> None:
        """Forget what a plan was to file, because it was not: others are not to go on from there."""
        for digest in asked.digests[plan.known :]:
            for space in (asked.space, ANYWHERE):
                spot = None if digest is None else self._spots.get(space + digest)
                if digest is not None and spot is not None and spot.identifier == plan.identifier:
                    del self._spots[space + digest]
        if plan.kind == "append":
            self._ends[plan.identifier] = plan.position
        else:
            self._ends.pop(plan.identifier, None)

    def forget(self, asked: Asked) -> None:
        """Forget where a history lies."""
        for digest in asked.digests:
            if digest is not None:
                self._spots.pop(asked.space + digest, None)
                self._spots.pop(ANYWHERE + digest, None)

    def _forget_oldest(self) -> None:
        """Forget the oldest, many at once: each search for the first of a table passes by all that were deleted."""
        for table in (self._spots, self._ends):
            if len(table) > self._most:
                for oldest in list(itertools.islice(table, self._most // 10 + 1)):
                    del table[oldest]  # type: ignore[arg-type]


ANYWHERE = b"*"


def space_of(session: str) -> bytes:
    """The space of a session; that of the calls that have none is one like any other."""
    return b"s" + hashlib.sha256(session.encode()).digest()[:8]


def named_space(name: str) -> bytes:
    """The space of a conversation that callers name."""
    return b"n" + name.encode() + b":"
