"""The catalogue of a directory: tables in a file of their own, which follow the change feed.

Each answer is given in a transaction that has seen the end of the feed, so deleting the file never changes one. What
is missing is brought in by short transactions, each of which notes how far it has come: a rebuild goes on where
another process, or an earlier one, stopped, and readers and writers of the store never wait for it. Words are read
only when somebody searches.
"""

from __future__ import annotations

import bisect
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from cannery.backends._catalogue import matching, writing
from cannery.backends._catalogue.queries import Queries
from cannery.backends._catalogue.schema import Row, check, row_of, rows, seal_of
from cannery.backends._contract import (
    Change,
    ContentTable,
    Cursor,
    Describe,
    Entry,
    Growth,
    Metadata,
    Noted,
    Progress,
    Reading,
    Receipt,
)
from cannery.backends.directory.index_file import DiscardedError, IndexFile
from cannery.backends.directory.recent import Addition, Recent
from cannery.errors import CanneryError

T = TypeVar("T")

_TURN = 0.05
_PAGE = 1000
_TRIES = 3


class Truth(Protocol):
    """What the catalogue is derived from."""

    def contents(self, scope: str) -> ContentTable:
        """The content of a scope."""

    def metadata(self, identifier: str) -> bytes | None:
        """The metadata of a conversation."""

    def identifiers(self, after: str = "") -> Iterator[str]:
        """Every conversation."""

    def end(self, identifier: str, base: int) -> int:
        """The position after the last line."""

    def read(self, identifier: str, base: int, start: int, stop: int | None = None) -> Reading:
        """The lines from one position to before another."""

    def changes(self, cursor: Cursor | None, limit: int = _PAGE) -> Growth:
        """The changes behind a cursor."""


class _State(Struct, frozen=True, array_like=True):
    """How far the tables are: up to a cursor of the feed; while all is compared, behind which conversation."""

    cursor: Cursor
    compared: str | None = None


class DerivedCatalogue(Queries):
    """Tables that follow a change feed; ``path`` None keeps them in memory."""

    def __init__(self, path: str | None, truth: Truth, describe: Describe) -> None:
        self.file = IndexFile(path)
        self._truth = truth
        self._describe = describe
        self.recent = Recent()
        # Whether the tables are known to be behind, so that looking without writing is in vain.
        self._has_news = False
        # The conversations in order, while all are compared; those made since are in the feed.
        self._everything: list[str] | None = None
        self._progress: Progress | None = None
        self._done = 0

    def note(self, change: Change, receipt: Receipt) -> None:
        """Remember a change that was made, so that it need not be read."""
        self.recent.note(change, receipt)
        self._has_news = True

    def claimed(self, changes: Sequence[Change]) -> list[Change]:
        """The changes that claim what a living conversation holds."""
        return self._ask(
            lambda connection: [
                change
                for change in changes
                if matching.is_claimed(connection, change.scope, change.session, change.claims)
            ]
        )

    def rebuild(self, progress: Progress | None = None) -> None:
        """Throw the tables away and build them again; ``progress`` hears of conversations, each counted twice."""
        self.file.discard()
        self._progress, self._done = progress, 0
        try:
            self._ask(lambda _: None, needs_words=True)
        finally:
            self._progress = None

    def close(self) -> None:
        """Let go of the file."""
        self.file.close()

    def _ask(self, work: Callable[[sqlite3.Connection], T], *, needs_words: bool = False) -> T:
        def look(connection: sqlite3.Connection) -> tuple[T] | None:
            is_current = self._step(connection, needs_words=needs_words, may_write=False)
            return (work(connection),) if is_current else None

        def catch_up(connection: sqlite3.Connection) -> tuple[T] | None:
            is_current = self._step(connection, needs_words=needs_words, may_write=True)
            return (work(connection),) if is_current else None

        tries = 0
        is_behind = self._has_news
        while True:
            try:
                if is_behind:
                    self._has_news = False
                    found = self.file.write(catch_up)
                else:
                    found = self.file.read(look)
                if found is not None:
                    return found[0]
                is_behind = True
            except DiscardedError:
                tries += 1
                if tries == _TRIES:
                    raise

    # Following

    def _step(self, connection: sqlite3.Connection, *, needs_words: bool, may_write: bool) -> bool:
        """Whether nothing is missing; if something is, bring in some of it, if that is allowed."""
        state = _state_of(connection)
        if state is None or state.compared is not None:
            if may_write:
                self._compare(connection, state)
            return False
        growth = self._truth.changes(state.cursor, _PAGE)
        if growth.noted is None:
            if may_write:
                # The tables may be of another history of the store: lines may be as many, and say something else.
                raise sqlite3.DatabaseError("the change feed does not reach back to what is known")
            return False
        if growth.noted and not may_write:
            return False
        if growth.noted:
            self._learn_all(connection, growth.noted)
            _set_state(connection, _State(growth.cursor))
            if growth.has_more:
                return False
        if needs_words and _unsearched(connection):
            if may_write:
                self._read_words(connection)
            return False
        return True

    def _tell(self) -> None:
        self._done += 1
        if self._progress is not None and self._everything is not None:
            total = 2 * len(self._everything)
            self._progress(min(self._done, total), total)

    def _compare(self, connection: sqlite3.Connection, state: _State | None) -> None:
        """Look at some more conversations, of all that there are."""
        if state is None or state.compared is None:
            # What happens from here on is in the feed.
            state = _State(self._truth.changes(None).cursor, "")
            self._everything = None
        if self._everything is None:
            self._everything = list(self._truth.identifiers())
        until = time.monotonic() + _TURN
        begin = last = str(state.compared)
        first = bisect.bisect_right(self._everything, last)
        seen = set()
        is_over = True
        for identifier in self._everything[first:]:
            if time.monotonic() > until:
                is_over = False
                break
            self._look(connection, identifier)
            last = identifier
            seen.add(identifier)
            self._tell()
        self._remove_others(connection, begin, None if is_over else last, seen)
        if is_over:
            _set_state(connection, _State(state.cursor))
            if self._progress is None:
                self._everything = None
        else:
            _set_state(connection, _State(state.cursor, last))

    def _remove_others(
        self, connection: sqlite3.Connection, begin: str, last: str | None, seen: set[str]
    ) -> None:
        """Remove what the tables have between two ids and the truth has not."""
        condition, values = "id > ?", [begin]
        if last is not None:
            condition, values = "id > ? AND id <= ?", [begin, last]
        query = f"SELECT id FROM conversations WHERE {condition}"  # noqa: S608 - conditions are ours
        for (identifier,) in connection.execute(query, values).fetchall():
            if identifier not in seen:
                self._look(connection, identifier)

    def _learn_all(self, connection: sqlite3.Connection, noted: Sequence[Noted]) -> None:
        places: dict[str, list[Cursor]] = {}
        for identifier, place in noted:
            places.setdefault(identifier, []).append(place)
        for identifier, found in places.items():
            news = self.recent.of(identifier, found)
            if not news or not _learn(connection, news):
                self._look(connection, identifier)

    # Looking

    def _look(self, connection: sqlite3.Connection, identifier: str) -> None:
        """Bring the tables up to what is stored of a conversation, and before that of its ancestors."""
        waiting = [identifier]
        begun = set()
        while waiting:
            name = waiting[-1]
            metadata, seen = self._metadata(name)
            if metadata is None:
                # Gone, or damaged: verify names it, the list does not.
                row = row_of(connection, name)
                if row is not None:
                    writing.remove(connection, row)
                waiting.pop()
                continue
            parent = metadata.parent
            if parent is not None and name not in begun and row_of(connection, parent) is None:
                begun.add(name)
                waiting.append(parent)
                continue
            waiting.pop()
            self._look_at(connection, metadata, seen)

    def _metadata(self, identifier: str) -> tuple[Metadata | None, int]:
        try:
            raw = self._truth.metadata(identifier)
            if raw is None:
                return None, 0
            return msgspec.json.decode(raw, type=Metadata), zlib.crc32(raw)
        except (CanneryError, msgspec.MsgspecError, UnicodeError, RecursionError):
            return None, 0

    def _look_at(self, connection: sqlite3.Connection, metadata: Metadata, seen: int) -> None:
        row = row_of(connection, metadata.id)
        length = self._truth.end(metadata.id, metadata.position)
        if row is not None and (row.seen, row.length) == (seen, length):
            return
        if row is not None and (row.length > length or row.position != metadata.position):
            writing.remove(connection, row)
            row = None
        if row is None:
            base = writing.base_of(connection, metadata)
            calls: list[tuple[str, int, int]] = []
            if base is None:
                base, calls = self._read_base(metadata)
            row = writing.begin(connection, metadata, seen, base)
            writing.put_calls(connection, row, calls)
        else:
            row = writing.described(connection, row, metadata, seen)
        if row.length < length:
            entries = self._entries(metadata, row.length, length)
            row = writing.grown(connection, row, entries, with_words=False)
        writing.put(connection, row)

    def _entries(self, metadata: Metadata, start: int, stop: int) -> list[Entry | None]:
        """What the lines of a conversation's own log mean; None for those that cannot be read."""
        try:
            lines = self._truth.read(metadata.id, metadata.position, start, stop).lines
        except CanneryError:
            return [None] * (stop - start)
        contents = self._truth.contents(metadata.scope)
        found: list[Entry | None] = []
        there = [line for line in lines if line is not None]
        try:
            if len(there) == len(lines):
                found += self._describe(contents, there)
        except CanneryError:
            found = []
        if len(found) != len(lines):
            found = [self._entry(contents, line) for line in lines]
        return found + [None] * (stop - start - len(found))

    def _entry(self, contents: ContentTable, line: bytes | None) -> Entry | None:
        try:
            return None if line is None else self._describe(contents, [line])[0]
        except CanneryError:
            return None

    def _read_base(
        self, metadata: Metadata
    ) -> tuple[writing.Base | None, list[tuple[str, int, int]]]:
        """What a fork begins with, and its calls, if its parent is damaged only in what they do not share."""
        shared: list[Entry | None] = []
        fork: Metadata | None = metadata
        pieces: list[list[Entry | None]] = []
        stop = metadata.position
        seen = set()
        while fork is not None and stop > 0 and fork.parent is not None:
            if fork.id in seen:
                return None, []
            seen.add(fork.id)
            fork, _ = self._metadata(fork.parent)
            if fork is None:
                return None, []
            pieces.append(self._entries(fork, fork.position, stop) if stop > fork.position else [])
            stop = min(stop, fork.position)
        for piece in reversed(pieces):
            shared += piece
        if stop > 0 or None in shared:
            return None, []
        return _fold(shared)

    # Words

    def _read_words(self, connection: sqlite3.Connection) -> None:
        """Read some of the words that are missing."""
        until = time.monotonic() + _TURN
        for row in _unsearched(connection):
            stop = row.length
            if row.deleted:
                # Only what forks share can be found.
                forks = writing.forks_of(connection, row)
                stop = max((fork.position for fork in forks), default=row.searched)
            metadata, _ = self._metadata(row.id)
            if metadata is not None and stop > row.searched:
                entries = self._entries(metadata, row.searched, stop)
                writing.put_words(connection, row, row.searched, entries)
            writing.put(connection, row._replace(searched=row.length))
            self._tell()
            if time.monotonic() > until:
                return


def _fold(
    shared: Sequence[Entry | None],
) -> tuple[writing.Base, list[tuple[str, int, int]]]:
    """What is known of a history that begins with entries."""
    base = writing.Base()
    calls: list[tuple[str, int, int]] = []
    ordinals: dict[str, int] = {}
    for position, entry in enumerate(shared, 1):
        if entry is not None:
            base = writing.followed(base, entry, position, ordinals.get)
            if entry.call is not None and entry.own is not None:
                ordinals[entry.call] = base.calls - 1
                calls.append((entry.call, base.calls - 1, position))
    return base, calls


def _learn(connection: sqlite3.Connection, news: Sequence[Addition]) -> bool:
    """Take changes from memory if they follow upon what the tables know; else False."""
    row = row_of(connection, news[0].identifier)
    is_new = row is None
    for addition in news:
        metadata = addition.metadata
        if row is None:
            base = None if metadata is None else writing.base_of(connection, metadata)
            if metadata is None or base is None:
                return False
            row = writing.begin(connection, metadata, addition.seen, base)
        elif metadata is not None:
            row = writing.described(connection, row, metadata, addition.seen)
        if row.length != addition.start or row.seen != addition.seen or row.unreadable:
            return False
        if addition.entries:
            row = writing.grown(connection, row, addition.entries, with_words=False)
    if row is not None:
        writing.put(connection, row, is_new=is_new)
    return row is not None


def _unsearched(connection: sqlite3.Connection) -> list[Row]:
    return list(rows(connection, "c.searched < c.length LIMIT 100"))


def _state_of(connection: sqlite3.Connection) -> _State | None:
    found = connection.execute("SELECT value FROM progress WHERE name = 'state'").fetchone()
    if found is None:
        return None
    value, _, seal = found[0].rpartition(" ")
    check(value, int(seal))
    return msgspec.json.decode(value, type=_State)


def _set_state(connection: sqlite3.Connection, state: _State) -> None:
    value = msgspec.json.encode(state).decode()
    connection.execute(
        "INSERT OR REPLACE INTO progress VALUES ('state', ?)", (f"{value} {seal_of(value)}",)
    )
