"""The catalogue in PostgreSQL: stored beside the data and written in the same transactions.

Recognising any number of histories of any length takes one round trip: each is sent with all its digests, the longest
prefix first, and the first known one is the answer.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import msgspec

from cannery.backends._catalogue import finding, writing
from cannery.backends._catalogue.schema import Row, space_of
from cannery.backends._contract import (
    Branch,
    Cursor,
    Describe,
    Entry,
    Found,
    Holder,
    Match,
    Metadata,
    Progress,
    Selection,
    Summary,
    Term,
)
from cannery.backends._seals import ordinal_of, unseal
from cannery.backends.postgresql import rows, words
from cannery.backends.postgresql.connections import Pool, execute, to_text, translated
from cannery.backends.postgresql.contents import PostgresqlContents
from cannery.backends.postgresql.objects import Objects
from cannery.backends.postgresql.pipelines import Connection, Statement, exchange
from cannery.errors import CanneryError, ConversationNotFoundError

# Of many conversations with the same prefix, this many are examined for one that is not deleted.
_HOLDERS = 20
_LONGEST = {
    column: Statement(
        f"SELECT d.chain, c.at_position, {rows.COLUMNS} FROM"  # noqa: S608 - names are ours
        " (SELECT chain, at FROM unnest($1) WITH ORDINALITY u(chain, at) ORDER BY at) d"
        " CROSS JOIN LATERAL (SELECT c.*, p.position AS at_position, p.position >= c.spoken AS is_at_end"
        "  FROM cannery.prefixes p JOIN cannery.conversations c ON c.number = p.number"
        f"  WHERE p.chain = d.chain AND p.{column} = $2 AND c.profile = 'archive'"
        "  ORDER BY c.deleted, (p.position >= c.spoken) DESC, c.updated DESC LIMIT $3) c"
        " ORDER BY d.at, c.deleted, c.is_at_end DESC, c.updated DESC LIMIT $3",
        "bytea[] int8 int8",
    )
    for column in ("space", "home")
}
_OWN = Statement(
    f"SELECT d.own, p.position, {rows.COLUMNS} FROM unnest($1) d(own)"  # noqa: S608 - names are ours
    " CROSS JOIN LATERAL (SELECT p.number, p.position FROM cannery.prefixes p"
    "  WHERE p.own = d.own AND p.home = $2 ORDER BY p.number DESC, p.position DESC LIMIT $3) p"
    " JOIN cannery.conversations c ON c.number = p.number",
    "bytea[] int8 int8",
)
_SEARCH = (
    f"SELECT t.position, {rows.COLUMNS} FROM cannery.texts t"  # noqa: S608 - names are ours
    " JOIN cannery.conversations c ON c.number = t.number WHERE {where}"
    " ORDER BY ts_rank(t.vector, %s::tsquery, 1) DESC NULLS LAST, t.number DESC, t.position"
)
_PAGE = 200
# How many lines are derived in one transaction.
_PART = 100


class PostgresqlCatalogue:
    """Tables beside the data."""

    def __init__(self, pool: Pool, objects: Objects | None, describe: Describe) -> None:
        self._pool = pool
        self._objects = objects
        self._describe = describe

    def key(self, scope: str) -> bytes:  # noqa: ARG002 - the same for all
        """Digests are not keyed."""
        return b""

    def match(
        self, scope: str, session: str | None, histories: Sequence[Sequence[bytes | None]]
    ) -> list[Match | None]:
        """The longest prefix of each history that a conversation of a scope and session holds."""
        wanted = [[one for one in reversed(each) if one is not None] for each in histories]

        def ask(connection: Connection) -> list[Match | None]:
            query = _LONGEST["home" if session is None else "space"]
            space = space_of(scope, session)
            found = exchange(connection, [(query, (one, space, _HOLDERS)) for one in wanted])
            return [
                _longest(connection, held, each)
                for held, each in zip(found, histories, strict=True)
            ]

        return self._pool.ask(ask)

    def holders(self, scope: str, digests: Iterable[bytes], limit: int = 16) -> list[Holder]:
        """The places in a scope of digests of single canisters; the latest few places of each."""
        wanted = list(dict.fromkeys(digests))

        def ask(connection: Connection) -> list[Holder]:
            found: list[Holder] = []
            (held,) = exchange(connection, [(_OWN, (wanted, space_of(scope), limit))])
            for digest, position, *values in held:
                living = rows.living_at(connection, rows.to_row(values), position)
                if living is not None and living.scope == scope:
                    found.append(Holder(digest, living.id, position - 1, living.session))
            return found

        return self._pool.ask(ask) if wanted else []

    def said_before(self, identifier: str, position: int) -> tuple[bytes | None, int] | None:
        """The digest of a conversation's history before a position, and where its last content ends."""

        def ask(connection: Connection) -> tuple[bytes | None, int] | None:
            row = rows.row_of(connection, identifier)
            while row is not None and not row.unreadable:
                found = rows.prefix_before(connection, row.number, position)
                if found is not None:
                    return found.chain, found.position
                if row.parent is None:
                    return None, 0
                if row.position <= position:
                    return (row.base_chain, row.base_spoken) if row.base_spoken else (None, 0)
                row = rows.row_of(connection, row.parent)
            return None

        return self._pool.ask(ask)

    def list(
        self, selection: Selection, after: Cursor | None = None, limit: int | None = None
    ) -> Sequence[Summary]:
        """Conversations after a cursor, most recently changed first."""
        query = finding.list_query(selection, after, limit)
        by_tag = "cannery.tags t JOIN cannery.conversations c USING (number)"
        source = by_tag if query.is_by_tag else "cannery.conversations c"
        values = [to_text(one) if isinstance(one, str) else one for one in query.values]

        def ask(connection: Connection) -> list[Summary]:
            where = query.where.replace("?", "%s")
            return [finding.summary(row) for row in rows.rows(connection, where, values, source)]

        return self._pool.ask(ask)

    def search(self, terms: Sequence[Term], selection: Selection, limit: int) -> Sequence[Found]:
        """The messages that contain all terms, best first; a deleted conversation's messages are found in forks."""
        with translated(self._pool.name):
            wanted = words.query_of(terms)
        if wanted is None:
            return []
        where, values = _search_conditions(wanted, selection)
        query = _SEARCH.replace("{where}", where)

        def ask(connection: Connection) -> list[Found]:
            found: list[Found] = []
            with (
                connection.transaction(),
                connection.cursor("search", binary=True) as cursor,
            ):
                cursor.itersize = _PAGE
                cursor.execute(query, [*values, wanted.words])
                while len(found) < limit and (page := cursor.fetchmany(_PAGE)):
                    found += _chosen(connection, page, selection, limit - len(found))
            return found

        return self._pool.ask(ask)

    def tree(self, identifier: str) -> Sequence[Branch]:
        """A conversation, its oldest ancestor and all forks of that one."""

        def ask(connection: Connection) -> list[Branch]:
            row = rows.row_of(connection, identifier)
            if row is None:
                raise ConversationNotFoundError(identifier)
            return finding.branches(rows.rows(connection, "c.root = %s", (row.root,)))

        return self._pool.ask(ask)

    def begin_with(self, scope: str | None, text: str, limit: int) -> Sequence[str]:
        """The conversations, not deleted, whose id has a prefix, in order."""
        # No id has a character behind "z".
        query = (
            "SELECT id FROM cannery.conversations WHERE NOT deleted AND id >= %s AND id < %s"
            " AND (%s::text IS NULL OR scope = %s) ORDER BY id LIMIT %s"
        )
        start = to_text(text)
        return [one for (one,) in self._pool.rows(query, (start, start + "{", scope, scope, limit))]

    def catch_up(self) -> None:
        """Nothing: rows change with the lines they describe."""

    def rebuild(self, progress: Progress | None = None) -> None:
        """Derive the rows of each conversation again, in short transactions."""
        numbers = [
            number
            for (number,) in self._pool.rows("SELECT number FROM cannery.conversations ORDER BY 1")
        ]
        connection = self._pool.connect()
        deriving = _Deriving(self._pool, self._objects, self._describe)
        try:
            with translated(self._pool.name):
                for done, number in enumerate(numbers, 1):
                    while deriving.derive_part(connection, number):
                        pass
                    if progress is not None:
                        progress(done, len(numbers))
        finally:
            connection.close()


class _Deriving:
    """Derives the rows of conversations again, one after the other, each in short transactions.

    Others may write between the transactions. The rows of lines are replaced in batches, and that of the conversation
    with the last batch, when all lines that were appended meanwhile are derived as well. A conversation whose metadata
    has changed, or that gc has shortened, is started again.
    """

    def __init__(self, pool: Pool, objects: Objects | None, describe: Describe) -> None:
        self._pool = pool
        self._objects = objects
        self._describe = describe
        self._row: Row | None = None

    def derive_part(self, connection: Connection, number: int) -> bool:
        """Derive the next lines of a conversation; whether there are more."""
        with connection.transaction():
            execute(connection, "SET LOCAL synchronous_commit = off")
            self._row = self._derive(connection, number, self._row)
        return self._row is not None

    def _derive(self, connection: Connection, number: int, row: Row | None) -> Row | None:
        """Continue from a row; returns the row after the next lines, or None if there are no more."""
        query = "SELECT metadata FROM cannery.conversations WHERE number = %s FOR UPDATE"
        found = execute(connection, query, (number,)).fetchone()
        raw = None if found is None else unseal(found[0])
        if raw is None:
            return None
        metadata = msgspec.json.decode(raw, type=Metadata)
        # A query of its own: it sees lines that were appended while the lock was awaited.
        query = "SELECT max(position) FROM cannery.lines WHERE number = %s"
        (last,) = execute(connection, query, (number,)).fetchone() or (None,)
        end = metadata.position if last is None else last + 1
        seen = zlib.crc32(raw)
        if row is None or (row.number, row.seen) != (number, seen) or row.length > end:
            row = _begun(connection, metadata, seen, number)
        span = range(row.length, min(row.length + _PART, end))
        is_last = span.stop == end
        before, entries = row, self._entries(connection, number, metadata.scope, span)
        rows.clear(connection, number, span.start, None if is_last else span.stop)
        grown = writing.grow(row, entries, lambda call: rows.find_call(connection, before, call))
        calls = [*rows.put_grown([grown]), *rows.put_words([(number, span.start, entries)])]
        if is_last:
            calls += rows.put_derived(grown.row._replace(searched=end))
        exchange(connection, calls)
        return None if is_last else grown.row

    def _entries(
        self, connection: Connection, number: int, scope: str, span: range
    ) -> Sequence[Entry | None]:
        """The catalogue entries of stored lines."""
        query = (
            "SELECT position, line FROM cannery.lines"
            " WHERE number = %s AND position >= %s AND position < %s"
        )
        values = (number, span.start, span.stop)
        lines: dict[int, bytes] = dict(execute(connection, query, values).fetchall())
        contents = PostgresqlContents(self._pool, self._objects, scope)
        entries: list[Entry | None] = []
        for position in span:
            line = lines.get(position)
            if line is None or ordinal_of(line) != position:
                entries.append(None)
                continue
            try:
                entries += self._describe(contents, [line])
            except CanneryError:
                entries.append(None)
        return entries


def _begun(connection: Connection, metadata: Metadata, seen: int, number: int) -> Row:
    """The row of a conversation before any line is derived."""
    above = None if metadata.parent is None else rows.row_of(connection, metadata.parent)
    base = rows.base_of(connection, above, metadata)
    return writing.new_row(metadata, seen, base, number, number if above is None else above.root)


def _longest(
    connection: Connection,
    held: Sequence[Sequence[Any]],
    digests: Sequence[bytes | None],
) -> Match | None:
    """The first of some holders that is not deleted, or has a fork that is not, as an answer."""
    for chain, position, *values in held:
        living = rows.living_at(connection, rows.to_row(values), position)
        if living is not None:
            end = living.length if position >= living.spoken else position
            return Match(digests.index(chain) + 1, living.id, end, living.length)
    return None


def _search_conditions(wanted: words.Query, selection: Selection) -> tuple[str, list[Any]]:
    is_plain = wanted.words == wanted.phrases.replace("(", "").replace(")", "")
    in_vector = "t.vector @@ %s::tsquery"
    values: list[Any] = [wanted.words]
    if wanted.needs_text:
        in_vector += " AND t.words LIKE ALL(%s)"
        values.append(wanted.patterns)
    elif not is_plain:
        in_vector += " AND CASE WHEN t.words IS NULL THEN t.vector @@ %s::tsquery ELSE t.words LIKE ALL(%s) END"
        values += [wanted.phrases, wanted.patterns]
    conditions = [f"({in_vector} OR (t.vector IS NULL AND t.words LIKE ALL(%s)))"]
    values.append(wanted.patterns)
    since, until = finding.times_of(selection)
    for condition, value in (
        ("c.scope = %s", selection.scope),
        ("t.role = %s", selection.role),
        ("t.said >= %s", since),
        ("t.said <= %s", until),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    return " AND ".join(conditions), values


def _chosen(
    connection: Connection, page: Sequence[Sequence[Any]], selection: Selection, limit: int
) -> list[Found]:
    found: list[Found] = []
    for position, *values in page:
        row = rows.to_row(values)
        living = rows.living_forks(connection, row, position + 1) if row.deleted else iter((row,))
        chosen = (one for one in living if finding.is_chosen(one, selection))
        found += [Found(one.id, one.title, position) for one in islice(chosen, limit - len(found))]
        if len(found) >= limit:
            break
    return found
