"""The change log: which conversation grew, in order, so that an index need not examine all of them.

Section 9 of ``docs/storage-format.md``. The last entry of each conversation is also the manifest: how many lines there
must be, and the seal of the last one. A reader whose place is gone, or was in another log, is told so
(``Growth.noted``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cannery.backends._contract import Cursor, Damage, Expected, Growth, Noted, is_identifier
from cannery.backends.directory import feed
from cannery.backends.directory.commits import Tail
from cannery.backends.directory.files import Files, read_whole, write_whole
from cannery.backends.directory.journal import Draft
from cannery.backends.directory.layout import CHANGES, changes_name

_FULL = 1 << 20
_KEPT = 2
_MANY = 64
_WORDS = 3
_CHECK = len("00000000\n")


class _Place(NamedTuple):
    """A position in the change log, and the checksum of the line before it."""

    generation: int
    offset: int
    chain: int

    def cursor(self) -> Cursor:
        """The public form."""
        return f"{self.generation}-{self.offset}-{self.chain:08x}"


_NOWHERE = _Place(0, 0, 0)


def _place_of(cursor: Cursor | None) -> _Place | None:
    try:
        generation, offset, chain = (cursor or "").split("-")
        return _Place(int(generation), int(offset), int(chain, 16))
    except ValueError:
        return None


def has_reached(cursor: Cursor, target: Cursor) -> bool:
    """Whether a cursor is not before another one of the same feed."""
    place, goal = _place_of(cursor), _place_of(target)
    return place is not None and goal is not None and place[:2] >= goal[:2]


class ChangeLog:
    """Files of lines ``<id> <count> <seal> <checksum>``; the one with the highest number is active."""

    def __init__(self, files: Files, tails: dict[str, Tail]) -> None:
        self._files = files
        self._tails = tails
        self._generation = 0

    def note(self, identifier: str, count: int, last: bytes | None, draft: Draft) -> Cursor:
        """Add a change and the seal of the log's last line, if that is new; the write lock is held."""
        offset, chain = self._end()
        full, after = 0, None
        while offset >= _FULL:
            # Another process may have started the next file.
            full, after = self._generation, chain
            self._generation += 1
            offset, chain = self._end()
        data = b""
        if not offset:
            data, chain = feed.encode_header(after if self._generation == full + 1 else None)
        place = _Place(self._generation, offset + len(data), chain)
        seal = feed.NONE if last is None else last[-11:-3].decode()
        line, chain = feed.encode(f"{identifier} {count} {seal}", chain)
        data += line
        name = changes_name(self._generation)
        self._tails[name] = Tail(offset + len(data), chain)
        draft.write(name, offset, data)
        return place.cursor()

    def _end(self) -> tuple[int, int]:
        """The end of the newest file after pending writes, and its checksum; a damaged file is left."""
        tail = self._tails.get(changes_name(self._generation))
        if tail is not None:
            return tail
        self._generation = max(self._generation, *feed.generations(self._files), 1)
        tail = self._tails.get(changes_name(self._generation))
        if tail is not None:
            return tail
        found = feed.end_of(self._files, self._generation)
        if found is None and self._files.facts(changes_name(self._generation)) is not None:
            self._generation += 1
        return found or (0, 0)

    def since(self, cursor: Cursor | None, limit: int | None = None) -> Growth:
        """The changes after a cursor, as far as they are placed."""
        generations = feed.generations(self._files)
        begin = _place_of(cursor)
        if not generations:
            return Growth(_NOWHERE.cursor(), () if begin == _NOWHERE else None)
        if begin is None or begin.generation not in generations:
            return self._lost(generations[-1])
        found: list[Noted] = []
        last = begin
        for generation in generations[generations.index(begin.generation) :]:
            page = self._read(generation, begin, last, limit)
            if page is None:
                return self._lost(generations[-1])
            lines, last, is_all = page
            for line, place in lines:
                if len(found) == limit:
                    return Growth(place.cursor(), found, has_more=True)
                end = int(line[1]) if line[1].isdecimal() else None
                found.append(Noted(line[0], place.cursor(), end))
            if not is_all:
                return Growth(last.cursor(), found, has_more=True)
        return Growth(last.cursor(), found)

    def _lost(self, newest: int) -> Growth:
        data = self._bytes(newest, 0) or b""
        end = data.rfind(b"\n") + 1
        # The end of the newest file, whatever damage is before it.
        return Growth(_Place(newest, end, feed.chain_at(data[:end]) or 0).cursor(), None)

    def _read(
        self, generation: int, begin: _Place, last: _Place, limit: int | None
    ) -> tuple[list[tuple[list[str], _Place]], _Place, bool] | None:
        """The lines of a file after a place, each with its place, their end, and whether that is the end of the file.

        None if something is missing. Reading is bounded by the greatest length of so many lines.
        """
        is_first = generation == begin.generation
        start, chain = (begin.offset, begin.chain) if is_first else (0, 0)
        before = _CHECK if start else 0
        most = None if limit is None else before + feed.LONGEST * max(limit, 2)
        data = self._bytes(generation, start - before, most)
        if data is None or (start and data[:before] != b"%08x\n" % chain):
            return None
        is_all = most is None or len(data) < most
        data = data[before : data.rfind(b"\n") + 1]
        found: list[tuple[list[str], _Place]] = []
        place = _Place(generation, start, chain)
        for line in feed.decode(data, start, chain):
            if line.words is None:
                return None
            if len(found) == limit:
                return found, place, False
            if feed.is_header(line):
                if not is_first and feed.after_of(line) != last.chain:
                    return None
            else:
                found.append((line.words, place))
            place = _Place(generation, line.end, line.chain)
        if not is_first and not place.offset:
            return None
        return found, place, is_all

    def _bytes(self, generation: int, start: int, most: int | None = None) -> bytes | None:
        """A part of a file; None if it does not reach that far."""
        try:
            fd = self._files.open(changes_name(generation))
        except FileNotFoundError:
            return None
        try:
            size = self._files.size(fd)
            length = size - start if most is None else min(size - start, most)
            return None if start > size else self._files.read(fd, length, start)
        finally:
            self._files.close(fd)

    # The manifest

    def manifest(self) -> tuple[dict[str, Expected], list[Damage]]:
        """The state that each conversation must have according to the files, and the damage in them."""
        return self._fold(feed.generations(self._files))

    def _fold(self, numbers: Iterable[int]) -> tuple[dict[str, Expected], list[Damage]]:
        found: dict[str, Expected] = {}
        damages = []
        for number in numbers:
            name = changes_name(number)
            data = read_whole(self._files, name) or b""
            lines = list(feed.decode(data[: data.rfind(b"\n") + 1], 0, 0))
            if not lines or not feed.is_header(lines[0]):
                # Version 1 had no checksums here; an empty file was never started.
                if lines and b" " in data and not _is_old(data):
                    damages.append(Damage(name, "damaged header", is_lost=False))
                continue
            for index, line in enumerate(lines, 1):
                if line.words is None:
                    damages.append(Damage(name, "damaged line", index, is_lost=False))
                elif index > 1:
                    _take(found, line.words)
        return found, damages

    def forget(self, gone: Iterable[str], shortened: Mapping[str, tuple[int, bytes]]) -> None:
        """Record, durably, what gc is about to remove; the write lock is held and the journal is empty."""
        texts = [f"{identifier} {feed.GONE} {feed.NONE}" for identifier in gone]
        for identifier, (count, line) in shortened.items():
            texts.append(f"{identifier} {count} {line[-11:-3].decode() or feed.NONE}")
        if not texts:
            return
        offset, last = self._end()
        data, chain = feed.encode_header(last if offset else None)
        for text in texts:
            added, chain = feed.encode(text, chain)
            data += added
        # A file of its own, because none of its other lines are in the journal: it exists whole or not at all.
        self._generation += bool(offset)
        write_whole(self._files, changes_name(self._generation), data, durable=True)
        self._files.sync_directory(CHANGES)

    def compact(self) -> None:
        """Replace old files by one with the last entry of each conversation, if that is worth it."""
        old = feed.generations(self._files)[:-_KEPT]
        sizes = [facts.size for one in old if (facts := self._files.facts(changes_name(one)))]
        is_small = sum(sizes[1:]) < max(sizes[0], _FULL) if sizes else True
        if len(old) < _KEPT or (is_small and len(old) < _MANY):
            return
        expected, _ = self._fold(old)
        pieces, chain = [], 0
        header, chain = feed.encode_header(None)
        pieces.append(header)
        for identifier, (count, seal) in expected.items():
            line, chain = feed.encode(f"{identifier} {count} {seal or feed.NONE}", chain)
            pieces.append(line)
        name = changes_name(old[-1])
        write_whole(self._files, name, b"".join(pieces), durable=True)
        for number in old[:-1]:
            self._files.remove(changes_name(number))


def _take(found: dict[str, Expected], words: list[str]) -> None:
    """Apply a line to the expected state."""
    if len(words) != _WORDS or not is_identifier(words[0]):
        return
    identifier, count, seal = words
    if count == feed.GONE:
        found.pop(identifier, None)
    elif count.isdecimal():
        known = found.get(identifier)
        last: str | None = seal
        if seal == feed.NONE:
            last = known.seal if known is not None and known.end == int(count) else None
        found[identifier] = Expected(int(count), last)


def _is_old(data: bytes) -> bool:
    """Whether a file is one of version 1: lines of an id and a count."""
    first = data.partition(b"\n")[0].decode("ascii", "replace").split(" ")
    return len(first) < _WORDS and is_identifier(first[0])
