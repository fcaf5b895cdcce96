"""Writes Gemini streams: every chunk is a complete small response; text as it arrives, all other parts whole."""

from __future__ import annotations

import msgspec

from cannery.dialects.gemini_generate.forms import NAME, SIGNATURE, get, spelled
from cannery.dialects.gemini_generate.responses import (
    COUNTS,
    FINISHES,
    Grounding,
    is_blocked,
)
from cannery.dialects.gemini_generate.stream_reading import BLOCKED
from cannery.dialects.gemini_generate.writing import MessageWriter
from cannery.families.gemini.errors import error_body, status_of
from cannery.messages.absence import absent
from cannery.messages.checked import now
from cannery.messages.content import Citation
from cannery.messages.events import (
    Delta,
    Failure,
    Finish,
    Part,
    PartEnd,
    PartStart,
    Start,
    Unknown,
)
from cannery.messages.requests import FinishReason
from cannery.wire.bodies import Object
from cannery.wire.contract import Piece, StreamOptions, WireError
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, recall
from cannery.wire.sse import data_frame
from cannery.wire.stream_writing import EventWriter, Thoughts, WrittenPart

_BARE = frozenset({"text", "thought"})


class _Part(WrittenPart):
    """A part being written; a part that must be written whole waits for its end."""

    def __init__(self, start: PartStart) -> None:
        super().__init__(start)
        is_own = own_residue(start, NAME) is not None
        is_whole = is_own or start.kind in ("invocation", "canister", "whole")
        self.held = Part(start) if is_whole else None
        self.length = 0
        self.citations: list[Citation] = []


class GeminiStreamWriter(EventWriter[_Part]):
    """Consumes events and gives the bytes of chunks, parts strictly one after the other."""

    dialect = NAME
    part = _Part

    def __init__(self, options: StreamOptions) -> None:
        super().__init__(options)
        self._tail: Object = {} if options.model is None else {"modelVersion": options.model}
        self._writer = MessageWriter(Report(), is_same=False)
        self._grounding = Grounding()
        # A reader joins adjacent text of one kind: the last part as a reader sees it, and its text.
        self._position = -1
        self._run: str | None = None
        self._said: list[str] = []
        # Whether fields that only this dialect has were passed unchanged.
        self._has_passed = False

    def start(self, event: Start) -> bytes:
        """Record the response facts that every chunk repeats."""
        if event.model is not absent and self._options.model is None:
            self._tail["modelVersion"] = event.model
        if event.identifier is not absent:
            self._tail["responseId"] = event.identifier
        self._writer = MessageWriter(Report(), is_same=self._is_same)
        return b""

    def more(self, part: _Part, event: Delta) -> bytes:
        """Write more of a part; a part that must be whole waits."""
        if part.held is not None:
            part.held.add(event)
        elif part.kind == "reasoning":
            return self._think(part, event)
        elif event.channel == "text" and event.text:
            part.length += len(event.text)
            if self._run == "text":
                self._said.append(event.text)
                return self._chunk([{"text": event.text}])
            return self._words({"text": event.text})
        elif event.citation is not None:
            part.citations.append(event.citation)
        return b""

    def end(self, part: _Part, event: PartEnd) -> bytes:  # noqa: ARG002 - it says nothing more
        """Write a part that had to be whole; ground a text."""
        if part.held is None:
            self._cite(part)
            return b""
        parts: list[Object] = []
        # A canister that is not the model's is written only for this dialect.
        if part.kind != "canister" or own_residue(part.start.content, NAME) is not None:
            canister = part.held.canister(now(), joined=True)
            self._writer.add_parts(Piece(canister, None), parts)
        for written in parts:
            self._note(written)
            if not self._is_same:
                self._grounding.note(written)
        return self._chunk(parts) if parts else b""

    def _chunk(self, parts: list[Object]) -> bytes:
        candidate = {"content": {"parts": parts, "role": "model"}, "index": 0}
        return data_frame({"candidates": [candidate], **self._tail})

    def _last_chunk(self, event: Finish) -> bytes:
        finish = self._own(event).form or FINISHES.word(event.reason)
        candidate: Object = {
            "content": {"parts": [{"text": ""}], "role": "model"},
            "finishReason": finish,
            **self._grounding.written(),
            "index": 0,
        }
        chunk = {"candidates": [candidate], **self._counts(), **self._tail}
        around = event.around
        if around is not None and around.dialect == NAME and not self._has_passed:
            chunk = _restored(recall(chunk, around.envelope), event, finish)
        return data_frame(chunk)

    def _counts(self) -> Object:
        """The usage so far, in this server's form."""
        if self._usage is None:
            return {}
        counts = self._recall(COUNTS.write(self._usage.usage), self._usage)
        return {"usageMetadata": counts}

    def _note(self, part: Object) -> None:
        """Record a written part."""
        kind = "thought" if part.get("thought") else "text"
        run = kind if part.keys() <= _BARE and type(part.get("text")) is str else None
        if run is None or run != self._run:
            self._position += 1
            self._said = []
            if run != "thought":
                self._thoughts = Thoughts()
        self._run = run
        if run == "text":
            self._said.append(part["text"])

    def _cite(self, part: _Part) -> None:
        """Ground a complete text; its offsets count from the first of the joined texts."""
        if not part.citations or not part.length:
            return
        said = "".join(self._said)
        before = len(said) - part.length
        for citation in part.citations:
            start, end = citation.start, citation.end
            if start is None or end is None:
                start, end = 0, part.length
            placed = msgspec.structs.replace(citation, start=before + start, end=before + end)
            self._grounding.add(self._position, said, placed)

    def _words(self, part: Object) -> bytes:
        self._note(part)
        return self._chunk([part])

    def _think(self, part: _Part, event: Delta) -> bytes:
        if event.channel in ("text", "summary") and event.text:
            return self._words({"text": self._thought(part, event), "thought": True})
        if event.channel == "signature" and self._is_own_thought(part):
            return self._words({"text": "", "thought": True, SIGNATURE: event.text})
        return b""

    def finish(self, event: Finish) -> bytes:
        """Write the last chunk."""
        if self._own(event).form == BLOCKED:
            return data_frame({**self._counts(), **self._tail})
        return self._last_chunk(event)

    def fail(self, event: Failure, own: Object | None) -> bytes:
        """End the response with an error."""
        if own is not None:
            return data_frame(own)
        status = event.status or status_of(event.kind)
        return data_frame(error_body(WireError(status, event.message, event.kind)))

    def unknown(self, event: Unknown, value: Object) -> bytes:  # noqa: ARG002 - all of it is said
        """Write an event that only this dialect understands."""
        self._has_passed = True
        return data_frame({**value, **self._tail})


def _restored(chunk: Object, event: Finish, word: str) -> Object:
    """A last chunk with the original fields around the response, if they agree with how the response ends."""
    if not chunk.get("candidates") and is_blocked(chunk):
        return chunk
    first, *others = chunk.get("candidates") or [{}]
    if first.get("index", 0) != 0:
        # All earlier chunks belong to candidate 0.
        first = {**first, "index": 0}
    key = spelled(first, "finishReason")
    if (
        FINISHES.read(first.get(key), has_calls=event.reason is FinishReason.Tool)
        is not event.reason
    ):
        first = {**first, key: word}
    # A client would read a candidate without an end, or without its own number, as the first one.
    ended = [one for one in others if get(one, "finishReason") and one.get("index")]
    return {**chunk, "candidates": [first, *ended]}
