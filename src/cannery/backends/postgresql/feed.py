"""The change feed: a cursor is a snapshot, and what is behind it is what that snapshot does not see.

Numbers that a sequence gives out become visible in another order than they were given: a reader that remembers the
highest number misses the transaction with a lower one that commits later. So each conversation notes the transaction
that changed it last, and a cursor has the transactions that were over when it was made (``pg_snapshot``). A page goes
from one snapshot to another; if there is more than a page, the cursor has both and a place between them.

A server that was restored, or a standby that took over, may give out transaction numbers again: its timeline, and the
table itself, are part of the cursor, and with another one everything must be looked at.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cannery.backends._contract import Cursor, Growth, Noted
from cannery.backends.postgresql.connections import execute
from cannery.backends.postgresql.pipelines import Connection

_NOW = (
    "SELECT pg_current_snapshot()::text, (CASE WHEN pg_is_in_recovery() THEN 'standby'"
    " ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END)"
    " || '.' || 'cannery.conversations'::regclass::oid::text"
)
_CHANGED = (
    "SELECT id, changed_by::text AS transaction, change FROM cannery.conversations"
    " WHERE (changed_by, change) > (%s::xid8, %s) AND changed_by >= pg_snapshot_xmin(%s::pg_snapshot)"
    " AND changed_by < pg_snapshot_xmax(%s::pg_snapshot)"
    " AND NOT pg_visible_in_snapshot(changed_by, %s::pg_snapshot)"
    " AND pg_visible_in_snapshot(changed_by, %s::pg_snapshot)"
    " ORDER BY changed_by, change LIMIT %s"
)
_CURSOR = re.compile(
    r"(?P<identity>\w+)/(?P<server>[\w.]+)/(?P<since>[\d:,]+)(?:/(?P<until>[\d:,]+)/(?P<at>\d+)\.(?P<change>\d+))?"
)


class _Place(NamedTuple):
    """What a cursor says: everything before ``since``, and of what came until ``until`` what is at most ``at``."""

    since: str
    until: str | None
    at: tuple[int, int]


OWN_PLACE = "{identity} || '/' || pg_current_xact_id()::text || '.' || {change}::text"
"""What ``place_of`` gives for a change of the running transaction, in SQL."""


def place_of(identity: str, transaction: int, change: int) -> Cursor:
    """Where the feed notes a change; no other change has it."""
    return f"{identity}/{transaction}.{change}"


def read(connection: Connection, identity: str, cursor: Cursor | None, limit: int) -> Growth:
    """A page of changes behind a cursor."""
    now, server = execute(connection, _NOW).fetchone() or ("", "")
    start = f"{identity}/{server}/"
    place = _decode(cursor, identity, server)
    if place is None:
        return Growth(start + now, None)
    until = place.until or now
    values = (
        str(place.at[0]),
        place.at[1],
        place.since,
        until,
        place.since,
        until,
        limit,
    )
    found = execute(connection, _CHANGED, values).fetchall()
    noted = [Noted(one, place_of(identity, int(by), change)) for one, by, change in found]
    if len(found) == limit:
        _, by, change = found[-1]
        return Growth(f"{start}{place.since}/{until}/{by}.{change}", noted, has_more=True)
    return Growth(start + until, noted, has_more=place.until is not None)


def _decode(cursor: Cursor | None, identity: str, server: str) -> _Place | None:
    """What a cursor says; None if it is of another store, or of a server that was restored since."""
    found = _CURSOR.fullmatch(cursor or "")
    if found is None or found["identity"] != identity or found["server"] != server:
        return None
    at = (0, 0) if found["at"] is None else (int(found["at"]), int(found["change"]))
    return _Place(found["since"], found["until"], at)
