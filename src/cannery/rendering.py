"""Values of the model rendered as wire bodies in the general way, with what that took."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from cannery.dialects import find_dialect
from cannery.messages.canisters import AnyCanister, SupervisorCanisterClass, hold
from cannery.messages.content import OpaqueContentClass, TextualContentClass, new_text
from cannery.messages.conversation import Conversation
from cannery.messages.requests import Request, Response
from cannery.repairs import repair
from cannery.repairs.aliases import renamed_tools
from cannery.wire.bodies import encode, escaped_paths, with_escapes
from cannery.wire.contract import UNKNOWN_MODEL, Dialect, Piece, Rules
from cannery.wire.foreign import report_settings
from cannery.wire.losses import Aliases, Rendered, Report, enforce
from cannery.wire.parting import parted_texts
from cannery.wire.places import Locate, Places, locator
from cannery.wire.turns import changed


def write_request(
    request: Request,
    target: Dialect,
    policy: str,
    without: Collection[str],
    rules: Rules | None,
    locate: Locate,
) -> Rendered:
    """A request as a body of the target, with the repairs and losses that it took."""
    name = target.name
    report = Report(without)
    pieces = arranged_pieces(request.conversation)
    if request.source != name:
        model = request.model if isinstance(request.model, str) else None
        rules = rules or target.rules_of(model)
        report.request = request
        pieces = parted_texts(pieces, name, report)
        pieces = repair(pieces, rules, report, {*without} - target.fixed_repairs)
        if not rules.knows_developer:
            pieces = _lowered(pieces, report)
        report.takes_reasoning = rules.takes_reasoning_text
        if request.tools and "function_names" not in without:
            request = renamed_tools(request, rules, report)
        if request.residue is not None:
            report_lost_settings(request, report, target)
        if request.source is not None:
            _report_references(pieces, find_dialect(request.source), report)
        if target.names_model and not request.model:
            report.lose("MODEL_UNKNOWN", None)
            request = msgspec.structs.replace(request, model=UNKNOWN_MODEL)
    written = target.write_request(request, pieces, report)
    return render(written, request, name, policy, report, locate)


def arranged_pieces(conversation: Conversation) -> list[Piece]:
    """The canisters of a conversation with their places, each with its text at hand."""
    pieces = [*map(Piece, conversation, range(len(conversation)))]
    if TextualContentClass in {type(canister.held) for canister in conversation}:
        return [Piece(at_hand(piece.canister), piece.place) for piece in pieces]
    return pieces


def _lowered(pieces: list[Piece], report: Report) -> list[Piece]:
    """Pieces as a server hears them that does not tell developer from system."""
    lowered = [*pieces]
    for index, piece in enumerate(pieces):
        canister = piece.canister
        if type(canister) is SupervisorCanisterClass and canister.rank == "developer":
            report.lose("RANK_LOWERED", piece.place)
            system = changed(canister, rank="system")
            lowered[index] = Piece(system, piece.place, piece.is_synthetic)
    return lowered


def _report_references(pieces: list[Piece], source: Dialect, report: Report) -> None:
    """Report blocks that refer to messages which only their provider keeps."""
    for piece in pieces if source.references else ():
        held = piece.canister.held
        if type(held) is OpaqueContentClass and held.tag in source.references:
            report.lose(source.references[held.tag], piece.place)


def at_hand(canister: AnyCanister) -> AnyCanister:
    """A canister with its text at hand: what a store keeps elsewhere is written like what it never kept."""
    held = canister.held
    if type(held) is not TextualContentClass or held.is_hydrated:
        return canister
    return changed(canister, held=hold(new_text(held.text, held.mime_type, held.citations)))


def report_lost_settings(
    value: Request | Response, report: Report, target: Dialect | None = None
) -> None:
    """Report what another dialect does not take of the fields around a conversation."""
    if value.residue is not None and (target is None or value.residue.dialect != target.name):
        source = find_dialect(value.residue.dialect)
        taken: Collection[str] = ()
        if isinstance(value, Request) and target is not None and target.takes_over is not None:
            taken = target.takes_over(value)
        references = source.references if isinstance(value, Request) else {}
        report_settings(value, source.modelled, source.control_paths, report, taken, references)


def render(
    written: Any, value: Request | Response, name: str, policy: str, report: Report, locate: Locate
) -> Rendered:
    """What was written, encoded, with what a report has to say; the policy may forbid it."""
    encoded = encode(written)
    if value.residue is not None and value.residue.escapes is not None:
        encoded = _spell_broken(encoded, value, name, report)
    if report.is_empty:
        return Rendered(encoded)
    losses = report.losses(locate)
    enforce(policy, value.source, name, losses)
    aliases = Aliases(report.names, report.ids, frozenset(report.freeform))
    return Rendered(encoded, losses, report.repairs(locate), aliases)


def _spell_broken(encoded: bytes, value: Request | Response, name: str, report: Report) -> bytes:
    """A body whose source had broken Unicode: its own dialect gets it back, others are told of the repair."""
    escapes = str(value.residue.escapes)  # type: ignore[union-attr]
    paths = escaped_paths(escapes)
    is_same = value.source == name
    for path in paths:
        if not is_same or path == "$":
            report.repair("broken_unicode", path)
    return with_escapes(encoded, escapes) if is_same and paths != ["$"] else encoded


def locate_in(source: str | None, places: Places | None) -> Locate:
    """How places become paths of a body in the dialect of its source."""
    return locator(places, None if source is None else find_dialect(source).control_paths)
