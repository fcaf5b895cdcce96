"""Finds the corpus and reads its items.

``index.json`` says of each file where it comes from. ``recorded`` items are real exchanges: a server took
the request with the status that is told. ``fixture`` and ``literal`` items were written by hand, and may be
invalid. Items are divided into parts by their names, so that several processes share the work.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

VARIABLE = "CANNERY_CORPUS"
SHARED = Path(__file__).resolve().parents[3] / "shared"
PARTS = 4
_KINDS = {"requests": "request", "responses": "response", "streams": "stream"}


class CorpusMissingError(Exception):
    """The corpus is not where it was said to be."""


@dataclass(frozen=True)
class Item:
    """One body or stream of the corpus."""

    name: str
    dialect: str
    kind: str
    origin: str
    status: int
    uri: str
    path: Path

    @property
    def data(self) -> bytes:
        """The bytes as they were recorded."""
        return self.path.read_bytes()

    @property
    def body(self) -> Any:
        """The JSON value of a request or an answer."""
        return json.loads(self.data)

    @property
    def is_taken(self) -> bool:
        """Whether a real server took or gave it, so that refusing it is wrong."""
        return self.origin == "recorded" and self.status == 200

    def is_one_in(self, number: int) -> bool:
        """Whether it belongs to a sample."""
        return int(self.name, 16) // PARTS % number == 0


class Corpus:
    """The items of an unpacked corpus."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def _items(self) -> dict[tuple[str, str], list[Item]]:
        index = json.loads((self._folder / "index.json").read_text("utf-8"))
        statuses = {entry["file"]: entry.get("status", 200) for entry in index}
        found: dict[tuple[str, str], list[Item]] = defaultdict(list)
        for entry in index:
            dialect, folder, file = entry["file"].split("/")
            if folder not in _KINDS:
                continue
            status = entry.get("status", statuses.get(entry.get("request"), 200))
            kind = _KINDS[folder]
            found[dialect, kind].append(
                Item(
                    name=file.partition(".")[0],
                    dialect=dialect,
                    kind=kind,
                    origin=entry["origin"],
                    status=status,
                    uri=entry.get("uri", ""),
                    path=self._folder / entry["file"],
                )
            )
        return found

    def items(self, dialect: str, kind: str, part: int | None = None) -> list[Item]:
        """The items of a dialect, or one part of them."""
        found = self._items.get((dialect, kind), [])
        return [item for item in found if part is None or int(item.name, 16) % PARTS == part]


def find_corpus() -> Path | None:
    """Where the corpus is; None where there is none, which is an error in CI beside the other shared files."""
    named = os.environ.get(VARIABLE)
    path = Path(named) if named else SHARED / "corpus.tar.xz"
    if path.exists():
        return path
    if named:
        raise CorpusMissingError(f"{VARIABLE} names {path}, which does not exist")
    if os.environ.get("CI") and SHARED.is_dir():
        raise CorpusMissingError(f"{SHARED} is there, but {path.name} is not in it")
    return None


@contextmanager
def open_corpus(path: Path) -> Iterator[Corpus]:
    """The corpus in a folder; an archive is unpacked into a temporary one."""
    if path.is_dir():
        yield Corpus(_root(path))
        return
    with TemporaryDirectory(prefix="cannery-corpus-") as folder:
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
        yield Corpus(_root(Path(folder)))


def _root(folder: Path) -> Path:
    """The folder that holds the index, at the top or one level below."""
    found = [folder, *folder.glob("*/")]
    for each in found:
        if (each / "index.json").is_file():
            return each
    raise CorpusMissingError(f"no index.json in {folder}")
