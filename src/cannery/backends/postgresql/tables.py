"""The tables, in the schema ``cannery`` of one database, and their migrations.

A database is one store. Data (metadata, lines, content) and derived data (digests, words, tags) are written in the same
transactions. Lines are partitioned by the number of their conversation, so that each table and index stays small enough
to be vacuumed. PostgreSQL has checksums for its pages; lines, metadata and pieces have their own as well, and are
verified wherever they are read.
"""

from __future__ import annotations

import os
from typing import NamedTuple, get_args, get_type_hints

import psycopg

from cannery.backends._catalogue.schema import Row
from cannery.backends.postgresql.connections import Pool, execute, translated
from cannery.backends.postgresql.pipelines import Connection
from cannery.errors import StorageError, StoreUnavailableError

VERSION = 4
DIGESTS = 2
"""The table version since which the digests of histories have their present form."""

_PARTITIONS = 16
# A fixed number, so that programs that open the same new store create its tables one after the other.
_MIGRATING = 0x63616E6E65727931

FLAGS = ("deleted", "unreadable")
"""The boolean fields of a row."""

_HINTS = get_type_hints(Row)
_KINDS = {int: "int8", str: "text", bytes: "bytea"}


def kind_of(name: str) -> str:
    """The server type of a row's field."""
    if name in FLAGS:
        return "bool"
    return next(kind for known, kind in _KINDS.items() if _HINTS[name] in {known, known | None})


def _column(name: str) -> str:
    collation = ' COLLATE "C"' if kind_of(name) == "text" else ""
    presence = "" if type(None) in get_args(_HINTS[name]) else " NOT NULL"
    return f"{name} {kind_of(name)}{collation}{presence}"


_ROW = ",\n    ".join(map(_column, Row._fields))
_FIRST = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "CREATE SCHEMA IF NOT EXISTS cannery",
    """CREATE TABLE cannery.facts (name text PRIMARY KEY, value text NOT NULL)""",
    """CREATE SEQUENCE cannery.numbers""",
    f"""CREATE TABLE cannery.conversations (
    {_ROW},
    metadata bytea NOT NULL, changed_by xid8 NOT NULL, change bigint NOT NULL,
    PRIMARY KEY (number), UNIQUE (id)
) WITH (fillfactor = 80)""",
    "CREATE INDEX by_update ON cannery.conversations (updated, id) WHERE NOT deleted",
    "CREATE INDEX by_scope ON cannery.conversations (scope, updated, id) WHERE NOT deleted",
    """CREATE INDEX by_model ON cannery.conversations (model, updated, id)
    WHERE NOT deleted AND model IS NOT NULL""",
    """CREATE INDEX by_scope_and_model ON cannery.conversations (scope, model, updated, id)
    WHERE NOT deleted AND model IS NOT NULL""",
    """CREATE INDEX by_parent ON cannery.conversations (parent, position) WHERE parent IS NOT NULL""",
    "CREATE INDEX by_root ON cannery.conversations (root)",
    "CREATE INDEX tombstones ON cannery.conversations (number) WHERE deleted",
    "CREATE INDEX by_change ON cannery.conversations (changed_by, change)",
    """CREATE TABLE cannery.lines (
    number bigint NOT NULL, position bigint NOT NULL, line bytea NOT NULL, PRIMARY KEY (number, position)
) PARTITION BY HASH (number)""",
    *(
        f"CREATE TABLE cannery.lines_{part} PARTITION OF cannery.lines"
        f" FOR VALUES WITH (MODULUS {_PARTITIONS}, REMAINDER {part})"
        for part in range(_PARTITIONS)
    ),
    """CREATE TABLE cannery.contents (
    content bigint PRIMARY KEY, scope text COLLATE "C" NOT NULL, digest bytea NOT NULL, size bigint NOT NULL,
    staged double precision, object text, UNIQUE (digest, scope)
)""",
    "CREATE INDEX by_staging ON cannery.contents (staged) WHERE staged IS NOT NULL",
    """CREATE TABLE cannery.pieces (
    content bigint NOT NULL, piece bigint NOT NULL, size bigint NOT NULL, is_zstd boolean NOT NULL,
    seal bigint NOT NULL, data bytea, PRIMARY KEY (content, piece)
)""",
    "ALTER TABLE cannery.pieces ALTER data SET STORAGE EXTERNAL",
    """CREATE TABLE cannery.uses (
    number bigint NOT NULL, content bigint NOT NULL, PRIMARY KEY (number, content)
)""",
    "CREATE INDEX users ON cannery.uses (content)",
    "CREATE TABLE cannery.trash (object text PRIMARY KEY, pieces bigint NOT NULL)",
    """CREATE TABLE cannery.keys (
    made bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL, start bigint NOT NULL, stop bigint NOT NULL, place text NOT NULL,
    UNIQUE (key, scope)
)""",
    """CREATE TABLE cannery.tags (
    number bigint NOT NULL, tag text COLLATE "C" NOT NULL, scope text COLLATE "C" NOT NULL,
    updated text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL, PRIMARY KEY (number, tag)
)""",
    "CREATE INDEX by_tag ON cannery.tags (tag, updated, id)",
    "CREATE INDEX by_scope_and_tag ON cannery.tags (scope, tag, updated, id)",
    """CREATE TABLE cannery.prefixes (
    number bigint NOT NULL, position bigint NOT NULL, chain bytea NOT NULL, own bytea NOT NULL,
    questions bytea NOT NULL, calls bigint NOT NULL, space bigint NOT NULL, home bigint NOT NULL,
    PRIMARY KEY (number, position)
)""",
    "CREATE INDEX by_chain ON cannery.prefixes (chain, space)",
    "CREATE INDEX by_own ON cannery.prefixes (own, home, number)",
    """CREATE TABLE cannery.calls (
    root bigint NOT NULL, call text COLLATE "C" NOT NULL, number bigint NOT NULL, ordinal bigint NOT NULL,
    position bigint NOT NULL, PRIMARY KEY (number, ordinal)
)""",
    # An id may be longer than an index can hold.
    "CREATE INDEX by_call ON cannery.calls (root, md5(call))",
    """CREATE TABLE cannery.roles (
    number bigint NOT NULL, role text NOT NULL, position bigint NOT NULL, PRIMARY KEY (number, role)
)""",
    """CREATE TABLE cannery.texts (
    number bigint NOT NULL, position bigint NOT NULL, role text NOT NULL, said text COLLATE "C" NOT NULL,
    vector tsvector, words text COLLATE "C", PRIMARY KEY (number, position)
)""",
    # New entries wait in a list that every search scans, so it is kept short.
    "CREATE INDEX by_words ON cannery.texts USING gin (vector) WITH (gin_pending_list_limit = 256)",
    """CREATE INDEX by_trigrams ON cannery.texts USING gin (words gin_trgm_ops) WHERE vector IS NULL""",
)

_SECOND = (
    *(
        f"ALTER TABLE cannery.conversations ADD COLUMN IF NOT EXISTS {name} {kind}"
        for name, kind in (
            ("kind", "text COLLATE \"C\" NOT NULL DEFAULT ''"),
            ("client", "text COLLATE \"C\" NOT NULL DEFAULT ''"),
            ("questions", "bytea NOT NULL DEFAULT ''"),
            ("base_questions", "bytea NOT NULL DEFAULT ''"),
        )
    ),
    "ALTER TABLE cannery.prefixes ADD COLUMN IF NOT EXISTS questions bytea NOT NULL DEFAULT ''",
    """CREATE INDEX by_session ON cannery.conversations (session, updated, id)
    WHERE NOT deleted AND session <> ''""",
    """CREATE INDEX by_client ON cannery.conversations (client, updated, id)
    WHERE NOT deleted AND client <> ''""",
)
_THIRD = (
    """CREATE TABLE cannery.exchanges (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, conversation text COLLATE "C" NOT NULL,
    time text COLLATE "C" NOT NULL, reply text COLLATE "C" NOT NULL, record bytea NOT NULL
)""",
    "CREATE INDEX exchanges_of ON cannery.exchanges (conversation)",
    "CREATE INDEX replies ON cannery.exchanges (reply) WHERE reply <> ''",
)
_FOURTH = (
    # A commit is sent whole: statements that check its preconditions make the rest of it fail.
    """CREATE FUNCTION cannery.expect(holds boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF holds THEN RETURN true; END IF;
    RAISE EXCEPTION 'another transaction was faster' USING ERRCODE = 'serialization_failure';
END $$""",
    # Moving a longer list into the index is cheaper, and scanning it still takes only a millisecond or two.
    "ALTER INDEX cannery.by_words SET (gin_pending_list_limit = 1024)",
)
MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _SECOND, _THIRD, _FOURTH)
"""The statements that bring a store from each version to the next."""


class Prepared(NamedTuple):
    """An opened store: its identity, why it is read-only, if so, and the table version that it had."""

    identity: str
    why_read_only: str | None
    version: int


def prepare(pool: Pool, *, read_only: bool) -> Prepared:
    """Migrate the tables to this version."""
    connection = pool.connect()
    try:
        with translated(pool.name):
            reason = "it was opened for reading" if read_only else _refusal(connection)
            version = before = _version(connection)
            if version < VERSION and reason is None:
                _migrate(connection, pool.name)
                version = VERSION
            if version != VERSION:
                raise StorageError(_version_problem(pool.name, version))
            query = "SELECT value FROM cannery.facts WHERE name = 'identity'"
            (identity,) = execute(connection, query).fetchone() or ("",)
            return Prepared(str(identity), reason, before or VERSION)
    finally:
        connection.close()


def _version_problem(name: str, version: int) -> str:
    if not version:
        return f"{name} has no Cannery store, and none can be made there: it can only be read"
    return f"{name}: version {version} of the tables; this program has version {VERSION}"


def _refusal(connection: Connection) -> str | None:
    """Why nothing can be written, if so."""
    query = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')"
    is_standby, is_read_only = execute(connection, query).fetchone() or (False, "off")
    if is_standby:
        return "the server is a standby"
    if is_read_only == "on":
        return "the server or the role is read-only"
    query = (
        "SELECT coalesce(has_table_privilege(to_regclass('cannery.lines'), 'INSERT'), true)"
        " WHERE to_regclass('cannery.lines') IS NOT NULL"
    )
    try:
        (may_write,) = execute(connection, query).fetchone() or (True,)
    except psycopg.errors.InsufficientPrivilege as error:
        raise StoreUnavailableError(str(error).partition("\n")[0]) from None
    return None if may_write else "the role may not write"


def _version(connection: Connection) -> int:
    (found,) = execute(connection, "SELECT to_regclass('cannery.facts')::text").fetchone() or (
        None,
    )
    if found is None:
        return 0
    query = "SELECT value FROM cannery.facts WHERE name = 'version'"
    (version,) = execute(connection, query).fetchone() or (0,)
    return int(version)


def _migrate(connection: Connection, name: str) -> None:
    """Create what is missing, in one transaction; programs that open the store at once wait for each other."""
    (schema,) = execute(connection, "SELECT to_regnamespace('cannery')::text").fetchone() or (None,)
    with connection.transaction():
        execute(connection, "SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
        version = _version(connection)
        if schema is not None and version == 0 and _has_tables(connection):
            raise StorageError(f"{name} has a schema 'cannery' that is not a Cannery store")
        for statements in MIGRATIONS[version:VERSION]:
            for statement in statements:
                connection.execute(statement, prepare=False)
        if version == 0:
            made = ("identity", os.urandom(8).hex())
            execute(connection, "INSERT INTO cannery.facts VALUES (%s, %s)", made)
        execute(
            connection,
            "INSERT INTO cannery.facts VALUES ('version', %s)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (str(VERSION),),
        )


def _has_tables(connection: Connection) -> bool:
    query = "SELECT 1 FROM pg_tables WHERE schemaname = 'cannery' LIMIT 1"
    return execute(connection, query).fetchone() is not None
