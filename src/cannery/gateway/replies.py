"""Replies that a caller may continue from by id, and their cached histories.

A reply has the place of its history. The latest also hold the history itself, because it may not be filed yet, or may
never be; their number and size are bounded.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from cannery.messages import Conversation, Tool

_MOST_REPLIES = 16_384
_MOST_HISTORIES = 256
_MOST_BYTES = 32 << 20
_MOST_TOOLS = 256


class Reply:
    """The place of the history up to a reply, and the facts that its thread keeps."""

    __slots__ = ("conversation", "history", "position", "scope", "tools")

    def __init__(
        self,
        conversation: str | None,
        position: int,
        history: Conversation | None,
        tools: tuple[Tool, ...],
        scope: str | None = None,
    ) -> None:
        self.scope = scope
        self.conversation = conversation
        self.position = position
        self.history = history
        self.tools = tools


class Replies:
    """Replies by the ids that callers know."""

    def __init__(self) -> None:
        self._replies: OrderedDict[str, Reply] = OrderedDict()
        self._held: deque[tuple[str, Reply, int]] = deque()
        self._held_bytes = 0
        self._tools: dict[tuple[Tool, ...], tuple[Tool, ...]] = {}

    def find(self, identifier: str) -> Reply | None:
        """The reply of an id."""
        return self._replies.get(identifier)

    def put(self, identifier: str, reply: Reply, size: int = 0) -> None:
        """Add a reply; ``size`` is the approximate number of bytes of its history."""
        reply.tools = self._shared(reply.tools)
        self._replies[identifier] = reply
        if reply.history is not None:
            self._hold(identifier, reply, size)
        while len(self._replies) > _MOST_REPLIES:
            self._replies.popitem(last=False)

    def _hold(self, identifier: str, reply: Reply, size: int) -> None:
        """Hold a history, and release the oldest ones; the latest is held whatever its size."""
        self._held.append((identifier, reply, size))
        self._held_bytes += size
        while len(self._held) > 1 and (
            len(self._held) > _MOST_HISTORIES or self._held_bytes > _MOST_BYTES
        ):
            name, old, freed = self._held.popleft()
            self._held_bytes -= freed
            old.history = None
            if old.conversation is None and self._replies.get(name) is old:
                del self._replies[name]

    def _shared(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """The tools of a thread, which names the same ones with every turn, stored once."""
        if not tools:
            return ()
        if len(self._tools) >= _MOST_TOOLS:
            self._tools.clear()
        return self._tools.setdefault(tools, tools)
