"""What answers share: made ids, pieces; for the shortcuts, patches that need no comparing and residue nobody misses.

An answer of common shape is text and calls. Abroad its residue is mostly silent (a null here, an empty list there),
and the same few residues come again and again, so whether one is silent is remembered.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import msgspec

from cannery.errors import DialectError
from cannery.messages.absence import absent
from cannery.messages.canisters import ResultCanisterClass
from cannery.messages.requests import Response
from cannery.messages.residue import Residue
from cannery.messages.role import Role
from cannery.wire.arguments import object_text
from cannery.wire.contract import Piece
from cannery.wire.foreign import report_field
from cannery.wire.losses import Report
from cannery.wire.parting import parted_texts
from cannery.wire.residues import dropped_keys

# Longer residue holds something, and is not worth remembering.
_LONGEST = 512
_encode = msgspec.json.Encoder().encode


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
    """The pieces of an answer that a dialect has room for: results of tools that ran at a provider only go home."""
    pieces = [Piece(canister, index) for index, canister in enumerate(response.canisters)]
    if response.source == dialect:
        return pieces
    kept = []
    for piece in pieces:
        if isinstance(piece.canister, ResultCanisterClass):
            report.lose("RESULT_DROPPED", piece.place, "an answer of the target holds no results")
        else:
            kept.append(piece)
    return parted_texts(kept, dialect, report, is_answer=True)


def encode_patch(patch: dict[str, Any]) -> str:
    """A patch of plain values as JSON text."""
    return _encode(patch).decode()


def is_silent(residue: Residue | None, dialect: str) -> bool:
    """Whether nothing is lost when another dialect leaves a residue out."""
    if residue is None:
        return True
    if residue.dialect == dialect or residue.cache is not None:
        return False
    part, envelope = residue.part, residue.envelope
    return (part is None or _says_nothing(part)) and (envelope is None or _says_nothing(envelope))


def _says_nothing(patch: str) -> bool:
    return len(patch) <= _LONGEST and _reports_nothing(patch)


@lru_cache(maxsize=1024)
def _reports_nothing(patch: str) -> bool:
    report = Report()
    for path, held in dropped_keys(patch):
        report_field(path, held, report, None)
    return report.is_empty


def said_and_called(canisters: tuple[Any, ...], dialect: str) -> tuple[list[Any], bool] | None:
    """The texts of an answer and its calls with their arguments, and whether there are calls.

    None if it says anything else, or in any other way: blank text, arguments that are no object, residue that some
    dialect would miss.
    """
    found: list[Any] = []
    has_calls = False
    for canister in canisters:
        role, held = canister.role, canister.held
        if canister.residue is not None and not is_silent(canister.residue, dialect):
            return None
        if role is Role.Assistant:
            if held is absent:
                continue
            if type(held) is not str or not held or held.isspace():
                return None
            found.append(held)
        elif role is Role.Invocation:
            arguments = None if canister.is_freeform else object_text(held)
            if arguments is None:
                return None
            has_calls = True
            found.append((canister, arguments))
        else:
            return None
    return found, has_calls
