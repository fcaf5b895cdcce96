"""Cohere streams: named events, whose contents and calls are numbered independently.

Citations come amid the text or after the end of their content, so a text ends only when another begins or with the
response. A plan has no start and no end event.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.cohere_chat.reading import PLAN, read_citation
from cannery.dialects.cohere_chat.responses import (
    COUNTS,
    FINISHES,
    MADE_ID,
)
from cannery.dialects.cohere_chat.settings import NAME
from cannery.dialects.cohere_chat.writing import write_citation
from cannery.messages.absence import absent
from cannery.messages.content import Citation, new_opaque
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
from cannery.messages.json_text import write_json
from cannery.messages.requests import FinishReason
from cannery.messages.residue import Residue
from cannery.wire.answers import call_stem
from cannery.wire.arguments import FREEFORM_INPUT, argument_text
from cannery.wire.bodies import Object
from cannery.wire.citations import is_sayable
from cannery.wire.contract import StreamOptions
from cannery.wire.controls import text
from cannery.wire.residues import nested, set_again
from cannery.wire.sse import DONE, Frame, foreign_frame, named_frame
from cannery.wire.stream_reading import EventReader, OpenPart, object_of
from cannery.wire.stream_writing import EventWriter, WrittenPart, words_of

_KINDS = {"text": "text", "thinking": "reasoning"}
_DONE = f"data: {DONE}\n\n".encode()


def _key(kind: str, value: Object, counter: str = "index") -> tuple[str, int | None]:
    """The key of a content or a call."""
    found = value.get(counter)
    return kind, found if type(found) is int else None


def _message(value: Object) -> Object:
    """The message fields of an event."""
    return object_of(object_of(value.get("delta")).get("message"))


class CohereStreamReader(EventReader[OpenPart]):
    """Consumes the bytes of a stream and gives events."""

    dialect = NAME
    part = OpenPart
    starts = "message-start"

    def __init__(self) -> None:
        super().__init__()
        self._stem = "call_"
        self._calls = 0
        # Texts whose content has ended and which may still be cited.
        self._ended: list[Any] = []
        # The fields around the content: all citations, and whether a text has each of them.
        self._citations: list[Any] = []
        self._all_cited = True
        self._logprobs: list[Any] = []

    def failure(self, kind: str, value: Object, data: str) -> Failure | None:  # noqa: ARG002 - it has none
        """An error without a type."""
        message = value.get("message")
        is_error = value.get("type") is None and type(message) is str
        return Failure(message, raw=data, dialect=NAME) if is_error else None  # type: ignore[arg-type]

    def start(self, kind: str, value: Object) -> None:
        """Read the id of the response."""
        identifier = value.get("id") if kind == self.starts else None
        self._stem = call_stem(identifier)
        self._out.append(Start(text(identifier), source=NAME))

    def _citation_end(self, value: Object, frame: Frame) -> None:
        """End a citation, which arrived whole with its start."""

    def _settle(self) -> None:
        """End the plan, and texts whose content has ended, because another part begins."""
        for key in self._ended:
            self._end_part(key)
        self._ended = []
        self._end_part(PLAN)

    def _begin(self, key: Any, kind: str, **facts: Any) -> OpenPart:
        self._settle()
        self._end_part(key)
        return self._start_part(key, kind, **facts)

    def _content_start(self, value: Object, frame: Frame) -> None:
        content = object_of(_message(value).get("content"))
        given = content.get("type")
        tag = given if type(given) is str else "text"
        if tag in _KINDS:
            self._begin(_key("content", value), _KINDS[tag])
            self._content_delta(value, frame)
        else:
            held = new_opaque(NAME, tag, write_json(content))
            self._begin(_key("content", value), "whole", content=held)

    def _content_delta(self, value: Object, _frame: Frame) -> None:
        content = object_of(_message(value).get("content"))
        if value.get("logprobs") is not None:
            self._logprobs.append(value["logprobs"])
        for tag, kind in _KINDS.items():
            words = content.get(tag)
            if type(words) is not str or not words:
                continue
            key = _key("content", value)
            part = self._open.get(key)
            if part is None or part.kind != kind:
                part = self._begin(key, kind)
            part.words.append(words)
            self._add(part, words)

    def _content_end(self, value: Object, _frame: Frame) -> None:
        """End a thought; a text may still be cited."""
        key = _key("content", value)
        part = self._open.get(key)
        if part is not None and part.kind == "text":
            self._ended.append(key)
        else:
            self._end_part(key)

    def _plan_delta(self, value: Object, _frame: Frame) -> None:
        words = _message(value).get(PLAN)
        if type(words) is not str or not words:
            return
        part = self._open.get(PLAN)
        if part is None:
            part = self._begin(PLAN, "reasoning", residue=self._kept(form=PLAN))
        self._add(part, words)

    def _call_start(self, value: Object, frame: Frame) -> None:
        call = object_of(_message(value).get("tool_calls"))
        identifier = call.get("id") or f"{self._stem}{self._calls}"
        self._calls += 1
        name = object_of(call.get("function")).get("name")
        named = {"identifier": str(identifier), "name": str(name or "")}
        residue = self._left_of_call(call, ("id", "type"))
        self._begin(_key("call", value), "invocation", **named, residue=residue)
        self._call_delta(value, frame)

    def _call_delta(self, value: Object, _frame: Frame) -> None:
        function = object_of(object_of(_message(value).get("tool_calls")).get("function"))
        part = self._open.get(_key("call", value))
        if part is not None:
            self._add(part, argument_text(function.get("arguments") or None), "arguments")

    def _call_end(self, value: Object, _frame: Frame) -> None:
        self._end_part(_key("call", value))

    def _citation(self, value: Object, frame: Frame) -> None:
        item = _message(value).get("citations")
        if type(item) is not dict:
            return
        self._citations.append(item)
        part = self._open.get(_key("content", item, "content_index"))
        if part is None or part.kind != "text":
            part = next(
                (each for each in reversed(self._open.values()) if each.kind == "text"), None
            )
        if part is None or item.get("type") not in (None, "TEXT_CONTENT"):
            self._all_cited = False
            self._out.append(Unknown(NAME, "citation-start", frame.data))
            return
        citation = read_citation(item, "".join(part.words))
        self._out.append(Delta(part.index, "", "citation", citation=citation))

    def _message_end(self, value: Object, frame: Frame) -> None:
        self._is_over = True
        self._end_parts()
        delta = {**object_of(value.get("delta"))}
        if type(delta.get("error")) is str and delta["error"]:
            self._fail(Failure(delta["error"], raw=frame.data, dialect=NAME))
            return
        usage, counted = COUNTS.take(delta.get("usage"))
        if usage is not absent:
            del delta["usage"]
            self._out.append(UsageReport(usage, self._kept(counted)))
        word = delta.get("finish_reason")
        reason = FINISHES.read(word)
        reason = FinishReason.Stop if reason is absent else reason
        if FINISHES.word(reason) == word:
            del delta["finish_reason"]
        own = self._kept(form=str(word) if "finish_reason" in delta else None)
        self._out.append(Finish(reason, residue=own, around=self._around(delta, counted)))

    def _around(self, left: Object, counted: Object | None) -> Residue | None:
        """The residue that the whole response would have."""
        if self._logprobs:
            left["logprobs"] = self._logprobs
        said = {} if self._all_cited else {"citations": self._citations}
        return self._kept(None, nested(left, {"message": set_again(said), "usage": counted}))

    readers = {  # noqa: RUF012 - a constant
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


class CohereStreamWriter(EventWriter[WrittenPart]):
    """Consumes events and gives the bytes of named events."""

    dialect = NAME
    part = WrittenPart

    def __init__(self, options: StreamOptions) -> None:
        super().__init__(options)
        # The number of parts of each kind.
        self._contents = self._calls = self._citations = 0

    def lane(self, start: PartStart) -> None:
        """No lane: every event has the number of its part."""

    def begin(self) -> bytes:
        """Write the id of the response."""
        message = {"role": "assistant", "content": [], PLAN: "", "tool_calls": [], "citations": []}
        head = {"id": self._identifier(MADE_ID), "type": "message-start"}
        return named_frame("message-start", {**head, "delta": {"message": message}})

    def _event(self, kind: str, index: int | None = None, **message: Any) -> bytes:
        body: Object = {"type": kind}
        if index is not None:
            body["index"] = index
        if message:
            body["delta"] = {"message": message}
        return named_frame(kind, body)

    def open(self, part: WrittenPart) -> bytes:
        """Begin a part; thoughts of other dialects begin with their first text."""
        if part.kind == "invocation":
            return self._call(part)
        block, words = self._own_block(part), words_of(part.start.content)
        if words is not None:
            return self._content(part) + self.more(part, Delta(part.start.index, words))
        is_plan = self._own(part.start).form == PLAN
        is_known = part.kind in ("text", "refusal") or self._is_own_thought(part)
        return self._content(part, block) if block or (is_known and not is_plan) else b""

    def _content(self, part: WrittenPart, block: Object | None = None) -> bytes:
        part.number, self._contents = self._contents, self._contents + 1
        tag = "thinking" if part.kind == "reasoning" else "text"
        return self._event("content-start", part.number, content=block or {"type": tag, tag: ""})

    def _call(self, part: WrittenPart) -> bytes:
        part.number, self._calls = self._calls, self._calls + 1
        function = {"name": part.start.name, "arguments": ""}
        call = {"id": part.start.identifier, "type": "function", "function": function}
        call = self._recall(call, part.start)
        return self._event("tool-call-start", part.number, tool_calls=call)

    def more(self, part: WrittenPart, event: Delta) -> bytes:
        """More of a part."""
        if event.channel == "citation":
            return self._cite(part, event.citation)
        if event.channel == "arguments":
            if not part.start.is_freeform:
                return self._arguments(part, event.text)
            part.words.append(event.text)
            return b""
        if not event.text or event.channel not in ("text", "summary"):
            return b""
        if part.kind == "reasoning":
            return self._think(part, event)
        if part.number is None:
            return b""
        part.words.append(event.text)
        return self._event("content-delta", part.number, content={"text": event.text})

    def _think(self, part: WrittenPart, event: Delta) -> bytes:
        words = self._thought(part, event)
        if self._own(part.start).form == PLAN:
            return self._event("tool-plan-delta", None, tool_plan=words)
        begun = b"" if part.number is not None else self._content(part)
        return begun + self._event("content-delta", part.number, content={"thinking": words})

    def _arguments(self, part: WrittenPart, words: str) -> bytes:
        if not words:
            return b""
        part.is_silent = False
        call = {"function": {"arguments": words}}
        return self._event("tool-call-delta", part.number, tool_calls=call)

    def _cite(self, part: WrittenPart, citation: Citation | None) -> bytes:
        if citation is None or part.number is None or not is_sayable(citation, NAME):
            return b""
        if citation.dialect != NAME and citation.end is None:
            part.cited.append(citation)
            return b""
        return self._cited(write_citation(citation, part.said, part.number))

    def _cited(self, citation: Object) -> bytes:
        number, self._citations = self._citations, self._citations + 1
        begun = self._event("citation-start", number, citations=citation)
        return begun + self._event("citation-end", number)

    def end(self, part: WrittenPart, event: PartEnd) -> bytes:  # noqa: ARG002 - it says nothing more
        """Write what was kept, and end the content or the call."""
        if part.number is None:
            return b""
        if part.kind != "invocation":
            late = [write_citation(each, part.said, part.number) for each in part.cited]
            written = b"".join(map(self._cited, late))
            return written + self._event("content-end", part.number)
        written = b""
        if part.start.is_freeform:
            written = self._arguments(part, write_json({FREEFORM_INPUT: part.said}))
        elif part.is_silent:
            written = self._arguments(part, "{}")
        return written + self._event("tool-call-end", part.number)

    def finish(self, event: Finish) -> bytes:
        """Write the finish reason and the usage."""
        has_calls = self._has_calls and not self._is_same
        word = self._own(event).form or FINISHES.word(event.reason, has_calls=has_calls)
        delta: Object = {"finish_reason": word}
        if self._usage is not None:
            delta["usage"] = self._recall(COUNTS.write(self._usage.usage), self._usage)
        return named_frame("message-end", {"type": "message-end", "delta": delta}) + _DONE

    def fail(self, event: Failure, own: Object | None) -> bytes:
        """End the response with an error."""
        delta = {"error": event.message, "finish_reason": "ERROR"}
        told = own or {"type": "message-end", "delta": delta}
        return self._begin() + foreign_frame(str(told.get("type", "error")), told) + _DONE

    def unknown(self, event: Unknown, value: Object) -> bytes:
        """Write an event that only this dialect understands: citations of plans, debugging, future events."""
        if event.name != "citation-start":
            return self._begin() + foreign_frame(event.name, value)
        number, self._citations = self._citations, self._citations + 1
        begun = self._begin() + named_frame(event.name, {**value, "index": number})
        return begun + self._event("citation-end", number)
