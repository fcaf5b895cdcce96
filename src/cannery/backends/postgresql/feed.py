"""The change feed: a cursor is a snapshot, and the changes after it are those that the snapshot does not see.

Numbers from a sequence become visible in another order than they were assigned: a reader that remembers the highest
number misses a transaction with a lower one that commits later. So each conversation records the transaction that
changed it last, and a cursor has the transactions that had ended when it was made (``pg_snapshot``). A page goes from
one snapshot to another; if there is more than a page, the cursor has both and a place between them.

A restored server, or a promoted standby, may assign transaction numbers again: its timeline, and the identity of the
table, are part of the cursor, and with another one everything must be examined.
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
    """The parts of a cursor: everything before ``since``, and of the changes until ``until`` those up to ``at``."""

    since: str
    until: str | None
    at: tuple[int, int]


OWN_PLACE = "{identity} || '/' || pg_current_xact_id()::text || '.' || {change}::text"
"""The SQL for ``place_of`` of a change in the running transaction."""


def place_of(identity: str, transaction: int, change: int) -> Cursor:
    """The unique place of a change in the feed."""
    return f"{identity}/{transaction}.{change}"


def read(connection: Connection, identity: str, cursor: Cursor | None, limit: int) -> Growth:
    """A page of changes after a cursor."""
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
    """The parts of a cursor; None if it is of another store, or of a server that was restored since."""
    found = _CURSOR.fullmatch(cursor or "")
    if found is None or found["identity"] != identity or found["server"] != server:
        return None
    at = (0, 0) if found["at"] is None else (int(found["at"]), int(found["change"]))
    return _Place(found["since"], found["until"], at)
