"""Search by decryption: conversations are decrypted in batches of lines, and their words indexed in memory.

The index of each batch is SQLite's, with the same rules for words as that of a plain store, and is discarded with the
batch. It never leaves the memory of this process.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from cannery.backends._catalogue.finding import match_query, times_of
from cannery.backends._contract import (
    Backend,
    Entry,
    Found,
    Metadata,
    Reading,
    Selection,
    Span,
    Summary,
    Term,
)
from cannery.backends._encryption.keyring import Keyring
from cannery.errors import CanneryError, InputError

_TEXTS = "CREATE VIRTUAL TABLE texts USING fts5(text, tokenize='unicode61 remove_diacritics 2')"
# How many lines are decrypted at once.
_LINES = 2000


class Reader(Protocol):
    """The source of decrypted metadata and lines."""

    inner: Backend

    def metadata_many(self, identifiers: Iterable[str]) -> dict[str, bytes]:
        """Metadata."""

    def scope_of(self, identifier: str) -> str | None:
        """The scope of a conversation."""

    def read_many(self, spans: Sequence[Span]) -> list[Reading]:
        """Lines."""

    def described(self, scope: str, read: Sequence[bytes]) -> Sequence[Entry]:
        """The catalogue entries of lines."""


class _Piece(NamedTuple):
    """Lines to search for a conversation: its own, or those that it shares with a deleted one."""

    summary: Summary
    span: Span

    @property
    def length(self) -> int:
        """The largest number of lines."""
        return (self.span.stop or 0) - self.span.start


class Search:
    """One search through some conversations, in their order."""

    def __init__(self, reader: Reader, ring: Keyring, listed: Iterable[Summary]) -> None:
        self._reader = reader
        self._ring = ring
        self._listed = listed

    def find(self, terms: Sequence[Term], selection: Selection, limit: int) -> list[Found]:
        """The messages that contain all terms, best first within each batch."""
        query = match_query(terms)
        try:
            query.encode()
        except UnicodeError:
            raise InputError("what is searched for is not Unicode text") from None
        found: list[Found] = []
        for batch in self._batches():
            texts = [text for piece in self._read(batch) for text in _chosen(*piece, selection)]
            found += _matching(texts, query, limit - len(found))
            if len(found) >= limit:
                break
        return found

    def _batches(self) -> Iterator[list[_Piece]]:
        batch: list[_Piece] = []
        length = 0
        for summary in self._listed:
            if self._ring.problem(summary.scope) is not None:
                continue
            for piece in self._pieces(summary):
                batch.append(piece)
                length += piece.length
                if length >= _LINES:
                    yield batch
                    batch, length = [], 0
        if batch:
            yield batch

    def _pieces(self, summary: Summary) -> Iterator[_Piece]:
        """A conversation, and the parts that it shares with deleted ones, in batches of lines."""
        base = summary.position if summary.parent is not None else 0
        identifier, stop, parent = summary.identifier, summary.count, summary.parent
        seen = set()
        while identifier not in seen:
            seen.add(identifier)
            for start in range(base, stop, _LINES):
                span = Span(identifier, base, start, min(start + _LINES, stop))
                yield _Piece(summary, span)
            above = None if parent is None else self._metadata(parent)
            if above is None or above.deleted is None:
                # Lines of a conversation that is not deleted are found there.
                return
            identifier, stop = above.id, min(stop, base)
            base, parent = above.position if above.parent is not None else 0, above.parent

    def _metadata(self, identifier: str) -> Metadata | None:
        raw = self._reader.metadata_many([identifier]).get(identifier)
        return None if raw is None else msgspec.json.decode(raw, type=Metadata)

    def _read(self, pieces: Sequence[_Piece]) -> Iterator[tuple[_Piece, int, Entry]]:
        """The text at each position; unreadable lines are left out, which verify reports."""
        try:
            readings = self._reader.read_many([piece.span for piece in pieces])
        except CanneryError:
            if len(pieces) > 1:
                for piece in pieces:
                    yield from self._read([piece])
            return
        by_scope: dict[str, list[tuple[_Piece, int, bytes]]] = {}
        for piece, reading in zip(pieces, readings, strict=True):
            there = by_scope.setdefault(piece.summary.scope, [])
            there += [
                (piece, position, line)
                for position, line in enumerate(reading.lines, reading.start)
                if line is not None
            ]
        for scope, there in by_scope.items():
            entries = self._described(scope, [line for _, _, line in there])
            for (piece, position, _), entry in zip(there, entries, strict=True):
                if entry is not None:
                    yield piece, position, entry

    def _described(self, scope: str, lines: Sequence[bytes]) -> list[Entry | None]:
        try:
            return list(self._reader.described(scope, lines))
        except CanneryError:
            if len(lines) == 1:
                return [None]
        return [entry for line in lines for entry in self._described(scope, [line])]


def _chosen(
    piece: _Piece, position: int, entry: Entry, selection: Selection
) -> Iterator[tuple[Found, str]]:
    """The text at a position, if it is selected."""
    since, until = times_of(selection)
    is_asked = selection.role in (None, entry.role)
    is_asked = is_asked and (since is None or entry.said >= since)
    if is_asked and (until is None or entry.said <= until):
        with contextlib.suppress(CanneryError):
            text = entry.words().encode(errors="replace").decode()
            yield Found(piece.summary.identifier, piece.summary.title, position), text


def _matching(texts: Sequence[tuple[Found, str]], query: str, limit: int) -> list[Found]:
    """The texts that match a query, best first."""
    if not texts:
        return []
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(_TEXTS)
        connection.executemany(
            "INSERT INTO texts (rowid, text) VALUES (?, ?)",
            [(number, text) for number, (_, text) in enumerate(texts)],
        )
        rows = connection.execute(
            "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?", (query, limit)
        )
        return [texts[number][0] for (number,) in rows]
