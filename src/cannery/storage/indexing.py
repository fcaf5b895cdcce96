"""Keeping the index up with the truth: what changed is read, and only that.

``catch_up`` brings listing up to date, ``chain_up`` recognition, ``search_up`` search; each remembers how far
it has come in every conversation.
"""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from cannery.errors import CanneryError, ConversationNotFoundError
from cannery.messages import AnyCanister
from cannery.storage.history import Chain, decode_chain
from cannery.storage.index import (
    Row,
    cursor_of,
    encode_tags,
    put_row,
    remove,
    row_of,
    rows,
    set_cursor,
)
from cannery.storage.metadata import Metadata
from cannery.storage.words import words_of

if TYPE_CHECKING:
    from cannery.storage.store import Store

_DIGEST = 16


def catch_up(store: Store, connection: sqlite3.Connection) -> None:
    """Look at every conversation that changed since the last time."""
    growth = store.backend.changes(cursor_of(connection))
    identifiers: Iterable[str]
    if growth.identifiers is None:
        identifiers = store.backend.identifiers()
        known = {row.id: row for row in rows(connection)}
        for gone in known.keys() - set(identifiers):
            remove(connection, known[gone])
    else:
        identifiers = growth.identifiers
    for identifier in identifiers:
        _look(store, connection, identifier)
    if cursor_of(connection) != growth.cursor:
        set_cursor(connection, growth.cursor)


def _look(store: Store, connection: sqlite3.Connection, identifier: str) -> None:
    row = row_of(connection, identifier)
    try:
        raw = store.backend.metadata(identifier)
        if raw is None:
            raise ConversationNotFoundError(identifier)
        metadata = store.any_metadata(identifier)
    except CanneryError:
        # Gone, or damaged: verify names it, the list does not.
        if row is not None:
            remove(connection, row)
        return
    length = store.backend.end(identifier, metadata.position)
    seen = zlib.crc32(raw)
    if row is not None and (row.seen, row.length) == (seen, length):
        return
    if row is not None and row.length > length:
        remove(connection, row)
        row = None
    put_row(connection, _row(store, metadata, row, seen, length))


def _row(store: Store, metadata: Metadata, row: Row | None, seen: int, length: int) -> Row:
    updated = metadata.updated
    if length > metadata.position and metadata.deleted is None:
        with contextlib.suppress(CanneryError):
            last = store.handle(metadata.id).read(length - 1, length).canisters
            updated = max([updated, *(canister.timestamp for canister in last)])
    return Row(
        number=row.number if row else 0,
        id=metadata.id,
        seen=seen,
        title=metadata.title,
        tags=encode_tags(metadata.tags),
        created=sortable(metadata.created),
        updated=sortable(updated),
        profile=metadata.profile,
        model=metadata.model,
        parent=metadata.parent,
        position=metadata.position,
        deleted=metadata.deleted is not None,
        length=length,
        chain=row.chain if row else None,
        chained=row.chained if row else metadata.position,
        spoken=row.spoken if row else metadata.position,
        searched=row.searched if row else metadata.position,
    )


def chain_up(store: Store, connection: sqlite3.Connection) -> None:
    """Continue the chain of every conversation that has grown."""
    behind = "(chained < length OR chain IS NULL) AND NOT deleted AND chain IS NOT x''"
    for row in list(rows(connection, behind)):
        chain = Chain() if row.chain is None else decode_chain(row.chain)
        try:
            if row.chain is None and row.position:
                prefix = store.handle(row.id).load(0, row.position)
                for _ in chain.extend(prefix):
                    pass
            new = store.handle(row.id).load(row.chained, row.length)
        except CanneryError:
            # A history that cannot be read whole cannot be recognised.
            connection.execute(
                "UPDATE conversations SET chained = length, chain = x'' WHERE number = ?",
                (row.number,),
            )
            continue
        put_chain(connection, row, chain, new)


def put_chain(
    connection: sqlite3.Connection, row: Row, chain: Chain, new: Sequence[AnyCanister]
) -> None:
    """Add canisters to what is known of a conversation's history."""
    position = row.chained
    spoken = row.spoken
    found = []
    for digest in chain.extend(new):
        position += 1
        if digest is not None:
            found.append((digest[:_DIGEST], row.number, position))
            spoken = position
    connection.executemany("INSERT OR IGNORE INTO prefixes VALUES (?, ?, ?)", found)
    connection.execute(
        "UPDATE conversations SET chained = ?, spoken = ?, chain = ? WHERE number = ?",
        (position, spoken, chain.encode(), row.number),
    )
    said = {(row.number, canister.role.value) for canister in new}
    connection.executemany("INSERT OR IGNORE INTO roles VALUES (?, ?)", said)


class Holder(NamedTuple):
    """A conversation that holds a history as its first ``position`` canisters."""

    identifier: str
    position: int
    length: int
    is_at_end: bool


def find_prefix(connection: sqlite3.Connection, digest: bytes) -> list[Holder]:
    """The living conversations that hold a history, those first in which nothing was said after it."""
    query = (
        "SELECT c.id, p.position, c.length, p.position >= c.spoken AS is_at_end"
        " FROM prefixes p JOIN conversations c USING (number)"
        " WHERE p.digest = ? AND NOT c.deleted AND c.profile = 'archive'"
        " ORDER BY is_at_end DESC, c.updated DESC LIMIT 8"
    )
    return [Holder(*found) for found in connection.execute(query, (digest[:_DIGEST],))]


def search_up(store: Store, connection: sqlite3.Connection) -> None:
    """Read the texts that have been added."""
    for row in list(rows(connection, "searched < length AND NOT deleted")):
        reading = store.handle(row.id).read(row.searched, row.length)
        for position, canister in enumerate(reading.canisters, row.searched):
            try:
                text = words_of(canister)
            except CanneryError:
                continue
            if text:
                cursor = connection.execute(
                    "INSERT INTO places (number, position, role) VALUES (?, ?, ?)",
                    (row.number, position, canister.role.value),
                )
                connection.execute(
                    "INSERT INTO texts (rowid, text) VALUES (?, ?)", (cursor.lastrowid, text)
                )
        connection.execute(
            "UPDATE conversations SET searched = length WHERE number = ?", (row.number,)
        )


def sortable(time: datetime) -> str:
    """A time as text that sorts by time."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
