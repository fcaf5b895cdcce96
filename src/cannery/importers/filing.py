"""Imports a file into a store: detects its format, reads it, and files every history.

The current path becomes a conversation, and every other branch a fork that shares its beginning. A row of a data set is
a conversation of its own. Records of unknown kinds are stored with the message that follows them; without a message
they are a problem, like everything else that was not imported.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct, field

from cannery.backends import keyed
from cannery.errors import CanneryError, InputError
from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Node,
    Unknown,
)
from cannery.importers.destinations import Facts, Known, Placed, Placement, Rehearsal, Row, Shelf
from cannery.importers.detection import detect_format, find_format, is_without_messages
from cannery.importers.pieces import add_facts, facts_of
from cannery.importers.source_files import open_sources
from cannery.importers.sources import Source
from cannery.importers.trees import histories, without_repeats
from cannery.messages import AnyCanister, conversation_digest
from cannery.messages.json_text import decode_json
from cannery.storage import Store
from cannery.titles import title_of

Progress = Callable[[int, int], object]
_LONGEST_TITLE = 1000
# The size of a batch, in characters; each message counts a fixed amount more, and other content counts as a full batch.
_HEAVY = 1 << 20
_MESSAGE = 500
_ROW = 26


class ImportSummary(Struct, kw_only=True):
    """The results of an import: what was found and what was added."""

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
    unknown_kept: int = 0
    problems: list[str] = field(default_factory=list)
    left_alone: list[str] = field(default_factory=list)
    is_dry_run: bool = False

    @property
    def unknown_count(self) -> int:
        """The number of records and parts of unknown kinds."""
        return sum(self.unknown.values())


def import_into(
    store: Store | None,
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 - the word that people use
    dry_run: bool = False,  # noqa: FBT001, FBT002 - the contract
    progress: Progress | None = None,
    *,
    merge: bool = False,
) -> ImportSummary:
    """Import everything at a path into a store; a dry run reads the files and the store, and writes nothing.

    ``format`` is detected if it is not given; ``progress(done, total)`` is called with bytes. Importing twice adds
    nothing. With ``merge`` rows of data sets with the same beginning share a conversation, as chats do.
    """
    summary = ImportSummary(path=os.fspath(path), is_dry_run=dry_run)
    sources = open_sources(path, summary.left_alone)
    shelf: Shelf = Rehearsal(store) if dry_run or store is None else Placement(store)
    rows: Counter[bytes] = Counter()
    row_key = b"" if store is None else store.digest_key(store.own_scope)
    taken = _formats(sources, format, summary)
    sources = [source for source, _, _ in taken]
    for source, chosen, reason in taken:
        summary.formats[source.name] = f"{chosen.name}: {reason}"
        source.progress = _overall_progress(sources, source, progress)
        as_rows = rows if chosen.is_data_set and not merge else None
        _Filing(shelf, source, chosen, summary, as_rows, row_key).run()
        summary.problems += [f"{source.name}: {problem}" for problem in source.problems.told()]
        summary.left_alone += [f"{source.name}: {note}" for note in source.notes]
    return summary


def check_format(path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002 - as above
    """Raise the errors of ``import_into`` for an unknown format, before a store is created."""
    _formats(open_sources(path), format, ImportSummary(path=os.fspath(path)))


def _formats(sources: list[Source], name: str | None, summary: ImportSummary) -> list[Any]:
    """Each source with its format; of several, those of unknown format are reported, or skipped without messages."""
    if name is not None:
        return [(source, find_format(name), "as requested") for source in sources]
    found = []
    for source in sources:
        try:
            chosen, detection = detect_format(source)
        except InputError as error:
            if len(sources) == 1:
                raise
            if not source.problems and is_without_messages(source.sample()):
                summary.left_alone.append(source.name)
            else:
                summary.problems.append(str(error))
            continue
        found.append((source, chosen, detection.reason))
    if not found:
        told = summary.problems[:1] or ["no file in it holds a conversation"]
        raise InputError(f"{summary.path}: nothing of a known format ({told[0]})")
    return found


def _overall_progress(sources: list[Source], source: Source, progress: Progress | None) -> Any:
    """Convert progress within one source to progress within all."""
    if progress is None:
        return None
    total = sum(each.size for each in sources)
    before = sum(each.size for each in sources[: sources.index(source)])
    return lambda done, _: progress(before + done, total)


def _weight(canister: AnyCanister) -> int:
    """The approximate memory use of a canister."""
    held = canister.held
    if isinstance(held, str):
        return _MESSAGE + len(held)
    text = getattr(held, "text", None)
    return _MESSAGE + len(text) if isinstance(text, str) else _HEAVY


class _Filing:
    """The import of one source; ``rows`` counts identical rows of a data set."""

    def __init__(
        self,
        shelf: Shelf,
        source: Source,
        chosen: Format,
        summary: ImportSummary,
        rows: Counter[bytes] | None,
        row_key: bytes,
    ) -> None:
        self._shelf = shelf
        self._source = source
        self._format = chosen
        self._summary = summary
        self._rows = rows
        # In an encrypted store the id of a row must not reveal its content.
        self._row_key = row_key
        self._began = datetime.now(UTC)
        self._unknown: list[Unknown] = []
        self._last: Imported | None = None
        self._waiting: list[Known] = []
        self._waiting_rows: list[Row] = []
        self._weight = 0

    def run(self) -> None:
        """Read and file everything."""
        before = self._summary.messages
        for found in self._found():
            if isinstance(found, Unknown):
                self._take_unknown(found)
                continue
            if self._last is not None:
                self._take(self._last)
                self._last = None
            self._last = self._with_unknown(found)
        if self._last is not None:
            self._take(self._with_unknown(self._last, is_over=True))
        self._file_waiting()
        if self._unknown:
            self._tell_left_out()
        elif self._summary.messages == before and not self._source.problems:
            self._source.problems.append(f"no message in it, read as {self._format.name}")

    def _found(self) -> Iterator[Found]:
        """The output of the format; an invalid value ends the source, and is a problem."""
        reading = self._format.read(self._source)
        while True:
            try:
                yield next(reading)
            except StopIteration:
                return
            except CanneryError as error:
                told = f"reading stopped at an invalid value: {error}"
                self._source.problems.append(told)
                return

    # --- unknown records -------------------------------------------------------------------------

    def _take_unknown(self, unknown: Unknown) -> None:
        counts = self._summary.unknown
        counts[unknown.kind] = counts.get(unknown.kind, 0) + 1
        if unknown.kind == UNREADABLE or self._rows is not None:
            what = "a record that cannot be read" if unknown.kind == UNREADABLE else unknown.kind
            told = "left out" if self._rows is not None else "kept as it is"
            self._source.problems.append(f"{unknown.place}: {what}, {told}")
        if self._rows is None:
            self._unknown.append(unknown)

    def _with_unknown(self, imported: Imported, *, is_over: bool = False) -> Imported:
        """Attach unknown records to messages of a conversation: each to the next message.

        At the end of the source, records after the last message are attached to it.
        """
        said = [number for number, node in enumerate(imported.nodes) if node.canisters]
        if not self._unknown or not said:
            return imported
        places = {node.identifier: number for number, node in enumerate(imported.nodes)}
        # Records by the message, and by the canister in it, to attach them to.
        beside: dict[tuple[int, int], list[Unknown]] = {}
        for unknown in self._unknown:
            above = places.get(unknown.above or "", said[-1] if is_over else -1)
            at = bisect_right(said, above)
            after = (said[at], 0) if at < len(said) else (said[-1], -1)
            beside.setdefault(after, []).append(unknown)
        self._unknown = []
        nodes = list(imported.nodes)
        for (number, index), records in beside.items():
            canisters = list(nodes[number].canisters)
            known = facts_of(canisters[index]).get("unknown", ())
            kept = {"unknown": [*known, *map(_told, records)]}
            canisters[index] = add_facts(canisters[index], self._format.name, kept)
            nodes[number] = Node(*nodes[number][:2], tuple(canisters))
        return msgspec.structs.replace(imported, nodes=tuple(nodes))

    def _tell_left_out(self) -> None:
        for unknown in self._unknown:
            told = f"{unknown.place}: a record of the kind {unknown.kind!r}, left out"
            self._source.problems.append(f"{told}: the source has no message to store it with")
        self._unknown = []

    # --- conversations ---------------------------------------------------------------------------

    def _take(self, imported: Imported) -> None:
        summary = self._summary
        imported = self._with_origin(imported)
        summary.conversations += 1
        summary.messages += sum(len(node.canisters) for node in imported.nodes)
        for kind, count in imported.unknown.items():
            summary.unknown[kind] = summary.unknown.get(kind, 0) + count
        if self._rows is not None:
            self._take_row(imported, self._rows)
            return
        is_empty = True
        for number, said in enumerate(histories(imported)):
            is_empty = False
            summary.branches += number > 0
            history = _settled(without_repeats(said), imported.created, self._began)
            self._wait(history)
            self._waiting.append((history, self._facts(history, imported, number)))
            if self._weight >= _HEAVY:
                self._file_waiting()
        summary.empty += is_empty

    def _with_origin(self, imported: Imported) -> Imported:
        """Store the origin of a conversation, with its name there, as facts of its first message."""
        if imported.kept is not None:
            return imported
        origin = {"format": self._format.name, "file": self._source.name, "id": imported.identifier}
        for number, node in enumerate(imported.nodes):
            if node.canisters:
                first = add_facts(node.canisters[0], self._format.name, {"origin": origin})
                kept = node._replace(canisters=(first, *node.canisters[1:]))
                nodes = (*imported.nodes[:number], kept, *imported.nodes[number + 1 :])
                return msgspec.structs.replace(imported, nodes=nodes)
        return imported

    def _take_row(self, imported: Imported, rows: Counter[bytes]) -> None:
        held = list(histories(imported))
        if not held:
            self._summary.empty += 1
            return
        self._summary.branches += len(held) - 1
        digest = imported.row or _row_digest(held)
        if self._row_key:
            digest = keyed(self._row_key, digest)
        rows[digest] += 1
        name = hashlib.sha256(digest + str(rows[digest]).encode()).hexdigest()[:_ROW]
        held = [_settled(history, imported.created, self._began) for history in held]
        for history in held:
            self._wait(history)
        self._waiting_rows.append(Row(name, held, self._facts(held[0], imported, 0)))
        if self._weight >= _HEAVY:
            self._file_waiting()

    def _wait(self, history: list[AnyCanister]) -> None:
        self._weight += sum(map(_weight, history))

    def _file_waiting(self) -> None:
        """File the current batch with one sync."""
        held: list[Sequence[AnyCanister]] = [history for history, _ in self._waiting]
        held += [history for row in self._waiting_rows for history in row.histories]
        placed = [*self._shelf.put(self._waiting), *self._shelf.put_rows(self._waiting_rows)]
        for history, found in zip(held, placed, strict=True):
            self._count(history, found)
        self._waiting, self._waiting_rows, self._weight = [], [], 0

    def _facts(self, history: list[AnyCanister], imported: Imported, number: int) -> Facts:
        named = imported.title.strip()[:_LONGEST_TITLE]
        return Facts(
            named or title_of(history)[:_LONGEST_TITLE],
            (self._format.name, *imported.tags),
            imported.model,
            imported.created,
            imported.kept,
            is_named=bool(named),
            identifier="" if number else imported.identifier,
            started_by=imported.started_by,
        )

    def _count(self, history: Sequence[AnyCanister], placed: Placed) -> None:
        summary = self._summary
        summary.added += placed.added
        summary.created += placed.is_new
        summary.forked += placed.is_fork
        summary.continued += bool(placed.added) and not placed.is_new and not placed.is_fork
        summary.known += not placed.added
        added = history[len(history) - placed.added :]
        summary.unknown_kept += sum(len(facts_of(each).get("unknown", ())) for each in added)


def _told(unknown: Unknown) -> dict[str, Any]:
    return {"kind": unknown.kind, "place": unknown.place, "record": decode_json(unknown.json)}


def _row_digest(held: list[list[AnyCanister]]) -> bytes:
    return b"".join(conversation_digest(history) for history in held)


def _settled(
    history: list[AnyCanister], created: datetime | None, began: datetime
) -> list[AnyCanister]:
    """Give messages without a time the time of the message before them, not that of the import."""
    if all(canister.timestamp < began for canister in history):
        return history
    times = [canister.timestamp for canister in history if canister.timestamp < began]
    last = created or (times[0] if times else None)
    if last is None:
        return history
    found = []
    for canister in history:
        if canister.timestamp >= began:
            found.append(canister.replace(timestamp=last))
        else:
            last = canister.timestamp
            found.append(canister)
    return found


__all__ = ["Detection", "ImportSummary", "check_format", "import_into"]
