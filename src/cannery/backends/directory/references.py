"""References in the index: which conversations use which content, and how many forks each one has.

gc frees unreferenced data, so a row lost to damage would cost content that is still needed. Therefore everything is
recorded twice: the users of content are listed and counted, and so are the forks of a conversation. Before gc acts on
"no more of them", the list is compared with the count; if they differ, the index is rebuilt.

Conversations with unreadable metadata are *doubtful*: their references and their parents are unknown.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

from cannery.backends._catalogue.schema import Row, check, rows, seal_of

SCHEMA = """
CREATE TABLE uses (id TEXT NOT NULL, key BLOB NOT NULL, PRIMARY KEY (id, key)) WITHOUT ROWID;
CREATE INDEX users ON uses (key);
CREATE TABLE contents (key BLOB PRIMARY KEY, users INTEGER NOT NULL, seal INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX unused ON contents (key) WHERE users = 0;
CREATE TABLE forks (parent TEXT PRIMARY KEY, count INTEGER NOT NULL, seal INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE doubtful (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE unsettled (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE freed (pack INTEGER PRIMARY KEY, bytes INTEGER NOT NULL);
"""


def make_tables(connection: sqlite3.Connection) -> None:
    """Create the tables."""
    for statement in SCHEMA.strip().split(";\n"):
        connection.execute(statement)


# Content


def use(connection: sqlite3.Connection, pairs: Iterable[tuple[str, bytes]]) -> None:
    """Record that conversations refer to content: pairs of an id and a key."""
    added: dict[bytes, int] = {}
    for pair in pairs:
        if connection.execute("INSERT OR IGNORE INTO uses VALUES (?, ?)", pair).rowcount:
            added[pair[1]] = added.get(pair[1], 0) + 1
    for key, count in added.items():
        _count(connection, key, (_users(connection, key) or 0) + count)


def release(connection: sqlite3.Connection, identifier: str, kept: Iterable[bytes] = ()) -> None:
    """Record that a conversation refers to no content except some."""
    for key in uses_of(connection, identifier) - set(kept):
        connection.execute("DELETE FROM uses WHERE id = ? AND key = ?", (identifier, key))
        _count(connection, key, (_users(connection, key) or 0) - 1)


def uses_of(connection: sqlite3.Connection, identifier: str) -> set[bytes]:
    """The content that a conversation refers to."""
    query = "SELECT key FROM uses WHERE id = ?"
    return {key for (key,) in connection.execute(query, (identifier,))}


def suspect(connection: sqlite3.Connection, keys: Iterable[bytes]) -> None:
    """Record stored content that may be unreferenced."""
    connection.executemany(
        "INSERT OR IGNORE INTO contents VALUES (?, 0, ?)",
        [(key, seal_of((key, 0))) for key in keys],
    )


def unused(connection: sqlite3.Connection, after: bytes, limit: int) -> list[bytes]:
    """Some of the unreferenced content, in order."""
    query = "SELECT key FROM contents WHERE users = 0 AND key > ? ORDER BY key LIMIT ?"
    found = [key for (key,) in connection.execute(query, (after, limit)).fetchall()]
    for key in found:
        if users_of(connection, key):
            raise sqlite3.DatabaseError("tables that contradict each other")
    return found


def users_of(connection: sqlite3.Connection, key: bytes) -> int:
    """How many conversations refer to content, counted in both ways."""
    (listed,) = connection.execute("SELECT count(*) FROM uses WHERE key = ?", (key,)).fetchone()
    if listed != (_users(connection, key) or 0):
        raise sqlite3.DatabaseError("tables that contradict each other")
    return int(listed)


def drop(connection: sqlite3.Connection, keys: Iterable[bytes]) -> None:
    """Forget content that is no longer stored, unless something refers to it."""
    connection.executemany(
        "DELETE FROM contents WHERE key = ? AND users = 0", [(key,) for key in keys]
    )


def _users(connection: sqlite3.Connection, key: bytes) -> int | None:
    query = "SELECT key, users, seal FROM contents WHERE key = ?"
    found = connection.execute(query, (key,)).fetchone()
    if found is None:
        return None
    check(found[:2], found[2])
    return int(found[1])


def _count(connection: sqlite3.Connection, key: bytes, users: int) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO contents VALUES (?, ?, ?)", (key, users, seal_of((key, users)))
    )


# Forks


def move(connection: sqlite3.Connection, before: str | None, after: str | None) -> None:
    """Record the new parent of a conversation; None for none."""
    if before != after:
        for parent, step in ((before, -1), (after, 1)):
            if parent is not None:
                count = _forks(connection, parent) + step
                connection.execute(
                    "INSERT OR REPLACE INTO forks VALUES (?, ?, ?)",
                    (parent, count, seal_of((parent, count))),
                )


def forks_of(connection: sqlite3.Connection, identifier: str) -> list[Row]:
    """All forks of a conversation, deleted ones included; counted in both ways."""
    found = list(rows(connection, "c.parent = ?", (identifier,)))
    if len(found) != _forks(connection, identifier):
        raise sqlite3.DatabaseError("tables that contradict each other")
    return found


def _forks(connection: sqlite3.Connection, parent: str) -> int:
    query = "SELECT parent, count, seal FROM forks WHERE parent = ?"
    found = connection.execute(query, (parent,)).fetchone()
    if found is None:
        return 0
    check(found[:2], found[2])
    return int(found[1])


# Further facts for gc


def doubt(connection: sqlite3.Connection, identifier: str, *, is_doubtful: bool) -> None:
    """Record whether the metadata of a conversation can be read."""
    if is_doubtful:
        connection.execute("INSERT OR IGNORE INTO doubtful VALUES (?)", (identifier,))
    else:
        connection.execute("DELETE FROM doubtful WHERE id = ?", (identifier,))


def doubtful(connection: sqlite3.Connection) -> list[str]:
    """The conversations whose metadata could not be read."""
    return [name for (name,) in connection.execute("SELECT id FROM doubtful ORDER BY id")]


def unsettle(connection: sqlite3.Connection, identifiers: Iterable[str]) -> None:
    """Record conversations that are being removed or shortened, which may not be durable yet."""
    connection.executemany(
        "INSERT OR IGNORE INTO unsettled VALUES (?)", [(one,) for one in identifiers]
    )


def settle(connection: sqlite3.Connection) -> None:
    """Record that all removals are durable."""
    connection.execute("DELETE FROM unsettled")


def unsettled(connection: sqlite3.Connection) -> list[str]:
    """The conversations whose removal may not be durable."""
    return [name for (name,) in connection.execute("SELECT id FROM unsettled ORDER BY id")]


def tombstones(connection: sqlite3.Connection) -> Iterator[Row]:
    """The deleted conversations."""
    return rows(connection, "c.deleted")


def is_all_shared(connection: sqlite3.Connection, row: Row) -> bool:
    """Whether a fork that is not deleted shares all lines of a deleted conversation, judged by one look."""
    found = connection.execute(
        "SELECT position FROM conversations WHERE parent = ? AND NOT deleted ORDER BY position DESC LIMIT 1",
        (row.id,),
    ).fetchone()
    return found is not None and found[0] >= row.length


def add_freed(connection: sqlite3.Connection, pack: int, count: int) -> None:
    """Add to the number of freed bytes of a pack."""
    connection.execute(
        "INSERT INTO freed VALUES (?, ?) ON CONFLICT (pack) DO UPDATE SET bytes = bytes + excluded.bytes",
        (pack, count),
    )


def freed(connection: sqlite3.Connection) -> dict[int, int]:
    """The number of freed bytes, by pack."""
    return dict(connection.execute("SELECT pack, bytes FROM freed"))


def forget_freed(connection: sqlite3.Connection, packs: Iterable[int]) -> None:
    """Record that packs were rewritten."""
    connection.executemany("DELETE FROM freed WHERE pack = ?", [(pack,) for pack in packs])
