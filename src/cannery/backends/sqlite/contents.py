"""Content in pieces of a megabyte, each compressed if that helps and with a checksum of its own.

So content of any size is stored and read without being in memory as a whole.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from cannery.backends._compression import compress, decompress
from cannery.backends._contract import EMPTY, Staged, check_size
from cannery.backends.sqlite.tables import Database
from cannery.errors import ContentNotFoundError, DamageError

_PIECE = 1 << 20
# How many pieces are removed at a time.
_AT_ONCE = 4


class Piece(NamedTuple):
    """A stored part of content."""

    size: int
    is_zstd: int
    seal: int
    data: bytes


Encoded: TypeAlias = Sequence[Piece]


def encode(data: bytes) -> Encoded:
    """Content in stored form."""
    starts = range(0, len(data), _PIECE) or (0,)
    return [_encode_piece(data[start : start + _PIECE]) for start in starts]


def _encode_piece(data: bytes) -> Piece:
    frame = compress(data)
    stored = data if frame is None else frame
    return Piece(len(data), int(frame is not None), zlib.crc32(stored), stored)


def _decode_piece(piece: Piece) -> bytes:
    if zlib.crc32(piece.data) != piece.seal:
        raise ValueError("the stored bytes do not match their checksum")
    if not piece.is_zstd:
        return piece.data
    return decompress(piece.data, piece.size)


def find_content(connection: sqlite3.Connection, scope: str, digest: bytes) -> int | None:
    """The number of stored content."""
    query = "SELECT content FROM contents WHERE scope = ? AND digest = ?"
    found = connection.execute(query, (scope, digest)).fetchone()
    return None if found is None else int(found[0])


def put_content(connection: sqlite3.Connection, scope: str, digest: bytes, pieces: Encoded) -> int:
    """Store new content; returns its number."""
    size = sum(piece.size for piece in pieces)
    cursor = connection.execute(
        "INSERT INTO contents (scope, digest, size) VALUES (?, ?, ?)", (scope, digest, size)
    )
    number = cursor.lastrowid or 0
    _put_pieces(connection, number, 0, pieces)
    return number


def _put_pieces(connection: sqlite3.Connection, content: int, first: int, pieces: Encoded) -> None:
    connection.executemany(
        "INSERT INTO pieces VALUES (?, ?, ?, ?, ?, ?)",
        [(content, number, *piece) for number, piece in enumerate(pieces, first)],
    )


def abandon_content(connection: sqlite3.Connection, content: int) -> None:
    """Hide unreferenced content from look-ups, so that gc may free it at once."""
    connection.execute(
        "UPDATE contents SET digest = ?, staged = 0 WHERE content = ?", (_new_mark(), content)
    )


def remove_pieces(connection: sqlite3.Connection, content: int) -> tuple[int, bool]:
    """Remove the first pieces of hidden content; returns their stored size, and whether there are more."""
    query = "SELECT piece, length(data) FROM pieces WHERE content = ? ORDER BY piece LIMIT ?"
    found = connection.execute(query, (content, _AT_ONCE)).fetchall()
    connection.executemany(
        "DELETE FROM pieces WHERE content = ? AND piece = ?", [(content, one) for one, _ in found]
    )
    has_more = len(found) == _AT_ONCE
    if not has_more:
        connection.execute("DELETE FROM contents WHERE content = ?", (content,))
    return sum(size for _, size in found), has_more


def _new_mark() -> bytes:
    """A replacement for the digest of hidden content."""
    return b"staging" + os.urandom(16)


class SqliteContents:
    """The content of one scope."""

    def __init__(self, database: Database, scope: str) -> None:
        self._database = database
        self._scope = scope

    def has(self, digests: Iterable[bytes]) -> set[bytes]:
        """The stored ones among some digests."""
        with self._database.reading() as connection:
            return {
                digest
                for digest in digests
                if find_content(connection, self._scope, digest) is not None
            }

    def get(self, digest: bytes, size: int | None = None) -> bytes:
        """The content, verified."""
        found = bytearray()
        for piece in self.stream(digest):
            found += piece
            if size is not None and len(found) > size:
                break
        check_size(digest, len(found), size)
        return bytes(found)

    def get_many(
        self, digests: Iterable[bytes], sizes: Mapping[bytes, int] = EMPTY
    ) -> Iterator[tuple[bytes, bytes]]:
        """Content by digest."""
        for digest in dict.fromkeys(digests):
            yield digest, self.get(digest, sizes.get(digest))

    def stream(self, digest: bytes) -> Iterator[bytes]:
        """The content in pieces."""
        with self._database.reading() as connection:
            content = find_content(connection, self._scope, digest)
        if content is None:
            raise ContentNotFoundError(f"sha256:{digest.hex()}")
        yield from verified(self._database, content, digest)

    def stage(self, pieces: Iterable[bytes]) -> Staged:
        """Store content before the change that refers to it."""
        digest, size = self._database.hashing(), 0
        with self._database.writing() as connection:
            cursor = connection.execute(
                "INSERT INTO contents (scope, digest, size, staged) VALUES (?, ?, 0, ?)",
                (self._scope, _new_mark(), time.time()),
            )
            content = cursor.lastrowid or 0
        for number, data in enumerate(_in_pieces(pieces)):
            digest.update(data)
            size += len(data)
            piece = _encode_piece(data)
            with self._database.writing(is_lazy=True) as connection:
                _put_pieces(connection, content, number, [piece])
        with self._database.writing() as connection:
            is_known = find_content(connection, self._scope, digest.digest()) is not None
            if is_known:
                # Stored content may be about to be freed, unless it was just requested.
                connection.execute(
                    "UPDATE contents SET staged = ? WHERE scope = ? AND digest = ? AND staged",
                    (time.time(), self._scope, digest.digest()),
                )
                abandon_content(connection, content)
            else:
                connection.execute(
                    "UPDATE contents SET digest = ?, size = ?, staged = ? WHERE content = ?",
                    (digest.digest(), size, time.time(), content),
                )
        while is_known:
            with self._database.writing(is_lazy=True) as connection:
                _, is_known = remove_pieces(connection, content)
        return Staged(digest.digest(), size)


def _in_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of equal size; one empty piece if there are none."""
    held = bytearray()
    is_empty = True
    for piece in pieces:
        held += piece
        while len(held) >= _PIECE:
            is_empty = False
            yield bytes(held[:_PIECE])
            del held[:_PIECE]
    if held or is_empty:
        yield bytes(held)


def verified(database: Database, content: int, digest: bytes) -> Iterator[bytes]:
    """Content in pieces; DamageError if one of them, or the whole, is not what was stored."""
    where = f"sha256:{digest.hex()}"
    found, number = database.hashing(), 0
    query = (
        "SELECT ifnull(CAST(size AS INTEGER), 0), is_zstd, seal, ifnull(CAST(data AS BLOB), x'')"
        " FROM pieces WHERE content = ? AND piece >= ? ORDER BY piece LIMIT 4"
    )
    while True:
        with database.reading() as connection:
            page = [Piece(*row) for row in connection.execute(query, (content, number))]
        for piece in page:
            try:
                data = _decode_piece(piece)
            except ValueError as error:
                raise DamageError(where, str(error)) from None
            found.update(data)
            yield data
        number += len(page)
        if len(page) < 4:
            break
    if found.digest() != digest:
        raise DamageError(where, "the bytes do not match the id")
