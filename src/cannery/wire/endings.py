"""Finish reasons: the words of a dialect in both directions. A reason without a word is changed and reported."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from cannery.messages.absence import absent
from cannery.messages.requests import FinishReason, Response
from cannery.wire.losses import Report

# Reasons that the usual stop does not imply, and reasons that any word for a filter covers.
_TELLING = frozenset(
    {FinishReason.Pause, FinishReason.Malformed, FinishReason.Error, FinishReason.Other}
)
_FILTERED = frozenset({FinishReason.Filter, FinishReason.Refusal})
_NOTHING: Mapping[FinishReason, str] = {}


class Finishes:
    """The words of a dialect for finish reasons.

    If ``words`` has several for one reason, the first is written. ``nearest`` are the words for other reasons; a
    reason without one is written as the usual stop. ``unsaid`` are words that give no reason.
    """

    def __init__(
        self,
        words: Mapping[str, FinishReason],
        nearest: Mapping[FinishReason, str] = _NOTHING,
        unsaid: Collection[str] = ("",),
    ) -> None:
        self.words = words
        self._unsaid = unsaid
        own = {reason: word for word, reason in reversed([*words.items()])}
        self._written: dict[Any, str] = {
            **dict.fromkeys(FinishReason, own[FinishReason.Stop]),
            **own,
            **nearest,
        }

    def read(self, word: Any, *, has_calls: bool = False) -> Any:
        """The finish reason, or absent; with ``has_calls``, a usual stop means that the model waits for results."""
        if type(word) is not str or word in self._unsaid:
            return absent
        finish = self.words.get(word, FinishReason.Other)
        return FinishReason.Tool if has_calls and finish is FinishReason.Stop else finish

    def word(self, finish: Any, *, has_calls: bool = False, is_refused: bool = False) -> str:
        """The word that clients rely on: calls and refusals show in it even if the source gives no reason."""
        usual = self._written[FinishReason.Stop]
        word = self._written.get(finish, usual)
        if word == usual and (has_calls or is_refused) and finish not in _FILTERED:
            return self._written[FinishReason.Tool if has_calls else FinishReason.Refusal]
        return word

    def changes(self, finish: FinishReason) -> bool:
        """Whether the word for a reason means another reason."""
        if finish in _TELLING:
            return self.read(self.word(finish)) is not finish
        return finish in _FILTERED and self.read(self.word(finish)) not in _FILTERED


def report_ending(
    response: Response, report: Report, finishes: Finishes, *, says: Collection[str] = ()
) -> None:
    """Report a finish reason that the target cannot express or the source does not give, and the stop sequence met.

    ``says`` contains ``finish`` if a response may omit its reason, and ``stop_sequence`` if it names the sequence
    met.
    """
    finish = response.finish
    if finish is absent:
        if response.source is not None and "finish" not in says:
            report.lose("FINISH_CHANGED", "@finish", "the answer does not say that it ended")
    elif finishes.changes(finish):
        detail = f"the target has no finish reason {finish.value!r}"
        report.lose("FINISH_CHANGED", "@finish", detail)
    if response.stop_sequence is not absent and "stop_sequence" not in says:
        detail = "the target does not say which stop sequence was met"
        report.lose("FIELD_DROPPED", "@stop_sequence", detail)
