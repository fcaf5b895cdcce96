"""Applies a change to the catalogue: its row, its digests of the history, its words.

A fork continues from its parent's row at the fork's position, so that a chain of forks is indexed in time linear in its
depth.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from cannery.backends._catalogue.schema import (
    ADD_ROW,
    PUT_ROW,
    ROLES,
    Prefix,
    Row,
    encode_tags,
    make_occurrences,
    prefixes,
    row_of,
    rows,
    seal_of,
    space_of,
)
from cannery.backends._contract import Entry, Metadata, sortable
from cannery.errors import CanneryError
from cannery.messages.identity import ROOT, Said, answer_mark

_BEHIND_ALL = 1 << 62
_ROLE_BITS = {role: 1 << number for number, role in enumerate(ROLES)}


class Base(NamedTuple):
    """The state of a history at some position: its digest, its calls, where its last content ends, its roles.

    ``questions`` is as in ``identity.Said``.
    """

    chain: bytes = ROOT
    calls: int = 0
    spoken: int = 0
    roles: int = 0
    questions: bytes = ROOT


def base_of(connection: sqlite3.Connection, metadata: Metadata) -> Base | None:
    """The state of a history at the start of a conversation's own log; None if its parent's cannot be read."""
    if metadata.parent is None or not metadata.position:
        # A child that shares nothing begins anew, also where its parent is a fork.
        return Base()
    above = row_of(connection, metadata.parent)
    if above is None or above.unreadable:
        return None
    return _base_at(connection, above, metadata.position)


def _base_at(connection: sqlite3.Connection, row: Row, position: int) -> Base:
    """The state of a conversation's history at a position of its own log."""
    roles = row.roles
    if position < row.length:
        roles = _roles_before(connection, row, position)
    condition = "number = ? AND position <= ? ORDER BY position DESC LIMIT 1"
    found = next(prefixes(connection, condition, (row.number, position)), None)
    if found is None:
        known = (row.base_chain, row.base_calls, row.base_spoken)
        return Base(*known, roles, row.base_questions)
    return Base(found.chain, found.calls, found.position, roles, found.questions)


def _roles_before(connection: sqlite3.Connection, row: Row, position: int) -> int:
    """The roles that occur up to a position of a conversation."""
    query = "SELECT role FROM roles WHERE number = ? AND position <= ?"
    found = row.base_roles
    for (role,) in connection.execute(query, (row.number, position)):
        found |= role_bit(role)
    return found


def role_bit(role: str) -> int:
    """The bit of a role in the set of roles."""
    return _ROLE_BITS.get(role, 0)


def begin(
    connection: sqlite3.Connection,
    metadata: Metadata,
    seen: int,
    base: Base | None,
    number: int | None = None,
) -> Row:
    """The row of a conversation that is not indexed yet, not yet written; ``base`` is None if it cannot be read.

    A conversation that was indexed before keeps its ``number``, by which its forks refer to their tree.
    """
    above = None if metadata.parent is None else row_of(connection, metadata.parent)
    own = _next_number(connection) if number is None else number
    return new_row(metadata, seen, base, own, own if above is None else above.root)


def _next_number(connection: sqlite3.Connection) -> int:
    query = "SELECT seq FROM sqlite_sequence WHERE name = 'conversations'"
    found = connection.execute(query).fetchone()
    return 1 if found is None else int(found[0]) + 1


def new_row(metadata: Metadata, seen: int, base: Base | None, number: int, root: int) -> Row:
    """The row of a conversation without canisters of its own."""
    known = Base() if base is None else base
    changed = sortable(metadata.updated)
    return Row(
        number=number,
        id=metadata.id,
        seen=seen,
        scope=metadata.scope,
        session=metadata.session,
        kind=metadata.kind,
        client=metadata.client,
        title=metadata.title,
        tags=encode_tags(metadata.tags),
        created=sortable(metadata.created),
        updated=changed,
        changed=changed,
        said="",
        profile=metadata.profile,
        model=metadata.model,
        parent=metadata.parent,
        position=metadata.position,
        deleted=int(metadata.deleted is not None),
        length=metadata.position,
        root=root,
        roles=known.roles,
        chain=known.chain,
        calls=known.calls,
        spoken=known.spoken,
        base_chain=known.chain,
        base_calls=known.calls,
        base_spoken=known.spoken,
        base_roles=known.roles,
        questions=known.questions,
        base_questions=known.questions,
        unreadable=int(base is None),
        searched=metadata.position,
    )


def described(connection: sqlite3.Connection, row: Row, metadata: Metadata, seen: int) -> Row:
    """A row updated from metadata."""
    if metadata.parent != row.parent:
        # A conversation that shares nothing may be made a child of another later.
        row = moved(connection, row, metadata.parent)
    return renamed(row, metadata, seen)


def renamed(row: Row, metadata: Metadata, seen: int) -> Row:
    """A row updated from metadata, except its parent."""
    changed = sortable(metadata.updated)
    return row._replace(
        seen=seen,
        title=metadata.title,
        tags=encode_tags(metadata.tags),
        created=sortable(metadata.created),
        changed=changed,
        updated=max(changed, row.said),
        kind=metadata.kind,
        client=metadata.client,
        profile=metadata.profile,
        model=metadata.model,
        deleted=int(metadata.deleted is not None),
    )


def moved(connection: sqlite3.Connection, row: Row, parent: str | None) -> Row:
    """A row under another parent, with all of its descendants in the tree of that parent."""
    above = None if parent is None else row_of(connection, parent)
    root = row.number if above is None else above.root
    below = forks_of(connection, row)
    for fork in below:
        if fork.number != row.number:
            below += [one for one in forks_of(connection, fork) if one.root != root]
            put(connection, fork._replace(root=root))
    for one in (row, *below):
        connection.execute("UPDATE calls SET root = ? WHERE number = ?", (root, one.number))
    return row._replace(parent=parent, root=root)


def grown(
    connection: sqlite3.Connection,
    row: Row,
    entries: Sequence[Entry | None],
    *,
    with_words: bool,
) -> Row:
    """A row extended by entries, whose digests, calls, roles and words are written; None is a damaged line."""
    found = grow(row, entries, lambda call: find_call(connection, row, call))
    _write(connection, row, found.prefixes, found.calls, found.roles)
    if not with_words:
        return found.row
    put_words(connection, row, row.length, entries)
    return found.row._replace(searched=found.row.length)


class Grown(NamedTuple):
    """A row extended by entries, and the rows to be written for them.

    ``calls`` are (root, call, number, ordinal, position); ``roles`` is the first position of each new role.
    """

    row: Row
    prefixes: Sequence[Prefix]
    calls: Sequence[tuple[int, str, int, int, int]]
    roles: dict[str, int]


def grow(
    row: Row, entries: Sequence[Entry | None], find_before: Callable[[str], int | None]
) -> Grown:
    """A row extended by entries; ``find_before`` gives the ordinals of earlier calls."""
    home, space = space_of(row.scope), space_of(row.scope, row.session)
    found: list[Prefix] = []
    calls: list[tuple[int, str, int, int, int]] = []
    made: dict[str, int] = {}
    roles: dict[str, int] = {}
    said = row.said
    base = Base(row.chain, row.calls, row.spoken, row.roles, row.questions)
    is_whole = not row.unreadable

    def find(call: str) -> int | None:
        ordinal = made.get(call)
        return find_before(call) if ordinal is None else ordinal

    for position, entry in enumerate(entries, row.length + 1):
        # A history that cannot be read whole cannot be recognised.
        is_whole = is_whole and entry is not None
        if entry is None:
            continue
        if not row.roles & role_bit(entry.role):
            roles.setdefault(entry.role, position)
        said = entry.said
        if is_whole:
            before, base = base, followed(base, entry, position, find)
            if base is before or entry.own is None:
                continue
            if entry.call is not None:
                made[entry.call] = base.calls - 1
                calls.append((row.root, entry.call, row.number, base.calls - 1, position))
            found.append(
                Prefix(
                    row.number,
                    position,
                    base.chain,
                    entry.own,
                    base.questions,
                    base.calls,
                    space,
                    home,
                )
            )
    known = row.roles
    for role in roles:
        known |= role_bit(role)
    grown_row = row._replace(
        updated=max(row.changed, said),
        said=said,
        chain=base.chain,
        calls=base.calls,
        spoken=base.spoken,
        questions=base.questions,
        roles=known,
        unreadable=int(not is_whole),
        length=row.length + len(entries),
    )
    return Grown(grown_row, found, calls, roles)


def followed(base: Base, entry: Entry, position: int, find: Callable[[str], int | None]) -> Base:
    """The state of a history extended by an entry up to a position; ``find`` gives the ordinals of calls."""
    if entry.own is None:
        return base
    mark = b"" if entry.answers is None else answer_mark(find(entry.answers))
    before = Said(base.chain, base.questions)
    said = before.followed(entry.role, entry.own + mark, is_setup=entry.is_setup)
    if said is before:
        return base
    calls = base.calls + (entry.call is not None)
    return Base(said.chain, calls, position, base.roles, said.questions)


def _write(
    connection: sqlite3.Connection,
    row: Row,
    found: Sequence[Prefix],
    calls: Sequence[tuple[int, str, int, int, int]],
    roles: dict[str, int],
) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO prefixes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(*prefix, seal_of(tuple(prefix))) for prefix in found],
    )
    if calls:
        connection.executemany("INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?)", calls)
    if roles:
        connection.executemany(
            "INSERT OR REPLACE INTO roles VALUES (?, ?, ?)",
            [(row.number, role, position) for role, position in roles.items()],
        )


def put_calls(
    connection: sqlite3.Connection, row: Row, calls: Sequence[tuple[str, int, int]]
) -> None:
    """Write calls (id, ordinal, position) that a fork shares with ancestors whose own are unknown."""
    connection.executemany(
        "INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?)",
        [(row.root, call, row.number, ordinal, position) for call, ordinal, position in calls],
    )


def find_call(connection: sqlite3.Connection, row: Row, call: str) -> int | None:
    """The ordinal, from 0, of the last call with an id before a conversation's end."""
    query = (
        "SELECT number, ordinal, position FROM calls WHERE root = ? AND call = ? ORDER BY ordinal"
    )
    candidates: dict[int, list[tuple[int, int]]] = {}
    for number, ordinal, position in connection.execute(query, (row.root, call)):
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
        above = None if above.parent is None else row_of(connection, above.parent)
    return None


def put(
    connection: sqlite3.Connection, row: Row, *, is_new: bool = False, before: Row | None = None
) -> Row:
    """Write a row, and its tags; ``before`` is the old row, if known."""
    if before is None:
        connection.execute(ADD_ROW if is_new else PUT_ROW, (*row, seal_of(tuple(row))))
    else:
        pairs = zip(Row._fields, before, row, strict=True)
        changed = tuple(name for name, old, new in pairs if old != new)
        values = [getattr(row, name) for name in changed]
        connection.execute(_update(changed), (*values, seal_of(tuple(row)), row.number))
    if not is_new and (before is None or before.tags != "[]"):
        connection.execute("DELETE FROM tags WHERE number = ?", (row.number,))
    if row.tags != "[]" and not row.deleted:
        tags = msgspec.json.decode(row.tags, type=list[str])
        connection.executemany(
            "INSERT OR IGNORE INTO tags VALUES (?, ?, ?, ?, ?)",
            [(row.number, tag, row.scope, row.updated, row.id) for tag in tags],
        )
    return row


@functools.lru_cache(256)
def _update(changed: tuple[str, ...]) -> str:
    """The statement that changes some columns, so that the indexes of the others are not rewritten."""
    columns = ", ".join(f"{name} = ?" for name in (*changed, "seal"))
    return f"UPDATE conversations SET {columns} WHERE number = ?"  # noqa: S608 - names are ours


def put_words(
    connection: sqlite3.Connection, row: Row, start: int, entries: Sequence[Entry | None]
) -> None:
    """Write the searchable words of entries from a position on."""
    for position, entry in enumerate(entries, start):
        if entry is None:
            continue
        text = searchable(entry)
        if text:
            cursor = connection.execute(
                "INSERT INTO places (number, position, role, said) VALUES (?, ?, ?, ?)",
                (row.number, position, entry.role, entry.said),
            )
            connection.execute(
                "INSERT INTO texts (rowid, text) VALUES (?, ?)", (cursor.lastrowid, text)
            )


def searchable(entry: Entry) -> str:
    """The searchable text of an entry; empty if its content is missing or damaged, which verify reports."""
    try:
        # Half of a surrogate pair cannot be searched for.
        return entry.words().encode(errors="replace").decode()
    except CanneryError:
        return ""


def clear(connection: sqlite3.Connection, number: int, start: int, stop: int | None = None) -> None:
    """Remove the rows derived from a range of a conversation's lines, except its words."""
    for table, offset in (("prefixes", 1), ("calls", 1), ("roles", 1), ("places", 0)):
        connection.execute(
            f"DELETE FROM {table} WHERE number = ? AND position >= ? AND position < ?",  # noqa: S608 - names are ours
            (number, start + offset, _BEHIND_ALL if stop is None else stop + offset),
        )


def cut(connection: sqlite3.Connection, row: Row, length: int) -> Row:
    """Remove the rows of a deleted conversation after a position; no fork shares them."""
    end = _base_at(connection, row, length)
    clear(connection, row.number, length)
    left = row._replace(
        chain=end.chain,
        calls=end.calls,
        spoken=end.spoken,
        questions=end.questions,
        roles=end.roles,
        length=length,
        searched=min(row.searched, length),
    )
    return put(connection, left)


def remove(connection: sqlite3.Connection, number: int) -> None:
    """Remove a conversation; words that were not removed before remain without a place and are never shown."""
    for table in ("conversations", "prefixes", "calls", "roles", "places", "tags"):
        connection.execute(f"DELETE FROM {table} WHERE number = ?", (number,))  # noqa: S608 - names are ours


def forget_words(
    connection: sqlite3.Connection, row: Row, start: int, entries: Sequence[Entry | None]
) -> None:
    """Remove the words of entries from a position on from the index; call before ``cut`` or ``remove``."""
    query = "SELECT place, position FROM places WHERE number = ? AND position >= ? AND position < ?"
    found = connection.execute(query, (row.number, start, start + len(entries))).fetchall()
    for place, position in found:
        entry = entries[position - start]
        text = "" if entry is None else searchable(entry)
        connection.execute(
            "INSERT INTO texts (texts, rowid, text) VALUES ('delete', ?, ?)",
            (place, text or _indexed(connection, place)),
        )


def _indexed(connection: sqlite3.Connection, place: int) -> str:
    """The words of a message that cannot be read any more, as the index has them; looks at all of the index."""
    query = "SELECT term FROM temp.occurrences WHERE doc = ? ORDER BY offset"
    make_occurrences(connection)
    return " ".join(term for (term,) in connection.execute(query, (place,)))


def forks_of(connection: sqlite3.Connection, row: Row) -> list[Row]:
    """The forks of a conversation, deleted ones included."""
    return list(rows(connection, "c.parent = ?", (row.id,)))
