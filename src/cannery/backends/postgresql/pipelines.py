"""Statements that are sent together and answered together: one round trip, and little work on this side.

A commit sends about a dozen statements. The library's own pipeline talks to the server after each of them, and finds
out the type of every value; both together cost more than the server's work. Here a statement says the types of its
values, is prepared once a connection, and nothing is waited for before the last one is sent.
"""

from __future__ import annotations

import itertools
import select
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer

_ERRORS = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)
_pack_integer = struct.Struct(">q").pack
_pack_float = struct.Struct(">d").pack
_pack_size = struct.Struct(">i").pack
_pack_array = struct.Struct(">iiIii").pack
_pack_no_array = struct.Struct(">iiI").pack
_NULL = _pack_size(-1)
_numbers = itertools.count()


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
_KINDS = {
    "bool": _BOOL,
    "bytea": _BYTEA,
    "int8": _INT8,
    "text": _TEXT,
    "float8": _Kind(701, _pack_float),
    "bool[]": _array(1000, _BOOL),
    "bytea[]": _array(1001, _BYTEA),
    "int8[]": _array(1016, _INT8),
    "text[]": _array(1009, _TEXT),
}


class Statement:
    """SQL with ``$1``, ``$2`` … and the types of what they stand for; without ``is_prepared`` sent as it is."""

    __slots__ = ("_encoders", "is_prepared", "name", "numbers", "text")

    def __init__(self, text: str, kinds: str = "", *, is_prepared: bool = True) -> None:
        known = [_KINDS[kind] for kind in kinds.split()]
        self.text = text.encode()
        self.numbers = [kind.number for kind in known]
        self._encoders = [kind.encode for kind in known]
        self.is_prepared = is_prepared
        self.name = b"cannery_%d" % next(_numbers)

    def encode(self, values: Sequence[Any]) -> list[bytes | None]:
        """Values as they are sent."""
        return [
            None if value is None else encode(value)
            for encode, value in zip(self._encoders, values, strict=True)
        ]


BEGIN = Statement("BEGIN ISOLATION LEVEL READ COMMITTED", is_prepared=False)
COMMIT = Statement("COMMIT", is_prepared=False)

Call: TypeAlias = tuple[Statement, Sequence[Any]]
Rows: TypeAlias = list[tuple[Any, ...]]


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that knows which statements are prepared on it."""

    prepared: set[bytes]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.prepared = set()


def exchange(connection: Connection, calls: Iterable[Call]) -> list[Rows]:
    """Send statements and wait for what they give, in order; after an error none of the rest is done."""
    # What cannot be sent must be known before anything is.
    sent = [(statement, statement.encode(values)) for statement, values in calls]
    server = connection.pgconn
    try:
        server.enter_pipeline_mode()
        are_answers = _send(connection, sent)
        server.pipeline_sync()
        results = _receive(server)
        server.exit_pipeline_mode()
    except BaseException:
        # What the server has yet to say is unknown.
        connection.close()
        raise
    for result in results:
        if result.status in _ERRORS:
            # What was to be prepared behind the error was not, and errors are rare.
            connection.close()
            raise psycopg.errors.error_from_result(result, encoding="utf-8")
    transformer = Transformer(connection)
    return [
        _rows(transformer, result)
        for result, is_answer in zip(results, are_answers, strict=True)
        if is_answer
    ]


def _send(
    connection: Connection, sent: Iterable[tuple[Statement, list[bytes | None]]]
) -> list[bool]:
    """Send all; for each result that will come whether it is an answer."""
    server = connection.pgconn
    are_answers = []
    for statement, values in sent:
        if not statement.is_prepared:
            server.send_query_params(statement.text, None, result_format=pq.Format.BINARY)
            are_answers.append(True)
            continue
        if statement.name not in connection.prepared:
            server.send_prepare(statement.name, statement.text, statement.numbers)
            connection.prepared.add(statement.name)
            are_answers.append(False)
        server.send_query_prepared(
            statement.name,
            values,
            param_formats=[pq.Format.BINARY] * len(values),
            result_format=pq.Format.BINARY,
        )
        are_answers.append(True)
    return are_answers


def _receive(server: Any) -> list[Any]:
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
            server.consume_input()
        result = server.get_result()
        if result is None:
            continue
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            return results
        results.append(result)


def _rows(transformer: Any, result: Any) -> Rows:
    if not result.ntuples:
        return []
    transformer.set_pgresult(result)
    found: Rows = transformer.load_rows(0, result.ntuples, tuple)
    return found
