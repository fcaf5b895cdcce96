"""The change log: which conversation grew, in order, so that an index need not look at all of them.

Section 9 of ``docs/storage-format.md``. Derived and bounded: a reader who comes too late is told so.
"""

from __future__ import annotations

from collections.abc import Mapping

from cannery.backends._contract import Cursor, Growth
from cannery.backends.directory.commits import Tail
from cannery.backends.directory.files import Files, read_whole
from cannery.backends.directory.journal import WRITE, Operation
from cannery.backends.directory.layout import CHANGES, changes_name, number_of

_FULL = 1 << 20
_KEPT = 2


class ChangeLog:
    """Files of lines ``<id> <count>``; the one with the highest number is written."""

    def __init__(self, files: Files, tails: Mapping[str, Tail]) -> None:
        self._files = files
        self._tails = tails
        self._generation = 0

    def note(self, identifier: str, count: int) -> Operation:
        """The write that notes a change; the write lock is held."""
        offset = self._offset()
        if offset >= _FULL:
            self._generation += 1
            offset = self._offset()
        data = f"{identifier} {count}\n".encode()
        return Operation(WRITE, changes_name(self._generation), offset, data)

    def _offset(self) -> int:
        tail = self._tails.get(changes_name(self._generation))
        if tail is not None:
            return tail.end
        self._generation = max(self._generation, self._newest())
        tail = self._tails.get(changes_name(self._generation))
        if tail is not None:
            return tail.end
        facts = self._files.facts(changes_name(self._generation))
        return 0 if facts is None else facts.size

    def _newest(self) -> int:
        return max(self._generations(), default=1)

    def _generations(self) -> list[int]:
        numbers = (number_of(name) for name in self._files.names(CHANGES))
        return sorted(number for number in numbers if number is not None)

    def since(self, cursor: Cursor | None) -> Growth:
        """What changed since a cursor, as far as it is placed."""
        generations = self._generations()
        if not generations:
            return Growth(Cursor(1, 0), () if cursor in {None, Cursor(1, 0)} else None)
        if cursor is None or cursor.generation not in generations:
            return Growth(self._now(generations[-1]), None)
        found: dict[str, None] = {}
        for generation in generations:
            if generation < cursor.generation:
                continue
            data = read_whole(self._files, changes_name(generation)) or b""
            start = cursor.offset if generation == cursor.generation else 0
            if start > len(data):
                return Growth(self._now(generations[-1]), None)
            end = data.rfind(b"\n") + 1
            for line in data[start:end].splitlines():
                found[line.partition(b" ")[0].decode("ascii", "replace")] = None
            last = Cursor(generation, max(end, start))
        return Growth(last, tuple(found))

    def _now(self, generation: int) -> Cursor:
        data = read_whole(self._files, changes_name(generation)) or b""
        return Cursor(generation, data.rfind(b"\n") + 1)

    def prune(self) -> None:
        """Take all but the newest files away; the journal is empty."""
        for generation in self._generations()[:-_KEPT]:
            self._files.remove(changes_name(generation))
