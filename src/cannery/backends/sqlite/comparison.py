"""Compares the catalogue in a file with the lines beside it: each row is derived again, and each word.

A row of the catalogue that a flipped bit has changed or hidden gives wrong answers, and so does the index of words, of
which SQLite checks no more than the structure. The rows of a conversation are compared with what its lines and its
parent's rows say; those are compared with the parent's lines. Words are compared as the sum of a hash of each
occurrence, so that only few of them are in memory.
"""

from __future__ import annotations

import contextlib
import functools
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cannery.backends._catalogue import writing
from cannery.backends._catalogue.schema import WORDS, Prefix, Row, make_occurrences, seal_of
from cannery.backends._contract import Damage, Describe, Entry, Metadata
from cannery.backends._seals import unseal
from cannery.backends.sqlite.catalogue import Lines, Uses, decoded, end_of_lines
from cannery.backends.sqlite.contents import SqliteContents
from cannery.backends.sqlite.tables import METADATA_BYTES, STOP, Database
from cannery.errors import CanneryError

_LINES = 500
_TEXT = 4 << 20
_ALL = "SELECT term, doc, offset FROM temp.occurrences"
_PLACED = f"{_ALL} WHERE EXISTS (SELECT 1 FROM places WHERE place = doc)"  # noqa: S608 - both are ours
_ROW = ", ".join((*Row._fields, "seal"))
_PREFIX = ", ".join((*Prefix._fields, "seal"))
_ADVICE = "`cannery reindex` builds it again"


class Comparison:
    """One comparison, of one state of the file."""

    def __init__(
        self, database: Database, connection: sqlite3.Connection, describe: Describe
    ) -> None:
        self._database = database
        self._connection = connection
        self._describe = describe
        self._words = _Words()

    def damages(self) -> Iterator[Damage]:
        """The conversations whose rows are not what they should be, and the index of words if it is not."""
        connection = self._connection
        query = f"SELECT number, id, {METADATA_BYTES}, {STOP} FROM stored ORDER BY number"  # noqa: S608 - names are ours
        for number, name, metadata, noted in connection.execute(query):
            raw = unseal(metadata)
            found = None if raw is None else decoded(raw)
            if raw is None or found is None:
                # Damage that is named where metadata is read.
                for (place,) in self._rows("SELECT place FROM places WHERE number = ?", number):
                    self._words.skip(place)
                continue
            try:
                is_same = self._is_derived(found, raw, number, noted)
            except sqlite3.DatabaseError:
                # A damaged row, of this conversation or of its parent.
                is_same = False
            if not is_same:
                where = f"conversations/{name}"
                problem = f"its rows in the index are damaged: {_ADVICE}"
                yield Damage(where, problem, is_lost=False)
        if not self._words.are_in(connection):
            problem = f"the index of words is damaged: {_ADVICE}"
            yield Damage(self._database.path, problem, is_lost=False)

    def _is_derived(self, metadata: Metadata, raw: bytes, number: int, noted: int) -> bool:
        """Whether the rows of a conversation are those that its lines and its metadata give."""
        base = writing.base_of(self._connection, metadata)
        row = writing.begin(self._connection, metadata, zlib.crc32(raw), base, number)
        end = end_of_lines(self._connection, number, metadata.position, noted)
        uses = Uses(self._connection, number, metadata.scope)
        contents = SqliteContents(self._database, metadata.scope)
        roles: dict[str, int] = {}
        is_same = noted == end
        while row.length < end:
            lines = Lines(
                self._connection, number, range(row.length, min(row.length + _LINES, end))
            )
            uses.add(lines)
            entries = lines.entries(contents, self._describe)
            is_same &= self._are_placed(number, row.length, entries)
            find = functools.partial(writing.find_call, self._connection, row)
            grown = writing.grow(row, entries, find)
            is_same &= self._are_grown(row, grown)
            roles = {**grown.roles, **roles}
            row = grown.row
        return is_same and uses.are_noted() and self._is_row(row, roles)

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(query, values).fetchall()

    def _are_placed(self, number: int, start: int, entries: Sequence[Entry | None]) -> bool:
        """Whether lines have the right places in the index of words, whose words are noted."""
        query = (
            "SELECT position, role, said, place FROM places"
            " WHERE number = ? AND position >= ? AND position < ? ORDER BY position"
        )
        found = self._rows(query, number, start, start + len(entries))
        places = {position: place for position, _, _, place in found}
        expected = []
        for position, entry in enumerate(entries, start):
            if entry is None:
                continue
            try:
                entry.words()
            except CanneryError:
                # Its content is damaged or missing, and so are the words.
                self._words.skip(places.get(position))
                found = [one for one in found if one[0] != position]
                continue
            text = writing.searchable(entry)
            if text:
                expected.append((position, entry.role, entry.said))
                self._words.add(places.get(position), text)
        return [one[:3] for one in found] == expected

    def _are_grown(self, row: Row, grown: writing.Grown) -> bool:
        """Whether the prefixes and calls of some lines are those that were derived."""
        span = row.number, row.length, grown.row.length
        within = "WHERE number = ? AND position > ? AND position <= ? ORDER BY position"
        prefixes = self._rows(f"SELECT {_PREFIX} FROM prefixes {within}", *span)  # noqa: S608 - names are ours
        if prefixes != [(*one, seal_of(tuple(one))) for one in grown.prefixes]:
            return False
        query = f"SELECT root, call, number, ordinal, position FROM calls {within}"  # noqa: S608 - names are ours
        return self._rows(query, *span) == list(grown.calls)

    def _is_row(self, row: Row, roles: dict[str, int]) -> bool:
        """Whether a conversation's row, roles and tags are those that were derived, and nothing else is there."""
        number = row.number
        query = f"SELECT {_ROW} FROM conversations WHERE number = ?"  # noqa: S608 - names are ours
        derived = row._replace(searched=row.length)
        found = self._rows(query, number)
        if found and row.deleted:
            # The lines that gc has freed may have been the latest.
            held = Row(*found[0][:-1])
            derived = derived._replace(said=held.said, updated=held.updated)
        if found != [(*derived, seal_of(tuple(derived)))]:
            return False
        for table, first in (("prefixes", 1), ("calls", 1), ("places", 0)):
            query = f"SELECT 1 FROM {table} WHERE number = ? AND position >= ? LIMIT 1"  # noqa: S608 - names are ours
            if self._rows(query, number, row.length + first):
                return False
        query = "SELECT role, position FROM roles WHERE number = ?"
        if dict(self._rows(query, number)) != roles:
            return False
        tags = [] if row.deleted else msgspec.json.decode(row.tags, type=list[str])
        query = "SELECT tag, scope, updated, id FROM tags WHERE number = ?"
        expected = {(tag, row.scope, row.updated, row.id) for tag in tags}
        return set(self._rows(query, number)) == expected


class _Words:
    """The words that messages have, and those that the index has."""

    def __init__(self) -> None:
        self._texts: list[tuple[int, str]] = []
        self._size = 0
        self._sum = 0
        self._skipped: set[int] = set()

    def skip(self, place: int | None) -> None:
        """Leave out a message whose words cannot be read."""
        if place is not None:
            self._skipped.add(place)

    def add(self, place: int | None, text: str) -> None:
        """Add the text of a message."""
        if place is not None:
            self._texts.append((place, text))
            self._size += len(text)
            if self._size > _TEXT:
                self._count()

    def _count(self) -> None:
        with contextlib.closing(sqlite3.connect(":memory:")) as scratch:
            scratch.execute(WORDS)
            scratch.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", self._texts)
            self._sum += sum(map(hash, _occurrences(scratch)))
        self._texts.clear()
        self._size = 0

    def are_in(self, connection: sqlite3.Connection) -> bool:
        """Whether the index has these words and no others, but those that messages left behind that are gone."""
        self._count()
        try:
            return any(self._is_sum(_occurrences(connection, query)) for query in (_ALL, _PLACED))
        except sqlite3.DatabaseError:
            return False

    def _is_sum(self, found: Iterator[tuple[str, int, int]]) -> bool:
        if self._skipped:
            found = (one for one in found if one[1] not in self._skipped)
        return sum(map(hash, found)) == self._sum


def _occurrences(
    connection: sqlite3.Connection, query: str = _ALL
) -> Iterator[tuple[str, int, int]]:
    """Each occurrence of a word in an index: the word, the message and the place in it."""
    make_occurrences(connection)
    return connection.execute(query)
