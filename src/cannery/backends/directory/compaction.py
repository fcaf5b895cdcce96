"""Compaction: packs with much freed space are rewritten without it.

After the index was rebuilt, a single scan also finds stored content that is unused, and space freed before.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from cannery.backends.directory import references
from cannery.backends.directory.catalogue import DerivedCatalogue
from cannery.backends.directory.commits import Commits
from cannery.backends.directory.files import Files
from cannery.backends.directory.layout import CONTENT, pack_index_name, pack_name
from cannery.backends.directory.packs import (
    FREED,
    HEADER,
    PACK_HEADER,
    Packs,
    Record,
    new_pack_header,
    scan,
    sound_records,
)

# Less is not worth a new file.
_LEAST = 1 << 20
_PAGE = 1000
_SWEPT = "swept"


class Compaction:
    """The packs of one store."""

    def __init__(
        self, files: Files, commits: Commits, packs: Packs, catalogue: DerivedCatalogue
    ) -> None:
        self._files = files
        self._commits = commits
        self._packs = packs
        self._catalogue = catalogue

    def sweep(self, *, is_rehearsal: bool) -> None:
        """Record all stored content, and all freed space, unless that was done since the index was built."""
        if self._catalogue.known(_is_swept):
            return
        self._catalogue.tell(lambda connection: connection.execute("DELETE FROM freed"))
        for number in self._packs.numbers():
            self._sweep_pack(number)
        if not is_rehearsal or not self._packs.numbers():
            self._catalogue.tell(_set_swept)

    def _sweep_pack(self, number: int) -> None:
        try:
            with self._opened(pack_name(number)) as fd:
                records = [
                    one
                    for one in scan(self._files, fd, number, PACK_HEADER)
                    if isinstance(one, Record)
                ]
        except FileNotFoundError:
            return
        gone = sum(HEADER.size + one.place.stored for one in records if one.flags & FREED)
        keys = [one.digest for one in sound_records(records)]
        for start in range(0, len(keys), _PAGE):
            batch = keys[start : start + _PAGE]
            self._catalogue.tell(lambda one, batch=batch: references.suspect(one, batch))  # type: ignore[misc]
        if gone:
            self._catalogue.tell(lambda one: references.add_freed(one, number, gone))

    def damaged(self) -> list[str]:
        """The packs with bytes that are no record."""
        found = []
        for number in self._packs.numbers():
            name = pack_name(number)
            with contextlib.suppress(FileNotFoundError), self._opened(name) as fd:
                pieces = scan(self._files, fd, number, PACK_HEADER)
                if any(not isinstance(one, Record) for one in pieces):
                    found.append(name)
        return found

    def run(self) -> list[str]:
        """Rewrite the packs of which at least half is freed; returns those that cannot be, because they are damaged."""
        due = [
            number
            for number, count in self._catalogue.known(references.freed).items()
            if count >= _LEAST and 2 * count >= self._size(number)
        ]
        if not due:
            return []
        if max(self._packs.numbers(), default=0) in due:
            self._leave_active()
        kept = {number: self._copy(number) for number in due}
        with self._commits.alone():
            self._commits.distrust()
            for number, count in kept.items():
                self._put_in_place(number, count)
            self._files.sync_directory(CONTENT)
            self._packs.forget()
            self._commits.begin_epoch()
        done = [number for number, count in kept.items() if count is not None]
        self._catalogue.tell(lambda connection: references.forget_freed(connection, done))
        return [pack_name(number) for number in due if number not in done]

    def _size(self, number: int) -> int:
        facts = self._files.facts(pack_name(number))
        return 0 if facts is None else facts.size

    def _leave_active(self) -> None:
        """Start a new pack, so that the active one can be rewritten."""
        with self._commits.alone():
            number = max(self._packs.numbers(), default=0) + 1
            self._files.close(self._files.open(pack_name(number), create=True))
            self._commits.begin_epoch()

    def _copy(self, number: int) -> int | None:
        """Copy the rest of a pack, durably, to a new file; returns the number of records, None for a damaged pack."""
        name = pack_name(number)
        try:
            source = self._files.open(name)
        except FileNotFoundError:
            return 0
        try:
            records = list(scan(self._files, source, number, PACK_HEADER))
            if any(not isinstance(one, Record) for one in records):
                return None
            with self._opened(name + ".new", create=True) as target:
                return self._copy_records(list(sound_records(records)), source, target)
        finally:
            self._files.close(source)

    def _copy_records(self, records: list[Record], source: int, target: int) -> int:
        self._files.truncate(target, 0)
        self._files.write(target, new_pack_header(), 0)
        end = PACK_HEADER
        for record in records:
            begin, length = record.place.offset, HEADER.size + record.place.stored
            for at in range(0, length, _LEAST):
                data = self._files.read(source, min(_LEAST, length - at), begin + at)
                self._files.write(target, data, end)
                end += len(data)
        self._files.sync(target)
        return len(records)

    def _put_in_place(self, number: int, count: int | None) -> None:
        name = pack_name(number)
        if count is None:
            return
        self._files.remove(pack_index_name(number))
        if count:
            self._files.rename(name + ".new", name)
        else:
            self._files.remove(name)
            self._files.remove(name + ".new")

    @contextmanager
    def _opened(self, name: str, *, create: bool = False) -> Iterator[int]:
        fd = self._files.open(name, create=create)
        try:
            yield fd
        finally:
            self._files.close(fd)


def _is_swept(connection: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM progress WHERE name = ?"
    return connection.execute(query, (_SWEPT,)).fetchone() is not None


def _set_swept(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT OR REPLACE INTO progress VALUES (?, '')", (_SWEPT,))
