"""Content in pieces, each compressed if that helps and with its own checksum; small in tables, large in S3.

A writer that refers to content locks its row (``FOR KEY SHARE``) until the commit, and gc takes only unlocked rows. So
a writer that deduplicates onto content which gc is about to free either saves it, or finds it gone and stores it again.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from cannery.backends._compression import compress, decompress
from cannery.backends._contract import EMPTY, Damage, Inspection, Progress, Staged, check_size
from cannery.backends.postgresql.connections import Pool, execute
from cannery.backends.postgresql.objects import LARGE, Objects
from cannery.backends.postgresql.pipelines import Call, Connection, Statement, exchange
from cannery.errors import ContentNotFoundError, DamageError, StoreUnavailableError

_PIECE = 1 << 20
_OBJECT = 8 << 20
_TOGETHER = 100
_STAGING = b"staging"


class Piece(NamedTuple):
    """A stored part of content; ``data`` is None if it is an object in S3."""

    size: int
    is_zstd: bool
    seal: int
    data: bytes | None


Encoded: TypeAlias = Sequence[Piece]

PUT_CONTENTS = Statement(
    "INSERT INTO cannery.contents (content, scope, digest, size)"
    " SELECT * FROM unnest($1, $2, $3, $4)",
    "int8[] text[] bytea[] int8[]",
)
_HAS = Statement(
    "SELECT digest FROM cannery.contents WHERE digest = ANY($1) AND scope = $2", "bytea[] text"
)
_FIRST_PIECES = Statement(
    "SELECT c.digest, c.size, p.size, p.is_zstd, p.seal,"
    " CASE WHEN p.size = c.size THEN p.data END FROM cannery.contents c"
    " LEFT JOIN cannery.pieces p ON p.content = c.content AND p.piece = 0"
    " WHERE c.digest = ANY($1) AND c.scope = $2",
    "bytea[] text",
)
_PUT_PIECES = Statement(
    "INSERT INTO cannery.pieces SELECT * FROM unnest($1, $2, $3, $4, $5, $6)",
    "int8[] int8[] int8[] bool[] int8[] bytea[]",
)


def encode(data: bytes) -> Encoded:
    """Content in stored form."""
    starts = range(0, len(data), _PIECE) or (0,)
    return [_encode_piece(data[start : start + _PIECE]) for start in starts]


def _encode_piece(data: bytes) -> Piece:
    frame = compress(data)
    stored = data if frame is None else frame
    return Piece(len(data), frame is not None, zlib.crc32(stored), stored)


def put_pieces(content: int, first: int, pieces: Encoded) -> Call:
    """Write pieces of content."""
    numbers = range(first, first + len(pieces))
    return _PUT_PIECES, [[content] * len(pieces), numbers, *zip(*pieces, strict=True)]


class PostgresqlContents:
    """The content of one scope."""

    def __init__(self, pool: Pool, objects: Objects | None, scope: str) -> None:
        self._pool = pool
        self._objects = objects
        self._scope = scope

    def has(self, digests: Iterable[bytes]) -> set[bytes]:
        """The stored ones among some digests."""
        wanted = list(digests)
        if not wanted:
            return set()
        (rows,) = self._pool.exchange([(_HAS, (wanted, self._scope))])
        return {digest for (digest,) in rows}

    def get(self, digest: bytes, size: int | None = None) -> bytes:
        """The content, verified."""
        ((_, data),) = self.get_many([digest], {} if size is None else {digest: size})
        return data

    def get_many(
        self, digests: Iterable[bytes], sizes: Mapping[bytes, int] = EMPTY
    ) -> Iterator[tuple[bytes, bytes]]:
        """Content by digest; content in one piece in the database takes a single query."""
        wanted = list(dict.fromkeys(digests))
        for start in range(0, len(wanted), _TOGETHER):
            page = wanted[start : start + _TOGETHER]
            found = self._first_pieces(page)
            for digest in page:
                if digest not in found:
                    raise ContentNotFoundError(f"sha256:{digest.hex()}")
                size, piece = found[digest]
                check_size(digest, size, sizes.get(digest))
                if piece.data is not None and piece.size == size:
                    data = _decode_piece(digest, piece, piece.data)
                    if self._pool.hashing(data).digest() != digest:
                        where = f"content sha256:{digest.hex()}"
                        raise DamageError(where, "the bytes do not match the id")
                    yield digest, data
                else:
                    yield digest, b"".join(self.stream(digest))

    def _first_pieces(self, digests: Sequence[bytes]) -> dict[bytes, tuple[int, Piece]]:
        (rows,) = self._pool.exchange([(_FIRST_PIECES, (digests, self._scope))])
        return {digest: (size, Piece(*piece)) for digest, size, *piece in rows}

    def stream(self, digest: bytes) -> Iterator[bytes]:
        """The content in pieces."""
        query = "SELECT content, object FROM cannery.contents WHERE digest = %s AND scope = %s"
        found = self._pool.rows(query, (digest, self._scope))
        if not found:
            raise ContentNotFoundError(f"sha256:{digest.hex()}")
        yield from _verified(self._pool, self._objects, found[0], digest)

    def stage(self, pieces: Iterable[bytes]) -> Staged:
        """Store content before the change that refers to it."""
        held = _Buffer(pieces)
        is_large = self._objects is not None and held.has(LARGE)
        name = self._objects.new_name() if self._objects is not None and is_large else None
        content = self._begin(name)
        digest, size = self._pool.hashing(), 0
        for number, data in enumerate(held.parts(_OBJECT if is_large else _PIECE)):
            digest.update(data)
            size += len(data)
            piece = _encode_piece(data)
            if name is not None and self._objects is not None and piece.data is not None:
                self._objects.put(name, number, piece.data)
                piece = piece._replace(data=None)
            with self._pool.connection() as connection:
                exchange(connection, [put_pieces(content, number, [piece])])
        self._pool.again_if_raced(
            lambda connection: self._finish(connection, content, digest.digest(), size)
        )
        return Staged(digest.digest(), size)

    def _begin(self, name: str | None) -> int:
        """Record that content is being stored, and under which name, before any of it is there."""
        query = (
            "INSERT INTO cannery.contents (content, scope, digest, size, staged, object)"
            " VALUES (nextval('cannery.numbers'), %s, %s, 0, %s, %s) RETURNING content"
        )
        values = (self._scope, _STAGING + os.urandom(16), time.time(), name)
        with self._pool.connection() as connection:
            (content,) = execute(connection, query, values).fetchone() or (0,)
        return int(content)

    def _finish(self, connection: Connection, content: int, digest: bytes, size: int) -> None:
        now = time.time()
        known = execute(
            connection,
            "SELECT content FROM cannery.contents WHERE digest = %s AND scope = %s FOR UPDATE",
            (digest, self._scope),
        ).fetchone()
        if known is not None:
            # Stored content may be about to be freed, unless it was just requested.
            query = (
                "UPDATE cannery.contents SET staged = %s WHERE content = %s AND staged IS NOT NULL"
            )
            execute(connection, query, (now, known[0]))
            remove_contents(connection, [content])
            return
        query = "UPDATE cannery.contents SET digest = %s, size = %s, staged = %s WHERE content = %s"
        if execute(connection, query, (digest, size, now, content)).rowcount != 1:
            raise StoreUnavailableError("gc has freed content that took too long to be stored")


class _Buffer:
    """Bytes that arrive in pieces of any size, returned in pieces of one size."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._held = bytearray()

    def has(self, size: int) -> bool:
        """Whether there are at least a number of bytes."""
        while len(self._held) < size:
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._held += piece
        return True

    def parts(self, size: int) -> Iterator[bytes]:
        """All bytes; one empty piece if there are none."""
        is_first = True
        while self.has(size) or self._held or is_first:
            is_first = False
            yield bytes(self._held[:size])
            del self._held[:size]


def remove_contents(connection: Connection, contents: Sequence[int]) -> int:
    """Remove content; returns its stored size. Objects in S3 are recorded, to be deleted after the commit."""
    (size,) = execute(
        connection,
        "SELECT coalesce(sum(coalesce(length(data), size)), 0)::bigint FROM cannery.pieces WHERE content = ANY(%s)",
        (contents,),
    ).fetchone() or (0,)
    execute(
        connection,
        # One more than recorded: an interrupted upload may have stored an unrecorded piece.
        "INSERT INTO cannery.trash SELECT object, (SELECT count(*) + 1 FROM cannery.pieces p"
        " WHERE p.content = c.content) FROM cannery.contents c"
        " WHERE content = ANY(%s) AND object IS NOT NULL",
        (contents,),
    )
    for table in ("pieces", "contents"):
        execute(connection, f"DELETE FROM cannery.{table} WHERE content = ANY(%s)", (contents,))  # noqa: S608 - names are ours
    return int(size)


def empty_trash(pool: Pool, objects: Objects | None) -> None:
    """Delete the objects of removed content; objects left by a crash are deleted the next time."""
    if objects is None:
        return
    while found := pool.rows("SELECT object, pieces FROM cannery.trash LIMIT 100"):
        for name, pieces in found:
            objects.delete(name, pieces)
        names = [name for name, _ in found]
        with pool.connection() as connection:
            execute(connection, "DELETE FROM cannery.trash WHERE object = ANY(%s)", (names,))


def _decode_piece(digest: bytes, piece: Piece, stored: bytes) -> bytes:
    where = f"content sha256:{digest.hex()}"
    if zlib.crc32(stored) != piece.seal:
        raise DamageError(where, "the stored bytes do not match their checksum")
    if not piece.is_zstd:
        return stored
    try:
        return decompress(stored, piece.size)
    except ValueError as error:
        raise DamageError(where, str(error)) from None


def _verified(
    pool: Pool, objects: Objects | None, content: tuple[int, str | None], digest: bytes
) -> Iterator[bytes]:
    number, name = content
    where = f"content sha256:{digest.hex()}"
    found, first = pool.hashing(), 0
    query = (
        "SELECT size, is_zstd, seal, data FROM cannery.pieces WHERE content = %s AND piece >= %s"
        " ORDER BY piece LIMIT 4"
    )
    while True:
        page = [Piece(*row) for row in pool.rows(query, (number, first))]
        for at, piece in enumerate(page, first):
            stored = piece.data
            if stored is None:
                if objects is None or name is None:
                    problem = "it is in S3, and the URL of the store has no content=s3://…"
                    raise StoreUnavailableError(f"{where}: {problem}")
                stored = objects.get(name, at)
            data = _decode_piece(digest, piece, stored)
            found.update(data)
            yield data
        first += len(page)
        if len(page) < 4:
            break
    if found.digest() != digest:
        raise DamageError(where, "the bytes do not match the id")


def inspect(pool: Pool, objects: Objects | None, progress: Progress | None) -> Inspection:
    """Re-derive every hash."""
    ((total,),) = pool.rows("SELECT count(*) FROM cannery.contents")
    damages: list[Damage] = []
    contents = content_bytes = last = 0
    query = (
        "SELECT content, object, digest, size FROM cannery.contents"
        " WHERE content > %s AND length(digest) = 32 ORDER BY content LIMIT 100"
    )
    while page := pool.rows(query, (last,)):
        for content, name, digest, size in page:
            try:
                for _ in _verified(pool, objects, (content, name), digest):
                    pass
            except DamageError as error:
                # gc may have freed it meanwhile.
                if pool.rows("SELECT 1 FROM cannery.contents WHERE content = %s", (content,)):
                    damages.append(Damage(f"content sha256:{digest.hex()}", error.problem))
            last, contents, content_bytes = content, contents + 1, content_bytes + size
            if progress:
                progress(contents, max(total, contents))
    return Inspection(contents, content_bytes, tuple(damages))
