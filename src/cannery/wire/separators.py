"""Separates the texts on both sides of a block that is left out for another dialect.

A block that only its own dialect understands, such as a hosted tool's, is left out. If it was between two texts of
the model, the second text gets a blank line before it. A readable summary becomes text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cannery.messages.canisters import AssistantCanisterClass, InvocationCanisterClass
from cannery.messages.content import (
    OpaqueContentClass,
    TextualContentClass,
    new_opaque,
    new_text,
)
from cannery.messages.events import Delta, Event, Failure, Finish, PartEnd, PartStart, Start
from cannery.messages.json_text import decode_json
from cannery.wire.contract import Piece, Uses
from cannery.wire.losses import Report
from cannery.wire.turns import changed

# The tag of a text block that describes the action of a hosted tool.
HOSTED_TEXT = "hosted_text"
# A block that is written as nothing and still separates two texts.
SILENCE = new_opaque("", HOSTED_TEXT, "{}")
# The tag of a block that replaces the messages before it.
COMPACTION = "compaction"
# The fields in which blocks keep a text that can replace them, by tag, and the loss detail.
_SUMMARIES = {
    COMPACTION: ("content", "SUMMARY_TO_TEXT"),
    HOSTED_TEXT: ("content", "HOSTED_TO_TEXT"),
}
_SEALED = "encrypted_content"
_BLANK_LINE = "\n\n"


def separated_texts(
    pieces: list[Piece], dialect: str, report: Report, *, is_answer: bool = False
) -> list[Piece]:
    """The pieces, with a blank line before a text if something before it will be left out.

    In a response all texts share one message; in a request only texts of the same message are considered.
    """
    parted: list[Piece] = []
    before: str | None = None
    is_gap = False
    for piece in pieces:
        canister = piece.canister
        kind, held = type(canister), canister.held
        if kind is InvocationCanisterClass:
            parted.append(piece)
            continue
        if kind is not AssistantCanisterClass or not (is_answer or canister.joined):
            before, is_gap = None, False
        arranged = piece
        if kind is AssistantCanisterClass:
            if type(held) is OpaqueContentClass and (is_answer or held.dialect != dialect):
                # Many programs do not show what stands between two texts of an answer.
                is_gap = True
                if held == SILENCE:
                    continue
                held = _summary(held, piece.place, report)
            if type(held) in (str, TextualContentClass):
                words = held if type(held) is str else held.text
                lacking = _lacking(before, words) if is_gap else ""
                if words:
                    is_gap = held is not canister.held
                    before = words
                arranged = _with_held(piece, _prefixed(held, lacking))
        parted.append(arranged)
    return parted


def _summary(content: OpaqueContentClass, place: int | None, report: Report) -> Any:
    """The summary that a block holds, or the block itself."""
    found = _readable(content)
    if found is None:
        return content
    text, is_sealed = found
    report.lose(_SUMMARIES[content.tag][1], place)
    if is_sealed:
        report.lose("SIGNATURE_DROPPED", place, "", f".{_SEALED}")
    return text


def _readable(content: OpaqueContentClass) -> tuple[str, bool] | None:
    """The summary of a block, and whether a sealed copy accompanies it; None without a summary."""
    if content.tag not in _SUMMARIES:
        return None
    key = _SUMMARIES[content.tag][0]
    block = decode_json(content.json)
    text = block.get(key) if type(block) is dict else None
    if type(text) is not str or not text.strip():
        return None
    return text, bool(block.get(_SEALED))


def _lacking(before: str | None, words: str) -> str:
    """The line ends that are missing for a blank line between two texts."""
    if not before or not words:
        return ""
    ends = len(before) - len(before.rstrip("\n")) + len(words) - len(words.lstrip("\n"))
    return _BLANK_LINE[ends:]


def _prefixed(held: Any, prefix: str) -> Any:
    if not prefix:
        return held
    if type(held) is str:
        return prefix + held
    citations = tuple(_shifted(citation, len(prefix)) for citation in held.citations)
    return new_text(prefix + held.text, held.mime_type, citations)


def _shifted(citation: Any, count: int) -> Any:
    """A citation of a text that now begins at a later offset."""
    spans = {
        name: value + count
        for name in ("start", "end")
        if (value := getattr(citation, name)) is not None
    }
    return msgspec.structs.replace(citation, **spans) if spans else citation


def _with_held(piece: Piece, held: Any) -> Piece:
    if held is piece.canister.held:
        return piece
    canister = changed(piece.canister, held=held)
    return Piece(canister, piece.place, is_synthetic=piece.is_synthetic)


def _is_call(event: Event) -> bool:
    return type(event) is PartStart and event.kind == "invocation"


class Separator:
    """The same for the stream events of a response."""

    def __init__(self, dialect: str, uses: Uses | None = None) -> None:
        self._dialect = dialect
        self._uses = uses
        # Parts that were written in another form, and events that wait for an outcome.
        self._gone: set[int] = set()
        self._behind: list[Event] = []
        self._has_waiting = False
        self._before = ""
        self._is_gap = False
        # Text parts; those after a gap that are still empty; the offset by which their spans shift.
        self._texts: set[int] = set()
        self._waiting: set[int] = set()
        self._shifts: dict[int, int] = {}

    def events(self, event: Event) -> Sequence[Event]:
        """The events to emit for one event."""
        kind = type(event)
        if self._has_waiting and self._uses is not None:
            if kind is Finish or kind is Failure:
                unanswered = self._uses.unanswered()
                return [*self._released(unanswered), *self.events(event)]
            if self._uses.holds(event):
                self._behind.append(event)
                return ()
        if kind is Delta:
            return (self._delta(event),)  # type: ignore[arg-type]
        if kind is PartStart:
            return self._start(event)  # type: ignore[arg-type]
        if kind is PartEnd and self._gone and event.index in self._gone:  # type: ignore[union-attr]
            return ()
        if self._uses is not None:
            if kind is Start:
                self._uses.begin(event.identifier)  # type: ignore[union-attr]
            elif kind is Finish:
                return self._again(self._uses.finish(event))  # type: ignore[arg-type]
        return (event,)

    def _released(self, outcome: Sequence[Event]) -> list[Event]:
        """The events for a block and those that waited for it, up to the next one that waits."""
        self._has_waiting = False
        behind, self._behind = self._behind, []
        heard = self._again(outcome)
        self._is_gap = self._is_gap or not any(map(_is_call, heard))
        heard += [said for event in behind for said in self.events(event)]
        # The block's events come after the events that waited for it.
        self._is_gap = self._is_gap or bool(behind)
        return heard

    def _again(self, events: Sequence[Event]) -> list[Event]:
        """Process events that replace others."""
        return [
            said
            for event in events
            for said in ((event,) if type(event) is Finish else self.events(event))
        ]

    def _start(self, event: PartStart) -> Sequence[Event]:
        content = event.content
        if self._uses is not None and event.kind in ("whole", "canister"):
            held = getattr(content, "held", content)
            if type(held) is OpaqueContentClass and held.dialect not in ("", self._dialect):
                events = self._uses.start(event)
                if events is not None:
                    self._gone.add(event.index)
                    heard = self._released(events)
                    self._has_waiting = self._has_waiting or self._uses.is_waiting
                    return heard
        if event.kind == "text":
            self._texts.add(event.index)
            if self._is_gap:
                self._waiting.add(event.index)
        elif type(content) is OpaqueContentClass and content.dialect != self._dialect:
            self._is_gap = True
            found = _readable(content)
            if found is not None:
                said = msgspec.structs.replace(event, kind="text", content=None)
                self._texts.add(event.index)
                self._waiting.add(event.index)
                words = self._delta(Delta(event.index, found[0]))
                self._is_gap = True
                return said, words
        return (event,)

    def _delta(self, event: Delta) -> Delta:
        if event.channel == "citation":
            shift = self._shifts.get(event.index)
            if not shift:
                return event
            return msgspec.structs.replace(event, citation=_shifted(event.citation, shift))
        if event.channel != "text" or not event.text or event.index not in self._texts:
            return event
        text = event.text
        if event.index in self._waiting:
            self._waiting.remove(event.index)
            self._is_gap = False
            prefix = _lacking(self._before, text)
            if prefix:
                self._shifts[event.index] = len(prefix)
                event = msgspec.structs.replace(event, text=prefix + text)
        self._before = (self._before + text)[-2:]
        return event
