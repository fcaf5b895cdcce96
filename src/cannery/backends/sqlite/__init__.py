"""One SQLite file: data and catalogue change in the same transaction.

``tables`` has the schema and opens connections, ``commits`` makes changes, ``contents`` stores content in pieces,
``exchanges`` the usage records, ``collection`` frees unreachable data, ``inspection`` finds damage. ``sqlite::memory:``
is a store that ends with its process.

Reads have a connection of their own, so that they do not wait for a sync; a store in memory has one for all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from cannery.backends._contract import (
    GRACE,
    Backup,
    Change,
    Collection,
    ContentTable,
    Cursor,
    Damage,
    Describe,
    Durability,
    Expected,
    Growth,
    Inspection,
    Noted,
    Progress,
    Reading,
    Receipt,
    Span,
    check_identifier,
)
from cannery.backends._hashing import Hashing
from cannery.backends._seals import are_as_written, ordinal_of, unseal
from cannery.backends._single import SingleCommits
from cannery.backends.sqlite.catalogue import SqliteCatalogue
from cannery.backends.sqlite.collection import Collector
from cannery.backends.sqlite.commits import Commits, cursor_at, identity_of, last_change
from cannery.backends.sqlite.contents import SqliteContents
from cannery.backends.sqlite.exchanges import SqliteExchanges
from cannery.backends.sqlite.inspection import inspect
from cannery.backends.sqlite.tables import (
    LINE,
    LINE_BYTES,
    METADATA_BYTES,
    MOST_MISSING,
    STOP,
    VERSION,
    Database,
    is_writable,
)
from cannery.errors import CanneryError, DamageError, StoreUnavailableError

T = TypeVar("T")
_PAGE = 1000


class SqliteBackend(SingleCommits):
    """One file, any number of threads and processes."""

    recovered: tuple[Damage, ...] = ()
    encryption = None

    def __init__(
        self, path: str, describe: Describe, hashing: Hashing, *, read_only: bool = False
    ) -> None:
        self._path = path
        self.is_read_only = read_only or not is_writable(path)
        self._database = Database(path, hashing, is_read_only=self.is_read_only)
        self._commits = Commits(self._database)
        self._describe = describe
        self.catalogue = SqliteCatalogue(self._database, self, describe)
        self.exchanges = SqliteExchanges(self._database, is_read_only=self.is_read_only)
        if self._database.version != VERSION:
            self.catalogue.upgrade()

    # Writing

    def commit_each(
        self, changes: Iterable[Change], durability: Durability = "sync"
    ) -> list[Receipt | CanneryError]:
        """Make several changes in order in one transaction, each of them all or nothing."""
        wanted = list(changes)
        if self.is_read_only:
            return [self._refusal() for _ in wanted]
        return self._commits.submit(wanted, durability)

    def _refusal(self) -> StoreUnavailableError:
        reason = "its medium is read-only, or its permissions forbid writing"
        return StoreUnavailableError(f"{self._path} can only be read: {reason}")

    # Reading

    def contents(self, scope: str) -> ContentTable:
        """The content of a scope."""
        return SqliteContents(self._database, scope)

    def metadata(self, identifier: str) -> bytes | None:
        """The metadata of a conversation, or None."""
        return self.metadata_many([identifier]).get(identifier)

    def metadata_many(self, identifiers: Iterable[str]) -> dict[str, bytes]:
        """The metadata of the existing ones."""
        wanted = [check_identifier(one) for one in identifiers]
        query = f"SELECT {METADATA_BYTES} FROM stored WHERE id = ?"  # noqa: S608 - names are ours
        found = {}
        with self._database.reading() as connection:
            for identifier in wanted:
                row = connection.execute(query, (identifier,)).fetchone()
                if row is not None:
                    found[identifier] = _unsealed(row[0], identifier)
        return found

    def identifiers(self, after: str = "") -> Iterator[str]:
        """Every conversation, in order."""
        query = "SELECT id FROM stored WHERE id > ? ORDER BY id LIMIT ?"
        while True:
            with self._database.reading() as connection:
                page = [one for (one,) in connection.execute(query, (after, _PAGE))]
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1]

    def end(self, identifier: str, base: int) -> int:
        """The position after the last line."""
        check_identifier(identifier)
        with self._database.reading() as connection:
            row = connection.execute(
                f"SELECT {STOP} FROM stored WHERE id = ?",  # noqa: S608 - names are ours
                (identifier,),
            ).fetchone()
        return base if row is None else max(int(row[0]), base)

    def read(self, identifier: str, base: int, start: int, stop: int | None = None) -> Reading:
        """The lines from one position to before another."""
        return self.read_many([Span(identifier, base, start, stop)])[0]

    def read_many(self, spans: Sequence[Span]) -> list[Reading]:
        """The lines of several spans, from one snapshot."""
        for span in spans:
            check_identifier(span.identifier)
        with self._database.reading() as connection:
            return [_read(connection, span) for span in spans]

    def changes(self, cursor: Cursor | None, limit: int = _PAGE) -> Growth:
        """The conversations that changed after a cursor."""
        with self._database.reading() as connection:
            identity, last = identity_of(connection), last_change(connection)
            now = cursor_at(identity, last)
            of, _, number = (cursor or "").partition("-")
            if cursor is None or of != identity or not number.isdecimal() or int(number) > last:
                return Growth(now, None)
            query = "SELECT id, changed FROM stored WHERE changed > ? ORDER BY changed LIMIT ?"
            found = connection.execute(query, (int(number), limit)).fetchall()
        noted = [Noted(one, cursor_at(identity, changed)) for one, changed in found]
        has_more = len(found) == limit
        return Growth(noted[-1].place if has_more else now, noted, has_more)

    # Maintenance

    def manifest(self) -> Mapping[str, Expected]:
        """Nothing: a transaction keeps lines and their facts consistent."""
        return {}

    def inspect(self, progress: Progress | None = None) -> Inspection:
        """Re-derive every hash."""
        return inspect(self._database, self._describe, progress)

    def collect(
        self,
        *,
        grace: float = GRACE,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Collection:
        """Free deleted conversations except the parts that forks need, and unreferenced content."""
        if self.is_read_only:
            raise self._refusal()
        return Collector(self._database, self._describe, grace).run(
            dry_run=dry_run, progress=progress
        )

    def purge(self) -> None:
        """Rewrite the file, without free pages and without removed words."""
        self._database.purge(is_thorough=True)

    def backup(self, path: str, progress: Progress | None = None) -> Backup:
        """Copy a consistent snapshot to a new file."""
        conversations = sum(1 for _ in self.identifiers())
        return Backup(conversations, self._database.copy_to(path, progress))

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _unsealed(data: bytes, identifier: str) -> bytes:
    found = unseal(data)
    if found is None:
        raise DamageError(
            f"conversations/{identifier}/conversation.json", "the metadata is damaged"
        )
    return found


def _read(connection: sqlite3.Connection, span: Span) -> Reading:
    start = max(span.start, span.base)
    found = connection.execute(
        f"SELECT number, {STOP} FROM stored WHERE id = ?",  # noqa: S608 - names are ours
        (span.identifier,),
    ).fetchone()
    if found is None:
        return Reading(start, [])
    number, end = found
    first = number * LINE
    until = LINE if span.stop is None else max(span.stop, start)
    query = (
        f"SELECT place - ?, {LINE_BYTES} FROM lines WHERE place >= ? AND place < ? ORDER BY place"  # noqa: S608 - names are ours
    )
    rows = connection.execute(query, (first, first + start, first + until)).fetchall()
    if rows and rows[-1][0] >= end:
        # The noted end has no checksum; lines have.
        rows = [(at, line) for at, line in rows if at < end or ordinal_of(line) == at]
        end = max(end, rows[-1][0] + 1) if rows else end
    stop = min(until, end)
    lines: list[bytes | None] = [line for _, line in rows]
    expected = max(stop - start, 0)
    if expected - len(rows) > MOST_MISSING:
        where = f"conversations/{span.identifier}"
        raise DamageError(
            where, f"it says that it ends at {end}, and has {len(rows)} lines of that"
        )
    if len(rows) == expected and are_as_written([line for _, line in rows], start):
        return Reading(start, lines)
    where = f"conversations/{span.identifier}/messages.jsonl"
    sound = {at: line for at, line in rows if ordinal_of(line) == at}
    lines = [sound.get(at) for at in range(start, start + expected)]
    damages = [
        Damage(where, "damaged line", at - span.base + 1, at)
        for at in range(start, start + expected)
        if at not in sound
    ]
    return Reading(start, lines, tuple(damages))


def open_backend(
    location: str, describe: Describe, hashing: Hashing, *, read_only: bool = False
) -> SqliteBackend:
    """Open the store in a file, or create one there."""
    return SqliteBackend(location or ":memory:", describe, hashing, read_only=read_only)
