"""Calls and results: each call has one result, right after its turn, in the order of the calls.

A result answers the first unanswered call with its id, in the latest turn that has one. Ids may repeat, in a later turn
or in the same one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery.messages.canisters import (
    InvocationCanisterClass,
    ResultCanisterClass,
    new_result,
    new_user,
    text_of,
)
from cannery.messages.content import DataContentClass, PartsContentClass
from cannery.messages.residue import Residue
from cannery.wire.contract import Piece, Rules
from cannery.wire.foreign import lost_residue
from cannery.wire.losses import Report
from cannery.wire.markers import NO_RESULT, flag_error, orphan_text
from cannery.wire.turns import turns


def orphaned_results(pieces: list[Piece], rules: Rules, report: Report) -> list[Piece]:
    """Turn results that answer no call into user text."""
    if not rules.pairs_calls:
        return pieces
    known: set[str] = set()
    kept: list[Piece] = []
    for piece in pieces:
        canister = piece.canister
        if type(canister) is InvocationCanisterClass:
            known.add(canister.identifier)
        if type(canister) is ResultCanisterClass and canister.invocation_id not in known:
            report.repair("orphaned_results", piece.place)
            report.lose("RESULT_TO_TEXT", piece.place)
            _report_orphan(canister, report, piece.place)
            kept.extend(_as_user_text(piece, canister))
        else:
            kept.append(piece)
    return kept


def _report_orphan(canister: ResultCanisterClass, report: Report, place: int | None) -> None:
    """Report what text cannot express of a result; no call repeats the name on it."""
    if canister.is_error:
        report.lose("ERROR_FLAG_TO_TEXT", place)
    if canister.residue is not None:
        for code, detail, within in lost_residue(canister.residue, is_result=False):
            report.lose(code, place, detail, within)


def _as_user_text(piece: Piece, canister: ResultCanisterClass) -> Iterator[Piece]:
    held = canister.held
    contents = held.parts if isinstance(held, PartsContentClass) else (held,)
    words = "".join(map(_words, contents))
    if canister.is_error:
        words = flag_error(words or str(canister.stated_error or ""))
    label = orphan_text(canister.invocation_id, words)
    shown = [content for content in contents if not _words(content) and content != ""]
    said = [(label, canister.joined), *((content, True) for content in shown)]
    mark = None if canister.residue is None else canister.residue.cache
    for place, (content, joined) in enumerate(said, 1):
        # The mark of a result stands after all of it.
        residue = Residue("", cache=mark) if mark and place == len(said) else None
        yield Piece(new_user(content, canister.timestamp, joined, residue), piece.place)


def _words(content: Any) -> str:
    return content.json if isinstance(content, DataContentClass) else text_of(content)


class Waiting:
    """The calls that wait for a result, by id: those of the latest turn with the id, in order."""

    def __init__(self) -> None:
        self._calls: dict[str, list[Piece]] = {}

    def call(self, turn: list[Piece]) -> None:
        """Add the calls of a turn."""
        fresh: dict[str, list[Piece]] = {}
        for piece in turn:
            if type(piece.canister) is InvocationCanisterClass:
                fresh.setdefault(piece.canister.identifier, []).append(piece)
        self._calls.update(fresh)

    def answer(self, identifier: str) -> Piece | None:
        """The call that a result with this id answers, or None when none waits."""
        calls = self._calls.get(identifier)
        return calls.pop(0) if calls else None


def duplicate_results(pieces: list[Piece], rules: Rules, report: Report) -> list[Piece]:
    """Drop every result but the first for each call."""
    if not rules.pairs_calls:
        return pieces
    answers = {id(result) for result in _answers(pieces).values()}
    known: set[str] = set()
    kept: list[Piece] = []
    for piece in pieces:
        canister = piece.canister
        if type(canister) is InvocationCanisterClass:
            known.add(canister.identifier)
        if (
            type(canister) is ResultCanisterClass
            and canister.invocation_id in known
            and id(piece) not in answers
        ):
            report.repair("duplicate_results", piece.place)
            report.lose("RESULT_DROPPED", piece.place)
            continue
        kept.append(piece)
    return kept


def result_order(pieces: list[Piece], rules: Rules, report: Report) -> list[Piece]:
    """Put the results right after the turn that calls for them, in call order."""
    if not rules.pairs_calls:
        return pieces
    answers = _answers(pieces)
    moved = {id(result) for result in answers.values()}
    ordered: list[Piece] = []
    for turn in turns(pieces):
        ordered.extend(piece for piece in turn if id(piece) not in moved)
        ordered.extend(answers[id(piece)] for piece in turn if id(piece) in answers)
    for before, after in zip(pieces, ordered, strict=True):
        if before is not after and id(after) in moved:
            report.repair("result_order", after.place)
    return ordered


def unanswered_calls(pieces: list[Piece], rules: Rules, report: Report) -> list[Piece]:
    """Give every unanswered call a synthetic error result, in its place right after the turn."""
    if not rules.pairs_calls:
        return pieces
    answers = _answers(pieces)
    made: dict[int, list[Piece]] = {}
    end = 0
    for turn in turns(pieces):
        end += len(turn)
        calls = [piece for piece in turn if type(piece.canister) is InvocationCanisterClass]
        if len(calls) == sum(id(call) in answers for call in calls):
            continue
        if rules.ends_with_calls and end == len(pieces):
            continue
        ranks = {id(answers.get(id(call))): rank for rank, call in enumerate(calls)}
        place = end
        for rank, call in enumerate(calls):
            if id(call) in answers:
                continue
            while place < len(pieces) and ranks.get(id(pieces[place]), rank) < rank:
                place += 1
            report.repair("unanswered_calls", call.place)
            made.setdefault(place, []).append(_no_result(call))
    if not made:
        return pieces
    kept: list[Piece] = []
    for index, piece in enumerate(pieces):
        kept += [*made.get(index, ()), piece]
    return [*kept, *made.get(len(pieces), ())]


def _no_result(call: Piece) -> Piece:
    canister: Any = call.canister
    own = (canister.identifier, True)
    result = new_result(NO_RESULT, canister.timestamp, False, None, None, *own)
    return Piece(result, call.place, is_synthetic=True)


def _answers(pieces: list[Piece]) -> dict[int, Piece]:
    """The result of each call, by the identity of the call's piece."""
    waiting = Waiting()
    answers: dict[int, Piece] = {}
    for turn in turns(pieces):
        waiting.call(turn)
        for piece in turn:
            canister = piece.canister
            if type(canister) is ResultCanisterClass:
                call = waiting.answer(canister.invocation_id)
                if call is not None:
                    answers[id(call)] = piece
    return answers
