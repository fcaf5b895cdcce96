"""Finds the folders in which known programs store their chats, and counts their files without importing them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from cannery.importers.detection import find_format, format_names
from cannery.importers.source_files import holds_chats

# Counting stops at this number of files.
_MOST_FILES = 100_000


class Discovered(NamedTuple):
    """One folder or file of a program: its format, its path, and the number and size of its files."""

    program: str
    format: str
    path: str
    files: int
    bytes: int


def find_folders(home: str | os.PathLike[str] | None = None) -> list[Discovered]:
    """Find the folders of known programs below a home folder; of each file only the first bytes are read."""
    root = Path.home() if home is None else Path(home)
    found = []
    for name in format_names():
        chosen = find_format(name)
        for folder in chosen.folders:
            for place in sorted(_matches(root, folder)):
                files, size = _count(place)
                if files:
                    found.append(Discovered(chosen.title, name, str(place), files, size))
    return found


def _matches(root: Path, folder: str) -> list[Path]:
    """The paths that match a pattern; unreadable folders are ignored."""
    try:
        return list(root.glob(folder))
    except OSError:
        return []


def _count(place: Path) -> tuple[int, int]:
    """The number and size of the files at a place that may contain chats."""
    files = size = 0
    for number, path in enumerate([place] if place.is_file() else place.rglob("*")):
        if number == _MOST_FILES:
            break
        if holds_chats(path):
            files += 1
            size += path.stat().st_size
    return files, size
