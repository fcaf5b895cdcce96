"""Values of the model rendered as wire bodies in the general way, with what that took."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, partial
from typing import Any

import msgspec

from cannery.dialects import find_dialect
from cannery.messages.canisters import AnyCanister, SupervisorCanisterClass, hold
from cannery.messages.content import TextualContentClass, new_text
from cannery.messages.requests import Request, Response
from cannery.repairs import repair
from cannery.repairs.aliases import names_of, renamed_tools
from cannery.wire.bodies import encode
from cannery.wire.contract import UNKNOWN_MODEL, Dialect, Piece, Rules
from cannery.wire.foreign import report_settings
from cannery.wire.losses import Aliases, Rendered, Report, enforce
from cannery.wire.places import Locate, Places, locator
from cannery.wire.turns import changed


def write_request(
    request: Request,
    target: Dialect,
    policy: str,
    without: Collection[str],
    rules: Rules | None,
    report: Report,
    locate: Locate,
) -> Rendered:
    """A request as a body of the target, with the repairs and losses that it took."""
    name = target.name
    pieces = [
        Piece(at_hand(canister), index) for index, canister in enumerate(request.conversation)
    ]
    if request.source != name:
        model = request.model if isinstance(request.model, str) else None
        rules = rules or target.rules_of(model)
        report.taken_names = cache(partial(names_of, request))
        pieces = repair(pieces, rules, report, {*without} - target.fixed_repairs)
        if not rules.knows_developer:
            pieces = [_lowered(piece, report) for piece in pieces]
        report.takes_reasoning = rules.takes_reasoning_text
        if "function_names" not in without:
            request = renamed_tools(request, rules, report)
        report_lost_settings(request, report, target)
        if target.names_model and not request.model:
            report.lose("MODEL_UNKNOWN", "model")
            request = msgspec.structs.replace(request, model=UNKNOWN_MODEL)
    written = target.write_request(request, pieces, report)
    return render(written, request, name, policy, report, locate)


def _lowered(piece: Piece, report: Report) -> Piece:
    """A supervisor as one who does not know developers hears it."""
    canister = piece.canister
    if not isinstance(canister, SupervisorCanisterClass) or canister.rank != "developer":
        return piece
    report.lose("RANK_LOWERED", piece.place)
    return Piece(changed(canister, rank="system"), piece.place, is_synthetic=piece.is_synthetic)


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
        report_settings(value, source.modelled, source.control_paths, report, taken)


def render(
    written: Any, value: Request | Response, name: str, policy: str, report: Report, locate: Locate
) -> Rendered:
    """What was written, encoded, with what a report has to say; the policy may forbid it."""
    encoded = encode(written)
    if report.is_empty:
        return Rendered(encoded)
    losses = report.losses(locate)
    enforce(policy, value.source, name, losses)
    aliases = Aliases(report.names, report.ids, frozenset(report.freeform))
    return Rendered(encoded, losses, report.repairs(locate), aliases)


def locate_in(source: str | None, places: Places | None) -> Locate:
    """How places become paths of a body in the dialect of its source."""
    return locator(places, None if source is None else find_dialect(source).control_paths)
