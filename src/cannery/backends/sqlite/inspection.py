"""Inspects what the layers above do not read: content, the file itself, and the rows of the catalogue.

The file has no checksums for its pages. SQLite compares each index with its table, and rows have checksums of their
own; for the index of words SQLite checks only the structure, from version 3.44 on.
"""

from __future__ import annotations

from collections.abc import Iterator

from cannery.backends._catalogue.schema import Prefix, Row, seal_of
from cannery.backends._contract import Damage, Inspection, Progress
from cannery.backends.sqlite.contents import verified
from cannery.backends.sqlite.tables import Database
from cannery.errors import DamageError

_PAGE = 1000
_SHOWN = 20
_SEALED = (("conversations", Row), ("prefixes", Prefix))


def inspect(database: Database, progress: Progress | None) -> Inspection:
    """Re-derive every hash."""
    with database.reading() as connection:
        (total,) = connection.execute("SELECT count(*) FROM contents").fetchone()
    damages = [Damage(database.path, _advised(one)) for one in problems(database, _SHOWN)]
    damages += _of_rows(database)
    contents = content_bytes = last = 0
    query = (
        "SELECT content, digest, size FROM contents WHERE content > ? AND length(digest) = 32"
        " ORDER BY content LIMIT 100"
    )
    while True:
        with database.reading() as connection:
            page = connection.execute(query, (last,)).fetchall()
        for content, digest, size in page:
            try:
                for _ in verified(database, content, digest):
                    pass
            except DamageError as error:
                damages.append(Damage(f"content sha256:{digest.hex()}", error.problem))
            last, contents, content_bytes = content, contents + 1, content_bytes + size
            if progress:
                progress(contents, max(total, contents))
        if not page:
            return Inspection(contents, content_bytes, tuple(damages))


def problems(database: Database, most: int) -> list[str]:
    """The problems that SQLite finds in its pages and indexes."""
    with database.reading() as connection:
        found = connection.execute(f"PRAGMA integrity_check({most})").fetchall()
    return [" ".join(text.split()) for (text,) in found if text != "ok"]


def _advised(problem: str) -> str:
    return f"{problem}. `cannery reindex` rebuilds indexes; restore other damage from a backup"


def _of_rows(database: Database) -> Iterator[Damage]:
    """The conversations with catalogue rows that do not match their checksums."""
    numbers = {number for table, row in _SEALED for number in _damaged(database, table, row)}
    for number in sorted(numbers):
        with database.reading() as connection:
            query = "SELECT id FROM stored WHERE number = ?"
            (name,) = connection.execute(query, (number,)).fetchone() or (f"number {number}",)
        problem = "its rows in the index are damaged: `cannery reindex` builds them again"
        yield Damage(f"conversations/{name}", problem, is_lost=False)


def _damaged(database: Database, table: str, row: type[Row | Prefix]) -> Iterator[int]:
    query = (
        f"SELECT {', '.join(row._fields)}, seal, number, position FROM {table}"  # noqa: S608 - names are ours
        f" WHERE (number, position) > (?, ?) ORDER BY number, position LIMIT {_PAGE}"
    )
    after = (-1, -1)
    while True:
        with database.reading() as connection:
            page = connection.execute(query, after).fetchall()
        for *values, seal, number, _ in page:
            if seal_of(tuple(values)) != seal:
                yield number
        if len(page) < _PAGE:
            return
        after = page[-1][-2:]
