"""Statements that are sent together and answered together: one round trip, and little work on the client.

A commit sends about a dozen statements. The library's own pipeline talks to the server after each of them, and
determines the type of every value; both together cost more than the server's work. Here a statement declares the types
of its values, is prepared once per connection, and nothing is awaited before the last one is sent.
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
    """A type of values: its number on the server, and its encoding."""

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
    """SQL with ``$1``, ``$2`` … and the types of its parameters; without ``is_prepared`` sent unprepared."""

    __slots__ = ("_encoders", "is_prepared", "numbers", "text")

    def __init__(self, text: str, kinds: str = "", *, is_prepared: bool = True) -> None:
        known = [_KINDS[kind] for kind in kinds.split()]
        self.text = text.encode()
        self.numbers = [kind.number for kind in known]
        self._encoders = [kind.encode for kind in known]
        self.is_prepared = is_prepared

    def encode(self, values: Sequence[Any]) -> list[bytes | None]:
        """Values in encoded form."""
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
    """A connection that knows its prepared statements."""

    prepared: dict[Statement, bytes]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.prepared = {}
        self._names = itertools.count()

    def next_name(self) -> bytes:
        """A statement name not used before on this connection."""
        return b"cannery_%d" % next(self._names)

    @contextlib.contextmanager
    def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002 - the library's own
    ) -> Iterator[psycopg.Transaction]:
        """A transaction; on a rollback the library deallocates all statements, ours too."""
        is_made = False
        try:
            with super().transaction(savepoint_name, force_rollback) as begun:
                yield begun
            is_made = not force_rollback
        finally:
            if not is_made:
                self.prepared.clear()

    def take_back(self) -> None:
        """Roll back, keeping our prepared statements."""
        if self.info.transaction_status in _UNDER_WAY:
            exchange(self, [(_ROLLBACK, ())])

    def is_alive(self) -> bool:
        """Whether the server has not closed the idle connection, as far as is known here."""
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
    """Send statements and return their results, in order; after an error the rest is not executed.

    Those to be sent ``later`` are requested while the server works on the others.

    An error with a ``sqlstate`` means that the server did not execute the last statement. Without one the connection
    was lost, and it may have been executed.
    """
    # Values that cannot be encoded are found before anything is sent.
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
        # The rest of the server's answer is unknown.
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
    """Send all; for each expected result the statement that it prepares, or None for an answer."""
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
    """The server's answer to a statement before the connection was lost.

    None if there is no answer, or if all statements but the last were executed: the outcome of the last is unknown.
    """
    for _ in range(2 * outstanding):
        result = server.get_result()
        if result is None:
            # Separates the results of two statements.
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
    """Record which statements were not prepared because an earlier one failed."""
    for statement, result in zip(preparing, results, strict=True):
        if statement is not None and result.status != pq.ExecStatus.COMMAND_OK:
            del connection.prepared[statement]


def _rows(transformer: Any, result: Any) -> Rows:
    if not result.ntuples:
        return []
    transformer.set_pgresult(result)
    found: Rows = transformer.load_rows(0, result.ntuples, tuple)
    return found
