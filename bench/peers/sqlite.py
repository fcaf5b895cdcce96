"""SQLite as an application uses it by hand: WAL, full syncs, one row of JSON a message."""

from __future__ import annotations

from pathlib import Path

from peers.storing import Storage, sqlite


def storage(folder: Path) -> Storage:
    """One table."""
    return sqlite(folder)
