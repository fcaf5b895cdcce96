"""Keeping the index up with the truth: what changed is read, and only that.

``catch_up`` brings listing up to date, ``chain_up`` recognition, ``search_up`` search; each remembers how far
it has come in every conversation. A fork goes on from what is known of its ancestors, and reads nothing of theirs.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from cannery.errors import CanneryError, ConversationNotFoundError
from cannery.messages import AnyCanister, InvocationCanisterClass
from cannery.storage.conversation import read_positions
from cannery.storage.history import Chain
from cannery.storage.index import (
    Pending,
    Prefix,
    Row,
    cursor_of,
    encode_tags,
    prefixes,
    put_row,
    remove,
    row_of,
    rows,
    set_cursor,
)
from cannery.storage.metadata import Metadata
from cannery.storage.recent import Addition
from cannery.storage.words import words_of

if TYPE_CHECKING:
    from cannery.storage.store import Store

_TURN = 1.0
# Called when one conversation is done.
Step = Callable[[], object]


def _silent() -> None:
    """Nobody wants to hear of progress."""


def catch_up(store: Store, connection: sqlite3.Connection, step: Step = _silent) -> None:
    """Look at every conversation that changed since the last time."""
    cursor = cursor_of(connection)
    growth = store.backend.changes(cursor)
    places = growth.places
    if places is None:
        places = dict.fromkeys(store.backend.identifiers(), ())
        known = {row.id: row for row in rows(connection)}
        for gone in known.keys() - places.keys():
            remove(connection, known[gone])
    pending = Pending(connection)
    for identifier, noted in places.items():
        news = store.recent.of(identifier, noted)
        if not news or not _learn(store, connection, news, pending):
            pending.write()
            _look(store, connection, identifier, pending)
        step()
    pending.write()
    if cursor != growth.cursor:
        set_cursor(connection, growth.cursor)


def _learn(
    store: Store, connection: sqlite3.Connection, news: Sequence[Addition], pending: Pending
) -> bool:
    """Take changes from memory, with their part of the chain, if they follow upon what the tables know; else False."""
    metadata, raw = news[-1].metadata, news[-1].raw
    row = row_of(connection, metadata.id)
    known = metadata.position if row is None else row.length
    if news[0].start != known or metadata.deleted is not None:
        return False
    if row is not None and (row.chained < known or row.unreadable or row.deleted):
        return False
    new = [canister for addition in news for canister in addition.canisters]
    number = pending.next_number() if row is None else row.number
    row = _row(metadata, row, number, zlib.crc32(raw), known + len(new), new[-1:])
    if new:
        if row.parent is not None:
            # What is known of its ancestors may be waiting.
            pending.write()
        try:
            chain = _resume(store, connection, row)
        except CanneryError:
            return False
        spoken = _put_chain(pending, row, chain, new)
        row = row._replace(chained=row.length, spoken=spoken)
    pending.put_row(row)
    return True


def _look(store: Store, connection: sqlite3.Connection, identifier: str, pending: Pending) -> None:
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
    last: Sequence[AnyCanister] = ()
    if length > metadata.position and metadata.deleted is None:
        with contextlib.suppress(CanneryError):
            last = store.handle(identifier).read(length - 1, length).canisters
    number = pending.next_number() if row is None else row.number
    put_row(connection, _row(metadata, row, number, seen, length, last))


def _row(
    metadata: Metadata,
    row: Row | None,
    number: int,
    seen: int,
    length: int,
    last: Sequence[AnyCanister],
) -> Row:
    """What the tables say of a conversation; ``last`` holds its last canister, if that is its own and can be read."""
    updated = max([metadata.updated, *(canister.timestamp for canister in last)])
    return Row(
        number=number,
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
        deleted=int(metadata.deleted is not None),
        length=length,
        chained=row.chained if row else metadata.position,
        spoken=row.spoken if row else metadata.position,
        unreadable=row.unreadable if row else 0,
        searched=row.searched if row else metadata.position,
        searched_from=row.searched_from if row else metadata.position,
    )


def chain_up(store: Store, connection: sqlite3.Connection, step: Step = _silent) -> bool:
    """Continue the chain of every conversation that has grown, and of deleted ones that have forks.

    What takes long is done in several transactions, so that others have their turn: False if more is to be done.
    """
    until = time.monotonic() + _TURN
    behind = (
        "chained < length AND NOT unreadable AND (NOT deleted OR EXISTS"
        " (SELECT 1 FROM conversations f WHERE f.parent = conversations.id))"
    )
    for identifier in [row.id for row in rows(connection, behind)]:
        row = row_of(connection, identifier)
        if row is not None and row.chained < row.length:
            _chain(store, connection, row)
        step()
        if time.monotonic() > until:
            return False
    return True


def _chain(store: Store, connection: sqlite3.Connection, row: Row) -> Row:
    """Continue the chain of one conversation."""
    try:
        chain = _resume(store, connection, row)
        new = _load(store, row.id, row.chained, row.length)
    except CanneryError:
        # A history that cannot be read whole cannot be recognised.
        return put_row(connection, row._replace(chained=row.length, unreadable=1))
    pending = Pending(connection)
    spoken = _put_chain(pending, row, chain, new)
    pending.write()
    end = row.chained + len(new)
    # gc may have taken from a deleted conversation what no fork needs.
    return put_row(connection, row._replace(chained=end, length=end, spoken=spoken))


def _load(store: Store, identifier: str, start: int, stop: int) -> Sequence[AnyCanister]:
    """Canisters of a conversation, deleted or not."""
    reading = read_positions(store, store.any_metadata(identifier), start, stop)
    reading.check()
    return reading.canisters


def _put_chain(pending: Pending, row: Row, chain: Chain, new: Sequence[AnyCanister]) -> int:
    """Write what canisters add to the history of a conversation; where the last that adds something ends."""
    roles: dict[str, int] = {}
    spoken = row.spoken
    for position, canister in enumerate(new, row.chained + 1):
        digest = chain.add(canister)
        roles.setdefault(canister.role.value, position)
        if digest is not None:
            spoken = position
            prefix = Prefix(row.number, position, digest, chain.calls)
            pending.put_prefix(prefix)
            if isinstance(canister, InvocationCanisterClass):
                pending.put_call(prefix, canister.identifier)
    pending.put_roles(row.number, roles)
    return spoken


def _resume(store: Store, connection: sqlite3.Connection, row: Row) -> Chain:
    """The chain of what is known of a conversation, from the tables; read again where they do not know."""
    if not row.chained:
        return Chain()
    own = _own_prefix(connection, row, row.chained)
    if own is None:
        line = _lineage(connection, row, row.chained)
        for ancestor, limit in reversed(list(line)[1:]):
            known = ancestor
            if known.chained < min(limit, known.length) and not known.unreadable:
                known = _chain(store, connection, known)
            if known.unreadable or known.chained < limit:
                return _read_again(store, connection, row)
        own = last_prefix(connection, row, row.chained)
    if own is None:
        return Chain()
    return Chain(own.digest, own.calls, _finder(connection, row))


def _read_again(store: Store, connection: sqlite3.Connection, row: Row) -> Chain:
    """The chain of a fork whose ancestors are damaged somewhere, if not in what it shares with them."""
    shared = _load(store, row.id, 0, row.chained)
    chain = Chain()
    pending = Pending(connection)
    for position, canister in enumerate(shared, 1):
        digest = chain.add(canister)
        if digest is not None and isinstance(canister, InvocationCanisterClass):
            pending.put_call(Prefix(row.number, position, digest, chain.calls), canister.identifier)
    pending.write()
    return chain


def _lineage(connection: sqlite3.Connection, row: Row, limit: int) -> Iterator[tuple[Row, int]]:
    """A conversation and its ancestors, each with the position up to which it matters."""
    seen = {row.id}
    while True:
        yield row, limit
        if row.parent is None or row.parent in seen:
            return
        seen.add(row.parent)
        limit = min(limit, row.position)
        above = row_of(connection, row.parent)
        if above is None:
            raise ConversationNotFoundError(row.parent)
        row = above


def _own_prefix(connection: sqlite3.Connection, row: Row, limit: int) -> Prefix | None:
    condition = "number = ? AND position <= ? ORDER BY position DESC LIMIT 1"
    return next(prefixes(connection, condition, (row.number, limit)), None)


def last_prefix(connection: sqlite3.Connection, row: Row, limit: int) -> Prefix | None:
    """The longest prefix of a conversation up to a position that ends in something said."""
    for ancestor, until in _lineage(connection, row, limit):
        found = _own_prefix(connection, ancestor, until)
        if found is not None:
            return found
    return None


def _finder(connection: sqlite3.Connection, row: Row) -> Callable[[str], int | None]:
    query = (
        "SELECT ordinal FROM calls WHERE number = ? AND identifier = ? AND position <= ?"
        " ORDER BY ordinal DESC LIMIT 1"
    )

    def find(identifier: str) -> int | None:
        for ancestor, limit in _lineage(connection, row, row.chained):
            found = connection.execute(query, (ancestor.number, identifier, limit)).fetchone()
            if found is not None:
                return int(found[0])
        return None

    return find


class Holder(NamedTuple):
    """A conversation that holds a history as its first ``position`` canisters."""

    identifier: str
    position: int
    length: int
    is_at_end: bool


_HOLDING = (
    " FROM prefixes p JOIN conversations c USING (number)"
    " WHERE p.digest = ? AND c.profile = 'archive'"
)


def is_held(connection: sqlite3.Connection, digest: bytes) -> bool:
    """Whether some conversation holds a history, living or not: whoever holds it holds all that it begins with."""
    return connection.execute(f"SELECT 1{_HOLDING} LIMIT 1", (digest,)).fetchone() is not None


def find_holder(connection: sqlite3.Connection, digest: bytes) -> Holder | None:
    """The living conversation that holds a history, rather one in which nothing was said after it."""
    order = " ORDER BY c.deleted, p.position >= c.spoken DESC, c.updated DESC"
    query = f"SELECT p.number, p.position{_HOLDING}{order}"
    for found in connection.execute(query, (digest,)).fetchall():
        prefix = next(prefixes(connection, "number = ? AND position = ?", found), None)
        row = next(rows(connection, "number = ?", found[:1]), None)
        if prefix is None or row is None or prefix.digest != digest:
            raise sqlite3.DatabaseError("tables that contradict each other")
        living = _living(connection, row, prefix.position)
        if living is not None:
            is_at_end = prefix.position >= living.spoken
            return Holder(living.id, prefix.position, living.length, is_at_end)
    return None


def _living(connection: sqlite3.Connection, row: Row, position: int) -> Row | None:
    """A conversation, or if it is deleted a fork of it that has its first canisters."""
    waiting = [row]
    for one in waiting:
        if not one.deleted:
            return one
        waiting += rows(connection, "parent = ? AND position >= ?", (one.id, position))
    return None


def search_up(store: Store, connection: sqlite3.Connection, step: Step = _silent) -> bool:
    """Read the texts that have been added; False if more is to be done."""
    until = time.monotonic() + _TURN
    for row in list(rows(connection, "searched < length AND NOT deleted")):
        _read_words(store, connection, row, row.searched, row.length)
        put_row(connection, row._replace(searched=row.length))
        step()
        if time.monotonic() > until:
            return False
    # What a fork shares with a deleted parent can be found only as its own.
    orphaned = "parent IN (SELECT id FROM conversations WHERE deleted) AND NOT deleted AND searched_from > 0"
    for row in list(rows(connection, orphaned)):
        start = _first_own(connection, row)
        if start < row.searched_from:
            _read_words(store, connection, row, start, row.searched_from)
            put_row(connection, row._replace(searched_from=start))
    return True


def _first_own(connection: sqlite3.Connection, row: Row) -> int:
    """The first position of a conversation that no living ancestor has."""
    start = row.position
    with contextlib.suppress(ConversationNotFoundError):
        for ancestor, _ in list(_lineage(connection, row, row.length))[1:]:
            if not ancestor.deleted:
                break
            start = min(start, ancestor.position)
    return start


def _read_words(
    store: Store, connection: sqlite3.Connection, row: Row, start: int, stop: int
) -> None:
    for position, canister in _at_positions(store, row.id, start, stop):
        try:
            text = words_of(canister)
        except CanneryError:
            continue
        if text:
            place = (row.number, position, canister.role.value, sortable(canister.timestamp))
            cursor = connection.execute(
                "INSERT INTO places (number, position, role, said) VALUES (?, ?, ?, ?)", place
            )
            connection.execute(
                "INSERT INTO texts (rowid, text) VALUES (?, ?)", (cursor.lastrowid, text)
            )


def _at_positions(
    store: Store, identifier: str, start: int, stop: int
) -> Iterator[tuple[int, AnyCanister]]:
    """The canisters that can be read, each with its position."""
    conversation = store.handle(identifier)
    with contextlib.suppress(CanneryError):
        reading = conversation.read(start, stop)
        if not reading.damages:
            yield from enumerate(reading.canisters, start)
            return
    for position in range(start, stop):
        with contextlib.suppress(CanneryError):
            for canister in conversation.read(position, position + 1).canisters:
                yield position, canister


def sortable(moment: datetime) -> str:
    """A time as text that sorts by time."""
    try:
        moment = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    except (OverflowError, ValueError):
        # The first and the last day there are, where they are not UTC's.
        moment = moment.replace(tzinfo=UTC)
    return moment.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
