"""What a backend promises: one atomic change, a catalogue that knows of it, and reads that are verified.

A backend keeps lines, metadata and content as bytes; what they mean is decided above and said in the change. Its one
writing operation is ``commit``: all of a change or nothing, durable when it returns (at level ``os``: soon after), and
never visible before it could be acknowledged. Truth and catalogue change together: an answer of the catalogue includes
every change that was acknowledged before the question.

How each step can fail, and what is true then:

- ``commit`` raises ConflictError, ContentNotFoundError or InputError: nothing was changed.
- ``commit`` raises StoreUnavailableError, or the program dies in it: all of the change or nothing of it is there. The
  same change with the same ``key`` may be committed again and is never made twice.
- Content that was staged, or a commit that was refused: ``collect`` frees what nothing refers to after a grace period.
- A reader of the change feed dies: it reads again from its last cursor, and may hear of a change twice, never of none.
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
"""A place in a change feed or a list; only the backend that gave it out can read it."""

VISIBLE = ("", "compaction", "subagent")
"""The kinds of conversations that lists show unless others are asked for."""

GRACE = 3600.0
"""Seconds for which content that nothing refers to yet is kept by default: longer than any commit takes."""

EMPTY: Mapping[bytes, int] = MappingProxyType({})

_IDENTIFIER = re.compile(r"[0-9a-z][0-9a-z_-]{0,63}")
_CONTENT_ID = re.compile(r"sha256:([0-9a-f]{64})")
_REFERENCE = re.compile(rb'"sha256:([0-9a-f]{64})"')
_LONGEST_NAME = 500


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


class Metadata(Struct, frozen=True, omit_defaults=True):
    """Title, tags, times, profile, scope and session, and for a fork its parent and position.

    ``kind`` is "" for a conversation, and else what it is to its parent (``VISIBLE`` and hidden ones): a child that
    shares nothing has position 0, and ``began_at`` says where in its parent it began, ``call`` which call began it.
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
    # Other titles under which the same history was brought in.
    other_titles: tuple[str, ...] = ()
    scope: str = ""
    session: str = ""
    kind: str = ""
    client: str = ""
    client_version: str = ""
    began_at: int | None = None
    call: str | None = None
    # What tells the instructions and tools that were in force first and last; "" if that has to be derived.
    setup: str = ""

    def encode(self) -> bytes:
        """As it is stored."""
        return msgspec.json.encode(self)

    def changed(self, **changes: object) -> Metadata:
        """The same with some facts changed, now unless ``updated`` is among them."""
        return msgspec.structs.replace(self, **{"updated": datetime.now(UTC), **changes})


class Entry(NamedTuple):
    """What a catalogue keeps of one line.

    ``own`` is the digest of what the line means, None if it adds nothing to a history. ``call`` is the id of the call
    that it makes, ``answers`` of the call that it answers. ``words`` gives what a search finds, when it is needed.

    A history begins with its first entry of a user that is not setup: the chain of digests starts again there, and
    setup after it adds nothing. So that a history without one can be found, what stands before it is a chain too.
    """

    role: str
    said: str
    own: bytes | None
    call: str | None
    answers: str | None
    words: Callable[[], str]
    is_setup: bool = False


class Span(NamedTuple):
    """Lines of one log, which begins at position ``base``: those from ``start`` to before ``stop``."""

    identifier: str
    base: int
    start: int
    stop: int | None = None


class Reading(Struct, frozen=True):
    """Lines of one log: ``lines[i]`` has position ``start + i``; None stands for one that is damaged."""

    start: int
    lines: Sequence[bytes | None]
    damages: tuple[Damage, ...] = ()


class Change(Struct, frozen=True, kw_only=True):
    """What one commit does, and what must still be true for it to be done.

    ``requires`` names metadata that must not have changed since the caller read it (None: there must be
    none). ``lines`` go to the end of ``identifier``'s log, whose first position is ``base``; with
    ``expected`` only if the next position is that. ``entries`` says for each line what the catalogue keeps.
    ``contents`` has every content that the lines refer to, by its sha256 digest: bytes, or None where it must be
    stored or staged already (ContentNotFoundError if it is not).

    ``scope`` is the conversation's: content is shared and found within it only. A second commit with the same
    ``key`` in a scope changes nothing and gives the receipt of the first; a backend remembers at least the last
    10,000 keys. ``claims`` are digests of histories (``Catalogue.match``): of the changes that claim the same for a
    scope and ``session`` only one is made, as long as its conversation lives; ConflictError for the others. A backend
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
    """Where the lines of a change went: first position, and the one after the last; and where the feed notes it."""

    start: int
    stop: int
    place: Cursor


class Noted(NamedTuple):
    """A conversation that changed, and the place of a change, which no other change has.

    A feed may leave out a change of a conversation if a later one of the same conversation follows. ``end`` is the
    position after its last line then, where the feed says it.
    """

    identifier: str
    place: Cursor
    end: int | None = None


class Growth(NamedTuple):
    """A page of the change feed.

    ``noted`` is None if the feed does not reach back to the cursor: everything must be looked at, and ``cursor`` is
    where to go on afterwards. With ``has_more`` the next page can be asked for at once.
    """

    cursor: Cursor
    noted: Sequence[Noted] | None
    has_more: bool = False


class Expected(NamedTuple):
    """What a manifest says of a conversation: the position after its last line, and the seal of that line if known."""

    end: int
    seal: str | None


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
    damages: tuple[Damage, ...] = ()
    """Why something could not be freed that may be garbage."""


class Backup(NamedTuple):
    """What was copied."""

    conversations: int
    copied_bytes: int


class Staged(NamedTuple):
    """Content that is stored and that nothing refers to yet."""

    digest: bytes
    size: int


class ContentTable(Protocol):
    """The content of one scope by digest, verified on every read."""

    def has(self, digests: Iterable[bytes]) -> set[bytes]:
        """Those that are stored."""

    def get(self, digest: bytes, size: int | None = None) -> bytes:
        """The content; ContentNotFoundError or DamageError.

        ``size`` is what the line says that refers to it: content of any other size is damage, and is not read.
        """

    def get_many(
        self, digests: Iterable[bytes], sizes: Mapping[bytes, int] = EMPTY
    ) -> Iterator[tuple[bytes, bytes]]:
        """Content by digest, in whatever order reads best; each once. ``sizes`` as for ``get``, where known."""

    def stream(self, digest: bytes) -> Iterator[bytes]:
        """The content in pieces; DamageError at its end if it is not what was stored."""

    def stage(self, pieces: Iterable[bytes]) -> Staged:
        """Store content before the change that refers to it is committed; it is never held in memory whole."""


Describe: TypeAlias = Callable[[ContentTable, Sequence[bytes]], Sequence[Entry]]
"""What lines mean, for a backend that derives its catalogue from them; CanneryError if one cannot be decoded."""


class Match(Struct, frozen=True):
    """The longest beginning of a history that is stored: its first ``known`` canisters end at a position.

    If nothing was said in the conversation after them, that position is its ``length``.
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
    """A living conversation that says something at a position (counted from 0), in a session or in none."""

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
        """Where a list goes on after it."""
        return f"{sortable(self.updated)}/{self.identifier}"


class Selection(Struct, frozen=True, kw_only=True):
    """Which conversations, or which messages, are asked for; None chooses all.

    ``kinds`` are the kinds that are wanted, ``client`` the name of the program that held the conversation. ``role``,
    ``since`` and ``until`` are about the message in a search. In a list a role is one that somebody has spoken in,
    and the times are those of the last change.
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
    """A word that must occur, or several in this order; with ``is_start`` the last one only begins so."""

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


class Catalogue(Protocol):
    """What is known of all conversations: recognition, lists, search, trees. No cost grows with their number.

    A scope of None means every scope.
    """

    def key(self, scope: str) -> bytes:
        """What the digests of a scope's histories, and of their canisters, are keyed with; empty for nothing."""

    def match(
        self, scope: str, session: str | None, histories: Sequence[Sequence[bytes | None]]
    ) -> list[Match | None]:
        """The longest beginning of each history that a living conversation of a scope and session holds.

        A session of None means every session of the scope.

        A history is given by the digests after each of its canisters, None where one shows nothing of its own.
        """

    def holders(self, scope: str, digests: Iterable[bytes], limit: int = 16) -> list[Holder]:
        """Where a scope says what digests of single canisters stand for; the latest few places of each."""

    def said_before(self, identifier: str, position: int) -> tuple[bytes | None, int] | None:
        """The digest of a conversation's history before a position, and where the last thing said in it ends.

        The digest is None if nothing was said; all of it None if the history is damaged.
        """

    def list(
        self, selection: Selection, after: Cursor | None = None, limit: int | None = None
    ) -> Sequence[Summary]:
        """Conversations, most recently changed first, from behind a cursor on (``Summary.cursor``)."""

    def search(self, terms: Sequence[Term], selection: Selection, limit: int) -> Sequence[Found]:
        """The messages that hold all terms, best first."""

    def tree(self, identifier: str) -> Sequence[Branch]:
        """A conversation, its oldest ancestor and all forks of that one."""

    def begin_with(self, scope: str | None, text: str, limit: int) -> Sequence[str]:
        """The living conversations whose id begins so, in order."""

    def catch_up(self) -> None:
        """Bring in what was committed, so that the next question does not wait for it."""

    def rebuild(self, progress: Progress | None = None) -> None:
        """Throw away what is derived and build it again, beside readers and writers."""


class Backend(Protocol):
    """Where bytes lie."""

    is_read_only: bool
    """Whether nothing can be written: commits raise StoreUnavailableError."""

    catalogue: Catalogue

    @property
    def exchanges(self) -> ExchangeLog:
        """What exchanges took."""

    @property
    def encryption(self) -> Encryption | None:
        """The keys, if what is stored is encrypted."""

    @property
    def recovered(self) -> tuple[Damage, ...]:
        """What opening found and mended or could not mend."""

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

    def contents(self, scope: str) -> ContentTable:
        """The content of a scope."""

    def metadata(self, identifier: str) -> bytes | None:
        """The metadata of a conversation, or None if there is no such conversation."""

    def metadata_many(self, identifiers: Iterable[str]) -> dict[str, bytes]:
        """The metadata of those that are there."""

    def identifiers(self, after: str = "") -> Iterator[str]:
        """Every conversation, deleted ones too, in order of their ids, from behind one on."""

    def end(self, identifier: str, base: int) -> int:
        """The position after the last line; ``base`` if there is none."""

    def read(self, identifier: str, base: int, start: int, stop: int | None = None) -> Reading:
        """The lines from one position to before another."""

    def read_many(self, spans: Sequence[Span]) -> list[Reading]:
        """The lines of several spans."""

    def changes(self, cursor: Cursor | None, limit: int = 1000) -> Growth:
        """The changes behind a cursor, each at least once, in the order of commits; without one, where to begin."""

    def inspect(self, progress: Progress | None = None) -> Inspection:
        """Re-derive every hash."""

    def manifest(self) -> Mapping[str, Expected]:
        """What must be there, as far as the backend notes it apart from the conversations themselves."""

    def collect(
        self,
        *,
        grace: float = GRACE,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Collection:
        """Free deleted conversations as far as no fork needs them, and content that nothing refers to.

        Content that was staged less than ``grace`` seconds ago stays.
        """

    def purge(self) -> None:
        """Leave nothing in any file of what ``collect`` has freed: no log, no index, no free page."""

    def backup(self, path: str, progress: Progress | None = None) -> Backup:
        """Copy the store, as it is at one moment, to a path where nothing is; others may write meanwhile."""

    def close(self) -> None:
        """Let go of everything; closing twice is fine."""


def check_identifier(identifier: object) -> str:
    """Refuse what is not a conversation id, before it comes near a path."""
    if not isinstance(identifier, str) or not is_identifier(identifier):
        raise InputError(f"not a conversation id: {str(identifier)[:80]!r}")
    return identifier


@functools.lru_cache(1024)
def is_identifier(text: str) -> bool:
    """Whether text is a conversation id."""
    return _IDENTIFIER.fullmatch(text) is not None


@functools.lru_cache(1024)
def check_name(name: str, what: str) -> str:
    """Refuse a scope, session or key that is not printable text of at most 500 characters."""
    if not isinstance(name, str) or len(name) > _LONGEST_NAME or not name.isprintable():  # type: ignore[redundant-expr]  # callers may not check types
        raise InputError(f"a {what} is printable text of at most {_LONGEST_NAME} characters")
    return name


def check_change(change: Change) -> None:
    """Refuse a change whose id, scope, session or key is none."""
    check_identifier(change.identifier)
    check_name(change.scope, "scope")
    check_name(change.session, "session")
    if change.key is not None:
        check_name(change.key, "key")


def check_digest(content_id: str) -> bytes:
    """The digest in a content id; refuses everything but ``sha256:`` and 64 hex digits."""
    match = _CONTENT_ID.fullmatch(content_id)
    if match is None:
        raise InputError(f"not a content id: {content_id[:80]!r}")
    return bytes.fromhex(match[1])


def check_size(digest: bytes, found: int, size: int | None) -> None:
    """Refuse content whose size is not what its line says."""
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
        # The first and the last day there are, where they are not UTC's.
        moment = moment.replace(tzinfo=UTC)
    return moment.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
