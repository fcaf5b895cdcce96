"""Cohere streams: named events, whose contents and calls are numbered apart from each other.

Citations come among the words or behind the end of their content, so a text ends only where another begins or with the
answer. A plan has no beginning and no end of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

from cannery.dialects.cohere_chat.reading import PLAN, read_citation
from cannery.dialects.cohere_chat.responses import (
    FINISH_WORDS,
    MADE_ID,
    finish_word,
    read_finish,
    take_counts,
    write_counts,
)
from cannery.dialects.cohere_chat.settings import NAME
from cannery.dialects.cohere_chat.writing import is_said, write_citation
from cannery.messages.absence import absent
from cannery.messages.content import (
    Citation,
    DataContentClass,
    OpaqueContentClass,
    Origin,
    TextualContentClass,
    new_opaque,
)
from cannery.messages.events import (
    Delta,
    Event,
    Failure,
    Finish,
    PartEnd,
    PartStart,
    Start,
    Unknown,
    UsageReport,
)
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import FinishReason
from cannery.messages.residue import Residue
from cannery.wire.answers import call_stem
from cannery.wire.arguments import FREEFORM_INPUT, argument_text
from cannery.wire.bodies import Object, guarded
from cannery.wire.contract import StreamOptions
from cannery.wire.controls import text
from cannery.wire.residues import nested, own_residue, recall
from cannery.wire.sse import DONE, FrameReader, foreign_frame, named_frame
from cannery.wire.streams import (
    EventWriter,
    Thoughts,
    own_count,
    own_failure,
    own_word,
    read_chunk,
)

_KINDS = {"text": "text", "thinking": "reasoning"}
_DONE = f"data: {DONE}\n\n".encode()


def _number(value: Object, key: str = "index") -> int | None:
    found = value.get(key)
    return found if type(found) is int else None


class CohereStreamReader:
    """Takes the bytes of a stream and gives events."""

    def __init__(self) -> None:
        self._frames = FrameReader()
        self._stem = "call_"
        self._count = 0
        # The parts of contents and calls by their own numbers, and the kind of each open part with its words.
        self._contents: dict[Any, int] = {}
        self._calls: dict[Any, int] = {}
        self._plan = -1
        self._open: dict[int, tuple[str, list[str]]] = {}
        # Texts whose content has ended, which may yet be cited.
        self._ended: list[int] = []
        self._is_started = False
        self._is_over = False
        # What stands around the answer: all citations, and whether a text has each of them.
        self._citations: list[Any] = []
        self._all_cited = True
        self._logprobs: list[Any] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        for frame in self._frames.feed(chunk):
            yield from self._frame(frame.data)

    def close(self) -> Iterator[Event]:
        """The events that the end of the stream completes."""
        for frame in self._frames.close():
            yield from self._frame(frame.data)
        if not self._is_over:
            self._is_over = True
            yield Failure("the stream ended before the answer was complete", "incomplete")

    def _frame(self, data: str) -> Iterator[Event]:
        data = data.strip()
        if self._is_over or data in ("", DONE):
            return
        value = read_chunk(NAME, data)
        kind = value.get("type")
        delta = value.get("delta")
        message = delta.get("message") if type(delta) is dict else None
        read = self._readers.get(kind) if type(kind) is str else None
        if not self._is_started and kind != "message-start":
            yield from self._start({}, {})
        if read is not None:
            yield from read(self, value, message if type(message) is dict else {})
        elif kind is None and type(value.get("message")) is str:
            self._is_over = True
            yield Failure(value["message"], raw=data, dialect=NAME)
        else:
            yield Unknown(NAME, str(kind), data)

    def _start(self, value: Object, _message: Object) -> Iterator[Event]:
        self._is_started = True
        self._stem = call_stem(value.get("id"))
        yield Start(text(value.get("id")), source=NAME)

    def _begin(self, kind: str, **facts: Any) -> PartStart:
        index, self._count = self._count, self._count + 1
        self._open[index] = (kind, [])
        return PartStart(index, kind, **facts)

    def _end(self, part: int | None) -> Iterator[Event]:
        if part in self._open:
            del self._open[part]
            yield PartEnd(part)

    def _settle(self) -> Iterator[Event]:
        """Something else begins: end the plan, and texts whose content has ended."""
        for part in self._ended:
            yield from self._end(part)
        self._ended = []
        yield from self._end(self._plan)

    def _content_start(self, value: Object, message: Object) -> Iterator[Event]:
        given = message.get("content")
        content: Object = given if type(given) is dict else {}
        given_tag = content.get("type")
        tag = given_tag if type(given_tag) is str else "text"
        yield from self._settle()
        if tag not in _KINDS:
            held = new_opaque(NAME, str(tag), guarded(NAME, partial(write_json, content)))
            start = self._begin("whole", content=held)
            self._contents[_number(value)] = start.index
            yield start
            return
        yield from self._content(value, _KINDS[tag])
        yield from self._content_delta(value, message)

    def _content(self, value: Object, kind: str) -> Iterator[Event]:
        origin = Origin(NAME) if kind == "reasoning" else None
        start = self._begin(kind, origin=origin)
        self._contents[_number(value)] = start.index
        yield start

    def _content_delta(self, value: Object, message: Object) -> Iterator[Event]:
        content = message.get("content")
        if value.get("logprobs") is not None:
            self._logprobs.append(value["logprobs"])
        for key, kind in _KINDS.items():
            words = content.get(key) if type(content) is dict else None
            if type(words) is not str or not words:
                continue
            part = self._contents.get(_number(value))
            if part is None or self._open.get(part, ("",))[0] != kind:
                yield from self._settle()
                yield from self._content(value, kind)
                part = self._count - 1
            self._open[part][1].append(words)
            yield Delta(part, words)

    def _content_end(self, value: Object, _message: Object) -> Iterator[Event]:
        """Thoughts end here; a text may yet be cited."""
        part = self._contents.get(_number(value))
        if part in self._open and self._open[part][0] == "text":
            self._ended.append(part)
        else:
            yield from self._end(part)

    def _plan_delta(self, _value: Object, message: Object) -> Iterator[Event]:
        words = message.get(PLAN)
        if type(words) is not str or not words:
            return
        if self._plan not in self._open:
            yield from self._settle()
            residue = Residue(NAME, form=PLAN)
            start = self._begin("reasoning", origin=Origin(NAME), residue=residue)
            self._plan = start.index
            yield start
        yield Delta(self._plan, words)

    def _call_start(self, value: Object, message: Object) -> Iterator[Event]:
        given = message.get("tool_calls")
        call: Object = given if type(given) is dict else {}
        held = call.get("function")
        function: Object = held if type(held) is dict else {}
        yield from self._settle()
        identifier = call.get("id") or f"{self._stem}{len(self._calls)}"
        dropped = [key for key in ("id", "type") if key not in call]
        inner = {key: item for key, item in function.items() if key not in ("name", "arguments")}
        left = {key: item for key, item in call.items() if key not in ("id", "type", "function")}
        patch = nested(left, {"function": {"s": inner} if inner else None}, dropped)
        residue = None
        if patch is not None:
            residue = Residue(NAME, guarded(NAME, partial(write_json, patch)))
        name = str(function.get("name") or "")
        start = self._begin("invocation", identifier=str(identifier), name=name, residue=residue)
        self._calls[_number(value)] = start.index
        yield start
        yield from self._call_delta(value, message)

    def _call_delta(self, value: Object, message: Object) -> Iterator[Event]:
        call = message.get("tool_calls")
        function = call.get("function") if type(call) is dict else None
        words = function.get("arguments") if type(function) is dict else None
        part = self._calls.get(_number(value))
        if words and part in self._open:
            yield Delta(part, guarded(NAME, partial(argument_text, words)), "arguments")

    def _call_end(self, value: Object, _message: Object) -> Iterator[Event]:
        yield from self._end(self._calls.get(_number(value)))

    def _citation(self, value: Object, message: Object) -> Iterator[Event]:
        item = message.get("citations")
        if type(item) is not dict:
            return
        self._citations.append(item)
        part = self._contents.get(_number(item, "content_index"))
        texts = [index for index, (kind, _) in self._open.items() if kind == "text"]
        if part not in texts:
            part = texts[-1] if texts else None
        if part is None or item.get("type") not in (None, "TEXT_CONTENT"):
            self._all_cited = False
            yield Unknown(NAME, "citation-start", guarded(NAME, partial(write_json, value)))
            return
        words = "".join(self._open[part][1])
        citation = guarded(NAME, partial(read_citation, item, words))
        yield Delta(part, "", "citation", citation=citation)

    def _citation_end(self, _value: Object, _message: Object) -> Iterator[Event]:
        """A citation comes whole with its beginning."""
        yield from ()

    def _message_end(self, value: Object, _message: Object) -> Iterator[Event]:
        self._is_over = True
        for part in [*self._open]:
            yield from self._end(part)
        given = value.get("delta")
        delta: Object = {**given} if type(given) is dict else {}
        if type(delta.get("error")) is str and delta["error"]:
            yield Failure(delta["error"], raw=write_json(value), dialect=NAME)
            return
        usage, counted = take_counts(delta.get("usage"))
        if usage is not absent:
            del delta["usage"]
            patch = None if counted is None else guarded(NAME, partial(write_json, counted))
            yield UsageReport(usage, None if patch is None else Residue(NAME, patch))
        word = delta.get("finish_reason")
        reason = read_finish(word)
        reason = FinishReason.Stop if reason is absent else reason
        if FINISH_WORDS[reason] == word:
            del delta["finish_reason"]
        around = guarded(NAME, partial(self._around, delta, counted))
        own = None if "finish_reason" not in delta else Residue(NAME, form=str(word))
        yield Finish(reason, residue=own, around=around)

    def _around(self, left: Object, counted: Object | None) -> Residue | None:
        """The residue that the whole answer would have."""
        if self._logprobs:
            left["logprobs"] = self._logprobs
        said = {} if self._all_cited else {"citations": self._citations}
        patch = nested(left, {"message": {"s": said} if said else None, "usage": counted})
        return None if patch is None else Residue(NAME, None, write_json(patch))

    _readers: ClassVar[Mapping[str, Any]] = {
        "message-start": _start,
        "content-start": _content_start,
        "content-delta": _content_delta,
        "content-end": _content_end,
        "tool-plan-delta": _plan_delta,
        "tool-call-start": _call_start,
        "tool-call-delta": _call_delta,
        "tool-call-end": _call_end,
        "citation-start": _citation,
        "citation-end": _citation_end,
        "message-end": _message_end,
    }


class CohereStreamWriter(EventWriter):
    """Takes events and gives the bytes of named events."""

    dialect = NAME

    def __init__(self, options: StreamOptions) -> None:  # noqa: ARG002 - an answer names no model and no time
        self._id = MADE_ID
        self._is_started = False
        self._is_own = False
        # The parts under way that are written, with their numbers among contents or calls; how many of each there are.
        self._open: dict[int, int] = {}
        self._contents = self._calls = self._citations = 0
        self._starts: dict[int, PartStart] = {}
        # The words of texts, which citations repeat, and of free text, which is wrapped when it is whole.
        self._words: dict[int, list[str]] = {}
        # Citations that have to wait until their text is whole.
        self._waiting: dict[int, list[Citation]] = {}
        self._silent: set[int] = set()
        self._thoughts = Thoughts()
        self._usage: UsageReport | None = None

    def start(self, event: Start) -> bytes:
        """Keep what the answer is called."""
        if event.identifier is not absent:
            self._id = event.identifier
        self._is_own = event.source == NAME
        return b""

    def _event(self, kind: str, index: int | None = None, **message: Any) -> bytes:
        """An event, behind the one that begins the answer."""
        body: Object = {"type": kind}
        if index is not None:
            body["index"] = index
        if message:
            body["delta"] = {"message": message}
        return self._begin() + named_frame(kind, body)

    def _begin(self) -> bytes:
        if self._is_started:
            return b""
        self._is_started = True
        message = {"role": "assistant", "content": [], PLAN: "", "tool_calls": [], "citations": []}
        head = {"id": self._id, "type": "message-start", "delta": {"message": message}}
        return named_frame("message-start", head)

    def part_start(self, event: PartStart) -> bytes:
        """Begin a part; thoughts of others begin with their first words."""
        self._starts[event.index] = event
        content = event.content
        if event.kind == "invocation":
            return self._call(event)
        if event.kind in ("text", "refusal") or self._is_own_thought(event):
            return b"" if own_word(event, NAME) == PLAN else self._content(event)
        if isinstance(content, OpaqueContentClass) and content.dialect == NAME:
            return self._content(event, decode_json(content.json))
        if isinstance(content, (TextualContentClass, DataContentClass)):
            said = content.json if isinstance(content, DataContentClass) else content.text
            return self._content(event) + self.delta(Delta(event.index, said))
        return self._begin()

    def _is_own_thought(self, start: PartStart) -> bool:
        is_own = start.origin is not None and start.origin.dialect == NAME
        return start.kind == "reasoning" and is_own

    def _content(self, event: PartStart, block: Object | None = None) -> bytes:
        number = self._open[event.index] = self._contents
        self._contents += 1
        self._words[event.index] = []
        tag = "thinking" if event.kind == "reasoning" else "text"
        return self._event("content-start", number, content=block or {"type": tag, tag: ""})

    def _call(self, event: PartStart) -> bytes:
        number = self._open[event.index] = self._calls
        self._calls += 1
        if event.is_freeform:
            self._words[event.index] = []
        self._silent.add(event.index)
        function = {"name": event.name, "arguments": ""}
        call: Object = {"id": event.identifier, "type": "function", "function": function}
        residue = own_residue(event, NAME)
        call = call if residue is None else recall(call, residue.part)
        return self._event("tool-call-start", number, tool_calls=call)

    def delta(self, event: Delta) -> bytes:
        """More of a part."""
        start = self._starts[event.index]
        if event.channel == "citation":
            return self._cite(event)
        if event.channel == "arguments":
            if start.is_freeform:
                self._words[event.index].append(event.text)
                return b""
            return self._arguments(event.index, event.text)
        if not event.text or event.channel not in ("text", "summary"):
            return b""
        if start.kind == "reasoning":
            return self._think(start, event)
        if event.index not in self._open:
            return b""
        self._words[event.index].append(event.text)
        number = self._open[event.index]
        return self._event("content-delta", number, content={"text": event.text})

    def _think(self, start: PartStart, event: Delta) -> bytes:
        is_own = self._is_own_thought(start)
        words = event.text if is_own else self._thoughts.joined(event)
        if own_word(start, NAME) == PLAN:
            return self._event("tool-plan-delta", None, tool_plan=words)
        begun = b"" if event.index in self._open else self._content(start)
        number = self._open[event.index]
        return begun + self._event("content-delta", number, content={"thinking": words})

    def _arguments(self, index: int, words: str) -> bytes:
        if not words:
            return b""
        self._silent.discard(index)
        call = {"function": {"arguments": words}}
        return self._event("tool-call-delta", self._open[index], tool_calls=call)

    def _cite(self, event: Delta) -> bytes:
        citation = event.citation
        if citation is None or event.index not in self._open or not is_said(citation):
            return b""
        if citation.dialect != NAME and citation.end is None:
            self._waiting.setdefault(event.index, []).append(citation)
            return b""
        return self._cited(event.index, citation)

    def _cited(self, index: int, citation: Citation) -> bytes:
        words = "".join(self._words[index])
        written = write_citation(citation, words, self._open[index])
        number, self._citations = self._citations, self._citations + 1
        begun = self._event("citation-start", number, citations=written)
        return begun + self._event("citation-end", number)

    def part_end(self, event: PartEnd) -> bytes:
        """End a part."""
        start = self._starts[event.index]
        if event.index not in self._open:
            return b""
        if start.kind != "invocation":
            waiting = self._waiting.pop(event.index, ())
            late = b"".join([self._cited(event.index, each) for each in waiting])
            return late + self._event("content-end", self._open.pop(event.index))
        written = b""
        if start.is_freeform:
            words = write_json({FREEFORM_INPUT: "".join(self._words[event.index])})
            written = self._arguments(event.index, words)
        elif event.index in self._silent:
            written = self._arguments(event.index, "{}")
        return written + self._event("tool-call-end", self._open.pop(event.index))

    def count(self, event: UsageReport) -> None:
        """Keep the tokens for the end of the stream."""
        self._usage = event

    def finish(self, event: Finish) -> bytes:
        """End what is under way, and the answer."""
        self.is_over = True
        written = [self._begin(), *(self.part_end(PartEnd(index)) for index in [*self._open])]
        has_calls = bool(self._calls) and not self._is_own
        word = own_word(event, NAME) or finish_word(event.reason, has_calls=has_calls)
        delta: Object = {"finish_reason": word}
        if self._usage is not None:
            delta["usage"] = own_count(self._usage, NAME, write_counts(self._usage.usage))
        ended = named_frame("message-end", {"type": "message-end", "delta": delta})
        return b"".join([*written, ended, _DONE])

    def fail(self, event: Failure) -> bytes:
        """End the answer with an error."""
        self.is_over = True
        delta = {"error": event.message, "finish_reason": "ERROR"}
        told = own_failure(event, NAME) or {"type": "message-end", "delta": delta}
        return self._begin() + foreign_frame(str(told.get("type", "error")), told) + _DONE

    def unknown(self, event: Unknown) -> bytes:
        """What only this dialect understands: citations of plans, debugging, events to come."""
        value = read_chunk(NAME, event.json)
        if event.name != "citation-start":
            return self._begin() + foreign_frame(event.name, value)
        number, self._citations = self._citations, self._citations + 1
        begun = self._begin() + named_frame(event.name, {**value, "index": number})
        return begun + self._event("citation-end", number)
