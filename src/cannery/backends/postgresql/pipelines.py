"""Statements that are sent together and answered together: one round trip, and little work on this side.

A commit sends about a dozen statements. The library's own pipeline talks to the server after each of them, and finds
out the type of every value; both together cost more than the server's work. Here a statement says the types of its
values, is prepared once a connection, and nothing is waited for before the last one is sent.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer

_UNDER_WAY = (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)
_ERRORS = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)
_pack_integer = struct.Struct(">q").pack
_pack_float = struct.Struct(">d").pack
_pack_size = struct.Struct(">i").pack
_pack_array = struct.Struct(">iiIii").pack
_pack_no_array = struct.Struct(">iiI").pack
_NULL = _pack_size(-1)


class _Kind(NamedTuple):
    """A type of values: its number on the server, and its bytes."""

    number: int
    encode: Callable[[Any], bytes]


def _array(number: int, item: _Kind) -> _Kind:
    def encode(values: Sequence[Any]) -> bytes:
        if not values:
            return _pack_no_array(0, 0, item.number)
        has_null = None in values
        pieces = [_pack_array(1, int(has_null), item.number, len(values), 1)]
        for value in values:
            if value is None:
                pieces.append(_NULL)
            else:
                data = item.encode(value)
                pieces += (_pack_size(len(data)), data)
        return b"".join(pieces)

    return _Kind(number, encode)


_BOOL = _Kind(16, lambda value: b"\1" if value else b"\0")
_BYTEA = _Kind(17, bytes)
_INT8 = _Kind(20, _pack_integer)
_TEXT = _Kind(25, str.encode)
_XID = _Kind(28, struct.Struct(">I").pack)
_KINDS = {
    "bool": _BOOL,
    "bytea": _BYTEA,
    "int8": _INT8,
    "text": _TEXT,
    "xid": _XID,
    "float8": _Kind(701, _pack_float),
    "bool[]": _array(1000, _BOOL),
    "bytea[]": _array(1001, _BYTEA),
    "int8[]": _array(1016, _INT8),
    "text[]": _array(1009, _TEXT),
}


class Statement:
    """SQL with ``$1``, ``$2`` … and the types of what they stand for; without ``is_prepared`` sent as it is."""

    __slots__ = ("_encoders", "is_prepared", "numbers", "text")

    def __init__(self, text: str, kinds: str = "", *, is_prepared: bool = True) -> None:
        known = [_KINDS[kind] for kind in kinds.split()]
        self.text = text.encode()
        self.numbers = [kind.number for kind in known]
        self._encoders = [kind.encode for kind in known]
        self.is_prepared = is_prepared

    def encode(self, values: Sequence[Any]) -> list[bytes | None]:
        """Values as they are sent."""
        return [
            None if value is None else encode(value)
            for encode, value in zip(self._encoders, values, strict=True)
        ]


BEGIN = Statement("BEGIN ISOLATION LEVEL READ COMMITTED", is_prepared=False)
COMMIT = Statement("COMMIT", is_prepared=False)
_ROLLBACK = Statement("ROLLBACK", is_prepared=False)

Call: TypeAlias = tuple[Statement, Sequence[Any]]
Rows: TypeAlias = list[tuple[Any, ...]]


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that knows which statements are prepared on it."""

    prepared: dict[Statement, bytes]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.prepared = {}
        self._names = itertools.count()

    def next_name(self) -> bytes:
        """A name that no statement on this connection has had."""
        return b"cannery_%d" % next(self._names)

    @contextlib.contextmanager
    def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002 - the library's own
    ) -> Iterator[psycopg.Transaction]:
        """A transaction; the library deallocates all statements, ours too, when it takes one back."""
        is_made = False
        try:
            with super().transaction(savepoint_name, force_rollback) as begun:
                yield begun
            is_made = not force_rollback
        finally:
            if not is_made:
                self.prepared.clear()

    def take_back(self) -> None:
        """Take back what was begun and not committed, and leave our statements as they are."""
        if self.info.transaction_status in _UNDER_WAY:
            exchange(self, [(_ROLLBACK, ())])

    def is_alive(self) -> bool:
        """Whether the server has not closed the connection while it was idle, as far as is known here."""
        waiting = select.poll()
        waiting.register(self.pgconn.socket, select.POLLIN)
        try:
            if waiting.poll(0):
                self.pgconn.consume_input()
        except psycopg.OperationalError:
            self.close()
        return not self.closed


def exchange(
    connection: Connection, calls: Iterable[Call], later: Iterable[Call] = ()
) -> list[Rows]:
    """Send statements and wait for what they give, in order; after an error none of the rest is done.

    Those to be sent ``later`` are asked for while the server works on the others.

    An error with a ``sqlstate`` is the server's word that the last statement was not done. Without one the connection
    was lost, and it may have been.
    """
    # What cannot be sent is known before anything is.
    sent = _encoded(calls)
    server = connection.pgconn
    try:
        server.enter_pipeline_mode()
        preparing = _send(connection, sent)
        if later:
            server.flush()
            preparing += _send(connection, _encoded(later))
        server.pipeline_sync()
        results = _receive(server, len(preparing))
        server.exit_pipeline_mode()
    except BaseException:
        # What the server has yet to say is unknown.
        connection.close()
        raise
    if any(result.status in _ERRORS for result in results):
        _forget_unprepared(connection, preparing, results)
        raise _first_error(results)
    transformer = Transformer(connection)
    return [
        _rows(transformer, result)
        for result, prepared in zip(results, preparing, strict=True)
        if prepared is None
    ]


def _encoded(calls: Iterable[Call]) -> list[tuple[Statement, list[bytes | None]]]:
    return [(statement, statement.encode(values)) for statement, values in calls]


def _send(
    connection: Connection, sent: Iterable[tuple[Statement, list[bytes | None]]]
) -> list[Statement | None]:
    """Send all; for each result that will come the statement that it prepares, or None for an answer."""
    server = connection.pgconn
    preparing: list[Statement | None] = []
    for statement, values in sent:
        if not statement.is_prepared:
            server.send_query_params(statement.text, None, result_format=pq.Format.BINARY)
            preparing.append(None)
            continue
        name = connection.prepared.get(statement)
        if name is None:
            name = connection.prepared[statement] = connection.next_name()
            server.send_prepare(name, statement.text, statement.numbers)
            preparing.append(statement)
        server.send_query_prepared(
            name,
            values,
            param_formats=[pq.Format.BINARY] * len(values),
            result_format=pq.Format.BINARY,
        )
        preparing.append(None)
    return preparing


def _receive(server: Any, count: int) -> list[Any]:
    waiting = select.poll()
    waiting.register(server.socket, select.POLLIN | select.POLLOUT)
    while server.flush():
        for _, event in waiting.poll():
            if event & ~select.POLLOUT:
                server.consume_input()
    waiting.modify(server.socket, select.POLLIN)
    results: list[Any] = []
    while True:
        while server.is_busy():
            waiting.poll()
            try:
                server.consume_input()
            except psycopg.OperationalError as lost:
                raise _last_word(server, count - len(results)) or lost from None
        result = server.get_result()
        if result is None:
            continue
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            return results
        results.append(result)


def _last_word(server: Any, outstanding: int) -> psycopg.Error | None:
    """What the server said of a statement before the connection was lost.

    None if it said nothing, or has done all statements but the last: what became of that one is unknown.
    """
    for _ in range(2 * outstanding):
        result = server.get_result()
        if result is None:
            # Stands between the results of two statements.
            continue
        outstanding -= 1
        if result.status in _ERRORS:
            error = psycopg.errors.error_from_result(result, encoding="utf-8")
            return error if error.sqlstate is not None and outstanding else None
    return None


def _first_error(results: Iterable[Any]) -> psycopg.Error:
    failed = next(result for result in results if result.status in _ERRORS)
    return psycopg.errors.error_from_result(failed, encoding="utf-8")


def _forget_unprepared(
    connection: Connection, preparing: Sequence[Statement | None], results: Sequence[Any]
) -> None:
    """Note which statements were not prepared because one before them failed."""
    for statement, result in zip(preparing, results, strict=True):
        if statement is not None and result.status != pq.ExecStatus.COMMAND_OK:
            del connection.prepared[statement]


def _rows(transformer: Any, result: Any) -> Rows:
    if not result.ntuples:
        return []
    transformer.set_pgresult(result)
    found: Rows = transformer.load_rows(0, result.ntuples, tuple)
    return found
