"""What answers share: the ids made for calls, the pieces to write, and reading errors, also in place of an answer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from cannery.errors import DialectError
from cannery.messages.canisters import ResultCanisterClass
from cannery.messages.requests import Response
from cannery.wire.bodies import Object, read_value
from cannery.wire.contract import Piece, WireError
from cannery.wire.losses import Report
from cannery.wire.parting import parted_texts


def call_stem(answer: Any) -> str:
    """What the made ids of an answer's calls begin with, from its id: answers of one conversation differ in it."""
    if type(answer) is not str or not answer:
        return "call_"
    return f"call_{hashlib.sha256(answer.encode('utf-8', 'replace')).hexdigest()[:8]}_"


def refuse_error(dialect: str, body: dict[str, Any], key: str) -> None:
    """Refuse a body that tells of an error where an answer has to have a field."""
    if key not in body and type(body.get("error")) is dict:
        raise DialectError(dialect, "error", "tells of an error and gives no answer")


def error_value(dialect: str, body: bytes) -> Any:
    """The value of an error's body; None where it is no JSON."""
    try:
        return read_value(dialect, body)
    except DialectError:
        return None


def plain_error(status: int, body: bytes) -> WireError:
    """The error of a body in which no known field tells of one."""
    return WireError(status, body[:500].decode("utf-8", "replace").strip() or f"HTTP {status}")


def read_nested_error(
    dialect: str, status: int, body: bytes, read: Callable[[int, Object, Object], WireError]
) -> WireError:
    """The error that a body tells of under ``error``: words, or an object, which is read with what it stands in."""
    value = error_value(dialect, body)
    if type(value) is list and value:
        # Google's streams that fail at once.
        value = value[0]
    error = value.get("error") if type(value) is dict else None
    if type(error) is str:
        return WireError(status, error)
    return read(status, error, value) if type(error) is dict else plain_error(status, body)


def answer_pieces(response: Response, dialect: str, report: Report) -> list[Piece]:
    """The pieces of an answer; results of hosted tools are dropped for another dialect."""
    places = report.answer_places or range(len(response.canisters))
    pieces = [*map(Piece, response.canisters, places)]
    if response.source == dialect:
        return pieces
    kept = []
    for piece in pieces:
        if isinstance(piece.canister, ResultCanisterClass):
            report.lose("RESULT_DROPPED", piece.place, "an answer of the target holds no results")
        else:
            kept.append(piece)
    return parted_texts(kept, dialect, report, is_answer=True)
