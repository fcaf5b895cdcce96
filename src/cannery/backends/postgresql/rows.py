"""The rows of the catalogue in PostgreSQL: reading them, and the statements that write derived data."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from cannery.backends._catalogue import writing
from cannery.backends._catalogue.schema import Prefix, Row
from cannery.backends._catalogue.writing import Base, Grown, role_bit
from cannery.backends._contract import Entry, Metadata
from cannery.backends.postgresql import words
from cannery.backends.postgresql.connections import execute, from_text, to_text
from cannery.backends.postgresql.pipelines import Call, Connection, Statement
from cannery.backends.postgresql.tables import FLAGS, kind_of

_NAMES = Row._fields
_TEXTS = tuple(_NAMES.index(name) for name in ("title", "tags", "model", "client"))
_FLAGS = tuple(_NAMES.index(name) for name in FLAGS)
COLUMNS = ", ".join(f"c.{name}" for name in _NAMES)
PREFIX_COLUMNS = ", ".join(f"p.{name}" for name in Prefix._fields)
_BEHIND_ALL = 1 << 62
_FIXED = ("number", "id", "scope", "session", "created", "position")
_CHANGING = tuple(name for name in _NAMES if name not in _FIXED)
_changing = operator.itemgetter(*(_NAMES.index(name) for name in _CHANGING))


def _marks(first: int, count: int) -> list[str]:
    return [f"${number}" for number in range(first, first + count)]


def _kinds(names: Sequence[str]) -> str:
    return " ".join(kind_of(name) for name in names)


def _settings(first: int) -> str:
    marks = _marks(first, len(_CHANGING))
    return ", ".join(f"{name} = {mark}" for name, mark in zip(_CHANGING, marks, strict=True))


_PUT_NEW = Statement(
    f"INSERT INTO cannery.conversations (metadata, changed_by, change, {', '.join(_NAMES)})"  # noqa: S608 - names are ours
    f" VALUES ($1, pg_current_xact_id(), $2, {', '.join(_marks(3, len(_NAMES)))})"
    " RETURNING changed_by::text",
    f"bytea int8 {_kinds(_NAMES)}",
)
# If the version is not as expected the whole transaction fails.
_PUT_CHANGED = Statement(
    "WITH own AS (UPDATE cannery.conversations SET metadata = coalesce($1, metadata),"  # noqa: S608 - names are ours
    f" changed_by = pg_current_xact_id(), change = $2, {_settings(6)}"
    " WHERE number = $3 AND xmin = $4 AND change = $5 RETURNING changed_by::text)"
    " SELECT max(changed_by), cannery.expect(count(*) = 1) FROM own",
    f"bytea int8 int8 xid int8 {_kinds(_CHANGING)}",
)
PUT = (_PUT_NEW, _PUT_CHANGED)
"""The statements that write a conversation's row; the first column of their answers is the transaction."""
_PUT_DERIVED = Statement(
    f"UPDATE cannery.conversations SET {_settings(2)} WHERE number = $1",  # noqa: S608 - names are ours
    f"int8 {_kinds(_CHANGING)}",
)
_PUT_PREFIXES = Statement(
    f"INSERT INTO cannery.prefixes ({', '.join(Prefix._fields)})"  # noqa: S608 - names are ours
    " SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)",
    "int8[] int8[] bytea[] bytea[] bytea[] int8[] int8[] int8[]",
)
_PUT_CALLS = Statement(
    "INSERT INTO cannery.calls SELECT * FROM unnest($1, $2, $3, $4, $5)",
    "int8[] text[] int8[] int8[] int8[]",
)
_PUT_ROLES = Statement(
    "INSERT INTO cannery.roles SELECT * FROM unnest($1, $2, $3)"
    " ON CONFLICT (number, role) DO UPDATE SET position = excluded.position",
    "int8[] text[] int8[]",
)
_PUT_TEXTS = Statement(
    "INSERT INTO cannery.texts SELECT number, position, role, said, vector::tsvector, words"
    " FROM unnest($1, $2, $3, $4, $5, $6) t(number, position, role, said, vector, words)",
    "int8[] int8[] text[] text[] text[] text[]",
)
_DROP_TAGS = Statement("DELETE FROM cannery.tags WHERE number = $1", "int8")
_PUT_TAGS = Statement(
    "INSERT INTO cannery.tags SELECT DISTINCT $1, tag, $2, $3, $4 FROM unnest($5) tag",
    "int8 text text text text[]",
)


def to_row(values: Sequence[Any]) -> Row:
    """A row decoded."""
    found = list(values)
    for at in _TEXTS:
        if found[at] is not None:
            found[at] = from_text(found[at])
    return Row(*found)


def _to_values(row: Row) -> list[Any]:
    """A row encoded."""
    values: list[Any] = list(row)
    for at in _TEXTS:
        if values[at] is not None:
            values[at] = to_text(values[at])
    return values


class Version(NamedTuple):
    """The version of a row: the transaction that wrote it, without its epoch, and the number of the change in it."""

    transaction: int
    change: int


def put_new(row: Row, metadata: bytes, change: int) -> Iterator[Call]:
    """Write the row of a new conversation."""
    yield _PUT_NEW, [metadata, change, *_to_values(row)]
    yield from _put_tags(row)


def put_changed(
    before: Row, version: Version, row: Row, metadata: bytes | None, change: int
) -> Iterator[Call]:
    """Write the row of an existing conversation, if it still has a version; its tags only if there are any."""
    yield _PUT_CHANGED, [metadata, change, row.number, *version, *_changing(_to_values(row))]
    if row.tags != "[]" or before.tags != "[]":
        yield _DROP_TAGS, (row.number,)
        yield from _put_tags(row)


def put_derived(row: Row) -> Iterator[Call]:
    """Write the rebuilt row of a conversation; followers of the feed see no change."""
    yield _PUT_DERIVED, [row.number, *_changing(_to_values(row))]
    yield _DROP_TAGS, (row.number,)
    yield from _put_tags(row)


def _put_tags(row: Row) -> Iterator[Call]:
    """Write the tags of a conversation to their table."""
    if row.tags != "[]" and not row.deleted:
        tags = [to_text(tag) for tag in msgspec.json.decode(row.tags, type=list[str])]
        yield _PUT_TAGS, (row.number, row.scope, row.updated, row.id, tags)


def put_grown(grown: Sequence[Grown]) -> Iterator[Call]:
    """Write digests, calls and roles of conversations that have grown."""
    prefixes = [prefix for one in grown for prefix in one.prefixes]
    yield from for_all(_PUT_PREFIXES, prefixes)
    calls = [(root, to_text(call), *rest) for one in grown for root, call, *rest in one.calls]
    yield from for_all(_PUT_CALLS, calls)
    roles = [(one.row.number, role, at) for one in grown for role, at in one.roles.items()]
    yield from for_all(_PUT_ROLES, roles)


def clear(connection: Connection, number: int, start: int, stop: int | None = None) -> None:
    """Remove the rows derived from a range of a conversation's lines."""
    for table, offset in (("prefixes", 1), ("calls", 1), ("roles", 1), ("texts", 0)):
        execute(
            connection,
            f"DELETE FROM cannery.{table} WHERE number = %s AND position >= %s AND position < %s",  # noqa: S608 - names are ours
            (number, start + offset, _BEHIND_ALL if stop is None else stop + offset),
        )


def put_words(said: Iterable[tuple[int, int, Sequence[Entry | None]]]) -> Iterator[Call]:
    """Write the searchable text: for each conversation its number, a first position and entries."""
    found = []
    for number, first, entries in said:
        for position, entry in enumerate(entries, first):
            text = None if entry is None else words.searchable(writing.searchable(entry))
            if entry is not None and text is not None:
                found.append((number, position, entry.role, entry.said, *text))
    yield from for_all(_PUT_TEXTS, found)


def for_all(statement: Statement, found: Sequence[Sequence[Any]]) -> Iterator[Call]:
    """One statement for many rows; nothing if there are none."""
    if found:
        yield statement, list(zip(*found, strict=True))


def rows(
    connection: Connection,
    where: str,
    values: Sequence[Any] = (),
    source: str = "cannery.conversations c",
) -> Iterator[Row]:
    """The conversations that satisfy a condition."""
    query = f"SELECT {COLUMNS} FROM {source} WHERE {where}"  # noqa: S608 - conditions are ours
    return map(to_row, execute(connection, query, values))


def row_of(connection: Connection, identifier: str) -> Row | None:
    """One conversation."""
    return next(rows(connection, "c.id = %s", (identifier,)), None)


def living_forks(connection: Connection, row: Row, position: int) -> Iterator[Row]:
    """The forks, not deleted, of a deleted conversation or of its deleted forks, that have its first canisters."""
    dead = [row]
    for one in dead:
        for fork in rows(connection, "c.parent = %s AND c.position >= %s", (one.id, position)):
            if fork.deleted:
                dead.append(fork)
            else:
                yield fork


def living_at(connection: Connection, row: Row, position: int) -> Row | None:
    """A conversation or, if it is deleted, a fork of it that has its first canisters up to a position."""
    return row if not row.deleted else next(living_forks(connection, row, position), None)


def base_of(connection: Connection, above: Row | None, metadata: Metadata) -> Base | None:
    """The state of a history at the start of a conversation's own log; None if its parent's cannot be read."""
    if metadata.parent is None or not metadata.position:
        return Base()
    if above is None or above.unreadable:
        return None
    roles = above.roles
    if metadata.position < above.length:
        roles = above.base_roles
        query = "SELECT role FROM cannery.roles WHERE number = %s AND position <= %s"
        for (role,) in execute(connection, query, (above.number, metadata.position)):
            roles |= role_bit(role)
    found = prefix_before(connection, above.number, metadata.position)
    if found is None:
        known = (above.base_chain, above.base_calls, above.base_spoken)
        return Base(*known, roles, above.base_questions)
    return Base(found.chain, found.calls, found.position, roles, found.questions)


def prefix_before(connection: Connection, number: int, position: int) -> Prefix | None:
    """The state of a conversation's history up to a position."""
    query = (
        f"SELECT {PREFIX_COLUMNS} FROM cannery.prefixes p WHERE p.number = %s AND p.position <= %s"  # noqa: S608 - names are ours
        " ORDER BY p.position DESC LIMIT 1"
    )
    found = execute(connection, query, (number, position)).fetchone()
    return None if found is None else Prefix(*found)


def find_call(connection: Connection, row: Row, call: str) -> int | None:
    """The ordinal, from 0, of the last call with an id before a conversation's end."""
    query = (
        "SELECT number, ordinal, position FROM cannery.calls"
        " WHERE root = %s AND md5(call) = md5(%s) AND call = %s ORDER BY ordinal"
    )
    text = to_text(call)
    candidates: dict[int, list[tuple[int, int]]] = {}
    for number, ordinal, position in execute(connection, query, (row.root, text, text)):
        candidates.setdefault(number, []).append((ordinal, position))
    limit = row.length
    seen = set()
    above: Row | None = row
    while candidates and above is not None and above.number not in seen:
        seen.add(above.number)
        held = [ordinal for ordinal, at in candidates.pop(above.number, ()) if at <= limit]
        if held:
            return held[-1]
        limit = min(limit, above.position)
        above = None if above.parent is None or not candidates else row_of(connection, above.parent)
    return None


def move(connection: Connection, row: Row, parent: str | None) -> Row:
    """A row, not yet written, under another parent, with all of its descendants in the tree of that parent."""
    above = None if parent is None else row_of(connection, parent)
    root = row.number if above is None else above.root
    below = (
        "WITH RECURSIVE below AS (SELECT number, id FROM cannery.conversations WHERE number = %s"
        " UNION SELECT f.number, f.id FROM cannery.conversations f JOIN below b ON f.parent = b.id)"
    )
    for table in ("conversations", "calls"):
        # Its own row is written later, if it still has the version that was read.
        others = f"UPDATE cannery.{table} SET root = %s WHERE number <> %s"  # noqa: S608 - names are ours
        within = "AND number IN (SELECT number FROM below)"
        execute(connection, f"{below} {others} {within}", (row.number, root, row.number))
    query = "UPDATE cannery.calls SET root = %s WHERE number = %s"
    execute(connection, query, (root, row.number))
    return row._replace(parent=parent, root=root)
