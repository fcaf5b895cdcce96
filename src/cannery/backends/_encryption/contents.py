"""Content as ciphertext, found by a keyed digest: stored once per scope, and under another id in every other scope.

    CNE1, flags (4), salt (16) | pieces of 1 MiB and a tag each | size (8), id (32), check (32)

The id is the HMAC of the content's sha256, so that it can be looked up without the content, and reveals nothing about
the content without the key. The check is the sha256 of all bytes before it, by which the inner backend finds damage
without a key. Content is compressed before it is encrypted.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from cannery.backends._compression import (
    Compressor,
    compress,
    decompress,
    decompress_pieces,
    is_worth,
)
from cannery.backends._contract import EMPTY, ContentTable, Staged, check_size
from cannery.backends._encryption.ciphers import TAG, Cipher, ScopeKeys, decrypted
from cannery.errors import CanneryError, ContentNotFoundError, DamageError

_MAGIC = b"CNE1"
_HEADER = struct.Struct("<4sI16s")
_SIZE = struct.Struct("<Q")
_TRAILER = _SIZE.size + 64
_PIECE = 1 << 20
_SEALED = _PIECE + TAG
_ZSTD = 1


class EndHash:
    """The id at the end of encrypted content that arrives in pieces, if the check after it is right."""

    def __init__(self, data: bytes = b"") -> None:
        self._sha256 = hashlib.sha256()
        self._end = b""
        self.update(data)

    def update(self, data: bytes) -> None:
        """Add the next bytes."""
        if len(data) >= 64:
            self._sha256.update(self._end)
            self._sha256.update(memoryview(data)[:-64])
            self._end = data[-64:]
        elif data:
            held = self._end + data
            self._sha256.update(held[:-64])
            self._end = held[-64:]

    def digest(self) -> bytes:
        """The id; an impossible one if the bytes fail the check."""
        identity, check = self._end[:32], self._end[32:]
        found = self._sha256.copy()
        found.update(identity)
        return identity if found.digest() == check else b""


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(8, "big") + bytes((0, 0, 0, is_last))


class Sealing:
    """Encrypts one content that arrives in pieces."""

    def __init__(self, keys: ScopeKeys, *, is_zstd: bool) -> None:
        salt = os.urandom(16)
        self._head = _HEADER.pack(_MAGIC, _ZSTD if is_zstd else 0, salt)
        self._cipher = keys.content_cipher(salt)
        self._keys = keys
        self._number = 0
        self._held = bytearray()
        self._check = hashlib.sha256()

    def begin(self) -> bytes:
        """The header."""
        self._check.update(self._head)
        return self._head

    def add(self, data: bytes) -> Iterator[bytes]:
        """The next bytes to store; the last piece is held back."""
        self._held += data
        while len(self._held) > _PIECE:
            yield self._seal(bytes(self._held[:_PIECE]), b"", is_last=False)
            del self._held[:_PIECE]

    def end(self, digest: bytes, size: int) -> bytes:
        """The last piece, and the content's id."""
        stated = _SIZE.pack(size)
        last = self._seal(bytes(self._held), stated, is_last=True)
        ended = stated + self._keys.content_id(digest)
        self._check.update(ended)
        return last + ended + self._check.digest()

    def _seal(self, data: bytes, stated: bytes, *, is_last: bool) -> bytes:
        nonce = _nonce(self._number, is_last=is_last)
        self._number += 1
        sealed = self._cipher.encrypt(nonce, data, self._head + stated)
        self._check.update(sealed)
        return sealed


def seal_content(keys: ScopeKeys, digest: bytes, data: bytes) -> bytes:
    """Content in stored form."""
    frame = compress(data)
    sealing = Sealing(keys, is_zstd=frame is not None)
    stored = [sealing.begin(), *sealing.add(data if frame is None else frame)]
    return b"".join((*stored, sealing.end(digest, len(data))))


def open_content(
    keys: ScopeKeys, digest: bytes | None, stored: bytes, size: int | None = None
) -> bytes:
    """The content of stored bytes, verified; without a digest it may be any. ValueError names the problem."""
    if len(stored) < _HEADER.size + TAG + _TRAILER:
        raise ValueError("cut short")
    (found,) = _SIZE.unpack_from(stored, len(stored) - _TRAILER)
    if size is not None and found != size:
        check_size(digest or b"", found, size)
    body = b"".join(_opened(keys, [stored]))
    data = decompress(body, found) if _is_zstd(stored) else body
    _check_content(keys, digest, stored[-64:-32], hashlib.sha256(data).digest())
    return data


def _is_zstd(head: bytes) -> bool:
    return bool(_HEADER.unpack_from(head)[1] & _ZSTD)


def _check_content(keys: ScopeKeys, asked: bytes | None, identity: bytes, found: bytes) -> None:
    is_other = asked is not None and asked != found
    if is_other or not hmac.compare_digest(keys.content_id(found), identity):
        raise ValueError("the bytes do not match the id")


def _opened(keys: ScopeKeys, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The plaintext, piece by piece; ValueError if something was changed, left out or added."""
    held = bytearray()
    cipher: Cipher | None = None
    head = b""
    number = 0
    for piece in pieces:
        held += piece
        if cipher is None and len(held) >= _HEADER.size:
            head = bytes(held[: _HEADER.size])
            if head[:4] != _MAGIC:
                raise ValueError("this is not encrypted content")
            cipher = keys.content_cipher(_HEADER.unpack(head)[2])
            del held[: _HEADER.size]
        while cipher is not None and len(held) > _SEALED + _TRAILER:
            nonce = _nonce(number, is_last=False)
            yield decrypted(cipher, nonce, bytes(held[:_SEALED]), head)
            del held[:_SEALED]
            number += 1
    if cipher is None or len(held) < TAG + _TRAILER:
        raise ValueError("cut short")
    stated = bytes(held[-_TRAILER : _SIZE.size - _TRAILER])
    nonce = _nonce(number, is_last=True)
    yield decrypted(cipher, nonce, bytes(held[:-_TRAILER]), head + stated)


class _Watched:
    """Stored pieces as they pass, of which the first and the last bytes are kept."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.head = b""
        self.end = b""

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if len(self.head) < _HEADER.size:
                self.head = (self.head + piece)[: _HEADER.size]
            self.end = (self.end + piece[-_TRAILER:])[-_TRAILER:]
            yield piece

    def begin(self) -> bool:
        """Read up to the end of the header; whether the rest is compressed."""
        read: list[bytes] = []
        for piece in self._pieces:
            read.append(piece)
            if sum(map(len, read)) >= _HEADER.size:
                break
        self._pieces = chain(read, self._pieces)
        head = b"".join(read)[: _HEADER.size]
        if len(head) < _HEADER.size:
            raise ValueError("cut short")
        return _is_zstd(head)


class EncryptedContents:
    """The content of one scope; ``keys`` gives the scope's keys on demand."""

    def __init__(self, inner: ContentTable, keys: Callable[[], ScopeKeys]) -> None:
        self._inner = inner
        self._keys = keys

    def has(self, digests: Iterable[bytes]) -> set[bytes]:
        """The stored ones among some digests."""
        names = self._names(digests)
        return {names[found] for found in self._inner.has(names)}

    def _names(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        keys = self._keys()
        return {keys.content_id(digest): digest for digest in digests}

    def get(self, digest: bytes, size: int | None = None) -> bytes:
        """The content, verified."""
        keys = self._keys()
        with _told(digest):
            return open_content(keys, digest, self._inner.get(keys.content_id(digest)), size)

    def get_many(
        self, digests: Iterable[bytes], sizes: Mapping[bytes, int] = EMPTY
    ) -> Iterator[tuple[bytes, bytes]]:
        """Content by digest, in the order that reads best."""
        keys = self._keys()
        names = self._names(digests)
        found = self._inner.get_many(names)
        while True:
            try:
                name, stored = next(found)
            except StopIteration:
                return
            except ContentNotFoundError:
                raise self._first_missing(names) from None
            digest = names[name]
            with _told(digest):
                data = open_content(keys, digest, stored, sizes.get(digest))
            yield digest, data

    def _first_missing(self, names: Mapping[bytes, bytes]) -> CanneryError:
        there = self._inner.has(names)
        missing = [digest for name, digest in names.items() if name not in there]
        return ContentNotFoundError(f"sha256:{(missing or [b''])[0].hex()}")

    def stream(self, digest: bytes) -> Iterator[bytes]:
        """The content in pieces."""
        keys = self._keys()
        found = hashlib.sha256()
        with _told(digest):
            watched = _Watched(iter(self._inner.stream(keys.content_id(digest))))
            is_zstd = watched.begin()
            pieces = _opened(keys, watched)
            for piece in decompress_pieces(pieces, None) if is_zstd else pieces:
                found.update(piece)
                yield piece
            _check_content(keys, digest, watched.end[8:40], found.digest())

    def stage(self, pieces: Iterable[bytes]) -> Staged:
        """Store content before the change that refers to it."""
        staging = _Staging(self._keys(), pieces)
        self._inner.stage(staging.stored())
        return Staged(staging.digest.digest(), staging.size)


class _Staging:
    """Content that is encrypted while it arrives."""

    def __init__(self, keys: ScopeKeys, pieces: Iterable[bytes]) -> None:
        self._keys = keys
        self._pieces = iter(pieces)
        self.digest = hashlib.sha256()
        self.size = 0

    def stored(self) -> Iterator[bytes]:
        """The stored form of the content."""
        first = next(self._pieces, b"")
        compressor = Compressor() if is_worth(first) else None
        sealing = Sealing(self._keys, is_zstd=compressor is not None)
        yield sealing.begin()
        for piece in chain((first,), self._pieces):
            self.digest.update(piece)
            self.size += len(piece)
            yield from sealing.add(piece if compressor is None else compressor.add(piece))
        if compressor is not None:
            yield from sealing.add(compressor.finish())
        yield sealing.end(self.digest.digest(), self.size)


@contextlib.contextmanager
def _told(digest: bytes) -> Iterator[None]:
    """The problem of content, as one of our errors with its id."""
    name = f"sha256:{digest.hex()}"
    try:
        yield
    except ContentNotFoundError:
        raise ContentNotFoundError(name) from None
    except CanneryError:
        raise
    except ValueError as error:
        raise DamageError(f"content {name}", str(error)) from None
