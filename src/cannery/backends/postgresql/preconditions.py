"""Preconditions of changes: read under locks in a round trip, or cached and checked by the commit itself.

A process that was the last to write to a conversation knows all preconditions of the next append. It sends that append,
commit included, in one round trip, and the server refuses all of it if another process has changed the conversation
since. A refused commit is repeated with data read under locks, which cannot change before the commit. Errors of the
caller are found only there.

A cached conversation is identified by the transaction that wrote its row (``xmin``), which every writer changes, gc and
rebuilds included. The cache is discarded whenever a connection is lost: a server restored from a copy assigns the same
numbers again.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from cannery.backends._catalogue.schema import Row, space_of
from cannery.backends._contract import Change, Receipt, check_identifier
from cannery.backends._seals import unseal
from cannery.backends.postgresql import rows
from cannery.backends.postgresql.contents import Encoded
from cannery.backends.postgresql.pipelines import (
    BEGIN,
    Call,
    Connection,
    Rows,
    Statement,
    exchange,
)
from cannery.backends.postgresql.rows import Version

K = TypeVar("K")
V = TypeVar("V")

_REMEMBERED = 1000
_REMEMBERED_CONTENTS = 4000
_REMEMBERED_CALLS = 100
_RESERVE = 200
_ROWS = Statement(
    f"SELECT {rows.COLUMNS}, c.metadata, c.xmin::text, c.change FROM cannery.conversations c"  # noqa: S608 - names are ours
    " WHERE c.id = ANY($1) ORDER BY c.id FOR UPDATE",
    "text[]",
)
_LOCKS = Statement("SELECT pg_advisory_xact_lock(x)::text FROM unnest($1) x", "int8[]")
_LAZY = Statement("SET LOCAL synchronous_commit = off", is_prepared=False)
_NUMBERS = Statement("SELECT nextval('cannery.numbers') FROM generate_series(1, $1)", "int8")
_HOLDERS = (
    " FROM unnest($1, $2) WITH ORDINALITY d(chain, space, at)"
    " JOIN cannery.prefixes p ON p.chain = d.chain AND p.space = d.space"
    " JOIN cannery.conversations c ON c.number = p.number AND c.profile = 'archive'"
)
_HOLDING = Statement(
    f"SELECT d.at, p.position, {rows.COLUMNS}{_HOLDERS} ORDER BY d.at, c.deleted",
    "bytea[] int8[]",
)
_EXPECT_UNHELD = Statement(
    f"SELECT cannery.expect(NOT EXISTS (SELECT{_HOLDERS}))", "bytea[] int8[]"
)
_CONTENTS = Statement(
    "SELECT c.scope, c.digest, c.content, c.staged IS NOT NULL FROM cannery.contents c"
    " JOIN unnest($1, $2) d(scope, digest)"
    " ON c.digest = d.digest AND c.scope = d.scope ORDER BY c.content FOR KEY SHARE OF c",
    "text[] bytea[]",
)
_EXPECT_CONTENTS = Statement(
    "SELECT cannery.expect(count(*) = $2) FROM (SELECT FROM cannery.contents"
    " WHERE content = ANY($1) ORDER BY content FOR KEY SHARE) held",
    "int8[] int8",
)
_KEYS = Statement(
    "SELECT k.scope, k.key, k.start, k.stop, k.place FROM cannery.keys k"
    " JOIN unnest($1, $2) d(scope, key) ON k.key = d.key AND k.scope = d.scope",
    "text[] text[]",
)


class Order(NamedTuple):
    """A change, with its expensive parts prepared before anything is locked."""

    change: Change
    encoded: dict[bytes, Encoded]
    sealed: bytes | None


class Known(NamedTuple):
    """A conversation as it is stored; ``calls`` are the ordinals of its latest calls, as far as they are cached."""

    row: Row
    metadata: bytes | None
    version: Version
    calls: Mapping[str, int] = {}


class Seen:
    """The data that the changes of a turn depend on."""

    def __init__(self, connection: Connection, claims: Sequence[tuple[bytes, int]] = ()) -> None:
        self.connection = connection
        self.known: dict[str, Known] = {}
        self.keys: dict[tuple[str, str], Receipt] = {}
        self.contents: dict[tuple[str, bytes], tuple[int, bool]] = {}
        self.numbers: list[int] = []
        self.holding: Rows = []
        self.checks: list[Call] = []
        """The statements that begin the transaction and check what is only remembered."""
        self._claims = claims

    def next_number(self) -> int:
        """A number for a conversation or content."""
        return self.numbers.pop(0)

    def is_held(self, change: Change) -> bool:
        """Whether a conversation of the scope and session, not deleted, holds what a change claims."""
        space = space_of(change.scope, change.session)
        wanted = {(claim, space) for claim in change.claims}
        for at, position, *values in self.holding:
            if self._claims[at - 1] in wanted:
                row = rows.to_row(values)
                if rows.living_at(self.connection, row, position) is not None:
                    return True
        return False

    def find_call(self, row: Row, call: str) -> int | None:
        """The ordinal, from 0, of the last call with an id before a conversation's end."""
        known = self.known.get(row.id)
        if known is not None and call in known.calls:
            return known.calls[call]
        return rows.find_call(self.connection, row, call)


def read(
    connection: Connection,
    turn: Sequence[Order],
    everything: Sequence[Order] | None,
    *,
    spare: int,
    is_lazy: bool,
) -> Seen:
    """Read and lock the data that the changes of a turn depend on, and take some spare numbers.

    With ``everything`` that the transaction will make, it begins the transaction.
    """
    changes = [order.change for order in turn]
    contents = sorted({(one.scope, digest) for one in changes for digest in one.contents})
    keys = [(one.scope, one.key) for one in changes if one.key is not None]
    claims = _claims(turn)
    numbers = _needed(turn) + spare
    calls = [] if everything is None else _begin(everything, is_lazy=is_lazy)
    calls.append((_ROWS, (_identifiers(everything or turn),)))
    calls += rows.for_all(_KEYS, keys)
    calls += rows.for_all(_HOLDING, claims)
    calls += rows.for_all(_CONTENTS, contents)
    if numbers:
        calls.append((_NUMBERS, (numbers,)))
    answers = exchange(connection, calls)
    found = {call[0]: answer for call, answer in zip(calls, answers, strict=True)}
    seen = Seen(connection, claims)
    for *values, metadata, transaction, change in found[_ROWS]:
        row = rows.to_row(values)
        seen.known[row.id] = Known(row, unseal(metadata), Version(int(transaction), change))
    seen.keys = {(scope, key): Receipt(*rest) for scope, key, *rest in found.get(_KEYS, ())}
    seen.holding = found.get(_HOLDING, [])
    seen.contents = {
        (scope, digest): (content, is_staged)
        for scope, digest, content, is_staged in found.get(_CONTENTS, ())
    }
    seen.numbers = sorted(number for (number,) in found.get(_NUMBERS, ()))
    return seen


class Memory:
    """The cached state of this process's last writes; for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._losses = 0
        self._known: dict[str, Known] = {}
        self._contents: dict[tuple[str, bytes], int] = {}
        self._numbers: list[int] = []

    def recall(
        self, connection: Connection, orders: Sequence[Order], losses: int, *, is_lazy: bool
    ) -> Seen | None:
        """The cached data that changes depend on, with the statements that check it; None if something is not cached.

        A conversation is removed from the cache until it is kept again, so that of several threads that write to it the
        others read, and wait for each other on the server.
        """
        seen = Seen(connection)
        with self._lock:
            self._forget_after(losses)
            are_known = [self._recall_one(order, seen) for order in orders]
            needed = _needed(orders)
            if not all(are_known) or needed > len(self._numbers):
                return None
            seen.numbers, self._numbers = self._numbers[:needed], self._numbers[needed:]
        seen.checks = _begin(orders, is_lazy=is_lazy)
        seen.checks += rows.for_all(_EXPECT_UNHELD, _claims(orders))
        return seen

    def _recall_one(self, order: Order, seen: Seen) -> bool:
        """Look up the data that one change depends on; whether all of it is cached."""
        change = order.change
        known = self._known.pop(change.identifier, None)
        if not (_is_beginning(change) if known is None else _depends_on(change, known)):
            return False
        if known is not None:
            seen.known[change.identifier] = known
        for digest in change.contents:
            content = self._contents.get((change.scope, digest))
            if content is not None:
                seen.contents[change.scope, digest] = (content, False)
            elif digest not in order.encoded:
                return False
        return True

    def keep(
        self, losses: int, known: Iterable[Known], contents: Mapping[tuple[str, bytes], int]
    ) -> None:
        """Cache what was committed on a connection."""
        with self._lock:
            self._forget_after(losses)
            for one in known:
                self._known.pop(one.row.id, None)
                if not one.row.deleted:
                    self._known[one.row.id] = one
            for name, content in contents.items():
                self._contents.pop(name, None)
                self._contents[name] = content
            _forget_oldest(self._known, _REMEMBERED)
            _forget_oldest(self._contents, _REMEMBERED_CONTENTS)

    def _forget_after(self, losses: int) -> None:
        """Discard the cache if a connection was lost since it was filled."""
        if losses != self._losses:
            self._losses = losses
            self._known.clear()
            self._contents.clear()

    def lacking(self) -> int:
        """How many spare numbers to take."""
        with self._lock:
            return _RESERVE if len(self._numbers) < _RESERVE // 2 else 0

    def spare(self, numbers: Iterable[int]) -> None:
        """Keep unused numbers."""
        with self._lock:
            self._numbers += numbers


def _is_beginning(change: Change) -> bool:
    """Whether a change creates a conversation that depends on no other."""
    metadata = change.metadata
    return (
        metadata is not None
        and metadata.parent is None
        and dict(change.requires) == {change.identifier: None}
    )


def _depends_on(change: Change, known: Known) -> bool:
    """Whether a change depends on nothing but a cached conversation."""
    metadata = change.metadata
    is_in_place = metadata is None or metadata.parent == known.row.parent
    return is_in_place and change.requires.keys() <= {change.identifier}


def _forget_oldest(remembered: dict[K, V], most: int) -> None:
    while len(remembered) > most:
        del remembered[next(iter(remembered))]


def expect_contents(contents: Sequence[int]) -> Iterator[Call]:
    """Lock content that is only cached, and check that gc has not freed it."""
    if contents:
        yield _EXPECT_CONTENTS, (contents, len(contents))


def latest_calls(known: Known | None, made: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    """The latest calls of a conversation: the cached ones and the later ones."""
    calls = {} if known is None else dict(known.calls)
    for call, ordinal in made:
        calls.pop(call, None)
        calls[call] = ordinal
    _forget_oldest(calls, _REMEMBERED_CALLS)
    return calls


def _needed(turn: Sequence[Order]) -> int:
    """The most numbers that changes need."""
    return sum((order.change.metadata is not None) + len(order.encoded) for order in turn)


def _claims(turn: Sequence[Order]) -> list[tuple[bytes, int]]:
    return [
        (claim, space_of(order.change.scope, order.change.session))
        for order in turn
        for claim in order.change.claims
    ]


def _begin(everything: Sequence[Order], *, is_lazy: bool) -> list[Call]:
    """Begin a transaction with the locks of everything that will be claimed in it."""
    locks = sorted({_lock_of(claim, space) for claim, space in _claims(everything)})
    calls: list[Call] = [(BEGIN, ())]
    if is_lazy:
        calls.append((_LAZY, ()))
    if locks:
        calls.append((_LOCKS, (locks,)))
    return calls


def _identifiers(orders: Sequence[Order]) -> list[str]:
    found: set[str] = set()
    for order in orders:
        change = order.change
        found |= {change.identifier, *map(check_identifier, change.requires)}
        if change.metadata is not None and change.metadata.parent is not None:
            found.add(change.metadata.parent)
    return sorted(found)


def _lock_of(claim: bytes, space: int) -> int:
    named = claim + space.to_bytes(8, "big", signed=True)
    return int.from_bytes(hashlib.sha256(named).digest()[:8], "big", signed=True)
