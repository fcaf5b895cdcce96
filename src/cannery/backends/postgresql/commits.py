"""Making changes: one transaction for several, two round trips, each change for itself all or nothing.

The first round trip takes all locks (claims, then conversations, then content, each in one order, which avoids
deadlocks) and reads what the changes depend on. They are then checked here, in order, and what is to be written is
sent with the commit in the second. Changes that depend on others of the same batch wait for another turn.

Two that claim the same history at once take the same advisory lock; the second sees what the first has written. When
the connection is lost at the commit, its outcome is unknown: a change with a key is made again, and the key
says that it was made before; without one the caller is told.
"""

from __future__ import annotations

import hashlib
import secrets
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from cannery.backends._catalogue import writing
from cannery.backends._catalogue.schema import Row, space_of
from cannery.backends._catalogue.writing import Grown
from cannery.backends._contract import Change, Durability, Receipt, check_change, check_identifier
from cannery.backends._seals import seal, unseal
from cannery.backends.postgresql import rows
from cannery.backends.postgresql.connections import (
    LostError,
    Pool,
    RacedError,
)
from cannery.backends.postgresql.contents import (
    PUT_CONTENTS,
    Encoded,
    PostgresqlContents,
    encode,
    put_pieces,
)
from cannery.backends.postgresql.feed import place_of
from cannery.backends.postgresql.objects import LARGE, Objects
from cannery.backends.postgresql.pipelines import (
    BEGIN,
    COMMIT,
    Call,
    Connection,
    Statement,
    exchange,
)
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
_ROWS = Statement(
    f"SELECT {rows.COLUMNS}, c.metadata FROM cannery.conversations c WHERE c.id = ANY($1)"  # noqa: S608 - names are ours
    " ORDER BY c.id FOR UPDATE",
    "text[]",
)
_LOCKS = Statement("SELECT pg_advisory_xact_lock(x)::text FROM unnest($1) x", "int8[]")
_LAZY = Statement("SET LOCAL synchronous_commit = off", is_prepared=False)
_TRANSACTION = Statement("SELECT pg_current_xact_id()::text")
_NUMBERS = Statement("SELECT nextval('cannery.numbers') FROM generate_series(1, $1)", "int8")
_HOLDING = Statement(
    f"SELECT d.at, p.position, {rows.COLUMNS} FROM unnest($1, $2)"  # noqa: S608 - names are ours
    " WITH ORDINALITY d(chain, space, at) JOIN cannery.prefixes p ON p.chain = d.chain AND p.space = d.space"
    " JOIN cannery.conversations c ON c.number = p.number AND c.profile = 'archive'"
    " ORDER BY d.at, c.deleted",
    "bytea[] int8[]",
)
_CONTENTS = Statement(
    "SELECT c.scope, c.digest, c.content, c.staged IS NOT NULL FROM cannery.contents c"
    " JOIN unnest($1, $2) d(scope, digest)"
    " ON c.digest = d.digest AND c.scope = d.scope ORDER BY c.content FOR KEY SHARE OF c",
    "text[] bytea[]",
)
_KEYS = Statement(
    "SELECT k.scope, k.key, k.start, k.stop, k.place FROM cannery.keys k"
    " JOIN unnest($1, $2) d(scope, key) ON k.key = d.key AND k.scope = d.scope",
    "text[] text[]",
)
_PUT_LINES = Statement(
    "INSERT INTO cannery.lines SELECT * FROM unnest($1, $2, $3)", "int8[] int8[] bytea[]"
)
_USE = Statement(
    "INSERT INTO cannery.uses SELECT * FROM unnest($1, $2) ON CONFLICT DO NOTHING", "int8[] int8[]"
)
_WANT = Statement("UPDATE cannery.contents SET staged = NULL WHERE content = ANY($1)", "int8[]")
_REMEMBER = Statement(
    "INSERT INTO cannery.keys (scope, key, start, stop, place)"
    " SELECT * FROM unnest($1, $2, $3, $4, $5)",
    "text[] text[] int8[] int8[] text[]",
)
_FORGET = Statement(
    "DELETE FROM cannery.keys WHERE made <= (SELECT max(made) FROM cannery.keys) - $1", "int8"
)


class _Order(NamedTuple):
    """A change, with what takes long done before anything is locked."""

    change: Change
    encoded: dict[bytes, Encoded]
    sealed: bytes | None


class _Known(NamedTuple):
    """A conversation as it is stored."""

    row: Row
    metadata: bytes | None


class Commits:
    """The changes of this process."""

    def __init__(self, pool: Pool, objects: Objects | None, identity: str) -> None:
        self._pool = pool
        self._objects = objects
        self._identity = identity

    def submit(
        self, changes: Sequence[Change], durability: Durability
    ) -> list[Receipt | CanneryError]:
        """Make changes; for each its receipt or what is wrong with it."""
        for change in changes:
            check_change(change)
        if not changes:
            return []
        is_lazy = durability == "os"
        is_lost = False
        for _ in range(_ATTEMPTS):
            self._stage_large(changes)
            orders = [self._order(change) for change in changes]
            work = _Transaction(orders, self._identity, is_lazy=is_lazy)
            try:
                with self._pool.connection() as connection:
                    outcomes = work.run(connection)
            except RacedError:
                continue
            except LostError as error:
                # Before the commit was sent nothing was made; what has a key is never made twice.
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

    def _order(self, change: Change) -> _Order:
        encoded = {
            digest: encode(data)
            for digest, data in change.contents.items()
            if data is not None and not self._is_large(data)
        }
        metadata = change.metadata
        return _Order(change, encoded, None if metadata is None else seal(metadata.encode(), 0))

    def _is_large(self, data: bytes) -> bool:
        return self._objects is not None and len(data) >= LARGE

    def _stage_large(self, changes: Sequence[Change]) -> None:
        """Put large content where it belongs, before the changes that refer to it."""
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
        """Whether gc has freed what was just staged, so that it must be staged again; nothing was made then."""
        if len(changes) != 1 or not isinstance(outcomes[0], ContentNotFoundError):
            return False
        return any(
            f"sha256:{digest.hex()}" in str(outcomes[0])
            for digest, data in changes[0].contents.items()
            if data is not None
        )


class _Transaction:
    """One attempt to make some changes."""

    def __init__(self, orders: Sequence[_Order], identity: str, *, is_lazy: bool) -> None:
        self._orders = orders
        self._identity = identity
        self._is_lazy = is_lazy
        self._xid = 0
        self._made = 0
        self.was_begun = False
        self.is_unknown = False
        """Whether the commit was sent and not answered."""

    def run(self, connection: Connection) -> list[Receipt | CanneryError]:
        """Make them; the receipts are true once this has returned."""
        outcomes: list[Receipt | CanneryError] = []
        waiting = list(self._orders)
        while waiting:
            turn = _independent(waiting)
            waiting = waiting[len(turn) :]
            seen = _Seen(connection, turn, self._orders if not outcomes else None, self._is_lazy)
            self.was_begun = True
            self._xid = seen.xid or self._xid
            written = _Written(connection, seen, self)
            outcomes += [written.make(order) for order in turn]
            calls = list(written.calls())
            if waiting:
                exchange(connection, calls)
            else:
                self.is_unknown = True
                exchange(connection, [*calls, (COMMIT, ())])
                self.is_unknown = False
        return outcomes

    def next_place(self) -> tuple[int, int]:
        """Where the feed notes the next change."""
        self._made += 1
        return self._xid, self._made

    def cursor_of(self, place: tuple[int, int]) -> str:
        """The same as others see it."""
        return place_of(self._identity, *place)


def _independent(orders: Sequence[_Order]) -> list[_Order]:
    """The first changes of which none looks at what one before it writes."""
    turn: list[_Order] = []
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


class _Seen:
    """What the changes of a turn depend on, read in one round trip, and locked."""

    def __init__(
        self,
        connection: Connection,
        turn: Sequence[_Order],
        everything: Sequence[_Order] | None,
        is_lazy: bool,  # noqa: FBT001 - what the one caller knows
    ) -> None:
        self.connection = connection
        changes = [order.change for order in turn]
        contents = sorted({(one.scope, digest) for one in changes for digest in one.contents})
        keys = [(one.scope, one.key) for one in changes if one.key is not None]
        self._claims = [
            (claim, space_of(one.scope, one.session)) for one in changes for claim in one.claims
        ]
        needed = sum(one.metadata is not None for one in changes)
        needed += sum(len(order.encoded) for order in turn)
        calls = [] if everything is None else _begin(everything, is_lazy=is_lazy)
        calls.append((_ROWS, (_identifiers(everything or turn),)))
        calls += rows.for_all(_KEYS, keys)
        calls += rows.for_all(_HOLDING, self._claims)
        calls += rows.for_all(_CONTENTS, contents)
        if needed:
            calls.append((_NUMBERS, (needed,)))
        answers = exchange(connection, calls)
        found = {call[0]: answer for call, answer in zip(calls, answers, strict=True)}
        self.xid = int(found[_TRANSACTION][0][0]) if _TRANSACTION in found else 0
        self.known: dict[str, _Known] = {}
        for *values, metadata in found[_ROWS]:
            row = rows.to_row(values)
            self.known[row.id] = _Known(row, unseal(metadata))
        self.keys = {(scope, key): Receipt(*rest) for scope, key, *rest in found.get(_KEYS, ())}
        self._holding = found.get(_HOLDING, ())
        self.contents: dict[tuple[str, bytes], tuple[int, bool]] = {
            (scope, digest): (content, is_staged)
            for scope, digest, content, is_staged in found.get(_CONTENTS, ())
        }
        self._numbers = iter(sorted(number for (number,) in found.get(_NUMBERS, ())))

    def next_number(self) -> int:
        """A number for a conversation or content."""
        return int(next(self._numbers))

    def is_held(self, change: Change) -> bool:
        """Whether a living conversation of the scope and session holds what a change claims."""
        space = space_of(change.scope, change.session)
        wanted = {(claim, space) for claim in change.claims}
        for at, position, *values in self._holding:
            if self._claims[at - 1] in wanted:
                row = rows.to_row(values)
                if rows.living_at(self.connection, row, position) is not None:
                    return True
        return False


def _begin(everything: Sequence[_Order], *, is_lazy: bool) -> list[Call]:
    """Begin a transaction with the locks of all that will be claimed in it."""
    locks = sorted(
        {
            _lock_of(claim, space_of(order.change.scope, order.change.session))
            for order in everything
            for claim in order.change.claims
        }
    )
    calls: list[Call] = [(BEGIN, ()), (_TRANSACTION, ())]
    if is_lazy:
        calls.append((_LAZY, ()))
    if locks:
        calls.append((_LOCKS, (locks,)))
    return calls


def _identifiers(orders: Sequence[_Order]) -> list[str]:
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


class _Written:
    """What the changes of a turn write, gathered, to be sent at once."""

    def __init__(self, connection: Connection, seen: _Seen, transaction: _Transaction) -> None:
        self._connection = connection
        self._seen = seen
        self._transaction = transaction
        self._rows: list[tuple[Row | None, Row, bytes | None, tuple[int, int]]] = []
        self._grown: list[Grown] = []
        self._said: list[tuple[int, int, Sequence[Any]]] = []
        self._lines: list[tuple[int, int, bytes]] = []
        self._new: list[tuple[int, str, bytes, Encoded]] = []
        self._uses: list[tuple[int, int]] = []
        self._wanted: list[int] = []
        self._keys: list[tuple[Any, ...]] = []
        self._chains: set[tuple[int, bytes]] = set()

    def make(self, order: _Order) -> Receipt | CanneryError:
        """Check a change and gather what it writes, or say why it is not made."""
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

    def _make(self, order: _Order) -> Receipt:
        change = order.change
        self._check(order)
        known = self._seen.known.get(change.identifier)
        start = change.base if known is None else max(known.row.length, change.base)
        if change.expected is not None and change.expected != start:
            raise ConflictError(f"expected position {change.expected}, found {start}", start)
        row, grown = self._learn(change, None if known is None else known.row, start)
        place = self._transaction.next_place()
        receipt = Receipt(start, start + len(change.lines), self._transaction.cursor_of(place))
        self._rows.append((None if known is None else known.row, row, order.sealed, place))
        if grown is not None:
            self._grown.append(grown)
            self._chains.update((prefix.space, prefix.chain) for prefix in grown.prefixes)
            self._said.append((row.number, start, change.entries))
        for position, line in enumerate(change.lines, start):
            self._lines.append((row.number, position, seal(line, position)[:-1]))
        for digest in change.contents:
            self._use(order, row.number, digest)
        if change.key is not None:
            self._keys.append((change.scope, change.key, *receipt))
        return receipt

    def _check(self, order: _Order) -> None:
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
        """What the catalogue knows of a conversation after a change."""
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
                row = writing.new_row(metadata, base, number, root)
            elif metadata.parent != row.parent:
                row = rows.move(connection, row, metadata.parent)
            row = writing.renamed(row, metadata, seen)
        if row is None:
            raise ConflictError(f"there is no conversation {change.identifier!r}")
        before = row
        if not change.lines:
            return before, None
        grown = writing.grow(
            before, change.entries, lambda call: rows.find_call(connection, before, call)
        )
        return grown.row._replace(searched=grown.row.length), grown

    def _use(self, order: _Order, number: int, digest: bytes) -> None:
        """Note that a conversation refers to content, which is thus no longer only staged."""
        scope = order.change.scope
        known = self._seen.contents.get((scope, digest))
        if known is None:
            known = self._seen.next_number(), False
            self._seen.contents[scope, digest] = known
            self._new.append((known[0], scope, digest, order.encoded[digest]))
        content, is_staged = known
        self._uses.append((number, content))
        if is_staged:
            self._wanted.append(content)

    def calls(self) -> Iterator[Call]:
        """All of it, in an order that avoids deadlocks."""
        for before, row, metadata, place in self._rows:
            if before is None and metadata is not None:
                yield from rows.put_new(row, metadata, place)
            else:
                yield from rows.put_changed(before or row, row, metadata, place)
        yield from self._content_calls()
        yield from rows.for_all(_PUT_LINES, self._lines)
        yield from rows.put_grown(self._grown)
        yield from rows.put_words(self._said)
        yield from rows.for_all(_REMEMBER, sorted(self._keys))
        if self._keys and not secrets.randbelow(_PRUNED):
            yield _FORGET, (_KEPT_KEYS,)

    def _content_calls(self) -> Iterator[Call]:
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
