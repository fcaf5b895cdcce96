"""What providers insist on: passes of one signature, run only on the wire.

Each pass takes the pieces of a conversation, a provider's rules and a report, and returns pieces again. It is
deterministic and idempotent, has a name that switches it off, and reports what it did. The stored conversation never
changes. The order of ``PASSES`` is the order in which they run; one look at the conversation (``survey``) tells which
of them it cannot need.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

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
from cannery.repairs.survey import Survey
from cannery.wire.contract import Piece, Rules
from cannery.wire.losses import Report
from cannery.wire.turns import MODEL, USER

Run = Callable[[list[Piece], Rules, Report], list[Piece]]
Applies = Callable[[Survey, Rules], bool]


class Pass(Struct, frozen=True):
    """One repair: how it runs, and whether a conversation may need it."""

    run: Run
    applies: Applies


def _is_unpaired(survey: Survey, _rules: Rules) -> bool:
    return not survey.is_paired


def _calls(survey: Survey, _rules: Rules) -> bool:
    return survey.has_calls


PASSES: Mapping[str, Pass] = {
    "single_system": Pass(
        single_system,
        lambda survey, rules: survey.leading > 1 and rules.leading_supervisors == "one",
    ),
    "orphaned_results": Pass(orphaned_results, _is_unpaired),
    "duplicate_results": Pass(duplicate_results, _is_unpaired),
    "result_order": Pass(result_order, _is_unpaired),
    "unanswered_calls": Pass(unanswered_calls, _is_unpaired),
    "empty_text": Pass(
        empty_text, lambda survey, rules: survey.has_blank and rules.refuses_blank_text
    ),
    "late_supervisors": Pass(
        late_supervisors,
        lambda survey, rules: survey.has_late_supervisors and rules.late_supervisors != "native",
    ),
    "first_user": Pass(
        first_user,
        lambda survey, rules: (
            survey.opener is not USER and (rules.starts_with_user or not survey.last)
        ),
    ),
    "prefill": Pass(prefill, lambda survey, rules: survey.last is MODEL and rules.ends_with_user),
    "alternation": Pass(
        alternation, lambda survey, rules: survey.has_neighbours and rules.alternates
    ),
    "call_ids": Pass(call_ids, _calls),
    "function_names": Pass(function_names, _calls),
    "cache_marks": Pass(cache_marks, lambda survey, rules: survey.marks > rules.cache_marks),
    "media_types": Pass(media_types, lambda survey, _rules: survey.has_objects),
}


def repair(
    pieces: list[Piece], rules: Rules, report: Report, off: Collection[str] = ()
) -> list[Piece]:
    """Run every pass that is not switched off and that a look at the conversation does not rule out."""
    survey = Survey(pieces)
    for name, each in PASSES.items():
        if name not in off and each.applies(survey, rules):
            arranged = each.run(pieces, rules, report)
            if arranged is not pieces:
                pieces, survey = arranged, Survey(arranged)
    return pieces
