"""The backend contract: one atomic change, a consistent catalogue, and verified reads.

A backend keeps lines, metadata and content as bytes; the layers above decide their meaning and state it in the change.
Its one write operation is ``commit``: all of a change or nothing, durable when it returns (at level ``os``: soon
after), and never visible before it could be acknowledged. Data and catalogue change together: an answer of the
catalogue includes every change that was acknowledged before the query.

Failures, and the state after them:

- ``commit`` raises ConflictError, ContentNotFoundError or InputError: nothing was changed.
- ``commit`` raises StoreUnavailableError, or the program dies in it: all of the change or nothing of it is there. The
  same change with the same ``key`` may be committed again and is never made twice.
- Content that was staged, or a commit that was refused: ``collect`` frees unreferenced content after a grace period.
- A reader of the change feed dies: it reads again from its last cursor, and may see a change twice, but misses none.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from cannery.backends._exchanges import ExchangeLog
from cannery.backends._keys import Encryption
from cannery.errors import CanneryError, DamageError, InputError

Durability: TypeAlias = Literal["sync", "group", "os"]
Profile: TypeAlias = Literal["archive", "chat"]
Progress: TypeAlias = Callable[[int, int], object]
Cursor: TypeAlias = str
"""A position in a change feed or a list; only the backend that issued it can read it."""

VISIBLE = ("", "compaction", "subagent")
"""The kinds of conversations that lists show by default."""

GRACE = 3600.0
"""The default seconds for which unreferenced content is kept: longer than any commit takes."""

EMPTY: Mapping[bytes, int] = MappingProxyType({})

_IDENTIFIER = re.compile(r"[0-9a-z][0-9a-z_-]{0,63}")
_CONTENT_ID = re.compile(r"sha256:([0-9a-f]{64})")
_REFERENCE = re.compile(rb'"sha256:([0-9a-f]{64})"')
_LONGEST_NAME = 500


class Damage(Struct, frozen=True):
    """Damage to stored data: the place, the line if it has lines, and the problem.

    ``is_lost`` is False if all of the data can still be read.
    """

    where: str
    problem: str
    line: int | None = None
    position: int | None = None
    is_lost: bool = True

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        return f"{self.where}{line}: {self.problem}"


class Metadata(Struct, frozen=True, omit_defaults=True):
    """Title, tags, times, profile, scope and session, and for a fork its parent and position.

    ``kind`` is "" for a conversation, otherwise its relation to its parent (``VISIBLE`` and hidden kinds): a child that
    shares nothing has position 0, ``began_at`` is the position in its parent where it began, ``call`` the call that
    began it.
    """

    id: str
    created: datetime
    updated: datetime
    title: str = ""
    tags: tuple[str, ...] = ()
    profile: Profile = "archive"
    model: str | None = None
    parent: str | None = None
    position: int = 0
    deleted: datetime | None = None
    # Other titles under which the same history was imported.
    other_titles: tuple[str, ...] = ()
    scope: str = ""
    session: str = ""
    kind: str = ""
    client: str = ""
    client_version: str = ""
    began_at: int | None = None
    call: str | None = None
    # Keys of the instructions and tools in force first and last; "" if they have to be derived.
    setup: str = ""

    def encode(self) -> bytes:
        """The stored form."""
        return msgspec.json.encode(self)

    def changed(self, **changes: object) -> Metadata:
        """A copy with some facts changed; ``updated`` is now unless given."""
        return msgspec.structs.replace(self, **{"updated": datetime.now(UTC), **changes})


class Entry(NamedTuple):
    """The catalogue entry of one line.

    ``own`` is the digest of the line's meaning, None if it adds nothing to a history. ``call`` is the id of the call
    that it makes, ``answers`` of the call that it answers. ``words`` gives the searchable text, on demand.

    A history begins with its first user entry that is not setup: the chain of digests starts again there, and setup
    after it adds nothing. The entries before it form a chain too, so that a history without a question can be found.
    """

    role: str
    said: str
    own: bytes | None
    call: str | None
    answers: str | None
    words: Callable[[], str]
    is_setup: bool = False


class Span(NamedTuple):
    """Lines of one log, whose first position is ``base``: those from ``start`` to before ``stop``."""

    identifier: str
    base: int
    start: int
    stop: int | None = None


class Reading(Struct, frozen=True):
    """Lines of one log: ``lines[i]`` has position ``start + i``; None stands for a damaged one."""

    start: int
    lines: Sequence[bytes | None]
    damages: tuple[Damage, ...] = ()


class Change(Struct, frozen=True, kw_only=True):
    """The content of one commit, and its preconditions.

    ``requires`` names metadata that must not have changed since the caller read it (None: there must be none).
    ``lines`` go to the end of ``identifier``'s log, whose first position is ``base``; with ``expected`` only if the
    next position is that. ``entries`` has the catalogue entry of each line. ``contents`` has every content that the
    lines refer to, by its sha256 digest: bytes, or None if it must be stored or staged already (ContentNotFoundError if
    it is not).

    ``scope`` is the conversation's: content is shared and found within it only. A second commit with the same ``key``
    in a scope changes nothing and returns the receipt of the first; a backend remembers at least the last 10,000 keys.
    ``claims`` are digests of histories (``Catalogue.match``): of the changes that claim the same for a scope and
    ``session`` only one is made, as long as its conversation is not deleted; ConflictError for the others. A backend
    remembers at least the last 10,000 claims. A writer looks for the history with ``match`` before it claims.
    """

    identifier: str
    requires: Mapping[str, bytes | None]
    metadata: Metadata | None = None
    lines: Sequence[bytes] = ()
    entries: Sequence[Entry] = ()
    base: int = 0
    expected: int | None = None
    contents: Mapping[bytes, bytes | None] = {}
    scope: str = ""
    session: str = ""
    key: str | None = None
    claims: Sequence[bytes] = ()


class Receipt(NamedTuple):
    """The place of a committed change: first position, the one after the last, and the place in the feed."""

    start: int
    stop: int
    place: Cursor


class Noted(NamedTuple):
    """A conversation that changed, and the unique place of the change.

    A feed may omit a change of a conversation if a later one of the same conversation follows. ``end`` is the position
    after its last line at that time, if the feed has it.
    """

    identifier: str
    place: Cursor
    end: int | None = None


class Growth(NamedTuple):
    """A page of the change feed.

    ``noted`` is None if the feed does not reach back to the cursor: everything must be examined, and ``cursor`` is
    where to continue afterwards. With ``has_more`` the next page is available at once.
    """

    cursor: Cursor
    noted: Sequence[Noted] | None
    has_more: bool = False


class Expected(NamedTuple):
    """A conversation's entry in the manifest: the position after its last line, and the seal of that line if known."""

    end: int
    seal: str | None


class Inspection(Struct, frozen=True):
    """The result of a backend's inspection of all its data."""

    contents: int
    content_bytes: int
    damages: tuple[Damage, ...]


class Collection(Struct, frozen=True):
    """The objects that gc freed, or would free."""

    conversations: tuple[str, ...]
    contents: int
    freed_bytes: int
    is_dry_run: bool = False
    damages: tuple[Damage, ...] = ()
    """Why something that may be garbage could not be freed."""


class Backup(NamedTuple):
    """The counts of a backup."""

    conversations: int
    copied_bytes: int


class Staged(NamedTuple):
    """Stored content to which nothing refers yet."""

    digest: bytes
    size: int


class ContentTable(Protocol):
    """The content of one scope by digest, verified on every read."""

    def has(self, digests: Iterable[bytes]) -> set[bytes]:
        """The stored ones among some digests."""

    def get(self, digest: bytes, size: int | None = None) -> bytes:
        """The content; ContentNotFoundError or DamageError.

        ``size`` is the size in the line that refers to it: content of any other size is damage, and is not read.
        """

    def get_many(
        self, digests: Iterable[bytes], sizes: Mapping[bytes, int] = EMPTY
    ) -> Iterator[tuple[bytes, bytes]]:
        """Content by digest, in the order that reads best; each once. ``sizes`` as for ``get``, where known."""

    def stream(self, digest: bytes) -> Iterator[bytes]:
        """The content in pieces; DamageError at its end if it does not match its digest."""

    def stage(self, pieces: Iterable[bytes]) -> Staged:
        """Store content before the change that refers to it is committed; it is never in memory as a whole."""


Describe: TypeAlias = Callable[[ContentTable, Sequence[bytes]], Sequence[Entry]]
"""Derives catalogue entries from lines; CanneryError for a line that cannot be decoded."""


class Match(Struct, frozen=True):
    """The longest stored prefix of a history: its first ``known`` canisters end at a position.

    If the conversation has no content after them, that position is its ``length``.
    """

    known: int
    identifier: str
    position: int
    length: int

    @property
    def is_at_end(self) -> bool:
        """Whether nothing follows."""
        return self.position == self.length


class Holder(NamedTuple):
    """A place of a digest: a conversation, not deleted, and a position (counted from 0), in a session or in none."""

    digest: bytes
    identifier: str
    position: int
    session: str


class Summary(Struct, frozen=True):
    """A conversation in a list."""

    identifier: str
    title: str
    tags: tuple[str, ...]
    created: datetime
    updated: datetime
    profile: str
    model: str | None
    parent: str | None
    position: int
    count: int
    scope: str = ""
    session: str = ""
    kind: str = ""
    client: str = ""

    @property
    def cursor(self) -> Cursor:
        """The position in a list, for the next page."""
        return f"{sortable(self.updated)}/{self.identifier}"


class Selection(Struct, frozen=True, kw_only=True):
    """The conversations, or messages, to select; None selects all.

    ``kinds`` are the wanted kinds, ``client`` the name of the client that held the conversation. In a search, ``role``,
    ``since`` and ``until`` concern the message. In a list, the role must occur in the conversation, and the times are
    those of the last change.
    """

    scope: str | None = None
    tag: str | None = None
    profile: str | None = None
    model: str | None = None
    role: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    kinds: tuple[str, ...] | None = None
    client: str | None = None
    session: str | None = None


class Term(NamedTuple):
    """A word that must occur, or several in this order; with ``is_start`` the last one is a prefix."""

    text: str
    is_start: bool = False


class Found(NamedTuple):
    """A message that a search found."""

    identifier: str
    title: str
    position: int


class Branch(NamedTuple):
    """A conversation in a tree of forks."""

    identifier: str
    title: str
    parent: str | None
    position: int
    is_deleted: bool
    kind: str = ""
    scope: str = ""


class Catalogue(Protocol):
    """The index of all conversations: recognition, lists, search, trees. No cost grows with their number.

    A scope of None means every scope.
    """

    def key(self, scope: str) -> bytes:
        """The key for the digests of a scope's histories and canisters; empty for none."""

    def match(
        self, scope: str, session: str | None, histories: Sequence[Sequence[bytes | None]]
    ) -> list[Match | None]:
        """The longest prefix of each history that a conversation of a scope and session holds.

        A session of None means every session of the scope.

        A history is given by the digests after each of its canisters, None for one that adds nothing.
        """

    def holders(self, scope: str, digests: Iterable[bytes], limit: int = 16) -> list[Holder]:
        """The places in a scope of digests of single canisters; the latest few places of each."""

    def said_before(self, identifier: str, position: int) -> tuple[bytes | None, int] | None:
        """The digest of a conversation's history before a position, and where its last content ends.

        The digest is None for an empty history; the whole result is None if the history is damaged.
        """

    def list(
        self, selection: Selection, after: Cursor | None = None, limit: int | None = None
    ) -> Sequence[Summary]:
        """Conversations after a cursor (``Summary.cursor``), most recently changed first."""

    def search(self, terms: Sequence[Term], selection: Selection, limit: int) -> Sequence[Found]:
        """The messages that contain all terms, best first."""

    def tree(self, identifier: str) -> Sequence[Branch]:
        """A conversation, its oldest ancestor and all forks of that one."""

    def begin_with(self, scope: str | None, text: str, limit: int) -> Sequence[str]:
        """The conversations, not deleted, whose id has a prefix, in order."""

    def catch_up(self) -> None:
        """Apply committed changes now, so that the next query does not wait for it."""

    def rebuild(self, progress: Progress | None = None) -> None:
        """Discard derived data and build it again, while others read and write."""


class Backend(Protocol):
    """Stores the bytes."""

    is_read_only: bool
    """Whether the store is read-only: commits raise StoreUnavailableError."""

    catalogue: Catalogue

    @property
    def exchanges(self) -> ExchangeLog:
        """The log of usage records."""

    @property
    def encryption(self) -> Encryption | None:
        """The keys, if the store is encrypted."""

    @property
    def recovered(self) -> tuple[Damage, ...]:
        """Problems that opening repaired or could not repair."""

    def commit(self, change: Change, durability: Durability = "sync") -> Receipt:
        """Make all of a change or nothing of it.

        ConflictError if a precondition does not hold, StoreUnavailableError if the medium refuses; after the latter the
        change may still appear, as a whole.
        """

    def commit_each(
        self, changes: Iterable[Change], durability: Durability = "sync"
    ) -> list[Receipt | CanneryError]:
        """Make several changes in order with one sync, each of them all or nothing.

        Returns for each its receipt, or the error that ``commit`` would have raised.
        """

    def contents(self, scope: str) -> ContentTable:
        """The content of a scope."""

    def metadata(self, identifier: str) -> bytes | None:
        """The metadata of a conversation, or None if there is no such conversation."""

    def metadata_many(self, identifiers: Iterable[str]) -> dict[str, bytes]:
        """The metadata of the existing ones."""

    def identifiers(self, after: str = "") -> Iterator[str]:
        """All conversations after a given one, deleted ones included, in order of their ids."""

    def end(self, identifier: str, base: int) -> int:
        """The position after the last line; ``base`` if there is none."""

    def read(self, identifier: str, base: int, start: int, stop: int | None = None) -> Reading:
        """The lines from one position to before another."""

    def read_many(self, spans: Sequence[Span]) -> list[Reading]:
        """The lines of several spans."""

    def changes(self, cursor: Cursor | None, limit: int = 1000) -> Growth:
        """The changes after a cursor, each at least once, in commit order; without one, the start of the feed."""

    def inspect(self, progress: Progress | None = None) -> Inspection:
        """Re-derive every hash."""

    def manifest(self) -> Mapping[str, Expected]:
        """The objects that must exist, as far as the backend records them apart from the conversations themselves."""

    def collect(
        self,
        *,
        grace: float = GRACE,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Collection:
        """Free deleted conversations except the parts that forks need, and unreferenced content.

        Content that was staged less than ``grace`` seconds ago stays.
        """

    def purge(self) -> None:
        """Remove everything that ``collect`` freed from all files: logs, indexes, free pages."""

    def backup(self, path: str, progress: Progress | None = None) -> Backup:
        """Copy a consistent snapshot to an unused path; others may write meanwhile."""

    def close(self) -> None:
        """Release all resources; a second call has no effect."""


def check_identifier(identifier: object) -> str:
    """Refuse a string that is not a conversation id, before it is used in a path."""
    if not isinstance(identifier, str) or not is_identifier(identifier):
        raise InputError(f"not a conversation id: {str(identifier)[:80]!r}")
    return identifier


@functools.lru_cache(1024)
def is_identifier(text: str) -> bool:
    """Whether a text is a conversation id."""
    return _IDENTIFIER.fullmatch(text) is not None


@functools.lru_cache(1024)
def check_name(name: str, what: str) -> str:
    """Refuse a scope, session or key that is not printable text of at most 500 characters."""
    if not isinstance(name, str) or len(name) > _LONGEST_NAME or not name.isprintable():  # type: ignore[redundant-expr]  # callers may not check types
        raise InputError(f"a {what} is printable text of at most {_LONGEST_NAME} characters")
    return name


def check_change(change: Change) -> None:
    """Refuse a change with an invalid id, scope, session or key."""
    check_identifier(change.identifier)
    check_name(change.scope, "scope")
    check_name(change.session, "session")
    if change.key is not None:
        check_name(change.key, "key")


def check_digest(content_id: str) -> bytes:
    """The digest in a content id; refuses any text but ``sha256:`` and 64 hex digits."""
    match = _CONTENT_ID.fullmatch(content_id)
    if match is None:
        raise InputError(f"not a content id: {content_id[:80]!r}")
    return bytes.fromhex(match[1])


def check_size(digest: bytes, found: int, size: int | None) -> None:
    """Refuse content whose size differs from the one in its line."""
    if size is not None and found != size:
        problem = f"{found} bytes are stored, its line says {size}"
        raise DamageError(f"content sha256:{digest.hex()}", problem)


def referred(lines: bytes) -> set[bytes]:
    """The digests of all content that raw lines may refer to; rather too many than too few."""
    return {bytes.fromhex(found.decode()) for found in _REFERENCE.findall(lines)}


def sortable(moment: datetime) -> str:
    """A time as text that sorts by time."""
    try:
        moment = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    except (OverflowError, ValueError):
        # The first and the last representable day, for times that leave the range in UTC.
        moment = moment.replace(tzinfo=UTC)
    return moment.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
