"""The folders in which known programs keep their chats, on this machine: looked for, counted, and left as they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from cannery.importers.detection import find_format, format_names
from cannery.importers.source_files import holds_chats

# More files than this are not counted.
_MOST_FILES = 100_000


class Discovered(NamedTuple):
    """One folder or file of a program: which format it has, where it is, and how much there is to take."""

    program: str
    format: str
    path: str
    files: int
    bytes: int


def find_folders(home: str | os.PathLike[str] | None = None) -> list[Discovered]:
    """What is there of the folders that known programs use, below a home folder; reads first bytes and nothing else."""
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
    """The places that a pattern stands for; what may not be looked into is not there."""
    try:
        return list(root.glob(folder))
    except OSError:
        return []


def _count(place: Path) -> tuple[int, int]:
    """How many files at a place may hold chats, and how large they are."""
    files = size = 0
    for number, path in enumerate([place] if place.is_file() else place.rglob("*")):
        if number == _MOST_FILES:
            break
        if holds_chats(path):
            files += 1
            size += path.stat().st_size
    return files, size
