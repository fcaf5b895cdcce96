"""Blocks of hosted tools: their meaning, read by the table of the dialect that wrote them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cannery.dialects import dialect_names, find_dialect
from cannery.errors import InputError
from cannery.messages.canisters import AnyCanister
from cannery.messages.content import OpaqueContentClass
from cannery.messages.hosted import HostedUse, Output
from cannery.messages.json_text import decode_json
from cannery.messages.requests import Response
from cannery.messages.residue import Residue
from cannery.wire.foreign import lost_field
from cannery.wire.hosted import Beside, ClientResult, HostedTable, Outcome, Told, leaves
from cannery.wire.losses import Place, Report
from cannery.wire.residues import dropped_keys

# The options for a use that the target cannot express: drop it, or write it as text.
WAYS = ("native", "text")


def check_way(way: str) -> None:
    """Refuse an unknown option."""
    if way not in WAYS:
        raise InputError(f"hosted must be one of {', '.join(WAYS)}, got {way!r}")


def table_of(dialect: str) -> HostedTable | None:
    """The table of a dialect; None for an unknown dialect."""
    return find_dialect(dialect).hosted if dialect in dialect_names() else None


def told_by(held: Any) -> tuple[Told | None, HostedTable | None, Any]:
    """The meaning of a block, the table that read it, and the rest of the block."""
    table = table_of(held.dialect) if type(held) is OpaqueContentClass else None
    if table is None or table.read_block is None:
        return None, None, None
    value = decode_json(held.json)
    if type(value) is not dict:
        return None, table, None
    return table.read_block(held.tag, value), table, value


def outcome_in(told: Told | None) -> Outcome | None:
    """The outcome of a call, if a block holds one; a client's answer may be the answer of a hosted tool."""
    if isinstance(told, ClientResult):
        words = told.held if isinstance(told.held, str) else getattr(told.held, "json", "")
        return Outcome(told.identifier, Output(words))
    return told if isinstance(told, Outcome) else None


def with_outcome(use: HostedUse, outcome: Outcome) -> HostedUse:
    """A use with its outcome."""
    return HostedUse(use.identifier, use.call, outcome.result, outcome.error)


def told_beside(residue: Residue | None) -> list[Beside]:
    """The uses that a response reports beside its blocks, from the residue of its fields."""
    table = None if residue is None else table_of(residue.dialect)
    if residue is None or table is None or table.read_beside is None:
        return []
    return table.read_beside(dropped_keys(residue.envelope))


def hosted_uses(canisters: Iterable[AnyCanister]) -> tuple[HostedUse, ...]:
    """The hosted tool uses in a conversation or a response, each with its outcome."""
    found: list[HostedUse] = []
    waiting: dict[str, int] = {}
    for canister in canisters:
        told = told_by(canister.held)[0]
        if isinstance(told, HostedUse):
            waiting[told.identifier] = len(found)
            found.append(told)
            continue
        outcome = outcome_in(told)
        if outcome is not None and outcome.identifier in waiting:
            index = waiting.pop(outcome.identifier)
            found[index] = with_outcome(found[index], outcome)
    if isinstance(canisters, Response):
        kinds = {use.kind for use in found}
        beside = told_beside(canisters.residue)
        found += [each.use for each in beside if each.use.kind not in kinds]
    return tuple(found)


def report_left(value: Any, report: Report, place: Place, within: str = "") -> None:
    """Report the fields of an object that were not taken."""
    for path, held in leaves(value):
        lost = lost_field(path, held)
        if lost is not None:
            report.lose(lost[0], place, lost[1], within + path)
