"""What providers insist on: passes of one signature, run only on the wire.

Each pass takes the pieces of a conversation, a provider's rules and a report, and returns pieces again. It is
deterministic and idempotent, has a name that switches it off, and reports what it did. The stored conversation never
changes. The order of ``PASSES`` is the order in which they run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from cannery.repairs.aliases import call_ids, function_names
from cannery.repairs.arrangement import (
    alternation,
    empty_text,
    first_user,
    late_supervisors,
    prefill,
    single_system,
)
from cannery.repairs.cache import cache_marks
from cannery.repairs.media import media_types
from cannery.repairs.pairing import (
    duplicate_results,
    is_paired,
    orphaned_results,
    result_order,
    unanswered_calls,
)
from cannery.wire.contract import Piece, Rules
from cannery.wire.losses import Report

Pass = Callable[[list[Piece], Rules, Report], list[Piece]]

PASSES: Mapping[str, Pass] = {
    "single_system": single_system,
    "orphaned_results": orphaned_results,
    "duplicate_results": duplicate_results,
    "result_order": result_order,
    "unanswered_calls": unanswered_calls,
    "empty_text": empty_text,
    "late_supervisors": late_supervisors,
    "first_user": first_user,
    "prefill": prefill,
    "alternation": alternation,
    "call_ids": call_ids,
    "function_names": function_names,
    "cache_marks": cache_marks,
    "media_types": media_types,
}


# What a look at well-paired calls and results saves.
PAIRING = frozenset({"orphaned_results", "duplicate_results", "result_order", "unanswered_calls"})


def repair(
    pieces: list[Piece], rules: Rules, report: Report, off: Collection[str] = ()
) -> list[Piece]:
    """Run every pass that is not switched off."""
    skipped = {*off, *PAIRING} if is_paired(pieces) else off
    for name, run in PASSES.items():
        if name not in skipped:
            pieces = run(pieces, rules, report)
    return pieces
