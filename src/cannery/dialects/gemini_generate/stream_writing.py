"""Gemini streams written: every chunk is a whole answer in miniature, with words as they come and all else whole."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cannery.dialects.gemini_generate.forms import NAME, SIGNATURE, get, spelled
from cannery.dialects.gemini_generate.responses import (
    FINISH_WORDS,
    Grounding,
    is_blocked,
    read_finish,
    write_usage,
)
from cannery.dialects.gemini_generate.stream_reading import BLOCKED
from cannery.dialects.gemini_generate.writing import MessageWriter
from cannery.families.gemini.errors import error_body, status_of
from cannery.messages.absence import absent
from cannery.messages.checked import now
from cannery.messages.content import Origin
from cannery.messages.events import (
    Delta,
    Failure,
    Finish,
    Part,
    PartEnd,
    PartStart,
    Start,
    Unknown,
    UsageReport,
)
from cannery.messages.requests import FinishReason
from cannery.wire.bodies import Object
from cannery.wire.contract import Piece, StreamOptions, WireError
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, recall
from cannery.wire.sse import data_frame
from cannery.wire.streams import (
    EventWriter,
    Thoughts,
    own_count,
    own_failure,
    own_word,
    read_chunk,
)

_BARE = frozenset({"text", "thought"})


class _Part(Part):
    """A part on its way out."""

    def __init__(self, start: PartStart) -> None:
        super().__init__(start)
        # What has not been written yet of a part that is written as it comes.
        self.deltas: list[Delta] = []
        self.length = 0
        # What has to be written as one part waits for its end.
        is_own = own_residue(start, NAME) is not None
        self.waits = start.kind in ("invocation", "canister", "whole") or is_own


class GeminiStreamWriter(EventWriter):
    """Takes events and gives the bytes of chunks, parts strictly one after the other."""

    dialect = NAME

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._tail: Object = {} if options.model is None else {"modelVersion": options.model}
        self._parts: dict[int, _Part] = {}
        self._usage: UsageReport | None = None
        self._writer = MessageWriter(Report(), is_same=False)
        self._grounding = Grounding()
        # Neighbouring words of one kind are one part to a reader: the last part as it sees it, and what it says.
        self._position = -1
        self._run: str | None = None
        self._said: list[str] = []
        self._thoughts = Thoughts()
        # Whether what only this dialect says was passed as it came.
        self._has_passed = False

    def start(self, event: Start) -> bytes:
        """Keep what every chunk says of the answer."""
        if event.model is not absent and self._options.model is None:
            self._tail["modelVersion"] = event.model
        if event.identifier is not absent:
            self._tail["responseId"] = event.identifier
        if event.source == NAME:
            self._writer = MessageWriter(Report(), is_same=True)
        return b""

    def part_start(self, event: PartStart) -> bytes:
        """Begin a part."""
        self._parts[event.index] = _Part(event)
        return self._flush()

    def delta(self, event: Delta) -> bytes:
        """More of a part; one that has to be whole waits."""
        part = self._parts[event.index]
        if part.waits:
            part.add(event)
            return b""
        part.deltas.append(event)
        return self._flush()

    def part_end(self, event: PartEnd) -> bytes:
        """End a part."""
        self._parts[event.index].has_ended = True
        return self._flush()

    def count(self, event: UsageReport) -> None:
        """Keep the tokens for the last chunk."""
        self._usage = event

    def _chunk(self, parts: list[Object]) -> bytes:
        candidate = {"content": {"parts": parts, "role": "model"}, "index": 0}
        return data_frame({"candidates": [candidate], **self._tail})

    def _last_chunk(self, event: Finish) -> bytes:
        finish = own_word(event, NAME) or FINISH_WORDS[event.reason]
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
        """The tokens that were counted, as this server counts them."""
        if self._usage is None:
            return {}
        return {"usageMetadata": own_count(self._usage, NAME, write_usage(self._usage.usage))}

    def _flush(self) -> bytes:
        """Write what may be written: the first part that is not complete, and all before it."""
        written: list[bytes] = []
        complete: list[int] = []
        for index, part in self._parts.items():
            if part.waits:
                if not part.has_ended:
                    break
                parts = self._complete(part)
                for written_part in parts:
                    self._count(written_part)
                    if not self._writer.is_same:
                        self._grounding.note(written_part)
                written += [self._chunk(parts)] if parts else []
            else:
                written += self._spoken(part)
                if not part.has_ended:
                    break
                self._cite(part)
            complete.append(index)
        for index in complete:
            del self._parts[index]
        return b"".join(written)

    def _count(self, part: Object) -> None:
        """Take note of a part that is written."""
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
        """Ground a text that is complete; its places count from where its neighbours began."""
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

    def _spoken(self, part: _Part) -> Iterator[bytes]:
        """What has come of a part that is written as it comes."""
        start = part.start
        for delta in part.deltas:
            if start.kind == "reasoning":
                yield from self._thought(delta, start.origin)
            elif delta.channel == "text" and delta.text:
                part.length += len(delta.text)
                if self._run == "text":
                    self._said.append(delta.text)
                    yield self._chunk([{"text": delta.text}])
                else:
                    yield self._words({"text": delta.text})
            elif delta.citation is not None:
                part.citations.append(delta.citation)
        part.deltas = []

    def _words(self, part: Object) -> bytes:
        self._count(part)
        return self._chunk([part])

    def _thought(self, delta: Delta, origin: Origin | None) -> Iterator[bytes]:
        is_own = origin is not None and origin.dialect == NAME
        if delta.channel in ("text", "summary") and delta.text:
            words = delta.text if is_own else self._thoughts.joined(delta)
            yield self._words({"text": words, "thought": True})
        elif delta.channel == "signature" and is_own:
            yield self._words({"text": "", "thought": True, SIGNATURE: delta.text})

    def _complete(self, part: _Part) -> list[Object]:
        """A part that was waited for; a canister that is not the model's only if it is this dialect's."""
        start = part.start
        parts: list[Object] = []
        if start.kind != "canister" or own_residue(start.content, NAME) is not None:
            self._writer.add_parts(Piece(part.canister(now(), joined=True), None), parts)
        return parts

    def finish(self, event: Finish) -> bytes:
        """Write what waits, and the last chunk."""
        self.is_over = True
        for part in self._parts.values():
            part.has_ended = True
        written = self._flush()
        word = own_word(event, NAME)
        if word == BLOCKED:
            return written + data_frame({**self._counts(), **self._tail})
        return written + self._last_chunk(event)

    def fail(self, event: Failure) -> bytes:
        """End the answer with an error."""
        self.is_over = True
        own = own_failure(event, NAME)
        if own is not None:
            return data_frame(own)
        status = event.status or status_of(event.kind)
        return data_frame(error_body(WireError(status, event.message, event.kind)))

    def unknown(self, event: Unknown) -> bytes:
        """Say again what only this dialect says."""
        self._has_passed = True
        return data_frame({**read_chunk(NAME, event.json), **self._tail})


def _restored(chunk: Object, event: Finish, word: str) -> Object:
    """A last chunk with what stood around the answer, as far as it agrees with how the answer ends."""
    if not chunk.get("candidates") and is_blocked(chunk):
        return chunk
    first, *others = chunk.get("candidates") or [{}]
    if first.get("index", 0) != 0:
        # All chunks before were about candidate 0.
        first = {**first, "index": 0}
    key = spelled(first, "finishReason")
    if read_finish(first.get(key), has_calls=event.reason is FinishReason.Tool) is not event.reason:
        first = {**first, key: word}
    # A candidate that has not ended, or no number of its own, would be taken for the first.
    ended = [one for one in others if get(one, "finishReason") and one.get("index")]
    return {**chunk, "candidates": [first, *ended]}
