"""Makes changes: all waiting ones in one transaction, each change all or nothing."""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Sequence

from cannery.backends._catalogue import matching, writing
from cannery.backends._catalogue.schema import row_of
from cannery.backends._contract import (
    Change,
    Cursor,
    Durability,
    Receipt,
    check_change,
    check_identifier,
)
from cannery.backends._seals import seal, unseal
from cannery.backends.sqlite.contents import Encoded, encode, find_content, put_content
from cannery.backends.sqlite.tables import LINE, METADATA_BYTES, STOP, Database, translated
from cannery.errors import (
    CanneryError,
    ConflictError,
    ContentNotFoundError,
    DamageError,
    StoreUnavailableError,
)

_KEPT_KEYS = 100_000


class _Order:
    """The requested changes of a thread, and their outcome."""

    __slots__ = ("changes", "durability", "encoded", "outcomes")

    def __init__(self, changes: Sequence[Change], durability: Durability) -> None:
        self.changes = changes
        self.durability = durability
        self.encoded = [_encode_contents(change) for change in changes]
        self.outcomes: list[Receipt | CanneryError] | None = None


def _encode_contents(change: Change) -> dict[bytes, Encoded]:
    """Prepare the expensive parts before taking the lock."""
    return {digest: encode(data) for digest, data in change.contents.items() if data is not None}


class Commits:
    """The changes of this process: the thread that gets the lock commits those of all waiting threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._gate = threading.Lock()
        self._waiting: list[_Order] = []

    def submit(
        self, changes: Sequence[Change], durability: Durability
    ) -> list[Receipt | CanneryError]:
        """Make changes; returns for each its receipt or its error."""
        for change in changes:
            check_change(change)
        order = _Order(changes, durability)
        with self._gate:
            self._waiting.append(order)
        with self._database.write_lock:
            if order.outcomes is None:
                self._work()
        return order.outcomes or []

    def _work(self) -> None:
        with self._gate:
            orders, self._waiting = self._waiting, []
        is_lazy = all(order.durability == "os" for order in orders)
        is_single = sum(len(order.changes) for order in orders) == 1
        try:
            made: list[list[Receipt | CanneryError]] = []
            with self._database.writing(is_lazy=is_lazy) as connection:
                make = _make_single if is_single else _make
                made += [make(connection, order) for order in orders]
        except CanneryError as error:
            for order in orders:
                order.outcomes = [error for _ in order.changes]
            return
        for order, outcomes in zip(orders, made, strict=True):
            order.outcomes = outcomes


def _make_single(connection: sqlite3.Connection, order: _Order) -> list[Receipt | CanneryError]:
    """Make a change in a transaction of its own, which its error ends."""
    outcomes: list[Receipt | CanneryError] = []
    for change, encoded in zip(order.changes, order.encoded, strict=True):
        with translated(change.identifier):
            known = _receipt_of(connection, change)
            outcomes.append(known or _commit(connection, change, encoded))
    return outcomes


def _make(connection: sqlite3.Connection, order: _Order) -> list[Receipt | CanneryError]:
    outcomes: list[Receipt | CanneryError] = []
    for change, encoded in zip(order.changes, order.encoded, strict=True):
        connection.execute("SAVEPOINT change")
        try:
            with translated(change.identifier):
                known = _receipt_of(connection, change)
                outcomes.append(known or _commit(connection, change, encoded))
        except StoreUnavailableError:
            # The medium refuses: none of the changes can be made.
            raise
        except CanneryError as error:
            connection.execute("ROLLBACK TO change")
            outcomes.append(error)
        connection.execute("RELEASE change")
    return outcomes


def _receipt_of(connection: sqlite3.Connection, change: Change) -> Receipt | None:
    """The receipt of the first commit with the same key."""
    if change.key is None:
        return None
    query = "SELECT start, stop, place FROM keys WHERE scope = ? AND key = ?"
    found = connection.execute(query, (change.scope, change.key)).fetchone()
    return None if found is None else Receipt(*found)


def _commit(
    connection: sqlite3.Connection, change: Change, encoded: dict[bytes, Encoded]
) -> Receipt:
    _check_requirements(connection, change)
    found = connection.execute(
        f"SELECT number, {STOP} FROM stored WHERE id = ?",  # noqa: S608 - names are ours
        (change.identifier,),
    ).fetchone()
    start = change.base if found is None else max(found[1], change.base)
    if change.expected is not None and change.expected != start:
        raise ConflictError(f"expected position {change.expected}, found {start}", start)
    if change.claims and matching.is_claimed(
        connection, change.scope, change.session, change.claims
    ):
        raise ConflictError("another conversation holds this history already")
    contents = {
        digest: find_content(connection, change.scope, digest) for digest in change.contents
    }
    for digest, content in contents.items():
        if content is None and digest not in encoded:
            raise ContentNotFoundError(f"sha256:{digest.hex()}")
    number = _learn(connection, change, start)
    stop = start + len(change.lines)
    place = _store(connection, change, number, start, stop)
    for digest, found_content in contents.items():
        content = found_content
        if content is None:
            content = put_content(connection, change.scope, digest, encoded[digest])
        _use(connection, number, content)
    receipt = Receipt(start, stop, place)
    if change.key is not None:
        _remember(connection, change, receipt)
    return receipt


def _use(connection: sqlite3.Connection, number: int, content: int) -> None:
    """Record that a conversation refers to content, which is then no longer only staged."""
    connection.execute(
        "UPDATE contents SET staged = NULL WHERE content = ? AND staged IS NOT NULL", (content,)
    )
    connection.execute("INSERT OR IGNORE INTO uses VALUES (?, ?)", (number, content))


def _check_requirements(connection: sqlite3.Connection, change: Change) -> None:
    for identifier, expected in change.requires.items():
        found = connection.execute(
            f"SELECT {METADATA_BYTES} FROM stored WHERE id = ?",  # noqa: S608 - names are ours
            (check_identifier(identifier),),
        ).fetchone()
        held = None if found is None else unseal(found[0])
        if found is not None and held is None:
            raise ConflictError(f"the metadata of conversation {identifier!r} is damaged")
        if held != expected:
            raise ConflictError(f"conversation {identifier!r} has changed")


def _learn(connection: sqlite3.Connection, change: Change, start: int) -> int:
    """Update the catalogue; returns the number of the conversation."""
    row = row_of(connection, change.identifier)
    metadata = change.metadata
    is_new, before = row is None, row
    if row is None:
        if metadata is None:
            raise ConflictError(f"there is no conversation {change.identifier!r}")
        base = writing.base_of(connection, metadata)
        row = writing.begin(connection, metadata, zlib.crc32(metadata.encode()), base)
    elif metadata is not None:
        row = writing.described(connection, row, metadata, zlib.crc32(metadata.encode()))
    if row.length != start:
        raise DamageError(f"conversations/{change.identifier}", "catalogue and lines disagree")
    if change.lines:
        row = writing.grown(connection, row, change.entries, with_words=True)
    return writing.put(connection, row, is_new=is_new, before=before).number


def _store(
    connection: sqlite3.Connection, change: Change, number: int, start: int, stop: int
) -> Cursor:
    """Write lines and metadata; returns the place in the feed."""
    connection.executemany(
        "INSERT INTO lines VALUES (?, ?)",
        [
            (number * LINE + position, seal(line, position)[:-1])
            for position, line in enumerate(change.lines, start)
        ],
    )
    changed = last_change(connection) + 1
    if change.metadata is None:
        connection.execute(
            "UPDATE stored SET stop = ?, changed = ? WHERE number = ?", (stop, changed, number)
        )
    else:
        connection.execute(
            "INSERT INTO stored VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (number) DO UPDATE"
            " SET metadata = excluded.metadata, stop = excluded.stop, changed = excluded.changed",
            (
                number,
                change.identifier,
                change.scope,
                seal(change.metadata.encode(), 0),
                stop,
                changed,
            ),
        )
    return cursor_at(identity_of(connection), changed)


def _remember(connection: sqlite3.Connection, change: Change, receipt: Receipt) -> None:
    cursor = connection.execute(
        "INSERT INTO keys (scope, key, start, stop, place) VALUES (?, ?, ?, ?, ?)",
        (change.scope, change.key, *receipt),
    )
    connection.execute("DELETE FROM keys WHERE made <= ?", ((cursor.lastrowid or 0) - _KEPT_KEYS,))


def last_change(connection: sqlite3.Connection) -> int:
    """The number of the latest change."""
    (last,) = connection.execute("SELECT max(changed) FROM stored").fetchone()
    return int(last or 0)


def identity_of(connection: sqlite3.Connection) -> str:
    """The identity that distinguishes this store's cursors from another's."""
    found = connection.execute("SELECT value FROM facts WHERE name = 'identity'").fetchone()
    if found is None:
        raise DamageError("facts", "the identity of the store is missing")
    return str(found[0])


def cursor_at(identity: str, change: int) -> Cursor:
    """The cursor after a change."""
    return f"{identity}-{change}"
