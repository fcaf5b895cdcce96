"""Streams of the Chat Completions shape, written.

What is said comes one part after the other, and what it cites behind it. The finish comes last, with usage behind it
where that was asked for.
"""

from __future__ import annotations

from typing import Any

from cannery.families.chat.answers import write_usage
from cannery.families.chat.details import DETAILS, piece
from cannery.families.chat.shape import Shape
from cannery.families.chat.stream_calls import LEGACY
from cannery.families.chat.stream_speech import Citations, Turns
from cannery.messages.absence import absent
from cannery.messages.content import (
    DataContentClass,
    TextualContentClass,
)
from cannery.messages.events import (
    Delta,
    Failure,
    Finish,
    PartEnd,
    PartStart,
    Start,
    Unknown,
    UsageReport,
)
from cannery.wire.contract import StreamOptions
from cannery.wire.residues import own_residue, recall
from cannery.wire.sse import data_frame, one_line
from cannery.wire.streams import (
    EventWriter,
    Thoughts,
    own_count,
    own_failure,
    own_fields,
    own_word,
    read_chunk,
)


class ChatStreamWriter(EventWriter):
    """Takes events and gives the bytes of chunks."""

    def __init__(self, shape: Shape, options: StreamOptions) -> None:
        self.shape = shape
        self.dialect = shape.name
        self._options = options
        self._head = {
            "id": shape.made_id,
            "object": "chat.completion.chunk",
            "created": options.created,
            "model": options.model or "",
        }
        self._is_started = False
        # What stands before and behind the words of a chunk, by the name of their field.
        self._around: dict[str, tuple[bytes, bytes]] = {}
        self._kinds: dict[int, PartStart] = {}
        self._calls: dict[int, int] = {}
        self._turns = Turns()
        self._citations = Citations(shape.name)
        self._thoughts = Thoughts()
        # Calls under way of whose arguments nothing has come.
        self._silent: set[int] = set()
        self._usage: UsageReport | None = None

    def start(self, event: Start) -> bytes:
        """Keep what every chunk says of the answer."""
        if event.identifier is not absent:
            self._head["id"] = event.identifier
        if event.model is not absent and not self._options.model:
            self._head["model"] = event.model
        if event.created is not absent and not self._options.created:
            self._head["created"] = event.created
        self._head |= own_fields(event, self.dialect)
        self._around = {}
        return b""

    def _begin(self, content: str | None = None) -> bytes:
        """The chunk that says who speaks, with an empty text where one follows."""
        if self._is_started:
            return b""
        self._is_started = True
        return self._chunk({"role": "assistant", "content": content})

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, **self.shape.beside, "finish_reason": finish}
        body: dict[str, Any] = {**self._head, "choices": [choice]}
        if self._options.include_usage:
            body["usage"] = None
        return data_frame(body)

    def part_start(self, event: PartStart) -> bytes:
        """Begin a part, and the answer if it has not begun."""
        self._kinds[event.index] = event
        begun = self._begin("" if event.kind == "text" else None)
        if event.kind != "invocation":
            self._turns.start(event.index)
            content = event.content
            if not isinstance(content, (TextualContentClass, DataContentClass)):
                return begun
            said = content.json if isinstance(content, DataContentClass) else content.text
            return begun + self.delta(Delta(event.index, said))
        begun += self._annotations()
        if own_word(event, self.dialect) == LEGACY:
            return begun + self._chunk({LEGACY: {"name": event.name, "arguments": ""}})
        index = self._calls[event.index] = len(self._calls)
        kind = "custom" if event.is_freeform else "function"
        key = "input" if event.is_freeform else "arguments"
        call: dict[str, Any] = {"index": index, "id": event.identifier, "type": kind}
        call[kind] = {"name": event.name, key: ""}
        residue = own_residue(event, self.dialect)
        if residue is not None:
            call = recall(call, residue.part)
        if not event.is_freeform:
            self._silent.add(event.index)
        return begun + self._chunk({"tool_calls": [call]})

    def delta(self, event: Delta) -> bytes:
        """More of a part."""
        start = self._kinds[event.index]
        if not event.text:
            return self._cite(event)
        if start.kind == "text" and event.channel == "text" and self._turns.open == event.index:
            self._citations.length += len(event.text)
            return self._words("content", event.text)
        if event.channel == "arguments":
            return self._arguments(event.index, event.text)
        if self._turns.open != event.index and self._turns.keeps(event):
            return b""
        if start.kind == "reasoning":
            return self._think(start, event)
        if event.channel != "text":
            return b""
        if start.kind == "refusal":
            return self._annotations() + self._words("refusal", event.text)
        self._citations.length += len(event.text)
        return self._words("content", event.text)

    def _think(self, start: PartStart, event: Delta) -> bytes:
        field = own_word(start, self.dialect)
        if field == DETAILS:
            residue = own_residue(start, self.dialect)
            part = None if residue is None else residue.part
            item = recall(piece(event.channel, event.text), part)
            return self._annotations() + self._chunk({DETAILS: [item]})
        if not (self._options.reasoning or field) or event.channel not in ("text", "summary"):
            return b""
        is_own = start.origin is not None and start.origin.dialect == self.dialect
        words = event.text if is_own else self._thoughts.joined(event)
        return self._annotations() + self._chunk({field or "reasoning_content": words})

    def _cite(self, event: Delta) -> bytes:
        if event.citation is not None and not self._turns.keeps(event):
            self._citations.cite(event.citation)
        return b""

    def _annotations(self) -> bytes:
        """A chunk with what complete texts cite."""
        annotations = self._citations.taken()
        return self._chunk({"annotations": annotations}) if annotations else b""

    def part_end(self, event: PartEnd) -> bytes:
        """End a part."""
        more = self._more_of_call(event)
        if event.index in self._silent:
            return more + self._arguments(event.index, "{}")
        if more:
            return more
        if event.index != self._turns.open:
            self._turns.keeps(event)
            return b""
        self._citations.end()
        written: list[bytes] = []
        for late in self._turns.end():
            if isinstance(late, Delta):
                written.append(self.delta(late))
            else:
                self._citations.end()
        return b"".join(written)

    def _more_of_call(self, event: PartEnd) -> bytes:
        """A chunk with what was said of a call only after its beginning."""
        residue = own_residue(event, self.dialect)
        if residue is None or residue.part is None or event.index not in self._calls:
            return b""
        kind = "custom" if self._kinds[event.index].is_freeform else "function"
        call = recall({"index": self._calls[event.index], kind: {}}, residue.part)
        return self._chunk({"tool_calls": [call]})

    def _arguments(self, index: int, words: str) -> bytes:
        self._silent.discard(index)
        if index not in self._calls:
            return self._chunk({LEGACY: {"arguments": words}})
        is_freeform = self._kinds[index].is_freeform
        kind, key = ("custom", "input") if is_freeform else ("function", "arguments")
        call = {"index": self._calls[index], kind: {key: words}}
        return self._chunk({"tool_calls": [call]})

    def _words(self, key: str, words: str) -> bytes:
        """A chunk with nothing but words: all but these is written once."""
        around = self._around.get(key)
        if around is None:
            before, mark, behind = self._chunk({key: ""}).partition(f'{{"{key}":""}}'.encode())
            around = self._around[key] = (before + mark[:-3], mark[-1:] + behind)
        return around[0] + one_line(words) + around[1]

    def count(self, event: UsageReport) -> None:
        """Keep the tokens for the end of the stream."""
        self._usage = event

    def finish(self, event: Finish) -> bytes:
        """End what is under way, and the answer."""
        self.is_over = True
        written = [self._begin()]
        written += [self._arguments(index, "{}") for index in sorted(self._silent)]
        while self._turns.open is not None:
            written.append(self.part_end(PartEnd(self._turns.open)))
        word = own_word(event, self.dialect) or self.shape.finish_words[event.reason]
        written += [self._annotations(), self._ending(word)]
        return b"".join([*written, b"data: [DONE]\n\n"])

    def _ending(self, word: str) -> bytes:
        """The finish reason, and the tokens behind it where they are asked for."""
        ended = self._chunk({}, word)
        if not self._options.include_usage or self._usage is None:
            return ended
        return ended + data_frame({**self._head, "choices": [], "usage": self._counted()})

    def _counted(self) -> dict[str, Any] | None:
        """The tokens that were counted."""
        if self._usage is None:
            return None
        usage = write_usage(self._usage.usage, self.shape.details)
        return own_count(self._usage, self.dialect, usage)

    def fail(self, event: Failure) -> bytes:
        """End the answer with an error."""
        self.is_over = True
        own = own_failure(event, self.dialect)
        if own is not None:
            return data_frame(own)
        error = {"message": event.message, "type": event.kind, "param": None, "code": None}
        return data_frame({"error": error})

    def unknown(self, event: Unknown) -> bytes:
        """What only this dialect understands: other choices, probabilities, sound, citations of an earlier text."""
        value = read_chunk(self.dialect, event.json)
        if event.name == "annotations":
            self._citations.keep(value["annotations"])
            return b""
        begun = self._begin()
        # What is said of the whole answer holds for all chunks that follow.
        self._head |= {key: item for key, item in value.items() if key != "choices"}
        self._around = {}
        body = {**self._head, **value}
        if self._options.include_usage:
            body["usage"] = None
        return begun + data_frame(body)
