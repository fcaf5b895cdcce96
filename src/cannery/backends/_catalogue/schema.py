"""The tables of the catalogue and their rows; rows have checksums, because SQLite has none for its pages."""

from __future__ import annotations

import functools
import hashlib
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

SCHEMA = """
CREATE TABLE conversations (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, seen INTEGER NOT NULL,
    scope TEXT NOT NULL, session TEXT NOT NULL, kind TEXT NOT NULL, client TEXT NOT NULL,
    title TEXT NOT NULL, tags TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL,
    changed TEXT NOT NULL, said TEXT NOT NULL,
    profile TEXT NOT NULL, model TEXT, parent TEXT, position INTEGER NOT NULL, deleted INTEGER NOT NULL,
    length INTEGER NOT NULL, root INTEGER NOT NULL, roles INTEGER NOT NULL,
    chain BLOB NOT NULL, calls INTEGER NOT NULL, spoken INTEGER NOT NULL,
    base_chain BLOB NOT NULL, base_calls INTEGER NOT NULL, base_spoken INTEGER NOT NULL,
    base_roles INTEGER NOT NULL, questions BLOB NOT NULL, base_questions BLOB NOT NULL,
    unreadable INTEGER NOT NULL, searched INTEGER NOT NULL, seal INTEGER NOT NULL
);
CREATE INDEX by_update ON conversations (updated, id) WHERE NOT deleted;
CREATE INDEX by_scope ON conversations (scope, updated, id) WHERE NOT deleted;
CREATE INDEX by_model ON conversations (model, updated, id) WHERE NOT deleted AND model IS NOT NULL;
CREATE INDEX by_scope_and_model ON conversations (scope, model, updated, id)
    WHERE NOT deleted AND model IS NOT NULL;
CREATE INDEX by_session ON conversations (session, updated, id) WHERE NOT deleted AND session <> '';
CREATE INDEX by_client ON conversations (client, updated, id) WHERE NOT deleted AND client <> '';
CREATE INDEX by_parent ON conversations (parent, position) WHERE parent IS NOT NULL;
CREATE INDEX by_root ON conversations (root);
CREATE INDEX tombstones ON conversations (number) WHERE deleted;
CREATE INDEX unsearched ON conversations (number) WHERE searched < length;
CREATE TABLE tags (
    number INTEGER NOT NULL, tag TEXT NOT NULL, scope TEXT NOT NULL, updated TEXT NOT NULL, id TEXT NOT NULL,
    PRIMARY KEY (number, tag)
) WITHOUT ROWID;
CREATE INDEX by_tag ON tags (tag, updated, id);
CREATE INDEX by_scope_and_tag ON tags (scope, tag, updated, id);
CREATE TABLE prefixes (
    number INTEGER NOT NULL, position INTEGER NOT NULL, chain BLOB NOT NULL, own BLOB NOT NULL,
    questions BLOB NOT NULL, calls INTEGER NOT NULL, space INTEGER NOT NULL, home INTEGER NOT NULL,
    seal INTEGER NOT NULL, PRIMARY KEY (number, position)
) WITHOUT ROWID;
CREATE INDEX by_chain ON prefixes (chain, space);
CREATE INDEX by_own ON prefixes (own, home, number);
CREATE TABLE calls (
    root INTEGER NOT NULL, call TEXT NOT NULL, number INTEGER NOT NULL, ordinal INTEGER NOT NULL,
    position INTEGER NOT NULL, PRIMARY KEY (root, call, number, ordinal)
) WITHOUT ROWID;
CREATE INDEX calls_at ON calls (number, position);
CREATE TABLE roles (
    number INTEGER NOT NULL, role TEXT NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (number, role)
) WITHOUT ROWID;
CREATE TABLE places (
    place INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL, position INTEGER NOT NULL,
    role TEXT NOT NULL, said TEXT NOT NULL
);
CREATE INDEX places_of ON places (number, position);
"""
WORDS = "CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2')"

_NAMES = ("conversations", "tags", "prefixes", "calls", "roles", "places", "texts")
ROLES = ("user", "assistant", "supervisor", "document", "invocation", "result")


class Row(NamedTuple):
    """A conversation's row in the catalogue.

    ``chain``, ``calls`` and ``spoken`` are the digest of its history, the number of its calls, and the position at
    which its last content ends; the same with ``base_`` at its own first position. ``roles`` has a bit for each role
    that occurs; ``questions`` is as in ``identity.Said``. ``updated`` is the later of ``changed`` (its metadata) and
    ``said`` (its last canister).
    """

    number: int
    id: str
    seen: int
    scope: str
    session: str
    kind: str
    client: str
    title: str
    tags: str
    created: str
    updated: str
    changed: str
    said: str
    profile: str
    model: str | None
    parent: str | None
    position: int
    deleted: int
    length: int
    root: int
    roles: int
    chain: bytes
    calls: int
    spoken: int
    base_chain: bytes
    base_calls: int
    base_spoken: int
    base_roles: int
    questions: bytes
    base_questions: bytes
    unreadable: int
    searched: int


class Prefix(NamedTuple):
    """The digest of a conversation's first ``position`` canisters, that of the last alone, and the calls among them."""

    number: int
    position: int
    chain: bytes
    own: bytes
    questions: bytes
    calls: int
    space: int
    home: int


_COLUMNS = ", ".join(f"c.{name}" for name in (*Row._fields, "seal"))
_MARKS = ", ".join("?" * (len(Row._fields) + 1))
ADD_ROW = f"INSERT INTO conversations ({', '.join((*Row._fields, 'seal'))}) VALUES ({_MARKS})"  # noqa: S608 - names are ours
PUT_ROW = ADD_ROW.replace("INSERT", "INSERT OR REPLACE", 1)


def make_tables(connection: sqlite3.Connection) -> None:
    """Create the tables; those of an older version are dropped."""
    for name in _NAMES:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in (*SCHEMA.strip().removesuffix(";").split(";\n"), WORDS):
        connection.execute(statement)


def make_occurrences(connection: sqlite3.Connection) -> None:
    """Make a temporary table of each occurrence of a word in the index: its ``term``, ``doc`` and ``offset``."""
    query = (
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.occurrences USING fts5vocab(main, texts, instance)"
    )
    connection.execute(query)


@functools.lru_cache(4096)
def space_of(scope: str, session: str | None = None) -> int:
    """A number for a scope, or for a session of it, which indexes of digests hold in its place."""
    name = scope if session is None else f"{scope}\0{session}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)


def seal_of(values: Sequence[Any]) -> int:
    """The checksum of a row."""
    return zlib.crc32(repr(values).encode())


def check(values: Sequence[Any], seal: int) -> None:
    """Refuse a row that does not match its checksum."""
    if seal_of(values) != seal:
        raise sqlite3.DatabaseError("a row does not match its checksum")


def rows(
    connection: sqlite3.Connection,
    where: str,
    parameters: Sequence[Any] = (),
    source: str = "conversations c",
) -> Iterator[Row]:
    """The conversations that satisfy a condition."""
    query = f"SELECT {_COLUMNS} FROM {source} WHERE {where}"  # noqa: S608 - conditions are ours
    for found in connection.execute(query, parameters):
        check(found[:-1], found[-1])
        yield Row(*found[:-1])


def row_of(connection: sqlite3.Connection, identifier: str) -> Row | None:
    """One conversation."""
    return next(rows(connection, "c.id = ?", (identifier,)), None)


def row_numbered(connection: sqlite3.Connection, number: int) -> Row:
    """The conversation whose number another table has."""
    found = next(rows(connection, "c.number = ?", (number,)), None)
    if found is None:
        raise sqlite3.DatabaseError("tables that contradict each other")
    return found


def prefixes(
    connection: sqlite3.Connection, where: str, parameters: Sequence[Any]
) -> Iterator[Prefix]:
    """The prefixes of histories that satisfy a condition."""
    query = f"SELECT {', '.join(Prefix._fields)}, seal FROM prefixes WHERE {where}"  # noqa: S608 - conditions are ours
    for found in connection.execute(query, parameters):
        check(found[:-1], found[-1])
        yield Prefix(*found[:-1])


def encode_tags(tags: Sequence[str]) -> str:
    """Tags in the form of the catalogue."""
    return msgspec.json.encode(tags).decode()
