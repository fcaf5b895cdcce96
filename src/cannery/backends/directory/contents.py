"""The content of one scope in packs, and content that is stored before the change that refers to it.

Small staged content goes through the journal like any other content. Large content is written to a file of its own,
synced, and becomes a pack under the write lock.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from cannery.backends._compression import Compressor, is_worth
from cannery.backends._contract import EMPTY, Staged
from cannery.backends.directory.commits import Commits, Tail
from cannery.backends.directory.files import Files, medium
from cannery.backends.directory.journal import Draft
from cannery.backends.directory.layout import CONTENT, pack_name, stage_name
from cannery.backends.directory.packs import (
    FULL,
    HEADER,
    PACK_HEADER,
    PLAIN,
    SCOPED,
    ZSTD,
    Packs,
    encode_record,
    key_of,
    new_pack_header,
    record_header,
    salt_of,
    salted,
)
from cannery.backends.directory.registry import Registry
from cannery.backends.directory.watching import Watching
from cannery.errors import ContentNotFoundError

_SMALL = 4 << 20
"""Content of more bytes than this does not go through the journal."""


class PackWriter:
    """Drafts content at the end of the active pack."""

    def __init__(self, files: Files, tails: dict[str, Tail], packs: Packs) -> None:
        self._files = files
        self._tails = tails
        self.packs = packs

    def encode(self, scope: str, contents: Mapping[bytes, bytes | None]) -> dict[bytes, bytes]:
        """Records of content that is not stored, by key; made before any lock is taken."""
        records = {}
        for digest, data in contents.items():
            key = key_of(scope, digest)
            if data is not None and self.packs.find(key) is None:
                records[key] = encode_record(key, data, scope)
        return records

    def draft(
        self,
        scope: str,
        contents: Mapping[bytes, bytes | None],
        records: Mapping[bytes, bytes],
        draft: Draft,
    ) -> None:
        """Draft the records that are not stored; the write lock is held.

        ContentNotFoundError if required content is missing.
        """
        found: list[bytes] = []
        for digest, data in contents.items():
            key = key_of(scope, digest)
            if self.packs.locate(key) is None:
                if data is None:
                    raise ContentNotFoundError(f"sha256:{digest.hex()}")
                found.append(records.get(key) or encode_record(key, data, scope))
        if not found:
            return
        number, offset = self._pack_end()
        written = b"".join(found if offset else (new_pack_header(), *found))
        name = pack_name(number)
        self.packs.note(number, offset, written)
        self._tails[name] = Tail(offset + len(written))
        draft.write(name, offset, written)

    def _pack_end(self) -> tuple[int, int]:
        number = max(self.packs.active, 1)
        name = pack_name(number)
        tail = self._tails.get(name)
        facts = self._files.facts(name) if tail is None else None
        size = tail.end if tail is not None else facts.size if facts is not None else 0
        is_cut = tail is None and (self.packs.is_torn or 0 < size < PACK_HEADER)
        return (number + 1, 0) if is_cut or size >= FULL else (number, size)


class DirectoryContents:
    """The content of one scope."""

    def __init__(
        self,
        files: Files,
        commits: Commits,
        writer: PackWriter,
        registry: Registry,
        watching: Watching,
        scope: str,
    ) -> None:
        self._files = files
        self._commits = commits
        self._writer = writer
        self._packs = writer.packs
        self._registry = registry
        self._watching = watching
        self._scope = scope

    def has(self, digests: Iterable[bytes]) -> set[bytes]:
        """The stored ones among some digests."""
        wanted = set(digests)
        with medium("content"):
            found = self._found(wanted)
            if found != wanted:
                self._commits.place_pending()
                self._packs.refresh()
                found = self._found(wanted)
        return found

    def _found(self, digests: set[bytes]) -> set[bytes]:
        return {one for one in digests if self._packs.locate(key_of(self._scope, one)) is not None}

    def get(self, digest: bytes, size: int | None = None) -> bytes:
        """The content, verified."""
        with medium("content"):
            self._commits.place_pending()
            return self._packs.get(key_of(self._scope, digest), size)

    def get_many(
        self, digests: Iterable[bytes], sizes: Mapping[bytes, int] = EMPTY
    ) -> Iterator[tuple[bytes, bytes]]:
        """Contents in the order in which they are stored."""
        names = {key_of(self._scope, digest): digest for digest in digests}
        said = {key: sizes[digest] for key, digest in names.items() if digest in sizes}
        with medium("content"):
            self._commits.place_pending()
            for key, data in self._packs.get_many(names, said):
                yield names[key], data

    def stream(self, digest: bytes) -> Iterator[bytes]:
        """The content in pieces."""
        self._commits.place_pending()
        if not self.has([digest]):
            raise ContentNotFoundError(f"sha256:{digest.hex()}")
        with medium("content"):
            yield from self._packs.stream(key_of(self._scope, digest))

    # Staging

    def stage(self, pieces: Iterable[bytes]) -> Staged:
        """Store content before the change that refers to it."""
        held: list[bytes] = []
        size = 0
        rest = iter(pieces)
        for piece in rest:
            held.append(piece)
            size += len(piece)
            if size > _SMALL:
                return self._stage_large(chain(held, rest))
        return self._stage_small(b"".join(held))

    def _stage_small(self, data: bytes) -> Staged:
        digest = self._packs.hashing(data).digest()
        key = key_of(self._scope, digest)

        def build(draft: Draft) -> None:
            self._writer.draft(self._scope, {digest: data}, {}, draft)
            self._note(key, draft)

        with medium(self._files.root):
            (outcome,) = self._commits.submit((build,), "sync")
        outcome.result()
        return Staged(digest, len(data))

    def _note(self, key: bytes, draft: Draft) -> None:
        self._watching.note_staged(key)
        name, end = self._registry.note_staged(key, draft)
        self._commits.tails[name] = Tail(end)

    def _stage_large(self, pieces: Iterable[bytes]) -> Staged:
        with medium("content"):
            name = stage_name()
            fd = self._files.open(name, create=True)
            try:
                staged = self._write_pack(fd, pieces)
                self._files.sync(fd)
            except BaseException:
                self._files.remove(name)
                raise
            finally:
                self._files.close(fd)
            key = key_of(self._scope, staged.digest)
            self._put_in_place(name, key)
        # Recorded only after it is stored: a record without content would be trusted.
        with medium(self._files.root):
            (outcome,) = self._commits.submit((lambda draft: self._note(key, draft),), "sync")
        outcome.result()
        return staged

    def _put_in_place(self, name: str, key: bytes) -> None:
        with self._commits.alone():
            self._packs.refresh()
            if self._packs.locate(key) is not None:
                self._files.remove(name)
                return
            number = max(self._packs.numbers(), default=0) + 1
            self._commits.distrust()
            self._files.rename(name, pack_name(number))
            self._files.sync_directory(CONTENT)
            self._commits.begin_epoch()

    def _write_pack(self, fd: int, pieces: Iterable[bytes]) -> Staged:
        """A pack of one record; its header is written last."""
        salt = salt_of(self._scope)
        digest, size = self._packs.hashing(), 0
        start = PACK_HEADER + HEADER.size
        self._files.write(fd, salt, start)
        check, stored = zlib.crc32(salt), len(salt)
        compressor: Compressor | None = None
        is_first = True
        for piece in chain(pieces, (None,)):
            if piece is not None:
                digest.update(piece)
                size += len(piece)
            if is_first and piece is not None:
                compressor = Compressor() if is_worth(piece) else None
                is_first = False
            data = piece or b""
            if compressor is not None:
                data = compressor.finish() if piece is None else compressor.add(piece)
            self._files.write(fd, data, start + stored)
            check = zlib.crc32(data, check)
            stored += len(data)
        flags = (PLAIN if compressor is None else ZSTD) | (SCOPED if salt else PLAIN)
        key = salted(salt, digest.digest())
        head = new_pack_header() + record_header(flags, stored, size, key, check)
        self._files.write(fd, head, 0)
        return Staged(digest.digest(), size)
