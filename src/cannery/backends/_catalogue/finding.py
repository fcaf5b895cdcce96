"""Lists, searches and trees: each order of a list has an index, and a cursor is a row's place in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from cannery.backends._catalogue.matching import living_forks
from cannery.backends._catalogue.schema import ROLES, Row, row_numbered, row_of, rows
from cannery.backends._contract import (
    Branch,
    Cursor,
    Found,
    Selection,
    Summary,
    Term,
    sortable,
)
from cannery.errors import ConversationNotFoundError, InputError

_ALL = 1 << 62


def list_rows(
    connection: sqlite3.Connection, selection: Selection, after: Cursor | None, limit: int | None
) -> list[Summary]:
    """Conversations after a cursor, most recently changed first."""
    query = list_query(selection, after, limit)
    # The order comes from the index of tags.
    by_tag = "tags t CROSS JOIN conversations c USING (number)"
    source = by_tag if query.is_by_tag else "conversations c"
    return [summary(row) for row in rows(connection, query.where, query.values, source)]


class Query(NamedTuple):
    """A condition with an order on ``conversations c``, or with ``is_by_tag`` on ``tags t`` joined with those."""

    where: str
    values: list[Any]
    is_by_tag: bool


def list_query(selection: Selection, after: Cursor | None, limit: int | None) -> Query:
    """Conversations after a cursor, most recently changed first; the same query in every SQL dialect."""
    of = "c" if selection.tag is None else "t"
    conditions: list[tuple[str, Any]] = [("NOT c.deleted", None)]
    if selection.tag is not None:
        conditions.append(("t.tag = ?", selection.tag))
    since, until = times_of(selection)
    conditions += [
        (f"{of}.scope = ?", selection.scope),
        ("c.profile = ?", selection.profile),
        ("c.model = ?", selection.model),
        ("c.client = ?", selection.client or None),
        ("c.session = ?", selection.session or None),
        ("(c.roles & ?) > 0", _role_bit(selection.role)),
        (f"{of}.updated >= ?", since),
        (f"{of}.updated <= ?", until),
    ]
    where, values = _joined(conditions)
    if selection.client:
        where += " AND c.client <> ''"
    if selection.session:
        where += " AND c.session <> ''"
    if selection.kinds is not None:
        where += f" AND c.kind IN ({', '.join('?' * len(selection.kinds))})"
        values += selection.kinds
    if after is not None:
        where += f" AND ({of}.updated, {of}.id) < (?, ?)"
        values += _decode_cursor(after)
    where += f" ORDER BY {of}.updated DESC, {of}.id DESC LIMIT ?"
    values.append(_ALL if limit is None else limit)
    return Query(where, values, selection.tag is not None)


def _decode_cursor(cursor: Cursor) -> list[str]:
    updated, slash, identifier = cursor.partition("/")
    if not slash:
        raise InputError(f"not a cursor of a list: {cursor[:80]!r}")
    return [updated, identifier]


def _role_bit(role: str | None) -> int | None:
    if role is None:
        return None
    return 1 << ROLES.index(role) if role in ROLES else 0


def times_of(selection: Selection) -> tuple[str | None, str | None]:
    """The start and end time, in the form in which they are compared."""
    since, until = selection.since, selection.until
    return (
        None if since is None else sortable(since),
        None if until is None else sortable(until),
    )


def _joined(conditions: Sequence[tuple[str, Any]]) -> tuple[str, list[Any]]:
    """The requested conditions and their values; a condition without a placeholder always applies."""
    used = [(one, value) for one, value in conditions if value is not None or "?" not in one]
    where = " AND ".join(one for one, _ in used)
    return where, [value for one, value in used if "?" in one]


def summary(row: Row) -> Summary:
    """A row as a public summary."""
    return Summary(
        identifier=row.id,
        title=row.title,
        tags=msgspec.json.decode(row.tags, type=tuple[str, ...]),
        created=datetime.fromisoformat(row.created),
        updated=datetime.fromisoformat(row.updated),
        profile=row.profile,
        model=row.model,
        parent=row.parent,
        position=row.position,
        count=row.length,
        scope=row.scope,
        session=row.session,
        kind=row.kind,
        client=row.client,
    )


def search(
    connection: sqlite3.Connection, terms: Sequence[Term], selection: Selection, limit: int
) -> list[Found]:
    """The messages that contain all terms, best first; messages of a deleted conversation are found in its forks."""
    query = match_query(terms)
    since, until = times_of(selection)
    conditions = [
        ("texts MATCH ?", query),
        ("c.scope = ?", selection.scope),
        ("p.role = ?", selection.role),
        ("p.said >= ?", since),
        ("p.said <= ?", until),
    ]
    where, values = _joined(conditions)
    cursor = connection.execute(
        "SELECT p.number, p.position FROM texts t"  # noqa: S608 - conditions are ours
        " JOIN places p ON p.place = t.rowid JOIN conversations c USING (number)"
        f" WHERE {where} ORDER BY rank",
        values,
    )
    found: list[Found] = []
    for number, position in cursor:
        row = row_numbered(connection, number)
        living = living_forks(connection, row, position + 1) if row.deleted else iter((row,))
        chosen = (one for one in living if is_chosen(one, selection))
        found += [Found(one.id, one.title, position) for one in islice(chosen, limit - len(found))]
        if len(found) >= limit:
            cursor.close()
            break
    return found


def match_query(terms: Sequence[Term]) -> str:
    """Terms in the query syntax of FTS5."""
    return " ".join(_quoted(term) for term in terms)


def _quoted(term: Term) -> str:
    text = term.text.replace('"', " ")
    return f'"{text}"' + ("*" if term.is_start else "")


def is_chosen(row: Row, selection: Selection) -> bool:
    """Whether the messages of a conversation are to be searched."""
    if selection.tag is not None and selection.tag not in msgspec.json.decode(row.tags):
        return False
    if selection.profile is not None and selection.profile != row.profile:
        return False
    if selection.kinds is not None and row.kind not in selection.kinds:
        return False
    if selection.client is not None and selection.client != row.client:
        return False
    return selection.model is None or selection.model == row.model


def tree(connection: sqlite3.Connection, identifier: str) -> list[Branch]:
    """All conversations with the same oldest ancestor."""
    row = row_of(connection, identifier)
    if row is None:
        raise ConversationNotFoundError(identifier)
    return branches(rows(connection, "c.root = ?", (row.root,)))


def branches(found: Iterable[Row]) -> list[Branch]:
    """The conversations of a tree as public branches."""
    return [
        Branch(
            identifier=one.id,
            title=one.title,
            parent=one.parent,
            position=one.position,
            is_deleted=bool(one.deleted),
            kind=one.kind,
            scope=one.scope,
        )
        for one in found
    ]


def begin_with(
    connection: sqlite3.Connection, scope: str | None, text: str, limit: int
) -> list[str]:
    """The conversations, not deleted, whose id has a prefix."""
    conditions = [
        ("NOT deleted", None),
        ("id >= ?", text),
        # No id has a character behind "z".
        ("id < ?", text + "{"),
        ("scope = ?", scope),
    ]
    where, values = _joined(conditions)
    query = f"SELECT id FROM conversations WHERE {where} ORDER BY id LIMIT ?"  # noqa: S608 - conditions are ours
    return [found for (found,) in connection.execute(query, (*values, limit))]
