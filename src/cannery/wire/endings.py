"""Finish reasons that a target has no word for: the nearest one is written, and the change is reported."""

from __future__ import annotations

from typing import Any

from cannery.messages.absence import absent
from cannery.messages.requests import FinishReason, Response
from cannery.wire.losses import Report

# Reasons that the usual end of an answer does not imply.
_TELLING = frozenset(
    {FinishReason.Pause, FinishReason.Malformed, FinishReason.Error, FinishReason.Other}
)


def report_ending(
    response: Response, report: Report, *, says: frozenset[Any] = frozenset()
) -> None:
    """Report a finish reason that the target cannot express or the source does not give, and the stop sequence met."""
    finish = response.finish
    if finish in _TELLING and finish not in says:
        detail = f"the target has no finish reason {finish.value!r}"
        report.lose("FINISH_CHANGED", "@finish", detail)
    elif finish is absent and response.source is not None and absent not in says:
        report.lose("FINISH_CHANGED", "@finish", "the answer does not say that it ended")
    if response.stop_sequence is not absent:
        detail = "the target does not say which stop sequence was met"
        report.lose("FIELD_DROPPED", "@stop_sequence", detail)
