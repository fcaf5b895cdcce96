"""The order of turns: first and last role, and the position of system messages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AssistantCanisterClass,
    DocumentCanisterClass,
    SupervisorCanisterClass,
    UserCanisterClass,
    new_supervisor,
    new_user,
    text_of,
)
from cannery.messages.content import TextualContentClass
from cannery.messages.residue import Residue
from cannery.messages.role import Role
from cannery.repairs.cache import cache_mark
from cannery.wire.contract import Piece, Rules
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.markers import CONTINUE, PLACEHOLDER, system_envelope
from cannery.wire.turns import MODEL, SUPERVISOR, USER, changed, side

_WORDS = (UserCanisterClass, DocumentCanisterClass, SupervisorCanisterClass)
_SPOKEN = (UserCanisterClass, AssistantCanisterClass, SupervisorCanisterClass)


def leading_count(pieces: list[Piece]) -> int:
    """The number of supervisors before the first other canister."""
    for count, piece in enumerate(pieces):
        if side(piece) != SUPERVISOR:
            return count
    return len(pieces)


def single_system(pieces: list[Piece], rules: Rules, report: Report) -> list[Piece]:
    """Join leading supervisors to one, for a server that accepts only one."""
    count = leading_count(pieces)
    if rules.leading_supervisors != "one" or count < 2:
        return pieces
    text = "\n\n".join(text_of(piece.canister.held) for piece in pieces[:count])
    report.repair("single_system", pieces[0].place)
    for piece in pieces[:count]:
        canister = piece.canister
        report_residue(canister, report, piece.place)
        if canister.residue is not None and canister.residue.cache:
            report.lose("CACHE_MARK_DROPPED", piece.place)
        if not isinstance(canister.held, (str, TextualContentClass)):
            report.lose("MEDIA_DROPPED", piece.place, "one system message for all is text")
        _report_citations(piece, report)
    first = pieces[0]
    joined = new_supervisor(text, first.canister.timestamp)
    return [Piece(joined, first.place), *pieces[count:]]


def late_supervisors(pieces: list[Piece], rules: Rules, report: Report) -> list[Piece]:
    """Move late system messages to where the provider accepts them, or fold them into a user turn.

    The folded text stands in a marked envelope. With ``after_user`` they stay right after a user turn, and after all of
    it: one between two user turns moves after the second.
    """
    start = leading_count(pieces)
    if rules.late_supervisors == "native" or not _has_supervisor(pieces, start):
        return pieces
    if rules.late_supervisors == "behind_words":
        return _behind_words(pieces, start, report)
    arranged = pieces[:start]
    staying: list[Piece] = []
    was_late = folds = False
    for piece in pieces[start:]:
        is_late = side(piece) == SUPERVISOR
        if not is_late:
            if staying and side(piece) == MODEL:
                arranged += staying
                staying = []
            elif was_late:
                _report_moved(staying, report)
            arranged.append(piece)
        else:
            if not was_late:
                folds = not (staying or _may_stay(arranged, start, rules))
            if folds:
                arranged.append(_folded(piece, report))
            else:
                staying.append(piece)
        was_late = is_late
    return arranged + staying


def _behind_words(pieces: list[Piece], start: int, report: Report) -> list[Piece]:
    """Keep late system messages after user or system text, and fold the others and a last one."""
    arranged = pieces[:start]
    for piece in pieces[start:]:
        is_late = side(piece) == SUPERVISOR
        is_behind = bool(arranged) and isinstance(arranged[-1].canister, _WORDS)
        arranged.append(_folded(piece, report) if is_late and not is_behind else piece)
    if side(arranged[-1]) == SUPERVISOR:
        arranged[-1] = _folded(arranged[-1], report)
    return arranged


def _has_supervisor(pieces: list[Piece], start: int) -> bool:
    return any(type(piece.canister) is SupervisorCanisterClass for piece in pieces[start:])


def _may_stay(before: list[Piece], start: int, rules: Rules) -> bool:
    """Whether system messages may follow these pieces."""
    return (
        rules.late_supervisors == "after_user" and len(before) > start and side(before[-1]) == USER
    )


def _report_moved(staying: list[Piece], report: Report) -> None:
    for piece in staying:
        report.repair(
            "late_supervisors", piece.place, "a late system message was moved behind the user turn"
        )


def _folded(piece: Piece, report: Report) -> Piece:
    """A late system message as text of a user turn."""
    report.repair("late_supervisors", piece.place)
    return _enveloped(piece, report)


def _enveloped(piece: Piece, report: Report) -> Piece:
    """A system message as text of a user turn, in its envelope."""
    canister = piece.canister
    text = text_of(canister.held)
    held = canister.held
    if text.strip():
        held = system_envelope(text)
        _report_citations(piece, report)
    report_residue(canister, report, piece.place)
    mark = None if canister.residue is None else canister.residue.cache
    residue = Residue("", cache=mark) if mark else None
    return Piece(new_user(held, canister.timestamp, False, residue), piece.place)


def _report_citations(piece: Piece, report: Report) -> None:
    """Report the citations of a text that is merged into another one."""
    held = piece.canister.held
    if type(held) is TextualContentClass and held.citations:
        report.lose("CITATION_DROPPED", piece.place)


def empty_text(pieces: list[Piece], rules: Rules, report: Report) -> list[Piece]:
    """Drop blank text that the provider refuses; its cache mark moves to the neighbour."""
    if not rules.refuses_blank_text:
        return pieces
    kept: list[Piece] = []
    waiting: Piece | None = None  # Pieces whose mark belongs to a later piece.
    for piece in _heard(pieces, report):
        canister = piece.canister
        if (
            not isinstance(canister, _SPOKEN)
            or not _is_blank(canister.held)
            or _stays(piece, rules)
        ):
            kept.append(piece)
            if waiting is not None and canister.held is not absent:
                _hand_over(waiting, kept, report)
                waiting = None
            continue
        report.repair("empty_text", piece.place)
        if text_of(canister.held):
            report.lose("TEXT_DROPPED", piece.place)
        report_residue(canister, report, piece.place)
        if cache_mark(piece) is None:
            continue
        if kept and side(kept[-1]) == side(piece):
            _hand_over(piece, kept, report)
        else:
            waiting = waiting or piece
    if waiting is not None:
        report.lose("CACHE_MARK_DROPPED", waiting.place)
    return [*_heard(kept, report)]


def _stays(piece: Piece, rules: Rules) -> bool:
    """Whether blank text is needed for what stands beside it."""
    residue = piece.canister.residue
    return residue is not None and residue.dialect == rules.signs_blank_text and bool(residue.part)


def _hand_over(blank: Piece, kept: list[Piece], report: Report) -> None:
    """Move the cache mark of a dropped piece to the last kept one, if both are of the same side."""
    heir = kept[-1]
    if side(heir) != side(blank):
        report.lose("CACHE_MARK_DROPPED", blank.place)
    elif cache_mark(heir) != "long":
        mark = cache_mark(blank)
        kept[-1] = Piece(_marked(heir, str(mark)), heir.place, is_synthetic=heir.is_synthetic)


def _heard(pieces: list[Piece], report: Report) -> Iterator[Piece]:
    """The pieces without empty turns of the model; these do not separate their neighbours."""
    for whose, run in groupby(pieces, side):
        turn = [*run]
        if whose == MODEL and all(piece.canister.held is absent for piece in turn):
            for piece in turn:
                report_residue(piece.canister, report, piece.place)
        else:
            yield from turn


def _is_blank(held: object) -> bool:
    if type(held) is str:
        return not held.strip()
    return isinstance(held, TextualContentClass) and held.is_hydrated and not held.text.strip()


def _marked(piece: Piece, mark: str) -> UserCanisterClass:
    residue = piece.canister.residue
    fields = (
        {"dialect": ""}
        if residue is None
        else {name: getattr(residue, name) for name in residue.__struct_fields__}
    )
    return changed(piece.canister, residue=Residue(**{**fields, "cache": mark}))  # type: ignore[return-value]


def first_user(pieces: list[Piece], rules: Rules, report: Report) -> list[Piece]:
    """Put a placeholder user turn before an assistant turn that comes first.

    If there are only supervisors, the last of them becomes a user turn, inside a marked envelope.
    """
    start = leading_count(pieces)
    if not pieces:
        return pieces
    never_last = rules.starts_with_user or rules.late_supervisors == "behind_words"
    if start == len(pieces) and never_last:
        *others, last = pieces
        report.repair("first_user", last.place, "the last system message is sent as a user turn")
        return [*others, _enveloped(last, report)]
    if not rules.starts_with_user or side(pieces[start]) == USER:
        return pieces
    report.repair("first_user", pieces[start].place)
    placeholder = new_user(PLACEHOLDER, pieces[0].canister.timestamp)
    return [*pieces[:start], Piece(placeholder, None, is_synthetic=True), *pieces[start:]]


def prefill(pieces: list[Piece], rules: Rules, report: Report) -> list[Piece]:
    """Add a user turn after a trailing assistant turn, if the provider requires it."""
    if not pieces or not rules.ends_with_user or side(pieces[-1]) != MODEL:
        return pieces
    if pieces[-1].canister.role is Role.Invocation:
        return pieces
    report.repair("prefill", pieces[-1].place)
    report.lose("PREFILL_DROPPED", pieces[-1].place)
    when = pieces[-1].canister.timestamp
    return [*pieces, Piece(new_user(CONTINUE, when), None, is_synthetic=True)]


def alternation(pieces: list[Piece], rules: Rules, report: Report) -> list[Piece]:
    """Make neighbours of the same side parts of one message."""
    if not rules.alternates:
        return pieces
    arranged: list[Piece] = []
    for piece in pieces:
        before = arranged[-1] if arranged else None
        follows = before is not None and side(piece) == side(before) and side(piece) != SUPERVISOR
        if not follows or piece.canister.joined:
            arranged.append(piece)
            continue
        both = {before.canister.role, piece.canister.role}  # type: ignore[union-attr]
        if len(both) == 1 and both & {Role.User, Role.Assistant}:
            report.repair("alternation", piece.place)
        merged = changed(piece.canister, joined=True)
        arranged.append(Piece(merged, piece.place, is_synthetic=piece.is_synthetic))
    return arranged
