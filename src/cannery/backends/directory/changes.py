"""The change log: which conversation grew, in order, so that an index need not look at all of them.

Section 9 of ``docs/storage-format.md``. Derived and bounded: a reader who comes too late is told so.
"""

from __future__ import annotations

from typing import NamedTuple

from cannery.backends._contract import Cursor, Growth, Noted
from cannery.backends.directory.commits import Tail
from cannery.backends.directory.files import Files
from cannery.backends.directory.journal import Draft
from cannery.backends.directory.layout import CHANGES, changes_name, number_of

_FULL = 1 << 20
_KEPT = 2


class _Place(NamedTuple):
    """A place in the change log."""

    generation: int
    offset: int

    def cursor(self) -> Cursor:
        """As others see it."""
        return f"{self.generation}-{self.offset}"


def _place_of(cursor: Cursor | None) -> _Place | None:
    generation, dash, offset = (cursor or "").partition("-")
    if not dash or not generation.isdecimal() or not offset.isdecimal():
        return None
    return _Place(int(generation), int(offset))


class ChangeLog:
    """Files of lines ``<id> <count>``; the one with the highest number is written."""

    def __init__(self, files: Files, tails: dict[str, Tail]) -> None:
        self._files = files
        self._tails = tails
        self._generation = 0

    def note(self, identifier: str, count: int, draft: Draft) -> Cursor:
        """Note a change, and say where; the write lock is held."""
        offset = self._offset()
        if offset >= _FULL:
            self._generation += 1
            offset = self._offset()
        data = f"{identifier} {count}\n".encode()
        name = changes_name(self._generation)
        self._tails[name] = Tail(offset + len(data))
        draft.write(name, offset, data)
        return _Place(self._generation, offset).cursor()

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

    def since(self, cursor: Cursor | None, limit: int | None = None) -> Growth:
        """What changed since a cursor, as far as it is placed."""
        generations = self._generations()
        begin = _place_of(cursor)
        if not generations:
            is_new = begin == _Place(1, 0)
            return Growth(_Place(1, 0).cursor(), () if is_new else None)
        if begin is None or begin.generation not in generations:
            return Growth(self._now(generations[-1]), None)
        found: list[Noted] = []
        last = begin
        for generation in generations[generations.index(begin.generation) :]:
            start = begin.offset if generation == begin.generation else 0
            data = self._read(generation, start)
            if data is None:
                return Growth(self._now(generations[-1]), None)
            for line in data.splitlines(keepends=True):
                if len(found) == limit:
                    return Growth(_Place(generation, start).cursor(), found, has_more=True)
                identifier = line.partition(b" ")[0].decode("ascii", "replace")
                found.append(Noted(identifier, _Place(generation, start).cursor()))
                start += len(line)
            last = _Place(generation, start)
        return Growth(last.cursor(), found)

    def _read(self, generation: int, start: int) -> bytes | None:
        """The whole lines from an offset on; None if the file does not reach that far."""
        try:
            fd = self._files.open(changes_name(generation))
        except FileNotFoundError:
            return b"" if start == 0 else None
        try:
            size = self._files.size(fd)
            data = self._files.read(fd, max(size - start, 0), start)
        finally:
            self._files.close(fd)
        return None if start > size else data[: data.rfind(b"\n") + 1]

    def _now(self, generation: int) -> Cursor:
        return _Place(generation, len(self._read(generation, 0) or b"")).cursor()

    def prune(self) -> None:
        """Take all but the newest files away; the journal is empty."""
        for generation in self._generations()[:-_KEPT]:
            self._files.remove(changes_name(generation))
