"""How an answer ended, where a target has no word for it: said in the nearest way, and named."""

from __future__ import annotations

from typing import Any

from cannery.messages.absence import absent
from cannery.messages.requests import FinishReason, Response
from cannery.wire.losses import Report

# What nobody would guess from the plain end of an answer.
_TELLING = frozenset(
    {FinishReason.Pause, FinishReason.Malformed, FinishReason.Error, FinishReason.Other}
)


def is_plain_end(response: Response) -> bool:
    """Whether every dialect can say how an answer ended."""
    finish = response.finish
    return response.stop_sequence is absent and finish is not absent and finish not in _TELLING


def report_ending(
    response: Response, report: Report, *, says: frozenset[Any] = frozenset()
) -> None:
    """Name a finish reason that a target does not say, or that nobody told, and the stop sequence that was met."""
    finish = response.finish
    if finish in _TELLING and finish not in says:
        detail = f"the target has no finish reason {finish.value!r}"
        report.lose("FINISH_CHANGED", "@finish", detail)
    elif finish is absent and response.source is not None and absent not in says:
        report.lose("FINISH_CHANGED", "@finish", "the answer does not say that it ended")
    if response.stop_sequence is not absent:
        detail = "the target does not say which stop sequence was met"
        report.lose("FIELD_DROPPED", "@stop_sequence", detail)
