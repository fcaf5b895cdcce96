"""What a backend promises: one atomic change, and reads that are verified.

A backend keeps lines, metadata and content as bytes; what they mean is decided above. Its one writing
operation is ``commit``: all of a change or nothing, durable when it returns (at level ``os``: soon
after), and never visible before it could be acknowledged.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from cannery.errors import CanneryError, InputError

Durability: TypeAlias = Literal["sync", "group", "os"]
Progress: TypeAlias = Callable[[int, int], object]
Needs: TypeAlias = Callable[[Mapping[str, bytes]], Mapping[str, int | None]]
"""Which conversations are deleted, and how many of their first lines forks still need; None if there is no fork."""

_IDENTIFIER = re.compile(r"[0-9a-z][0-9a-z_-]{0,63}")
_CONTENT_ID = re.compile(r"sha256:([0-9a-f]{64})")
_REFERENCE = re.compile(rb'"sha256:([0-9a-f]{64})"')


class Damage(Struct, frozen=True):
    """Something stored is not what was written: where, which line of it if it has lines, and how.

    ``is_lost`` is False where all of it can still be read.
    """

    where: str
    problem: str
    line: int | None = None
    position: int | None = None
    is_lost: bool = True

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        return f"{self.where}{line}: {self.problem}"


class Reading(Struct, frozen=True):
    """Lines of one log: ``lines[i]`` has position ``start + i``; None stands for one that is damaged."""

    start: int
    lines: Sequence[bytes | None]
    damages: tuple[Damage, ...] = ()


class Change(Struct, frozen=True, kw_only=True):
    """What one commit does, and what must still be true for it to be done.

    ``requires`` names metadata that must not have changed since the caller read it (None: there must be
    none). ``lines`` go to the end of ``identifier``'s log, whose first position is ``base``; with
    ``expected`` only if the next position is that. ``contents`` maps sha256 digests to bytes, or to None
    where the content must be stored already (ContentNotFoundError if it is not).
    """

    identifier: str
    requires: Mapping[str, bytes | None]
    metadata: bytes | None = None
    lines: Sequence[bytes] = ()
    base: int = 0
    expected: int | None = None
    contents: Mapping[bytes, bytes | None] = {}


class Cursor(NamedTuple):
    """A place in a backend's change log."""

    generation: int
    offset: int


class Receipt(NamedTuple):
    """Where the lines of a change went: first position, and the one after the last; and where the change is noted."""

    start: int
    stop: int
    place: Cursor


class Growth(NamedTuple):
    """The conversations that changed since a cursor, with the places where that is noted; None if nobody knows."""

    cursor: Cursor
    places: Mapping[str, Sequence[Cursor]] | None


class Inspection(Struct, frozen=True):
    """What a backend found when it looked at everything it keeps."""

    contents: int
    content_bytes: int
    damages: tuple[Damage, ...]


class Collection(Struct, frozen=True):
    """What gc freed, or would free."""

    conversations: tuple[str, ...]
    contents: int
    freed_bytes: int
    is_dry_run: bool = False


class ContentTable(Protocol):
    """Content by digest, verified on every read."""

    def has(self, digest: bytes) -> bool:
        """Whether content is stored."""

    def get(self, digest: bytes) -> bytes:
        """The content; ContentNotFoundError or DamageError."""

    def get_many(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Content by digest, in whatever order reads best; each once."""


class Backend(ContentTable, Protocol):
    """Where bytes lie."""

    recovered: tuple[Damage, ...]
    """What opening found and mended or could not mend."""

    is_read_only: bool
    """Whether nothing can be written: commits raise StoreUnavailableError."""

    index_path: str | None
    """Where a derived index may be kept; None if only in memory."""

    def commit(self, change: Change, durability: Durability = "sync") -> Receipt:
        """Do all of a change or nothing of it.

        ConflictError if a requirement does not hold, StoreUnavailableError if the medium refuses; after
        the latter the change may still appear, as a whole.
        """

    def commit_each(
        self, changes: Iterable[Change], durability: Durability = "sync"
    ) -> list[Receipt | CanneryError]:
        """Make several changes with one sync, in order, each for itself all or nothing.

        For each its receipt, or the error that ``commit`` would have raised.
        """

    def metadata(self, identifier: str) -> bytes | None:
        """The metadata of a conversation, or None if there is no such conversation."""

    def identifiers(self) -> Sequence[str]:
        """Every conversation, deleted ones too."""

    def end(self, identifier: str, base: int) -> int:
        """The position after the last line; ``base`` if there is none."""

    def read(self, identifier: str, base: int, start: int, stop: int | None = None) -> Reading:
        """The lines from one position to before another."""

    def changes(self, cursor: Cursor | None) -> Growth:
        """Which conversations changed since the cursor; all of them if it is None."""

    def inspect(self, progress: Progress | None = None) -> Inspection:
        """Re-derive every hash."""

    def collect(
        self,
        needs: Needs,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Collection:
        """Free what is left of deleted conversations, and the content that nothing else refers to.

        ``needs`` gets all metadata and is asked again when nothing can change any more.
        """

    def close(self) -> None:
        """Let go of everything; closing twice is fine."""


def check_identifier(identifier: object) -> str:
    """Refuse what is not a conversation id, before it comes near a path."""
    if not isinstance(identifier, str) or not _is_identifier(identifier):
        raise InputError(f"not a conversation id: {str(identifier)[:80]!r}")
    return identifier


@functools.lru_cache(1024)
def _is_identifier(text: str) -> bool:
    return _IDENTIFIER.fullmatch(text) is not None


def check_digest(content_id: str) -> bytes:
    """The digest in a content id; refuses everything but ``sha256:`` and 64 hex digits."""
    match = _CONTENT_ID.fullmatch(content_id)
    if match is None:
        raise InputError(f"not a content id: {content_id[:80]!r}")
    return bytes.fromhex(match[1])


def referred(lines: bytes) -> set[bytes]:
    """The digests of all content that raw lines may refer to; rather too many than too few."""
    return {bytes.fromhex(found.decode()) for found in _REFERENCE.findall(lines)}
