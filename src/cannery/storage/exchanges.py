"""Usage records of exchanges: tokens, price, time, upstream and losses, kept beside the conversations.

There is one record for each exchange that a gateway recorded, even if it added no message. It belongs to the position
at which its answer ended, and outlives the conversation: spent money stays counted. A record contains no message text.
All displays and sums of costs read records here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from cannery.backends import Cursor, Metadata, Note, NotePage
from cannery.storage.lineage import segments

if TYPE_CHECKING:
    from cannery.storage.store import Store


class ExchangeRecord(Struct, frozen=True, omit_defaults=True):
    """One exchange: its answer ends before position ``position``.

    ``first_byte`` and ``seconds`` are the caller's waiting times for the beginning and for all of the answer.
    ``losses`` are the codes of its losses. ``key`` is the name of the caller's key, ``gateway`` identifies the run of
    the gateway that recorded it.
    """

    time: str
    request_id: str
    conversation: str
    position: int
    outcome: str
    dialect: str
    upstream: str
    model: str | None = None
    reply: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    failed_upstreams: tuple[str, ...] = ()
    key: str | None = None
    client: str | None = None
    session: str | None = None
    kind: str | None = None
    why: str | None = None
    finish: str | None = None
    losses: tuple[str, ...] = ()
    first_byte: float | None = None
    seconds: float | None = None
    gateway: str | None = None


_decode = msgspec.json.Decoder(ExchangeRecord).decode
_encode = msgspec.json.Encoder().encode


class Costs(Struct):
    """Total dollars and tokens, and dollars by conversation, model and key.

    Exchanges of models without a price are counted separately.
    """

    dollars: float = 0.0
    exchanges: int = 0
    unpriced: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    by_conversation: dict[str, float] = field(default_factory=dict)
    by_model: dict[str, float] = field(default_factory=dict)
    by_key: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[ExchangeRecord]) -> Costs:
        """The sums of records."""
        costs = cls()
        for record in records:
            costs.add(record)
        return costs

    def add(self, record: ExchangeRecord) -> None:
        """Add an exchange."""
        self.exchanges += 1
        self.input_tokens += record.input_tokens
        self.output_tokens += record.output_tokens
        self.cache_read_tokens += record.cache_read_tokens
        self.cache_write_tokens += record.cache_write_tokens
        if record.cost is None:
            self.unpriced += 1
            return
        self.dollars += record.cost
        for table, name in (
            (self.by_conversation, record.conversation),
            (self.by_model, record.model or "-"),
            (self.by_key, record.key or "-"),
        ):
            table[name] = table.get(name, 0.0) + record.cost

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    @property
    def known_dollars(self) -> float | None:
        """Dollars; None if no exchange had a price."""
        return self.dollars if self.exchanges > self.unpriced else None


def append_records(store: Store, records: Sequence[ExchangeRecord]) -> None:
    """Store usage records."""
    store.backend.exchanges.append(
        [Note(one.conversation, one.time, one.reply or "", _encode(one)) for one in records]
    )


def records_since(store: Store, time: str = "") -> Iterator[ExchangeRecord]:
    """The records of a store's scope since a time (RFC 3339, UTC), including those of deleted conversations."""
    for page in pages(store):
        for record in _read(page.records):
            if record.time >= time and _is_seen(store, record):
                yield record


def pages(store: Store, cursor: Cursor | None = None) -> Iterator[NotePage]:
    """The log after a cursor, a page at a time."""
    while (page := store.backend.exchanges.page(cursor)).records:
        yield page
        cursor = page.cursor


class Follower:
    """Reads the additions of all processes that share a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cursor: Cursor | None = None

    def read(self, since: str) -> tuple[list[ExchangeRecord], bool]:
        """The records added since the last call that are not older than a time.

        With True it is the whole log: this is the first call, or another log has replaced the one before.
        """
        found: list[ExchangeRecord] = []
        is_all = False
        for page in pages(self._store, self._cursor):
            if page.is_first:
                found, is_all = [], True
            found += [record for record in _read(page.records) if record.time >= since]
            self._cursor = page.cursor
        return found, is_all


def records_of(store: Store, metadata: Metadata) -> list[ExchangeRecord]:
    """The records of a conversation, including those of the part that it shares with its ancestors."""
    shared = {
        span.identifier: span.stop for span in segments(metadata, store.any_metadata, 0, None)
    }
    found = _read(store.backend.exchanges.of([metadata.id, *shared]))
    return [
        record
        for record in found
        if record.conversation == metadata.id
        or record.position <= (shared.get(record.conversation) or 0)
    ]


def records_by_conversation(
    store: Store, identifiers: Sequence[str]
) -> Mapping[str, list[ExchangeRecord]]:
    """The own records of some conversations, read together."""
    grouped: dict[str, list[ExchangeRecord]] = {}
    for record in _read(store.backend.exchanges.of(identifiers)):
        if _is_seen(store, record):
            grouped.setdefault(record.conversation, []).append(record)
    return grouped


def record_of_reply(store: Store, reply: str) -> ExchangeRecord | None:
    """The record of the answer with an id that a caller knows."""
    found = store.backend.exchanges.replied(reply)
    record = next(_read(() if found is None else (found,)), None)
    return record if record is not None and _is_seen(store, record) else None


def _is_seen(store: Store, record: ExchangeRecord) -> bool:
    return store.scope is None or (record.key or "") == store.scope


def _read(records: Iterable[bytes | None]) -> Iterator[ExchangeRecord]:
    for record in records:
        try:
            if record is not None:
                yield _decode(record)
        except (msgspec.MsgspecError, UnicodeError):
            # A line that another program wrote.
            continue


class _Named(Struct):
    conversation: str


def conversation_of(record: bytes) -> str | None:
    """The conversation of a record, "" for none; None for a value that is not a record."""
    try:
        return msgspec.json.decode(record, type=_Named).conversation
    except (msgspec.MsgspecError, UnicodeError):
        return None
