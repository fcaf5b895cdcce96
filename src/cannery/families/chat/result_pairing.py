"""Pairs results without an id: each answers the first open call of its name, or else the first open call."""

from __future__ import annotations


class WaitingCalls:
    """The unanswered calls, in order."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, str]] = []

    def add(self, identifier: str, name: str) -> None:
        """Add a call, which waits for its result."""
        self._calls.append((identifier, name))

    def answer(self, identifier: str) -> None:
        """Remove the call that a result names."""
        self._calls = [call for call in self._calls if call[0] != identifier]

    def take(self, name: str | None, position: int) -> str:
        """The id of the call that a result without one answers; a generated one if no such call waits."""
        for call in self._calls:
            if name in (None, call[1]):
                self._calls.remove(call)
                return call[0]
        return f"call_{name or position}"
