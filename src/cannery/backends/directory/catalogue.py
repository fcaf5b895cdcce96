"""The catalogue of a directory: tables in a file of their own, which follow the change feed.

Each answer is given in a transaction that has seen the end of the feed, so deleting the file never changes an answer.
Missing rows are added by short transactions, each of which records its progress: a rebuild continues where another
process, or an earlier one, stopped, and readers and writers of the store never wait for it. Words are indexed only when
a search needs them.
"""

from __future__ import annotations

import bisect
import contextlib
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from cannery.backends._catalogue import writing
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
    referred,
)
from cannery.backends.directory import references
from cannery.backends.directory.changes import has_reached
from cannery.backends.directory.index_file import DiscardedError, IndexFile, note_freed
from cannery.backends.directory.packs import key_of
from cannery.backends.directory.recent import Recent, learn
from cannery.errors import CanneryError

T = TypeVar("T")

_TURN = 0.05
_PAGE = 1000
# At most this many lines of one conversation are in memory at a time.
_LINES = 2000
_TRIES = 3


class Truth(Protocol):
    """The data from which the catalogue is derived."""

    def contents(self, scope: str) -> ContentTable:
        """The content of a scope."""

    def metadata(self, identifier: str) -> bytes | None:
        """The metadata of a conversation."""

    def identifiers(self, after: str = "") -> Iterator[str]:
        """Every conversation."""

    def end(self, identifier: str, base: int) -> int:
        """The position after the last line."""

    def final_end(self, identifier: str, base: int) -> int:
        """The end of a deleted conversation, after which no more lines will come."""

    def read(self, identifier: str, base: int, start: int, stop: int | None = None) -> Reading:
        """The lines from one position to before another."""

    def referred(self, identifier: str) -> set[bytes]:
        """The digests that the log of a conversation may refer to, damaged lines included."""

    def strange(self) -> Sequence[str]:
        """Entries that have the name of a conversation and are not folders."""

    def changes(self, cursor: Cursor | None, limit: int = _PAGE) -> Growth:
        """The changes after a cursor."""


class _State(Struct, frozen=True, array_like=True):
    """The progress of the tables: a cursor of the feed and, during a full comparison, the last conversation."""

    cursor: Cursor
    compared: str | None = None


class DerivedCatalogue(Queries):
    """Tables that follow a change feed; ``path`` None keeps them in memory."""

    def __init__(self, path: str | None, truth: Truth, describe: Describe) -> None:
        self.file = IndexFile(path)
        self._truth = truth
        self._describe = describe
        self.recent = Recent()
        # Whether the tables are known to be behind, so that a read-only attempt would fail.
        self._has_news = False
        # The conversations in order, during a full comparison; later ones are in the feed.
        self._everything: list[str] | None = None
        self._progress: Progress | None = None
        self._done = 0

    def note(self, change: Change, receipt: Receipt) -> None:
        """Keep a change that was made, so that it need not be read back."""
        self.recent.note(change, receipt)
        self._has_news = True

    def catch_up(self) -> None:
        """Apply the changes of the feed; words are indexed at the next search."""
        self._ask(lambda _: None)

    def rebuild(self, progress: Progress | None = None) -> None:
        """Discard the tables and build them again; ``progress`` is called for conversations, each counted twice."""
        self.file.discard()
        self._progress, self._done = progress, 0
        try:
            self._ask(lambda _: None, needs_words=True)
        finally:
            self._progress = None

    # The queries and notes of gc

    def ask(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of a function on tables that include every acknowledged change."""
        return self._ask(work)

    def known(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of a function on the tables as they are, without catching up.

        Not on tables that another process is rebuilding: these contain only some conversations.
        """

        def look(connection: sqlite3.Connection) -> tuple[T] | None:
            state = _state_of(connection)
            is_whole = state is not None and state.compared is None
            return (work(connection),) if is_whole else None

        try:
            found = self.file.read(look)
        except DiscardedError:
            found = None
        return self._ask(work) if found is None else found[0]

    def tell(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Record a fact that the feed does not have; it is lost with the tables."""
        with contextlib.suppress(DiscardedError):
            self.file.write(work)

    def look_again(self, identifiers: Sequence[str]) -> None:
        """Examine conversations again, whatever the feed says."""

        def work(connection: sqlite3.Connection) -> None:
            for identifier in identifiers:
                while not self._look(connection, identifier):
                    pass

        self.tell(work)

    def forget_words(self, row: Row, start: int) -> None:
        """Remove a conversation's words from a position on from the index, before the lines are freed."""
        if row.searched <= start:
            return
        metadata, _, _ = self._metadata(row.id)
        lost: list[Entry | None] = [None] * (row.length - start)
        entries = lost if metadata is None else self._entries(metadata, start, row.length)
        self.tell(lambda connection: _unsay(connection, row, start, entries))
        self.file.has_forgotten = True

    def purge(self, *, is_thorough: bool) -> bool:
        """Remove everything that was forgotten from the file; whether that is certain."""
        if is_thorough:
            # Including replaced rows.
            self.catch_up()
            self.tell(note_freed)
        return self.file.purge(is_thorough=is_thorough)

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _ask(self, work: Callable[[sqlite3.Connection], T], *, needs_words: bool = False) -> T:
        # The position up to which changes must be applied: concurrent later ones need not be, and may never end.
        target: Cursor | None = None

        def look(connection: sqlite3.Connection) -> tuple[T] | None:
            is_current = self._step(connection, target, needs_words=needs_words, may_write=False)
            return (work(connection),) if is_current else None

        def catch_up(connection: sqlite3.Connection) -> tuple[T] | None:
            is_current = self._step(connection, target, needs_words=needs_words, may_write=True)
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
                if is_behind and target is None:
                    target = self._truth.changes(None).cursor
                is_behind = True
            except DiscardedError:
                tries += 1
                if tries == _TRIES:
                    raise

    # Following

    def _step(
        self,
        connection: sqlite3.Connection,
        target: Cursor | None,
        *,
        needs_words: bool,
        may_write: bool,
    ) -> bool:
        """Whether nothing is missing; otherwise apply some changes, if writing is allowed."""
        state = _state_of(connection)
        if state is None or state.compared is not None:
            if may_write:
                self._compare(connection, state)
            return False
        is_there = target is not None and has_reached(state.cursor, target)
        if not is_there and not self._follow(connection, state, target, may_write=may_write):
            return False
        if needs_words and _unsearched(connection):
            if may_write:
                self._read_words(connection)
            return False
        return True

    def _follow(
        self,
        connection: sqlite3.Connection,
        state: _State,
        target: Cursor | None,
        *,
        may_write: bool,
    ) -> bool:
        """Apply changes; whether those up to a place in the feed, or all, are applied."""
        growth = self._truth.changes(state.cursor, _PAGE)
        if growth.noted is None:
            if may_write:
                # The tables may be of another history of the store, with as many lines but other content.
                raise sqlite3.DatabaseError("the change feed does not reach back to what is known")
            return False
        if not growth.noted:
            return True
        if not may_write:
            return False
        left = self._learn_some(connection, growth.noted)
        cursor = growth.cursor if left is None else left
        _set_state(connection, _State(cursor))
        is_all = left is None and not growth.has_more
        return is_all or (target is not None and has_reached(cursor, target))

    def _tell(self) -> None:
        self._done += 1
        if self._progress is not None and self._everything is not None:
            total = 2 * len(self._everything)
            self._progress(min(self._done, total), total)

    def _compare(self, connection: sqlite3.Connection, state: _State | None) -> None:
        """Compare some more of all conversations."""
        if state is None or state.compared is None:
            # Later changes are in the feed.
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
            if time.monotonic() > until or not self._look(connection, identifier):
                is_over = False
                break
            last = identifier
            seen.add(identifier)
            self._tell()
        self._remove_others(connection, begin, None if is_over else last, seen)
        if is_over:
            for name in self._truth.strange():
                references.doubt(connection, name, is_doubtful=True)
            _set_state(connection, _State(state.cursor))
            if self._progress is None:
                self._everything = None
        else:
            _set_state(connection, _State(state.cursor, last))

    def _remove_others(
        self, connection: sqlite3.Connection, begin: str, last: str | None, seen: set[str]
    ) -> None:
        """Remove conversations between two ids that the tables have and the store lacks."""
        condition, values = "id > ?", [begin]
        if last is not None:
            condition, values = "id > ? AND id <= ?", [begin, last]
        query = f"SELECT id FROM conversations WHERE {condition}"  # noqa: S608 - conditions are ours
        for (identifier,) in connection.execute(query, values).fetchall():
            if identifier not in seen:
                while not self._look(connection, identifier):
                    pass

    def _learn_some(self, connection: sqlite3.Connection, noted: Sequence[Noted]) -> Cursor | None:
        """Apply changes for a while, each conversation once; the cursor to continue from if some are left.

        In order of first change: everything before the first remaining one is applied.
        """
        until = time.monotonic() + _TURN
        changes: dict[str, list[Noted]] = {}
        for one in noted:
            changes.setdefault(one.identifier, []).append(one)
        # Many conversations refer to the same content, whose number of users is then written once.
        used: list[tuple[str, bytes]] = []
        left: Cursor | None = None
        for done, (identifier, found) in enumerate(changes.items()):
            if done and time.monotonic() > until:
                left = found[0].place
                break
            news = self.recent.of(identifier, [one.place for one in found])
            if news and learn(connection, news):
                used += [(identifier, key) for addition in news for key in addition.keys]
                continue
            references.use(connection, used)
            used.clear()
            if not self._look(connection, identifier, found[-1].end):
                left = found[0].place
                break
        references.use(connection, used)
        return left

    # Looking

    def _look(
        self, connection: sqlite3.Connection, identifier: str, noted: int | None = None
    ) -> bool:
        """Update the tables to the stored state of a conversation, its ancestors first.

        ``noted`` is its end according to the feed, which is written after the lines: lines beyond it may be half of a
        change, which is recorded later. False if there is so much to do that others would wait too long for this
        transaction; the next call continues.
        """
        waiting = [identifier]
        begun = set()
        while waiting:
            name = waiting[-1]
            metadata, seen, is_doubtful = self._metadata(name)
            if metadata is None:
                self._remove(connection, name, is_doubtful=is_doubtful)
                waiting.pop()
                continue
            parent = metadata.parent
            above = None if parent is None else row_of(connection, parent)
            is_behind = above is None or above.length < metadata.position
            if parent is not None and name not in begun and is_behind:
                begun.add(name)
                waiting.append(parent)
                continue
            references.doubt(connection, name, is_doubtful=False)
            if not self._look_at(connection, metadata, seen, noted if name == identifier else None):
                return False
            waiting.pop()
        return True

    def _remove(
        self, connection: sqlite3.Connection, identifier: str, *, is_doubtful: bool
    ) -> None:
        """Remove a conversation that is gone or damaged: verify reports damage, the list does not."""
        row = row_of(connection, identifier)
        if row is not None:
            note_freed(connection)
            writing.remove(connection, row.number)
            references.move(connection, row.parent, None)
        if not is_doubtful:
            references.release(connection, identifier)
        references.doubt(connection, identifier, is_doubtful=is_doubtful)

    def _metadata(self, identifier: str) -> tuple[Metadata | None, int, bool]:
        """Metadata and its checksum; without metadata, whether anything else of the conversation is there."""
        try:
            raw = self._truth.metadata(identifier)
            if raw is None:
                return None, 0, bool(self._truth.referred(identifier))
            return msgspec.json.decode(raw, type=Metadata), zlib.crc32(raw), False
        except (CanneryError, msgspec.MsgspecError, UnicodeError, RecursionError):
            return None, 0, True

    def _look_at(
        self, connection: sqlite3.Connection, metadata: Metadata, seen: int, noted: int | None
    ) -> bool:
        """Update the row of a conversation to its end, or as far as time allows; whether the conversation exists."""
        until = time.monotonic() + _TURN
        row = row_of(connection, metadata.id)
        parent = None if row is None else row.parent
        number = None if row is None else row.number
        length = noted
        if metadata.deleted is not None:
            # gc removes all of it.
            length = self._truth.final_end(metadata.id, metadata.position)
        elif length is None or (row is not None and row.length > length):
            length = self._truth.end(metadata.id, metadata.position)
        if row is not None and (row.seen, row.length) == (seen, length):
            return True
        if row is not None and (row.length > length or row.position != metadata.position):
            note_freed(connection)
            writing.remove(connection, row.number)
            references.release(connection, metadata.id)
            row = None
        if row is None:
            base = writing.base_of(connection, metadata)
            calls: list[tuple[str, int, int]] = []
            if base is None:
                base, calls = self._read_base(metadata)
            row = writing.begin(connection, metadata, seen, base, number)
            writing.put_calls(connection, row, calls)
        else:
            row = writing.described(connection, row, metadata, seen)
        is_late = False
        while row.length < length and not is_late:
            lines = self._lines(metadata, row.length, min(length, row.length + _LINES))
            keys = self._keys(metadata, lines)
            references.use(connection, [(metadata.id, key) for key in keys])
            entries = self._meanings(metadata, lines)
            row = writing.grown(connection, row, entries, with_words=False)
            is_late = time.monotonic() > until
        writing.put(connection, row)
        references.move(connection, parent, row.parent)
        return row.length >= length

    def _keys(self, metadata: Metadata, lines: Sequence[bytes | None]) -> set[bytes]:
        """The content that lines refer to; for a damaged line, everything that the log may refer to."""
        there = [line for line in lines if line is not None]
        is_whole = len(there) == len(lines)
        found = referred(b"\n".join(there)) if is_whole else self._truth.referred(metadata.id)
        return {key_of(metadata.scope, digest) for digest in found}

    def _lines(self, metadata: Metadata, start: int, stop: int) -> list[bytes | None]:
        """Lines of a conversation's own log; None for unreadable ones."""
        try:
            lines = list(self._truth.read(metadata.id, metadata.position, start, stop).lines)
        except CanneryError:
            lines = []
        return lines + [None] * (stop - start - len(lines))

    def _entries(self, metadata: Metadata, start: int, stop: int) -> list[Entry | None]:
        return self._meanings(metadata, self._lines(metadata, start, stop))

    def _meanings(self, metadata: Metadata, lines: Sequence[bytes | None]) -> list[Entry | None]:
        """The catalogue entries of lines; None for unreadable ones."""
        contents = self._truth.contents(metadata.scope)
        there = [line for line in lines if line is not None]
        try:
            if len(there) == len(lines):
                found = list(self._describe(contents, there))
                if len(found) == len(lines):
                    return list(found)
        except CanneryError:
            pass
        return [self._entry(contents, line) for line in lines]

    def _entry(self, contents: ContentTable, line: bytes | None) -> Entry | None:
        try:
            return None if line is None else self._describe(contents, [line])[0]
        except CanneryError:
            return None

    def _read_base(
        self, metadata: Metadata
    ) -> tuple[writing.Base | None, list[tuple[str, int, int]]]:
        """The state at a fork's start, and its calls, if its parent is damaged only in what they do not share."""
        shared: list[Entry | None] = []
        fork: Metadata | None = metadata
        pieces: list[list[Entry | None]] = []
        stop = metadata.position
        seen = set()
        while fork is not None and stop > 0 and fork.parent is not None:
            if fork.id in seen:
                return None, []
            seen.add(fork.id)
            fork, _, _ = self._metadata(fork.parent)
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
        """Index some of the missing words."""
        until = time.monotonic() + _TURN
        for row in _unsearched(connection):
            stop = row.length
            if row.deleted:
                # Only lines that forks share can be found.
                forks = writing.forks_of(connection, row)
                stop = max((fork.position for fork in forks), default=row.searched)
            metadata, _, _ = self._metadata(row.id)
            upto = min(stop, row.searched + _LINES)
            if metadata is not None and upto > row.searched:
                entries = self._entries(metadata, row.searched, upto)
                writing.put_words(connection, row, row.searched, entries)
            is_over = metadata is None or upto >= stop
            writing.put(connection, row._replace(searched=row.length if is_over else upto))
            self._tell()
            if time.monotonic() > until:
                return


def _fold(
    shared: Sequence[Entry | None],
) -> tuple[writing.Base, list[tuple[str, int, int]]]:
    """The state of a history that begins with entries."""
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


def _unsay(
    connection: sqlite3.Connection, row: Row, start: int, entries: Sequence[Entry | None]
) -> None:
    writing.forget_words(connection, row, start, entries)
    # The same words must not be removed twice.
    connection.execute("DELETE FROM places WHERE number = ? AND position >= ?", (row.number, start))


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
