"""Recognises histories by their digests, within one scope and session, or within all sessions of a scope.

A conversation that holds a history holds all of its prefixes, so the longest known prefix is found by bisection. The
shared part of a deleted conversation remains in its forks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from cannery.backends._catalogue.schema import (
    Prefix,
    Row,
    prefixes,
    row_numbered,
    row_of,
    rows,
    space_of,
)
from cannery.backends._contract import Holder, Match

_HOLDING = {
    column: " FROM prefixes p JOIN conversations c USING (number)"
    f" WHERE p.chain = ? AND p.{column} = ? AND c.profile = 'archive'"
    for column in ("space", "home")
}


class _Where(NamedTuple):
    """Where a history is looked up: a column of digests, and its value."""

    column: str
    value: int


def _where(scope: str, session: str | None) -> _Where:
    if session is None:
        return _Where("home", space_of(scope))
    return _Where("space", space_of(scope, session))


def match(
    connection: sqlite3.Connection, scope: str, session: str | None, digests: Sequence[bytes | None]
) -> Match | None:
    """The longest known prefix of a history."""
    space = _where(scope, session)
    known = [one for one in digests if one is not None]
    low, high = 0, len(known)
    stride = 1
    # The new part is usually short: step back from the end in growing strides, then bisect.
    while high > 0:
        probe = max(high - stride, 0)
        if _is_held(connection, known[probe], space):
            low = probe + 1
            break
        high = probe
        stride *= 2
    while low < high:
        middle = (low + high) // 2
        if _is_held(connection, known[middle], space):
            low = middle + 1
        else:
            high = middle
    # The longest prefix may be held by a deleted conversation.
    for one in reversed(known[:low]):
        found = _find_holder(connection, one, space)
        if found is not None:
            living, position = found
            is_at_end = position >= living.spoken
            end = living.length if is_at_end else position
            return Match(digests.index(one) + 1, living.id, end, living.length)
    return None


def is_claimed(
    connection: sqlite3.Connection, scope: str, session: str, digests: Iterable[bytes]
) -> bool:
    """Whether a conversation of a scope and session, not deleted, holds one of some histories."""
    space = _where(scope, session)
    return any(_find_holder(connection, one, space) is not None for one in digests)


def _is_held(connection: sqlite3.Connection, digest: bytes, space: _Where) -> bool:
    """Whether some conversation, deleted or not, holds a history."""
    query = f"SELECT 1{_HOLDING[space.column]} LIMIT 1"
    return connection.execute(query, (digest, space.value)).fetchone() is not None


def _find_holder(
    connection: sqlite3.Connection, digest: bytes, space: _Where
) -> tuple[Row, int] | None:
    """The conversation that holds a history, and up to where; preferably one that ends there and is not deleted."""
    order = " ORDER BY c.deleted, p.position >= c.spoken DESC, c.updated DESC"
    query = f"SELECT p.number, p.position{_HOLDING[space.column]}{order}"
    for found in connection.execute(query, (digest, space.value)).fetchall():
        prefix = _prefix(connection, *found)
        if prefix.chain != digest:
            raise sqlite3.DatabaseError("tables that contradict each other")
        living = living_at(connection, row_numbered(connection, prefix.number), prefix.position)
        if living is not None:
            return living, prefix.position
    return None


def _prefix(connection: sqlite3.Connection, number: int, position: int) -> Prefix:
    found = next(prefixes(connection, "number = ? AND position = ?", (number, position)), None)
    if found is None:
        raise sqlite3.DatabaseError("tables that contradict each other")
    return found


def living_at(connection: sqlite3.Connection, row: Row, position: int) -> Row | None:
    """A conversation or, if it is deleted, a fork of it that has its first canisters up to a position."""
    if not row.deleted:
        return row
    return next(living_forks(connection, row, position), None)


def living_forks(connection: sqlite3.Connection, row: Row, position: int) -> Iterator[Row]:
    """The forks, not deleted, of a deleted conversation or of its deleted forks, that have its first canisters."""
    dead = [row]
    for one in dead:
        # A fork may have thousands of siblings; only as many as needed are read.
        for fork in rows(connection, "c.parent = ? AND c.position >= ?", (one.id, position)):
            if fork.deleted:
                dead.append(fork)
            else:
                yield fork


def holders(
    connection: sqlite3.Connection, scope: str, digests: Iterable[bytes], limit: int
) -> list[Holder]:
    """The places in a scope of digests of single canisters."""
    query = "own = ? AND home = ? ORDER BY number DESC, position DESC LIMIT ?"
    found: list[Holder] = []
    for digest in dict.fromkeys(digests):
        for prefix in prefixes(connection, query, (digest, space_of(scope), limit)):
            row = row_numbered(connection, prefix.number)
            living = living_at(connection, row, prefix.position)
            if living is not None and living.scope == scope:
                at = prefix.position - 1
                found.append(Holder(digest, living.id, at, living.session))
    return found


def said_before(
    connection: sqlite3.Connection, identifier: str, position: int
) -> tuple[bytes | None, int] | None:
    """The digest of a conversation's history before a position, and where its last content ends; None if unknown."""
    row = row_of(connection, identifier)
    while row is not None and not row.unreadable:
        condition = "number = ? AND position <= ? ORDER BY position DESC LIMIT 1"
        found = next(prefixes(connection, condition, (row.number, position)), None)
        if found is not None:
            return found.chain, found.position
        if row.parent is None:
            return None, 0
        if row.position <= position:
            return (row.base_chain, row.base_spoken) if row.base_spoken else (None, 0)
        row = row_of(connection, row.parent)
    return None
