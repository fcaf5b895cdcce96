"""Repairs: changes that providers require, as passes of one signature that change only the body to send.

Each pass takes the pieces of a conversation, a provider's rules and a report, and returns pieces again. It is
deterministic and idempotent, has a name that switches it off, and reports what it did. The stored conversation never
changes. ``PASSES`` gives the order in which they run; ``survey`` finds which of them a conversation may need.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, reduce
from operator import is_, or_

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
    orphaned_results,
    result_order,
    unanswered_calls,
)
from cannery.repairs.survey import (
    BLANK,
    LATE,
    LEADING,
    MARKS,
    MEDIA,
    NEIGHBOURS,
    ODD_IDS,
    ODD_NAMES,
    OPENER,
    TRAILING,
    UNPAIRED,
    survey,
)
from cannery.wire.contract import Piece, Rules
from cannery.wire.losses import Report

Pass = Callable[[list[Piece], Rules, Report], list[Piece]]

# Each pass with the fact that it depends on.
PASSES: Mapping[str, tuple[Pass, int]] = {
    "single_system": (single_system, LEADING),
    "orphaned_results": (orphaned_results, UNPAIRED),
    "duplicate_results": (duplicate_results, UNPAIRED),
    "result_order": (result_order, UNPAIRED),
    "unanswered_calls": (unanswered_calls, UNPAIRED),
    "empty_text": (empty_text, BLANK),
    "late_supervisors": (late_supervisors, LATE),
    "first_user": (first_user, OPENER),
    "prefill": (prefill, TRAILING),
    "alternation": (alternation, NEIGHBOURS),
    "call_ids": (call_ids, ODD_IDS),
    "function_names": (function_names, ODD_NAMES),
    "cache_marks": (cache_marks, MARKS),
    "media_types": (media_types, MEDIA),
}


_ROWS = tuple((name, run, fact) for name, (run, fact) in PASSES.items())
# The facts that require a pass.
REPAIRABLE = reduce(or_, (fact for _, _, fact in _ROWS))
# Passes whose changes never require a later pass.
_LAST = frozenset({"alternation", "call_ids", "function_names", "cache_marks", "media_types"})


def repair(
    pieces: list[Piece], facts: int, rules: Rules, report: Report, off: Collection[str] = ()
) -> tuple[list[Piece], int]:
    """Run every enabled pass that the conversation may need.

    ``facts`` are those of the pieces (``survey``); the facts of the result are returned with it. Pieces that need no
    repair are returned as the same list.
    """
    position = _next(facts & REPAIRABLE, 0)
    while position < len(_ROWS):
        name, run, _ = _ROWS[position]
        arranged = pieces if name in off else run(pieces, rules, report)
        if arranged is not pieces and not _is_same(arranged, pieces):
            pieces = arranged
            if name not in _LAST:
                facts = survey(pieces, rules)
        position = _next(facts & REPAIRABLE, position + 1)
    return pieces, facts


@lru_cache(maxsize=1024)
def _next(facts: int, start: int) -> int:
    """The position of the next pass that some facts require."""
    for position in range(start, len(_ROWS)):
        if facts & _ROWS[position][2]:
            return position
    return len(_ROWS)


def _is_same(arranged: list[Piece], pieces: list[Piece]) -> bool:
    return len(arranged) == len(pieces) and all(map(is_, arranged, pieces))
