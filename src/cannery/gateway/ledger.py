"""The gateway's cache of histories, so that a reply can name its conversation before anything is filed.

Clients send the whole history with every turn. The chained digest after each message identifies the conversation of a
session that holds it and the position (``storage.recognition`` has the rules). A call claims its place in a
conversation when it arrives; a second call for the same place gets a fork, with its own id from the start. Each scope
has a ledger; together they are bounded and forget the oldest histories; the store knows all of them.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from cannery.gateway.identifiers import new_identifier
from cannery.messages import AnyCanister, conversation_digest

Kind: TypeAlias = Literal["new", "append", "fork", "known", "repeat"]
Digest: TypeAlias = bytes
_MOST = 40_000


class Spot(NamedTuple):
    """A place in a conversation: after its first ``position`` messages.

    Messages that add nothing to a history, such as reminders and reasoning, belong to the message before them if no
    content follows: ``silent`` such messages precede the place, and ``tail`` is their digest.
    """

    identifier: str
    position: int
    silent: int = 0
    tail: bytes = b""


class Plan(NamedTuple):
    """Where an exchange is filed: the messages of the history from ``known`` on are new, and go to ``position``.

    A fork shares the first ``position`` messages of ``parent``; a fork that repeats it shares all of them. ``why`` is
    the reason for the match.
    """

    kind: Kind
    identifier: str
    known: int = 0
    position: int = 0
    parent: str | None = None
    why: str = "new"


class Asked(NamedTuple):
    """A history with its digests: the space of its session, and how much precedes the model's first answer."""

    space: bytes
    history: Sequence[AnyCanister]
    digests: Sequence[Digest | None]
    unanswered: int
    is_apart: bool = False
    has_session: bool = False

    @property
    def spoken(self) -> int:
        """Its length without messages at the end that add nothing."""
        end = len(self.digests)
        while end and self.digests[end - 1] is None:
            end -= 1
        return end

    def has_tail(self, known: int, spot: Spot) -> bool:
        """Whether the messages before a place that add nothing also follow the known part of the history."""
        end = known + spot.silent
        if any(self.digests[known:end]) or not spot.silent:
            return False
        return conversation_digest(self.history[known:end]) == spot.tail


class Ledger:
    """The histories of a scope by digest within the space of a session, and the length of each conversation."""

    def __init__(self, when_claimed: Callable[[], object] = lambda: None) -> None:
        self._spots: dict[Digest, Spot] = {}
        self._ends: dict[str, int] = {}
        self._when_claimed = when_claimed

    @property
    def size(self) -> int:
        """The number of places or of conversations that it holds, whichever is greater."""
        return max(len(self._spots), len(self._ends))

    def find(self, space: bytes, digests: Sequence[Digest | None]) -> tuple[int, Spot] | None:
        """The longest known prefix of a history: the number of its messages, and its place."""
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

    def is_placed(self, asked: Asked) -> bool:
        """Whether the place of a history is known, so that no search is needed.

        It is if an answer of the model is known, and either nothing follows there or nothing else follows here.
        """
        found = self.find(asked.space, asked.digests)
        if found is None or found[0] <= asked.unanswered:
            return False
        return found[0] >= asked.spoken or asked.is_apart or self.is_at_end(found[1])

    def is_at_end(self, spot: Spot) -> bool:
        """Whether nothing follows a place in its conversation."""
        return self._ends.get(spot.identifier, 0) <= spot.position

    def plan(
        self, asked: Asked, said_before: Callable[[], Plan | None] | None = None
    ) -> Plan | None:
        """Where a history continues; None if nothing of it is known.

        A history known to its last message would be forked; ``said_before`` may have another plan for it.
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
        """The part of a history in another session, if it includes an answer of the model and the history continues."""
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
        """Record that messages from ``start`` of a history are where a plan puts them; returns the next position."""
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
        self._when_claimed()
        return position

    def _move_behind(self, asked: Asked, identifier: str, end: int) -> None:
        """Attach messages that add nothing to the last content before them, up to the end of a conversation."""
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
        """Add a place that the store knows."""
        self._spots[space + digest] = spot
        self._ends[spot.identifier] = max(end, self._ends.get(spot.identifier, 0))

    def give_up(self, plan: Plan, position: int) -> None:
        """Release a position whose answer will not come."""
        if self._ends.get(plan.identifier) == position + 1:
            self._ends[plan.identifier] = position

    def retract(self, plan: Plan, asked: Asked) -> None:
        """Remove a plan's messages that were not filed, so that no other call continues from them."""
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
        """Forget the place of a history."""
        for digest in asked.digests:
            if digest is not None:
                self._spots.pop(asked.space + digest, None)
                self._spots.pop(ANYWHERE + digest, None)

    def forget_oldest(self, count: int) -> None:
        """Forget the oldest histories, so that the size is less by a number."""
        kept = self.size - count
        for table in (self._spots, self._ends):
            for oldest in list(itertools.islice(table, max(len(table) - kept, 0))):
                del table[oldest]  # type: ignore[arg-type]


class Ledgers:
    """The ledgers of all scopes; when they hold too much together, the largest ones forget their oldest histories."""

    def __init__(self, most: int = _MOST) -> None:
        self._found: dict[str | None, Ledger] = {}
        self._most = most
        self._claims = 0

    def of(self, scope: str | None) -> Ledger:
        """The ledger of a scope, which no other scope sees."""
        found = self._found.get(scope)
        if found is None:
            found = self._found[scope] = Ledger(self._count_claim)
        return found

    def others(self, scope: str | None) -> Iterator[Ledger]:
        """The ledgers of all scopes but one."""
        return (ledger for other, ledger in self._found.items() if other != scope)

    @property
    def size(self) -> int:
        """How much all of them hold."""
        return sum(ledger.size for ledger in self._found.values())

    def _count_claim(self) -> None:
        # Counting takes time in proportion to the scopes.
        self._claims += 1
        if self._claims >= self._most // 100:
            self._claims = 0
            if self.size > self._most:
                self._make_room()

    def _make_room(self) -> None:
        """Forget a tenth at once: each search for a table's first entry scans past all deleted ones."""
        excess = self.size - self._most * 9 // 10
        for ledger in sorted(self._found.values(), key=lambda one: one.size, reverse=True):
            count = min(excess, ledger.size // 2 + 1)
            ledger.forget_oldest(count)
            excess -= count
            if excess <= 0:
                break


ANYWHERE = b"*"


def space_of(session: str) -> bytes:
    """The space of a session; calls without a session share one."""
    return b"s" + hashlib.sha256(session.encode()).digest()[:8]


def named_space(name: str) -> bytes:
    """The space of a conversation that callers name."""
    return b"n" + name.encode() + b":"
