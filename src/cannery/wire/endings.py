"""How an answer ended, where a target has no word for it: said in the nearest way, and named."""

from __future__ import annotations

from cannery.messages.absence import absent
from cannery.messages.requests import FinishReason, Response
from cannery.wire.losses import Report

# What nobody would guess from the plain end of an answer.
_TELLING = frozenset(
    {FinishReason.Pause, FinishReason.Malformed, FinishReason.Error, FinishReason.Other}
)


def is_plain_end(response: Response) -> bool:
    """Whether every dialect can say how an answer ended."""
    return response.stop_sequence is absent and response.finish not in _TELLING


def report_ending(
    response: Response, report: Report, *, says: frozenset[FinishReason] = frozenset()
) -> None:
    """Name a finish reason that is not among those a target says, and the stop sequence that was met."""
    finish = response.finish
    if finish in _TELLING and finish not in says:
        detail = f"the target has no finish reason {finish.value!r}"
        report.lose("FINISH_CHANGED", "@finish", detail)
    if response.stop_sequence is not absent:
        detail = "the target does not say which stop sequence was met"
        report.lose("FIELD_DROPPED", "@stop_sequence", detail)
