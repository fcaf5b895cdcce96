"""Usage records, encrypted: the time, conversation and scope of each record are in the clear.

    {"time":…,"conversation":…,"scope":…,"reply"?:…,"sealed":"…"}

A reply id is looked up without a scope, so its token is the same in all scopes. If the key of a scope is not available,
the amounts are stored anyway: ``clear`` in place of ``sealed``, with figures only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from cannery.backends._contract import Cursor
from cannery.backends._encryption.keyring import Keyring
from cannery.backends._exchanges import ExchangeLog, Note, NotePage
from cannery.errors import KeyUnavailableError


class _Record(Struct):
    """A record in stored form."""

    time: str
    conversation: str
    scope: str
    sealed: str | UnsetType = UNSET
    clear: dict[str, Any] | UnsetType = UNSET
    reply: str | UnsetType = UNSET

    def place(self) -> bytes:
        """The authenticated fields."""
        return f"exchange\0{self.conversation}\0{self.time}".encode(errors="surrogatepass")


class _Named(Struct):
    """The fields that identify the key of a record."""

    key: str | None = None


_FIGURES = frozenset(
    [
        "cache_read_tokens",
        "cache_write_tokens",
        "conversation",
        "cost",
        "dialect",
        "first_byte",
        "gateway",
        "input_tokens",
        "key",
        "outcome",
        "output_tokens",
        "position",
        "request_id",
        "seconds",
        "time",
        "upstream",
    ]
)
_decode = msgspec.json.Decoder(_Record).decode
_encode = msgspec.json.Encoder().encode
_name = msgspec.json.Decoder(_Named).decode


class EncryptedExchanges:
    """The notes of another backend; ``scope_of`` gives the scope of an existing conversation."""

    def __init__(
        self, inner: ExchangeLog, ring: Keyring, scope_of: Callable[[str], str | None]
    ) -> None:
        self._inner = inner
        self._ring = ring
        self._scope_of = scope_of

    def append(self, notes: Sequence[Note]) -> None:
        """Add notes, all of them or none."""
        self._inner.append([self._sealed(note) for note in notes])

    def _sealed(self, note: Note) -> Note:
        # An exchange that could not be recorded has no conversation.
        scope = self._scope_of(note.conversation) if note.conversation else None
        if scope is None:
            scope = _name(note.record).key or ""
        record = _Record(note.time, note.conversation, scope)
        reply = ""
        try:
            record.sealed = self._ring.keys(scope).seal_note(note.record, record.place())
            reply = self._ring.reply(note.reply) if note.reply else ""
            record.reply = reply or UNSET
        except KeyUnavailableError:
            told = msgspec.json.decode(note.record, type=dict[str, Any])
            record.clear = {name: told[name] for name in told.keys() & _FIGURES}
        return Note(note.conversation, note.time, reply, _encode(record))

    def of(self, conversations: Iterable[str]) -> list[bytes]:
        """The records of some conversations."""
        return list(self._opened(self._inner.of(conversations)))

    def page(self, cursor: Cursor | None = None) -> NotePage:
        """The records after a cursor; those of a scope without its key are left out."""
        page = self._inner.page(cursor)
        records: list[bytes | None] = []
        for raw in page.records:
            try:
                records.append(None if raw is None else self._open(raw))
            except KeyUnavailableError:
                continue
            except (msgspec.MsgspecError, ValueError):
                records.append(None)
        return page._replace(records=records)

    def torn(self) -> str | None:
        """An incomplete record at the end of the log."""
        return self._inner.torn()

    def replied(self, reply: str) -> bytes | None:
        """The last record of a reply."""
        found = self._inner.replied(self._ring.reply(reply)) if reply else None
        return None if found is None else next(self._opened([found]), None)

    def _opened(self, records: Iterable[bytes]) -> Iterator[bytes]:
        """The readable records; lists report the scopes whose key is missing."""
        for raw in records:
            # A line torn by a crash is skipped, as in every store.
            with contextlib.suppress(KeyUnavailableError, msgspec.MsgspecError, ValueError):
                yield self._open(raw)

    def _open(self, raw: bytes) -> bytes:
        record = _decode(raw)
        if record.sealed is UNSET:
            return _encode({} if record.clear is UNSET else record.clear)
        return self._ring.keys(record.scope).open_note(record.sealed, record.place())
