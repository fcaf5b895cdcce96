"""Restores a backup: a backup is an ordinary store, opened read-only and copied like any store.

The copy is then verified against the manifest that came with the backup.
"""

from __future__ import annotations

import os
from pathlib import Path

from cannery.backends import Progress, locate, open_backend
from cannery.errors import ConfigurationError
from cannery.storage.description import describe
from cannery.storage.store import open_store
from cannery.storage.verification import Report


def restore(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    encryption_key: str | None = None,
) -> Report:
    """Create a store from a backup at an unused path; returns the result of verifying it.

    A backup of an encrypted store needs its keys to be verified (``open_store``).
    """
    kind, place = locate(source)
    if kind == "directory" and Path(place).is_file():
        kind, source = "sqlite", f"sqlite:{place}"
    wanted, path = locate(target)
    backend = open_backend(source, describe, read_only=True, encryption_key=encryption_key)
    try:
        if wanted != kind:
            problem = f"the backup is a store of the kind {kind!r}"
            raise ConfigurationError(os.fsdecode(target), problem)
        backend.backup(path, progress)
    finally:
        backend.close()
    with open_store(target, encryption_key=encryption_key) as store:
        return store.verify(progress)
