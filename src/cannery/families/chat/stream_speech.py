"""What is said in a stream of chunks: one part after the other, and what it cites behind it.

A chunk does not say which text its words go on with, so a part that starts while another is open waits for its turn.
Annotations count the characters of everything said in ``content``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from cannery.families.chat.answers import write_citation
from cannery.messages.content import Citation
from cannery.messages.events import Delta, PartEnd


class Turns:
    """Whose turn it is to speak."""

    def __init__(self) -> None:
        self.open: int | None = None
        self._waiting: dict[int, list[Delta | PartEnd]] = {}
        self._order: deque[int] = deque()

    def start(self, index: int) -> None:
        """A part wants to speak."""
        if self.open is None:
            self.open = index
        else:
            self._waiting[index] = []
            self._order.append(index)

    def keeps(self, event: Delta | PartEnd) -> bool:
        """Whether an event was put aside, because its part has to wait."""
        waiting = self._waiting.get(event.index)
        if waiting is None:
            return False
        waiting.append(event)
        return True

    def end(self) -> Iterator[Delta | PartEnd]:
        """The part that spoke has ended: what was put aside of those whose turn it is now."""
        self.open = None
        while self.open is None and self._order:
            self.open = self._order.popleft()
            events = self._waiting.pop(self.open)
            yield from events
            if events and isinstance(events[-1], PartEnd):
                self.open = None


class Citations:
    """The annotations of what is said."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._cited: list[Citation] = []
        self._annotations: list[Any] = []
        self._count = 0
        self._before = 0
        # How many characters the text under way has so far.
        self.length = 0

    def cite(self, citation: Citation) -> None:
        """Take a citation of the text under way, if an annotation can say it."""
        if citation.url is not None or citation.dialect == self._dialect:
            self._cited.append(citation)

    def keep(self, annotations: list[Any]) -> None:
        """Take annotations that came too late for their text, as they are."""
        self._annotations += annotations

    def end(self) -> None:
        """The text under way is complete, so that places in it are known."""
        for citation in self._cited:
            annotation = write_citation(self._dialect, citation, self._before, self.length)
            self._annotations.append(annotation)
        self._before += self.length
        self._cited, self.length = [], 0

    def taken(self) -> list[Any]:
        """The annotations of complete texts that were not taken before.

        OpenAI's own come in one chunk; its SDK (openai 3.49.0, accumulate_delta) joins further ones only by ``index``,
        and where one has it all must.
        """
        found, self._annotations = self._annotations, []
        if self._count or any(type(one) is dict and "index" in one for one in found):
            found = [
                {**one, "index": at} if type(one) is dict else one
                for at, one in enumerate(found, self._count)
            ]
        self._count += len(found)
        return found
