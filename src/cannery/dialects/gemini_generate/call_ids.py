"""Call ids, which Gemini does not always send: generated from a call's place, and found again for its result."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any

from cannery.dialects.gemini_generate.forms import both, get

# The fields in which calls and results have ids.
_TOOLS = frozenset(both(("functionCall", "functionResponse")))


class CallIds:
    """The ids of the calls of one body, in order; a missing id is generated from the call's place."""

    def __init__(self, stem: str) -> None:
        self._stem = stem
        # The ids in the part of the body that was read, and the generated ids.
        self._taken: set[str] = set()
        self._count = 0
        self._made: set[str] = set()
        self._orphans = 0
        # The ids of the calls that wait for a result, by position; and the positions of each id, of each name, and of
        # each name whose id was generated. These may still contain positions that no longer wait.
        self._waiting: dict[int, str] = {}
        self._positions: dict[str, list[int]] = defaultdict(list)
        self._named: dict[str, deque[int]] = defaultdict(deque)
        self._named_here: dict[str, deque[int]] = defaultdict(deque)
        self.known: set[str] = set()

    def make(self, unread: Iterable[Any] = ()) -> str:
        """An id generated from the place of a call; no other call has it, and no ``unread`` content."""
        for content in unread:
            self._look_at(content.get("parts") if type(content) is dict else None)
        identifier = f"{self._stem}{self._count}"
        while identifier in self._taken:
            identifier += "_"
        self._taken.add(identifier)
        self._made.add(identifier)
        return identifier

    def _look_at(self, parts: Any) -> None:
        """Record the ids of parts."""
        for part in parts if type(parts) is list else [parts]:
            for key in part if type(part) is dict else ():
                if key in _TOOLS:
                    identifier = get(part[key], "id")
                    if type(identifier) is str:
                        self._taken.add(identifier)

    def call(self, identifier: str, name: str, position: int) -> None:
        """Register a call at a position, which then waits for its result."""
        self._count += 1
        self.known.add(identifier)
        self._taken.add(identifier)
        self._waiting[position] = identifier
        self._positions[identifier].append(position)
        self._named[name].append(position)
        if identifier in self._made:
            self._named_here[name].append(position)

    def settle(self, identifier: str) -> None:
        """Mark the calls with an id as answered."""
        for position in self._positions.pop(identifier, ()):
            self._waiting.pop(position, None)

    def answered(self, given: Any, name: str | None) -> str:
        """The id of the call that a result answers: the given one, or the first waiting call of its name."""
        is_given = type(given) is str and bool(given)
        if is_given:
            self._taken.add(given)
            if given in self.known:
                self.settle(given)
                return str(given)
        index = self._named_here if is_given else self._named
        positions = None if name is None else index.get(name)
        while positions:
            identifier = self._waiting.pop(positions.popleft(), None)
            if identifier is not None:
                return identifier
        if is_given:
            return str(given)
        self._orphans += 1
        return f"orphan_{self._orphans}"
