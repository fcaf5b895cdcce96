"""Opens SQLite databases of other programs for reading only.

Committed data of a program may still be in the ``-wal`` file beside its database. Such a database is copied together
with its log, and the copy is read.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

SQLITE = b"SQLite format 3\x00"
_COPIED = 1 << 20


@contextmanager
def opened_database(
    path: Path | None, opened: Callable[[], Any], problems: list[str]
) -> Iterator[sqlite3.Connection | None]:
    """A connection to the database at a path, or in a stream; None, with a problem added, if it cannot be opened."""
    with tempfile.TemporaryDirectory(prefix="cannery-") as folder:
        try:
            place = path if path is not None and _is_plain(path) else _copied(opened, path, folder)
            connection = _connect(place)
        except (sqlite3.Error, OSError, EOFError, RuntimeError) as error:
            problems.append(f"the database cannot be opened: {error}")
            yield None
            return
        with closing(connection):
            connection.row_factory = sqlite3.Row
            # Text that is not UTF-8 must not raise an error.
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            yield connection


def _is_plain(path: Path) -> bool:
    """Whether the file is a complete database, without data in a log."""
    log = Path(f"{path}-wal")
    with path.open("rb") as stream:
        is_database = stream.read(len(SQLITE)) == SQLITE
    return is_database and not (log.is_file() and log.stat().st_size)


def _copied(opened: Callable[[], Any], path: Path | None, folder: str) -> Path:
    place = Path(folder) / "database"
    with opened() as stream, place.open("wb") as file:
        shutil.copyfileobj(stream, file, _COPIED)
    log = Path(f"{path}-wal")
    if path is not None and log.is_file():
        shutil.copyfile(log, f"{place}-wal")
    return place


def _connect(place: Path) -> sqlite3.Connection:
    is_logged = Path(f"{place}-wal").is_file()
    # An immutable database takes no locks and creates no files; one with a log is our own copy.
    mode = "mode=rw" if is_logged else "mode=ro&immutable=1"
    connection = sqlite3.connect(f"{place.resolve().as_uri()}?{mode}", uri=True)
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return connection


def tables_of(connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    """The tables of a database with their columns."""
    try:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {name: tuple(row["name"] for row in _columns(connection, name)) for (name,) in names}
    except sqlite3.Error:
        return {}


def _columns(connection: sqlite3.Connection, table: str) -> list[sqlite3.Row]:
    return connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
