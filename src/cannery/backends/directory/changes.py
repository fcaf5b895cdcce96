"""The change log: which conversation grew, in order, so that an index need not look at all of them.

Section 9 of ``docs/storage-format.md``. Derived and bounded: a reader who comes too late is told so.
"""

from __future__ import annotations

from cannery.backends._contract import Cursor, Growth
from cannery.backends.directory.commits import Tail
from cannery.backends.directory.files import Files
from cannery.backends.directory.journal import Draft
from cannery.backends.directory.layout import CHANGES, changes_name, number_of

_FULL = 1 << 20
_KEPT = 2


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
        return Cursor(self._generation, offset)

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
            return Growth(Cursor(1, 0), {} if cursor in {None, Cursor(1, 0)} else None)
        if cursor is None or cursor.generation not in generations:
            return Growth(self._now(generations[-1]), None)
        found: dict[str, list[Cursor]] = {}
        for generation in generations[generations.index(cursor.generation) :]:
            start = cursor.offset if generation == cursor.generation else 0
            data = self._read(generation, start)
            if data is None:
                return Growth(self._now(generations[-1]), None)
            for line in data.splitlines(keepends=True):
                identifier = line.partition(b" ")[0].decode("ascii", "replace")
                found.setdefault(identifier, []).append(Cursor(generation, start))
                start += len(line)
            last = Cursor(generation, start)
        return Growth(last, found)

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
        return Cursor(generation, len(self._read(generation, 0) or b""))

    def prune(self) -> None:
        """Take all but the newest files away; the journal is empty."""
        for generation in self._generations()[:-_KEPT]:
            self._files.remove(changes_name(generation))
