"""The rows of the catalogue in PostgreSQL: reading them, and the statements that write what was derived."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from cannery.backends._catalogue import writing
from cannery.backends._catalogue.schema import Prefix, Row
from cannery.backends._catalogue.writing import Base, Grown, role_bit
from cannery.backends._contract import Entry, Metadata
from cannery.backends.postgresql import words
from cannery.backends.postgresql.connections import Connection, execute, from_text, to_text
from cannery.backends.postgresql.tables import FLAGS

_NAMES = Row._fields
_TEXTS = tuple(_NAMES.index(name) for name in ("title", "tags", "model"))
_FLAGS = tuple(_NAMES.index(name) for name in FLAGS)
COLUMNS = ", ".join(f"c.{name}" for name in _NAMES)
PREFIX_COLUMNS = ", ".join(f"p.{name}" for name in Prefix._fields)
LEFT_OUT = ("number", "id", "scope", "session", "created", "position")

_MARKS = ", ".join(["%s"] * (len(_NAMES) + 3))
PUT_NEW = (
    f"INSERT INTO cannery.conversations ({', '.join(_NAMES)}, metadata, changed_by, change)"  # noqa: S608 - names are ours
    f" VALUES ({_MARKS})"
)
_CHANGING = tuple(name for name in _NAMES if name not in LEFT_OUT)
_changing = operator.itemgetter(*(_NAMES.index(name) for name in _CHANGING))
PUT_CHANGED = (
    f"UPDATE cannery.conversations SET {', '.join(f'{name} = %s' for name in _CHANGING)},"  # noqa: S608 - names are ours
    " metadata = coalesce(%s, metadata), changed_by = %s, change = %s WHERE number = %s"
)
PUT_PREFIXES = (
    f"INSERT INTO cannery.prefixes ({', '.join(Prefix._fields)})"  # noqa: S608 - names are ours
    " SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bytea[],"
    " %s::bytea[], %s::bytea[], %s::bigint[], %s::bigint[], %s::bigint[])"
)
PUT_CALLS = (
    "INSERT INTO cannery.calls SELECT * FROM"
    " unnest(%s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])"
)
PUT_ROLES = "INSERT INTO cannery.roles SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bigint[])"
PUT_TEXTS = (
    "INSERT INTO cannery.texts SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[],"
    " %s::text[], %s::tsvector[], %s::text[])"
)
_PUT_TAGS = "INSERT INTO cannery.tags SELECT DISTINCT %s::bigint, tag, %s, %s, %s FROM unnest(%s::text[]) tag"


def to_row(values: Sequence[Any]) -> Row:
    """A row as it is read."""
    found = list(values)
    for at in _TEXTS:
        if found[at] is not None:
            found[at] = from_text(found[at])
    return Row(*found)


def to_values(row: Row) -> list[Any]:
    """A row as it is written."""
    values: list[Any] = list(row)
    for at in _FLAGS:
        values[at] = bool(values[at])
    for at in _TEXTS:
        if values[at] is not None:
            values[at] = to_text(values[at])
    return values


def put_new(connection: Connection, row: Row, metadata: bytes, place: tuple[int, int]) -> None:
    """Write the row of a new conversation."""
    execute(connection, PUT_NEW, [*to_values(row), metadata, *_place(place)])
    put_tags(connection, row, is_new=True)


def put_changed(
    connection: Connection,
    before: Row,
    row: Row,
    metadata: bytes | None,
    place: tuple[int, int],
) -> None:
    """Write the row of a conversation that is there; its tags only if there are any."""
    values = [*_changing(to_values(row)), metadata, *_place(place), row.number]
    execute(connection, PUT_CHANGED, values)
    if row.tags != "[]" or before.tags != "[]":
        put_tags(connection, row, is_new=False)


def put_derived(connection: Connection, before: Row, row: Row) -> None:
    """Write what was derived again of a conversation; nothing has changed for those who follow the feed."""
    columns = ", ".join(f"{name} = %s" for name in _CHANGING)
    statement = f"UPDATE cannery.conversations SET {columns} WHERE number = %s"  # noqa: S608 - names are ours
    execute(connection, statement, [*_changing(to_values(row)), row.number])
    if row.tags != "[]" or before.tags != "[]":
        put_tags(connection, row, is_new=False)


def _place(place: tuple[int, int]) -> tuple[str, int]:
    return str(place[0]), place[1]


def put_tags(connection: Connection, row: Row, *, is_new: bool) -> None:
    """Write the tags of a conversation where they are looked up."""
    if not is_new:
        execute(connection, "DELETE FROM cannery.tags WHERE number = %s", (row.number,))
    if row.tags != "[]" and not row.deleted:
        tags = [to_text(tag) for tag in msgspec.json.decode(row.tags, type=list[str])]
        execute(connection, _PUT_TAGS, (row.number, row.scope, row.updated, row.id, tags))


def put_grown(connection: Connection, grown: Sequence[Grown]) -> None:
    """Write digests, calls and roles of conversations that have grown."""
    prefixes = [prefix for one in grown for prefix in one.prefixes]
    _put(connection, PUT_PREFIXES, prefixes)
    calls = [(root, to_text(call), *rest) for one in grown for root, call, *rest in one.calls]
    _put(connection, PUT_CALLS, calls)
    roles = [(one.row.number, role, at) for one in grown for role, at in one.roles.items()]
    _put(connection, PUT_ROLES, roles)


def put_words(
    connection: Connection, said: Iterable[tuple[int, int, Sequence[Entry | None]]]
) -> None:
    """Write what a search finds: for each conversation its number, a first position and entries."""
    found = []
    for number, first, entries in said:
        for position, entry in enumerate(entries, first):
            text = None if entry is None else words.searchable(writing.searchable(entry))
            if entry is not None and text is not None:
                found.append((number, position, entry.role, entry.said, *text))
    _put(connection, PUT_TEXTS, found)


def _put(connection: Connection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        execute(connection, statement, [list(column) for column in zip(*rows, strict=True)])


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
    """The living forks of a deleted conversation, and of its deleted forks, that have its first canisters."""
    dead = [row]
    for one in dead:
        for fork in rows(connection, "c.parent = %s AND c.position >= %s", (one.id, position)):
            if fork.deleted:
                dead.append(fork)
            else:
                yield fork


def living_at(connection: Connection, row: Row, position: int) -> Row | None:
    """A conversation, or if it is deleted a fork of it that has its first canisters up to a position."""
    return row if not row.deleted else next(living_forks(connection, row, position), None)


def base_of(connection: Connection, above: Row | None, metadata: Metadata) -> Base | None:
    """What is known of a history where a conversation's own log begins; None if its parent's cannot be read."""
    if metadata.parent is None:
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
    """What is known of a conversation's history up to a position."""
    query = (
        f"SELECT {PREFIX_COLUMNS} FROM cannery.prefixes p WHERE p.number = %s AND p.position <= %s"  # noqa: S608 - names are ours
        " ORDER BY p.position DESC LIMIT 1"
    )
    found = execute(connection, query, (number, position)).fetchone()
    return None if found is None else Prefix(*found)


def find_call(connection: Connection, row: Row, call: str) -> int | None:
    """Which of the calls before a conversation's end had an id last, counted from 0."""
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
    """A row under another parent, with all below it in the tree of that one."""
    above = None if parent is None else row_of(connection, parent)
    root = row.number if above is None else above.root
    below = (
        "WITH RECURSIVE below AS (SELECT number, id FROM cannery.conversations WHERE number = %s"
        " UNION SELECT f.number, f.id FROM cannery.conversations f JOIN below b ON f.parent = b.id)"
    )
    for table in ("conversations", "calls"):
        execute(
            connection,
            f"{below} UPDATE cannery.{table} SET root = %s WHERE number IN (SELECT number FROM below)",  # noqa: S608 - names are ours
            (row.number, root),
        )
    return row._replace(parent=parent, root=root)
