"""Taking a file into a store: detect, read, and file every history where it belongs.

The path that its owner looked at last becomes a conversation, and every other branch a fork that shares what came
before. Records that nobody knows are kept in a conversation of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from cannery.errors import InputError
from cannery.importers.contract import Detection, Format, Imported, Unknown
from cannery.importers.detection import detect_format, find_format
from cannery.importers.pieces import title_of
from cannery.importers.placing import Facts, Known, Placed, Placement, Rehearsal, Shelf
from cannery.importers.sources import Source, open_sources
from cannery.importers.trees import histories
from cannery.messages import AnyCanister, DocumentCanisterClass, OpaqueContentClass
from cannery.storage import Store

Progress = Callable[[int, int], object]
_LONGEST_TITLE = 1000
# Unknown records are written in portions, so that a file full of them does not fill the memory.
_PORTION = 1000
# How much is read before it is filed, in characters; each message counts as some more, and media as all of it.
_HEAVY = 1 << 20
_MESSAGE = 500
UNKNOWN_TAG = "unknown-records"


class ImportSummary(Struct, kw_only=True):
    """What an import found and what it added."""

    path: str
    formats: dict[str, str] = field(default_factory=dict)
    conversations: int = 0
    branches: int = 0
    messages: int = 0
    empty: int = 0
    created: int = 0
    forked: int = 0
    continued: int = 0
    known: int = 0
    added: int = 0
    unknown: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    is_dry_run: bool = False

    @property
    def unknown_count(self) -> int:
        """How many records or pieces of records nobody knew."""
        return sum(self.unknown.values())


def import_into(
    store: Store | None,
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 - the word that people use
    dry_run: bool = False,  # noqa: FBT001, FBT002 - the contract
    progress: Progress | None = None,
) -> ImportSummary:
    """Take everything at a path into a store; a dry run reads all, looks what the store has, and writes nothing.

    ``format`` is detected when it is not given; ``progress(done, total)`` hears of bytes. Importing twice adds nothing.
    """
    summary = ImportSummary(path=os.fspath(path), is_dry_run=dry_run)
    sources = open_sources(path)
    shelf: Shelf = Rehearsal(store) if dry_run or store is None else Placement(store)
    for source, chosen, reason in _formats(sources, format, summary):
        summary.formats[source.name] = f"{chosen.name}: {reason}"
        source.progress = _telling(sources, source, progress)
        _Filing(shelf, source, chosen, summary).run()
        summary.problems += [f"{source.name}: {problem}" for problem in source.problems]
    return summary


def check_format(path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002 - as above
    """Refuse what ``import_into`` would refuse, before there is a store for it."""
    _formats(open_sources(path), format, ImportSummary(path=os.fspath(path)))


def _formats(sources: list[Source], name: str | None, summary: ImportSummary) -> list[Any]:
    """Each source with its format; of several, those that have none are left out."""
    if name is not None:
        return [(source, find_format(name), "as told") for source in sources]
    found = []
    for source in sources:
        try:
            chosen, detection = detect_format(source)
        except InputError as error:
            if len(sources) == 1:
                raise
            summary.problems.append(str(error))
            continue
        found.append((source, chosen, detection.reason))
    if not found:
        raise InputError(f"{summary.path}: nothing of a known format")
    return found


def _telling(sources: list[Source], source: Source, progress: Progress | None) -> Any:
    """Progress of one source as progress of all."""
    if progress is None:
        return None
    total = sum(each.size for each in sources)
    before = sum(each.size for each in sources[: sources.index(source)])
    return lambda done, _: progress(before + done, total)


def _weight(canister: AnyCanister) -> int:
    """How much of the memory a canister may take."""
    held = canister.held
    if isinstance(held, str):
        return _MESSAGE + len(held)
    text = getattr(held, "text", None)
    return _MESSAGE + len(text) if isinstance(text, str) else _HEAVY


class _Filing:
    """One source on its way into a store."""

    def __init__(
        self, shelf: Shelf, source: Source, chosen: Format, summary: ImportSummary
    ) -> None:
        self._shelf = shelf
        self._source = source
        self._format = chosen
        self._summary = summary
        self._unknown: list[AnyCanister] = []
        self._waiting: list[Known] = []
        self._weight = 0

    def run(self) -> None:
        """Read and file everything."""
        for found in self._format.read(self._source):
            if isinstance(found, Unknown):
                self._take_unknown(found)
            else:
                self._take(found)
        self._file_waiting()
        self._file_unknown()

    def _take(self, imported: Imported) -> None:
        summary = self._summary
        summary.conversations += 1
        summary.messages += sum(len(node.canisters) for node in imported.nodes)
        for kind, count in imported.unknown.items():
            summary.unknown[kind] = summary.unknown.get(kind, 0) + count
        is_empty = True
        for number, history in enumerate(histories(imported)):
            is_empty = False
            summary.branches += number > 0
            self._waiting.append((history, self._facts(history, imported)))
            self._weight += sum(map(_weight, history))
            if self._weight >= _HEAVY:
                self._file_waiting()
        summary.empty += is_empty

    def _file_waiting(self) -> None:
        """File what was read, all of it with one sync."""
        for placed in self._shelf.put(self._waiting):
            self._count(placed)
        self._waiting, self._weight = [], 0

    def _facts(self, history: list[AnyCanister], imported: Imported) -> Facts:
        named = imported.title.strip()[:_LONGEST_TITLE]
        return Facts(
            named or title_of(history)[:_LONGEST_TITLE],
            (self._format.name, *imported.tags),
            imported.model,
            imported.created,
            imported.kept,
            is_named=bool(named),
        )

    def _count(self, placed: Placed) -> None:
        summary = self._summary
        summary.added += placed.added
        summary.created += placed.is_new
        summary.forked += placed.is_fork
        summary.continued += bool(placed.added) and not placed.is_new and not placed.is_fork
        summary.known += not placed.added

    def _take_unknown(self, unknown: Unknown) -> None:
        counts = self._summary.unknown
        counts[unknown.kind] = counts.get(unknown.kind, 0) + 1
        content = OpaqueContentClass(self._format.name, unknown.kind, unknown.json)
        self._unknown.append(DocumentCanisterClass(content, title=unknown.kind))
        if len(self._unknown) >= _PORTION:
            self._file_unknown()

    def _file_unknown(self) -> None:
        if not self._unknown:
            return
        tags = (self._format.name, UNKNOWN_TAG)
        title = f"Unknown records of {self._source.name}"[:_LONGEST_TITLE]
        for placed in self._shelf.put([(self._unknown, Facts(title, tags))]):
            self._summary.added += placed.added
        self._unknown = []


__all__ = ["Detection", "ImportSummary", "check_format", "import_into"]
