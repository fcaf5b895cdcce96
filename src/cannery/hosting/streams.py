"""Streamed responses: events of hosted tools in another dialect's form.

A call waits for its outcome, because some dialects put both into one block, and events after the call wait for it.
Parts that are created here have numbers of their own, far beyond those of any response.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cannery.hosting.blocks import outcome_in, told_beside, told_by, with_outcome
from cannery.hosting.calls import Identifiers, client_name, hosted_text, in_words_of, text_block
from cannery.messages.content import new_opaque
from cannery.messages.events import Delta, Event, Finish, PartEnd, PartStart
from cannery.messages.hosted import HostedUse
from cannery.messages.json_text import write_json
from cannery.messages.requests import FinishReason
from cannery.messages.residue import Residue
from cannery.wire.answers import call_stem
from cannery.wire.contract import Dialect, StreamOptions
from cannery.wire.hosted import ClientCall, Implied

_FIRST = 1 << 40


def stream_options(target: Dialect, options: StreamOptions) -> StreamOptions:
    """The options of a stream whose hosted tools are written in the target's form."""
    return msgspec.structs.replace(options, uses=StreamedUses(target, options.hosted))


class StreamedUses:
    """Takes the blocks of other dialects in one stream and gives the target's events for them."""

    def __init__(self, target: Dialect, way: str) -> None:
        self._target = target
        self._way = way
        self._count = _FIRST
        self._identifiers = Identifiers(call_stem(None))
        self._waiting: dict[str, HostedUse] = {}
        self._has_calls = False
        self._kinds: set[str] = set()

    def begin(self, identifier: Any) -> None:
        """Set the id of the response, from which the ids of its calls are derived."""
        self._identifiers.stem = call_stem(identifier)

    def start(self, event: PartStart) -> Sequence[Event] | None:
        """The events for the start of a block, its end included; None if it is left to the writer."""
        content = event.content
        held: Any = getattr(content, "held", content)
        told, table, _ = told_by(held)
        if isinstance(told, ClientCall):
            return (*self._call(told, held.dialect),)
        outcome = outcome_in(told)
        if outcome is not None:
            use = self._waiting.pop(outcome.identifier, None)
            return None if use is None else self._said(with_outcome(use, outcome))
        if isinstance(told, Implied) and told.text:
            return [*self._whole(text_block(told.text))] if self._way == "text" else ()
        if isinstance(told, HostedUse):
            self._kinds.add(told.kind)
        if not isinstance(told, HostedUse) or not self._is_sayable(told):
            return None
        if table is not None and held.tag in table.pairs:
            self._waiting[told.identifier] = told
            return ()
        return self._said(told)

    @property
    def is_waiting(self) -> bool:
        """Whether a call has no outcome yet."""
        return bool(self._waiting)

    def holds(self, event: Event) -> bool:
        """Whether an event must wait while a call does: it is not the outcome."""
        content = getattr(event, "content", None)
        outcome = outcome_in(told_by(getattr(content, "held", content))[0])
        return outcome is None or outcome.identifier not in self._waiting

    def unanswered(self) -> Sequence[Event]:
        """The events for the call whose outcome never came."""
        waiting, self._waiting = self._waiting, {}
        return [said for use in waiting.values() for said in self._said(use)]

    def finish(self, event: Finish) -> Sequence[Event]:
        """The uses reported beside the blocks, and the end of the response; a call for the client ends it."""
        uses = self._beside(event.around)
        if self._has_calls and event.reason is FinishReason.Stop:
            event = msgspec.structs.replace(event, reason=FinishReason.Tool)
        return [*(said for use in uses for said in self._said(use)), event]

    def _beside(self, around: Residue | None) -> list[HostedUse]:
        """The uses that only the fields around the response report."""
        if around is None or around.dialect == self._target.name:
            return []
        uses = [each.use for each in told_beside(around)]
        return [use for use in uses if use.kind not in self._kinds and self._is_sayable(use)]

    def _is_sayable(self, use: HostedUse) -> bool:
        return self._way == "text" or in_words_of(self._target, use, is_answer=True) is not None

    def _said(self, use: HostedUse) -> Sequence[Event]:
        use = self._identifiers.given(use)
        written = in_words_of(self._target, use, is_answer=True)
        if written is None:
            blocks: list[Any] = [hosted_text(use)] if self._way == "text" else []
        else:
            name = self._target.name
            blocks = [new_opaque(name, tag, write_json(item)) for tag, item in written]
        return [event for block in blocks for event in self._whole(block)]

    def _whole(self, content: Any) -> Iterator[Event]:
        self._count += 1
        yield PartStart(self._count, "whole", content=content)
        yield PartEnd(self._count)

    def _call(self, told: ClientCall, dialect: str) -> Iterator[Event]:
        self._count += 1
        self._has_calls = True
        name = client_name(told, dialect)
        yield PartStart(self._count, "invocation", told.identifier, name)
        yield Delta(self._count, told.arguments, "arguments")
        yield PartEnd(self._count)
