"""Writes streams of the Chat Completions shape.

A chunk does not say which text it continues, so contents are written one part after the other, and their citations
after them; calls have numbers. The finish comes last, followed by usage if it was requested.
"""

from __future__ import annotations

from typing import Any

from cannery.families.chat.answers import write_citation
from cannery.families.chat.reasoning_details import DETAILS, piece
from cannery.families.chat.shape import Shape
from cannery.families.chat.stream_calls import LEGACY
from cannery.messages.absence import absent
from cannery.messages.content import Citation
from cannery.messages.events import (
    Delta,
    Failure,
    Finish,
    PartEnd,
    PartStart,
    Start,
    Unknown,
)
from cannery.wire.bodies import Object
from cannery.wire.contract import StreamOptions
from cannery.wire.sse import data_frame, one_line
from cannery.wire.stream_writing import EventWriter, WrittenPart, words_of


class Citations:
    """The annotations of the texts; their offsets count everything written to ``content``."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._cited: list[Citation] = []
        self._annotations: list[Any] = []
        self._count = 0
        self._before = 0
        # The number of characters in the open text so far.
        self.length = 0

    def cite(self, citation: Citation) -> None:
        """Take a citation of the open text, if an annotation can express it."""
        if citation.url is not None or citation.dialect == self._dialect:
            self._cited.append(citation)

    def keep(self, annotations: list[Any]) -> None:
        """Keep annotations that came too late for their text, unchanged."""
        self._annotations += annotations

    def end(self) -> None:
        """The open text is complete, so the offsets in it are known."""
        for citation in self._cited:
            annotation = write_citation(self._dialect, citation, self._before, self.length)
            self._annotations.append(annotation)
        self._before += self.length
        self._cited, self.length = [], 0

    def taken(self) -> list[Any]:
        """The annotations of complete texts that were not taken before.

        OpenAI's own come in one chunk; its SDK (openai 3.49.0, accumulate_delta) joins further ones only by ``index``,
        and if one has it all must.
        """
        found, self._annotations = self._annotations, []
        if self._count or any(type(one) is dict and "index" in one for one in found):
            found = [
                {**one, "index": at} if type(one) is dict else one
                for at, one in enumerate(found, self._count)
            ]
        self._count += len(found)
        return found


class ChatStreamWriter(EventWriter[WrittenPart]):
    """Consumes events and gives the bytes of chunks."""

    part = WrittenPart

    def __init__(self, shape: Shape, options: StreamOptions) -> None:
        super().__init__(options)
        self.shape = shape
        self.dialect = shape.name
        self._head: Object = {}
        self._name(self._start)
        # The bytes before and after the text of a chunk, by field name.
        self._around: dict[str, tuple[bytes, bytes]] = {}
        self._count = 0
        self._citations = Citations(shape.name)

    def _name(self, start: Start) -> None:
        """Record the response facts that every chunk repeats."""
        created = self._created()
        self._head = {
            "id": self._identifier(self.shape.made_id),
            "object": "chat.completion.chunk",
            "created": 0 if created is absent else created,
            "model": self._model(),
            **self._own_envelope(start),
        }
        self._around = {}

    def start(self, event: Start) -> bytes:
        """Record the response facts that every chunk repeats."""
        self._name(event)
        return b""

    def lane(self, start: PartStart) -> str | None:
        """The lane of contents, which wait for their turn; calls have numbers."""
        return None if start.kind == "invocation" else "said"

    def begin(self) -> bytes:
        """The chunk with the role, with an empty text if a text follows."""
        is_text = self._first is not None and self._first.kind == "text"
        return self._chunk({"role": "assistant", "content": "" if is_text else None})

    def _chunk(self, delta: Object, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, **self.shape.beside, "finish_reason": finish}
        return self._frame({"choices": [choice]})

    def _frame(self, body: Object) -> bytes:
        body = {**self._head, **body}
        if self._options.include_usage:
            body["usage"] = None
        return data_frame(body)

    def open(self, part: WrittenPart) -> bytes:
        """Begin a call, or write a part that arrives at once."""
        if part.kind == "invocation":
            return self._annotations() + self._call(part)
        words = words_of(part.start.content)
        return b"" if words is None else self.more(part, Delta(part.start.index, words))

    def _call(self, part: WrittenPart) -> bytes:
        start = part.start
        if self._own(start).form == LEGACY:
            return self._chunk({LEGACY: {"name": start.name, "arguments": ""}})
        part.number, self._count = self._count, self._count + 1
        kind, key = _names(part)
        call = {"index": part.number, "id": start.identifier, "type": kind}
        call[kind] = {"name": start.name, key: ""}
        return self._chunk({"tool_calls": [self._recall(call, start)]})

    def more(self, part: WrittenPart, event: Delta) -> bytes:
        """Write more of a part."""
        if not event.text:
            if event.citation is not None:
                self._citations.cite(event.citation)
            return b""
        if event.channel == "arguments":
            return self._arguments(part, event.text)
        if part.kind == "reasoning":
            return self._think(part, event)
        if event.channel != "text":
            return b""
        if part.kind == "refusal":
            return self._annotations() + self._words("refusal", event.text)
        self._citations.length += len(event.text)
        return self._words("content", event.text)

    def _think(self, part: WrittenPart, event: Delta) -> bytes:
        field = self._own(part.start).form
        if field == DETAILS:
            item = self._recall(piece(event.channel, event.text), part.start)
            return self._annotations() + self._chunk({DETAILS: [item]})
        if not (self._options.reasoning or field) or event.channel not in ("text", "summary"):
            return b""
        words = self._thought(part, event)
        return self._annotations() + self._chunk({field or "reasoning_content": words})

    def _annotations(self) -> bytes:
        """A chunk with the citations of complete texts."""
        annotations = self._citations.taken()
        return self._chunk({"annotations": annotations}) if annotations else b""

    def _arguments(self, part: WrittenPart, words: str) -> bytes:
        part.is_silent = False
        if part.number is None:
            return self._chunk({LEGACY: {"arguments": words}})
        kind, key = _names(part)
        return self._chunk({"tool_calls": [{"index": part.number, kind: {key: words}}]})

    def _words(self, key: str, words: str) -> bytes:
        """A chunk with only text: the bytes around the text are written once."""
        around = self._around.get(key)
        if around is None:
            before, mark, behind = self._chunk({key: ""}).partition(f'{{"{key}":""}}'.encode())
            around = self._around[key] = (before + mark[:-3], mark[-1:] + behind)
        return around[0] + one_line(words) + around[1]

    def end(self, part: WrittenPart, event: PartEnd) -> bytes:
        """End a text, or a call with the fields that came only after its beginning."""
        if part.kind != "invocation":
            self._citations.end()
            return b""
        if part.number is None:
            return b""
        kind, _ = _names(part)
        more = b""
        if self._own(event).part is not None:
            call = self._recall({"index": part.number, kind: {}}, event)
            more = self._chunk({"tool_calls": [call]})
        is_bare = part.is_silent and not part.start.is_freeform
        return more + self._arguments(part, "{}") if is_bare else more

    def finish(self, event: Finish) -> bytes:
        """Write the citations, and the end of the response."""
        word = self._own(event).form or self.shape.finishes.word(event.reason)
        return self._annotations() + self._ending(word) + b"data: [DONE]\n\n"

    def _ending(self, word: str) -> bytes:
        """The finish reason, and the usage after it if requested."""
        ended = self._chunk({}, word)
        if not self._options.include_usage or self._usage is None:
            return ended
        return ended + data_frame({**self._head, "choices": [], "usage": self._counted()})

    def _counted(self) -> Object | None:
        """The usage."""
        if self._usage is None:
            return None
        usage = self.shape.counts.write(self._usage.usage)
        return self._recall(usage, self._usage)  # type: ignore[no-any-return]

    def fail(self, event: Failure, own: Object | None) -> bytes:
        """End the response with an error."""
        error = {"message": event.message, "type": event.kind, "param": None, "code": None}
        return data_frame({"error": error} if own is None else own)

    def unknown(self, event: Unknown, value: Object) -> bytes:
        """Write an event that only this dialect understands: other choices, probabilities, audio, late citations."""
        if event.name == "annotations":
            self._citations.keep(value["annotations"])
            return b""
        begun = self._begin()
        # Fields of the whole response hold for all chunks that follow.
        self._head |= {key: item for key, item in value.items() if key != "choices"}
        self._around = {}
        return begun + self._frame(value)


def _names(part: WrittenPart) -> tuple[str, str]:
    """The name and the arguments of a call on the wire."""
    return ("custom", "input") if part.start.is_freeform else ("function", "arguments")
