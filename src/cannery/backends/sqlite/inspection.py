"""Inspects what the layers above do not read: content, the file itself, and its catalogue.

The file has no checksums for its pages. SQLite compares each index with its table, content has checksums, and the
catalogue is derived again (``comparison``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cannery.backends._contract import Damage, Describe, Inspection, Progress
from cannery.backends.sqlite.comparison import Comparison
from cannery.backends.sqlite.contents import verified
from cannery.backends.sqlite.tables import Database, problems
from cannery.errors import DamageError

_SHOWN = 20


def inspect(database: Database, describe: Describe, progress: Progress | None) -> Inspection:
    """Re-derive every hash, and the catalogue."""
    with database.snapshot() as connection:
        damages = [Damage(database.path, _advised(one)) for one in problems(connection, _SHOWN)]
        if not damages:
            # Otherwise tables contradict each other anyway, or one is missing.
            damages += Comparison(database, connection, describe).damages()
    sizes = []
    try:
        for size, damage in _contents(database, progress):
            sizes.append(size)
            damages += damage
    except DamageError as error:
        damages.append(Damage(error.where, error.problem))
    return Inspection(len(sizes), sum(sizes), tuple(damages))


def _contents(
    database: Database, progress: Progress | None
) -> Iterator[tuple[int, Sequence[Damage]]]:
    """The size of each content, and its damage."""
    with database.reading() as connection:
        (total,) = connection.execute("SELECT count(*) FROM contents").fetchone()
    query = (
        "SELECT content, CAST(digest AS BLOB), ifnull(CAST(size AS INTEGER), 0)"
        " FROM contents WHERE content > ? AND length(digest) = 32"
        " ORDER BY content LIMIT 100"
    )
    done = last = 0
    while True:
        with database.reading() as connection:
            page = connection.execute(query, (last,)).fetchall()
        for content, digest, size in page:
            problem = ""
            try:
                if sum(map(len, verified(database, content, digest))) != size:
                    problem = "its size is not the one that is noted"
            except DamageError as error:
                problem = error.problem
            where = f"content sha256:{digest.hex()}"
            yield size, [Damage(where, problem)] if problem else []
            last, done = content, done + 1
            if progress:
                progress(done, max(total, done))
        if not page:
            return


def _advised(problem: str) -> str:
    return f"{problem}. `cannery reindex` rebuilds indexes; restore other damage from a backup"
