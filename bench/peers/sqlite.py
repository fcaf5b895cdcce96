"""Plain SQLite, as an application may use it: WAL, full syncs, one row of JSON per message."""

from __future__ import annotations

from pathlib import Path

from peers.storing import Storage, sqlite


def storage(folder: Path) -> Storage:
    """One table."""
    return sqlite(folder)
