"""What answers share: the ids made for calls, refusing an error in place of an answer, and the pieces to write."""

from __future__ import annotations

import hashlib
from typing import Any

from cannery.errors import DialectError
from cannery.messages.canisters import ResultCanisterClass
from cannery.messages.requests import Response
from cannery.wire.contract import Piece
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
