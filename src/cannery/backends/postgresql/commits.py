"""Makes changes: one transaction for several, in one or two round trips, each change all or nothing.

The preconditions of the changes are cached, or a round trip takes all locks (claims, then conversations, then content,
each in one order, which avoids deadlocks) and reads them (``preconditions``). They are then checked here, in order, and
the writes are sent with the commit. Changes that depend on others of the same batch wait for another turn.

Two changes that claim the same history at once take the same advisory lock; the second sees what the first has written.
When the connection is lost at the commit, its outcome is unknown: a change with a key is made again, and the key shows
if it was made before; without a key the caller gets an error.
"""

from __future__ import annotations

import itertools
import secrets
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import psycopg

from cannery.backends._catalogue import writing
from cannery.backends._catalogue.schema import Row, space_of
from cannery.backends._catalogue.writing import Grown
from cannery.backends._contract import Change, Durability, Receipt, check_change
from cannery.backends._seals import seal
from cannery.backends.postgresql import rows
from cannery.backends.postgresql.connections import LostError, Pool, RacedError
from cannery.backends.postgresql.contents import (
    PUT_CONTENTS,
    Encoded,
    PostgresqlContents,
    encode,
    put_pieces,
)
from cannery.backends.postgresql.feed import OWN_PLACE, place_of
from cannery.backends.postgresql.objects import LARGE, Objects
from cannery.backends.postgresql.pipelines import COMMIT, Call, Connection, Statement, exchange
from cannery.backends.postgresql.preconditions import (
    Known,
    Memory,
    Order,
    Seen,
    expect_contents,
    latest_calls,
    read,
)
from cannery.backends.postgresql.rows import Version
from cannery.errors import (
    CanneryError,
    ConflictError,
    ContentNotFoundError,
    DamageError,
    InputError,
    StoreUnavailableError,
)

_ATTEMPTS = 20
_KEPT_KEYS = 100_000
_PRUNED = 1000
_PUT_LINES = Statement(
    "INSERT INTO cannery.lines SELECT * FROM unnest($1, $2, $3)", "int8[] int8[] bytea[]"
)
_USE = Statement(
    "INSERT INTO cannery.uses SELECT * FROM unnest($1, $2) ON CONFLICT DO NOTHING", "int8[] int8[]"
)
_WANT = Statement("UPDATE cannery.contents SET staged = NULL WHERE content = ANY($1)", "int8[]")
_REMEMBER = Statement(
    "INSERT INTO cannery.keys (scope, key, start, stop, place)"  # noqa: S608 - names are ours
    f" SELECT scope, key, start, stop, {OWN_PLACE.format(identity='identity', change='change')}"
    " FROM unnest($1, $2, $3, $4, $5, $6) k(scope, key, start, stop, identity, change)",
    "text[] text[] int8[] int8[] text[] int8[]",
)
_FORGET = Statement(
    "DELETE FROM cannery.keys WHERE made <= (SELECT max(made) FROM cannery.keys) - $1", "int8"
)


class Commits:
    """The changes of this process."""

    def __init__(self, pool: Pool, objects: Objects | None, identity: str) -> None:
        self._pool = pool
        self._objects = objects
        self._identity = identity
        self._memory = Memory()

    def submit(
        self, changes: Sequence[Change], durability: Durability
    ) -> list[Receipt | CanneryError]:
        """Make changes; returns for each its receipt or its error."""
        for change in changes:
            check_change(change)
        if not changes:
            return []
        is_lost = False
        for attempt in range(_ATTEMPTS):
            self._stage_large(changes)
            orders = [self._order(change) for change in changes]
            work = _Transaction(orders, self._identity, self._memory, is_lazy=durability == "os")
            try:
                with self._pool.connection() as connection:
                    outcomes = work.run(connection, self._pool.losses, may_recall=attempt == 0)
            except RacedError:
                continue
            except LostError as error:
                # Before the commit was sent nothing was made; a change with a key is never made twice.
                if is_lost and not work.was_begun:
                    raise
                is_lost = True
                if work.is_unknown and not all(change.key is not None for change in changes):
                    problem = "the connection was lost at the commit; it may have been made"
                    return [StoreUnavailableError(f"{problem}: {error}") for _ in changes]
                continue
            if not self._lacks_staged(changes, outcomes):
                return outcomes
        return [StoreUnavailableError(f"{self._pool.name}: could not commit") for _ in changes]

    def _order(self, change: Change) -> Order:
        encoded = {
            digest: encode(data)
            for digest, data in change.contents.items()
            if data is not None and not self._is_large(data)
        }
        metadata = change.metadata
        return Order(change, encoded, None if metadata is None else seal(metadata.encode(), 0))

    def _is_large(self, data: bytes) -> bool:
        return self._objects is not None and len(data) >= LARGE

    def _stage_large(self, changes: Sequence[Change]) -> None:
        """Store large content, before the changes that refer to it."""
        for change in changes:
            large = {
                digest: data
                for digest, data in change.contents.items()
                if data is not None and self._is_large(data)
            }
            if large:
                contents = PostgresqlContents(self._pool, self._objects, change.scope)
                for digest in large.keys() - contents.has(large):
                    if contents.stage([large[digest]]).digest != digest:
                        raise InputError(f"content does not match its id sha256:{digest.hex()}")

    def _lacks_staged(
        self, changes: Sequence[Change], outcomes: Sequence[Receipt | CanneryError]
    ) -> bool:
        """Whether gc has freed newly staged content, so that it must be staged again; nothing was made then."""
        if len(changes) != 1 or not isinstance(outcomes[0], ContentNotFoundError):
            return False
        return any(
            f"sha256:{digest.hex()}" in str(outcomes[0])
            for digest, data in changes[0].contents.items()
            if data is not None
        )


class _Made(NamedTuple):
    """A gathered change: the place of its lines, and its number in the transaction."""

    start: int
    stop: int
    change: int


class _Transaction:
    """One attempt to make some changes."""

    def __init__(
        self, orders: Sequence[Order], identity: str, memory: Memory, *, is_lazy: bool
    ) -> None:
        self._orders = orders
        self.identity = identity
        self._memory = memory
        self._is_lazy = is_lazy
        self._number = 0
        self.was_begun = False
        self.is_unknown = False
        """Whether the commit was sent and not answered."""

    def run(
        self, connection: Connection, losses: int, *, may_recall: bool
    ) -> list[Receipt | CanneryError]:
        """Make them, if possible from cached preconditions; the receipts are valid once this has returned."""
        recalled = self._recalled(connection, losses) if may_recall else None
        turns = self._read(connection) if recalled is None else [recalled]
        self.is_unknown = True
        try:
            turns[-1].send(COMMIT)
        except psycopg.Error as error:
            self.is_unknown = error.sqlstate is None
            raise
        self.is_unknown = False
        for turn in turns:
            turn.keep(self._memory, losses)
        return [outcome for turn in turns for outcome in turn.outcomes()]

    def _recalled(self, connection: Connection, losses: int) -> _Written | None:
        """All changes from cached preconditions; None if one depends on something else, or cannot be made."""
        if len(_independent(self._orders)) < len(self._orders):
            return None
        seen = self._memory.recall(connection, self._orders, losses, is_lazy=self._is_lazy)
        if seen is None:
            return None
        written = _Written(seen, self._orders, self)
        return written if written.is_whole else None

    def _read(self, connection: Connection) -> list[_Written]:
        """All changes from data read under locks, in as many turns as they need; the last is not yet sent."""
        turns: list[_Written] = []
        waiting = self._orders
        while waiting:
            if turns:
                turns[-1].send()
            turn = _independent(waiting)
            waiting = waiting[len(turn) :]
            everything = None if turns else self._orders
            spare = self._memory.lacking()
            seen = read(connection, turn, everything, spare=spare, is_lazy=self._is_lazy)
            self.was_begun = True
            turns.append(_Written(seen, turn, self))
        return turns

    def next_number(self) -> int:
        """The number of the next change in the transaction."""
        self._number += 1
        return self._number


def _independent(orders: Sequence[Order]) -> list[Order]:
    """The first changes, of which none reads what an earlier one writes."""
    turn: list[Order] = []
    touched: set[object] = set()
    for order in orders:
        change = order.change
        looks = {change.identifier, *change.requires}
        if change.metadata is not None and change.metadata.parent is not None:
            looks.add(change.metadata.parent)
        key = (change.scope, change.key)
        if turn and (not touched.isdisjoint(looks) or (change.key is not None and key in touched)):
            break
        touched |= {change.identifier, key}
        turn.append(order)
    return turn


class _Put(NamedTuple):
    """The new row of a conversation."""

    known: Known | None
    row: Row
    order: Order
    grown: Grown | None
    change: int

    def statements(self) -> Iterator[Call]:
        """The statements that write it."""
        if self.known is not None:
            known = self.known
            yield from rows.put_changed(
                known.row, known.version, self.row, self.order.sealed, self.change
            )
        elif self.order.sealed is not None:
            yield from rows.put_new(self.row, self.order.sealed, self.change)

    @property
    def metadata(self) -> bytes | None:
        """The metadata after the change."""
        metadata = self.order.change.metadata
        if metadata is not None:
            return metadata.encode()
        return None if self.known is None else self.known.metadata

    @property
    def calls(self) -> Mapping[str, int]:
        """The latest calls after the change."""
        made = () if self.grown is None else self.grown.calls
        return latest_calls(self.known, [(call, ordinal) for _, call, _, ordinal, _ in made])


class _Written:
    """The writes of a turn's changes, gathered to be sent at once."""

    def __init__(self, seen: Seen, turn: Sequence[Order], transaction: _Transaction) -> None:
        self._connection = seen.connection
        self._seen = seen
        self._transaction = transaction
        self._xid = 0
        self._rows: list[_Put] = []
        self._grown: list[Grown] = []
        self._said: list[tuple[int, int, Sequence[Any]]] = []
        self._lines: list[tuple[int, int, bytes]] = []
        self._new: list[tuple[int, str, bytes, Encoded]] = []
        self._uses: list[tuple[int, int]] = []
        self._held: set[int] = set()
        self._wanted: list[int] = []
        self._keys: list[tuple[Any, ...]] = []
        self._chains: set[tuple[int, bytes]] = set()
        self._outcomes = [self._try(order) for order in turn]

    @property
    def is_whole(self) -> bool:
        """Whether every change can be made."""
        return all(isinstance(outcome, _Made) for outcome in self._outcomes)

    def outcomes(self) -> Iterator[Receipt | CanneryError]:
        """For each change its receipt, or its error."""
        for outcome in self._outcomes:
            if isinstance(outcome, _Made):
                place = place_of(self._transaction.identity, self._xid, outcome.change)
                yield Receipt(outcome.start, outcome.stop, place)
            else:
                yield outcome

    def _try(self, order: Order) -> _Made | Receipt | CanneryError:
        """Check a change and gather its writes, or record its error."""
        change = order.change
        if change.key is not None:
            known = self._seen.keys.get((change.scope, change.key))
            if known is not None:
                return known
        try:
            return self._make(order)
        except StoreUnavailableError:
            # The server refuses: none of the changes can be made.
            raise
        except CanneryError as error:
            return error

    def _make(self, order: Order) -> _Made:
        change = order.change
        self._check(order)
        known = self._seen.known.get(change.identifier)
        start = change.base if known is None else max(known.row.length, change.base)
        if change.expected is not None and change.expected != start:
            raise ConflictError(f"expected position {change.expected}, found {start}", start)
        row, grown = self._learn(change, None if known is None else known.row, start)
        made = _Made(start, start + len(change.lines), self._transaction.next_number())
        self._rows.append(_Put(known, row, order, grown, made.change))
        if grown is not None:
            self._grown.append(grown)
            self._chains.update((prefix.space, prefix.chain) for prefix in grown.prefixes)
            self._said.append((row.number, start, change.entries))
        for position, line in enumerate(change.lines, start):
            self._lines.append((row.number, position, seal(line, position)[:-1]))
        for digest in change.contents:
            self._use(order, row.number, digest)
        if change.key is not None:
            identity = self._transaction.identity
            self._keys.append((change.scope, change.key, *made[:2], identity, made.change))
        return made

    def _check(self, order: Order) -> None:
        change = order.change
        for identifier, expected in change.requires.items():
            found = self._seen.known.get(identifier)
            if found is not None and found.metadata is None:
                raise ConflictError(f"the metadata of conversation {identifier!r} is damaged")
            if (None if found is None else found.metadata) != expected:
                raise ConflictError(f"conversation {identifier!r} has changed")
        if change.identifier not in self._seen.known and change.metadata is None:
            raise ConflictError(f"there is no conversation {change.identifier!r}")
        space = space_of(change.scope, change.session)
        if any((space, claim) in self._chains for claim in change.claims) or self._seen.is_held(
            change
        ):
            raise ConflictError("another conversation holds this history already")
        for digest in change.contents:
            if digest not in order.encoded and (change.scope, digest) not in self._seen.contents:
                raise ContentNotFoundError(f"sha256:{digest.hex()}")

    def _learn(self, change: Change, row: Row | None, start: int) -> tuple[Row, Grown | None]:
        """The catalogue's row of a conversation after a change."""
        connection, metadata = self._connection, change.metadata
        if (metadata.position if row is None and metadata else row and row.length) != start:
            raise DamageError(f"conversations/{change.identifier}", "catalogue and lines disagree")
        if metadata is not None:
            seen = zlib.crc32(metadata.encode())
            if row is None:
                above = self._seen.known.get(metadata.parent or "")
                base = rows.base_of(connection, above and above.row, metadata)
                number = self._seen.next_number()
                root = number if above is None else above.row.root
                row = writing.new_row(metadata, seen, base, number, root)
            else:
                if metadata.parent != row.parent:
                    row = rows.move(connection, row, metadata.parent)
                row = writing.renamed(row, metadata, seen)
        if row is None:
            raise ConflictError(f"there is no conversation {change.identifier!r}")
        before = row
        if not change.lines:
            return before, None
        grown = writing.grow(
            before, change.entries, lambda call: self._seen.find_call(before, call)
        )
        return grown.row._replace(searched=grown.row.length), grown

    def _use(self, order: Order, number: int, digest: bytes) -> None:
        """Record that a conversation refers to content, which is then no longer only staged."""
        scope = order.change.scope
        known = self._seen.contents.get((scope, digest))
        if known is None:
            known = self._seen.next_number(), False
            self._seen.contents[scope, digest] = known
            self._new.append((known[0], scope, digest, order.encoded[digest]))
        elif self._seen.checks:
            self._held.add(known[0])
        content, is_staged = known
        self._uses.append((number, content))
        if is_staged:
            self._wanted.append(content)

    def send(self, *end: Statement) -> None:
        """Send all of it, in an order that avoids deadlocks, with the final statements."""
        calls = [*self._seen.checks, *self._calls()]
        later = itertools.chain(rows.put_words(self._said), ((statement, ()) for statement in end))
        answers = exchange(self._connection, calls, later)
        for (statement, _), answer in zip(calls, answers, strict=False):
            if statement in rows.PUT:
                self._xid = int(answer[0][0])

    def keep(self, memory: Memory, losses: int) -> None:
        """Cache what was committed."""
        known = [
            Known(put.row, put.metadata, self._version(put.change), put.calls) for put in self._rows
        ]
        contents = {name: content for name, (content, _) in self._seen.contents.items()}
        memory.keep(losses, known, contents)
        memory.spare(self._seen.numbers)

    def _version(self, change: int) -> Version:
        return Version(self._xid & 0xFFFFFFFF, change)

    def _calls(self) -> Iterator[Call]:
        for put in sorted(self._rows, key=lambda put: put.row.id):
            yield from put.statements()
        yield from self._content_calls()
        yield from rows.for_all(_PUT_LINES, self._lines)
        yield from rows.put_grown(self._grown)
        yield from rows.for_all(_REMEMBER, sorted(self._keys))
        if self._keys and not secrets.randbelow(_PRUNED):
            yield _FORGET, (_KEPT_KEYS,)

    def _content_calls(self) -> Iterator[Call]:
        yield from expect_contents(sorted(self._held - {new[0] for new in self._new}))
        new = sorted(self._new, key=lambda one: (one[2], one[1]))
        yield from rows.for_all(
            PUT_CONTENTS,
            [
                (number, scope, digest, sum(piece.size for piece in pieces))
                for number, scope, digest, pieces in new
            ],
        )
        for number, _, _, pieces in new:
            yield put_pieces(number, 0, pieces)
        yield from rows.for_all(_USE, self._uses)
        if self._wanted:
            yield _WANT, (sorted(self._wanted),)
