"""Cannery in PostgreSQL: a server of its own on the same disk, over its Unix socket."""

from __future__ import annotations

from pathlib import Path

import servers

from peers.cannery import storage_at
from peers.storing import Storage


def storage(folder: Path) -> Storage:
    """One conversation in a new database with default settings."""
    del folder
    server = servers.postgres()
    opened = storage_at(server.url())

    def close() -> None:
        opened.close()
        server.remove()

    return opened._replace(close=close)
