"""Ollama streams, one JSON object a line, and its errors.

Each line has a fragment of the message, the last one is ``done`` and counts tokens. Calls come whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from cannery.errors import DialectError
from cannery.families.chat.stream_speech import Turns
from cannery.families.ollama.answers import (
    Shape,
    finish_word,
    read_finish,
    read_time,
    take_counts,
    write_counts,
    write_time,
)
from cannery.messages.absence import absent
from cannery.messages.content import (
    DataContentClass,
    Origin,
    TextualContentClass,
    new_image,
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
from cannery.messages.json_text import write_json
from cannery.messages.payload import Base64
from cannery.messages.residue import Residue
from cannery.wire.answers import call_stem
from cannery.wire.arguments import FREEFORM_INPUT, argument_text, object_input, wrapped_input
from cannery.wire.bodies import Object, encode, guarded, read_value
from cannery.wire.contract import StreamOptions, WireError
from cannery.wire.controls import text
from cannery.wire.framing import NDJSON
from cannery.wire.media import sniff
from cannery.wire.residues import nested, own_residue, recall
from cannery.wire.streams import Thoughts, own_failure, read_chunk, too_deep

_HEAD = frozenset({"model", "created_at", "done"})
_MESSAGE = frozenset({"role", "content", "response", "thinking", "images", "tool_calls"})


class OllamaStreamReader:
    """Takes the bytes of a stream and gives events."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._frames = NDJSON.reader()
        self._stem = ""
        self._model: str | None = None
        self._count = 0
        self._calls = 0
        self._open: tuple[str, int] | None = None
        self._is_over = False
        # The last value of every field around the answer, and of the message.
        self._around: Object = {}
        self._message: Object = {}

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        for frame in self._frames.feed(chunk):
            yield from self._line(frame.data)

    def close(self) -> Iterator[Event]:
        """The events that the end of the stream completes."""
        for frame in self._frames.close():
            yield from self._line(frame.data)
        if not self._is_over:
            self._is_over = True
            yield Failure("the stream ended before the answer was complete", "incomplete")

    def _line(self, data: str) -> Iterator[Event]:
        if self._is_over:
            return
        line = read_chunk(self._shape.name, data)
        error = line.get("error")
        if type(error) is str and error:
            self._is_over = True
            yield Failure(error, raw=data, dialect=self._shape.name)
            return
        if not self._stem:
            yield self._start(line)
        message = self._shape.message_of(line)
        if type(message) is dict:
            yield from self._fragment(message)
        said = self._shape.said
        self._around |= {key: item for key, item in line.items() if key not in said}
        if line.get("done") is True:
            yield from self._end()

    def _start(self, line: Object) -> Start:
        when, model = line.get("created_at"), line.get("model")
        self._stem = call_stem(when)
        self._model = model if type(model) is str else None
        return Start(absent, text(model), read_time(when), self._shape.name)

    def _fragment(self, message: Object) -> Iterator[Event]:
        for key, kind in (("thinking", "reasoning"), (self._shape.content, "text")):
            words = message.get(key)
            if type(words) is str and words:
                yield from self._say(kind, words)
        images = message.get("images")
        for data in images if type(images) is list else ():
            if type(data) is str:
                yield from self._end_open()
                payload = Base64(data)
                held = new_image(payload, sniff(payload) or "image/png")
                yield PartStart(self._count, "whole", content=held)
                yield PartEnd(self._count)
                self._count += 1
        calls = message.get("tool_calls")
        for call in calls if type(calls) is list else ():
            if type(call) is dict and type(call.get("function")) is dict:
                yield from self._call(call)
        self._message |= {key: item for key, item in message.items() if key not in _MESSAGE}

    def _say(self, kind: str, words: str) -> Iterator[Event]:
        if self._open is None or self._open[0] != kind:
            yield from self._end_open()
            self._open = (kind, self._count)
            origin = Origin(self._shape.name, self._model) if kind == "reasoning" else None
            yield PartStart(self._count, kind, origin=origin)
            self._count += 1
        yield Delta(self._open[1], words)

    def _end_open(self) -> Iterator[Event]:
        if self._open is not None:
            yield PartEnd(self._open[1])
            self._open = None

    def _call(self, call: Object) -> Iterator[Event]:
        yield from self._end_open()
        function = call["function"]
        identifier = call.get("id")
        dropped = [] if "id" in call else ["id"]
        if type(identifier) is not str or not identifier:
            identifier = f"{self._stem}{self._calls}"
        self._calls += 1
        inner = {key: item for key, item in function.items() if key not in ("name", "arguments")}
        left = {key: item for key, item in call.items() if key not in ("id", "function")}
        patch = nested(left, {"function": {"s": inner} if inner else None}, dropped)
        residue = None
        if patch is not None:
            residue = Residue(
                self._shape.name, guarded(self._shape.name, partial(write_json, patch))
            )
        name = str(function.get("name") or "")
        index, self._count = self._count, self._count + 1
        yield PartStart(index, "invocation", identifier, name, residue=residue)
        words = guarded(self._shape.name, partial(argument_text, function.get("arguments")))
        if words:
            yield Delta(index, words, "arguments")
        yield PartEnd(index)

    def _end(self) -> Iterator[Event]:
        self._is_over = True
        yield from self._end_open()
        if not self._count:
            yield PartStart(0, "text")
            yield PartEnd(0)
        around = self._around
        dropped: list[str] = []
        usage = take_counts(around, dropped)
        if usage is not absent:
            yield UsageReport(usage)
        word = around.get("done_reason")
        reason = read_finish(word, has_calls=bool(self._calls))
        rest = {key: item for key, item in around.items() if key not in _HEAD}
        if finish_word(reason) == word:
            del rest["done_reason"]
        if around.get("created_at") != write_time(read_time(around.get("created_at"))):
            rest["created_at"] = around.get("created_at")
        own = guarded(self._shape.name, partial(self._residue, rest, dropped))
        yield Finish(
            read_finish("stop", has_calls=False) if reason is absent else reason,
            around=own,
            residue=own,
        )

    def _residue(self, rest: Object, dropped: list[str]) -> Residue | None:
        inner = {"message": {"s": self._message} if self._message else None}
        patch = nested(rest, inner, dropped)
        return None if patch is None else Residue(self._shape.name, None, write_json(patch))


class OllamaStreamWriter:
    """Takes events and gives lines."""

    def __init__(self, shape: Shape, options: StreamOptions) -> None:
        self._shape = shape
        # Only an answer that has a message tells of calls, and one of the same dialect.
        self._takes_calls = bool(shape.message)
        self._options = options
        self._model = options.model or ""
        self._created: Any = options.created or absent
        self._kinds: dict[int, PartStart] = {}
        self._arguments: dict[int, list[str]] = {}
        self._ended: set[int] = set()
        self._thoughts = Thoughts()
        self._turns = Turns()
        self._usage: Any = absent
        self._finish: Finish | None = None

    def write(self, event: Event) -> bytes:
        """The line of one event, if it has one."""
        try:
            return self._write(event)
        except RecursionError:
            raise too_deep(self._shape.name) from None

    def _write(self, event: Event) -> bytes:
        match event:
            case Start():
                self._takes_calls = self._takes_calls or event.source == self._shape.name
                if event.model is not absent and not self._options.model:
                    self._model = event.model
                if event.created is not absent and not self._options.created:
                    self._created = event.created
            case PartStart():
                return self._part_start(event)
            case Delta():
                return self._delta(event)
            case PartEnd():
                return self._part_end(event)
            case UsageReport():
                self._usage = event.usage
            case Finish():
                self._finish = event
            case Failure():
                return self._failure(event)
            case Unknown():
                pass
        return b""

    def close(self) -> bytes:
        """The last line: usage may come behind the end of the answer."""
        if self._finish is None:
            return b""
        finish, self._finish = self._finish, None
        waiting = b""
        while self._turns.open is not None:
            waiting += self._next_turn(PartEnd(self._turns.open))
        body = {
            **self._head(),
            **self._shape.wrap({"role": "assistant", "content": ""}),
            "done": True,
            "done_reason": finish_word(finish.reason),
            **write_counts(self._usage),
        }
        residue = own_residue(finish, self._shape.name)
        ended = body if residue is None else recall(body, residue.envelope)
        return waiting + NDJSON.write("", ended)

    def _head(self) -> Object:
        return {"model": self._model, "created_at": write_time(self._created)}

    def _line(self, **message: Any) -> bytes:
        said = {"role": "assistant", "content": "", **message}
        return NDJSON.write("", {**self._head(), **self._shape.wrap(said), "done": False})

    def _part_start(self, event: PartStart) -> bytes:
        self._kinds[event.index] = event
        content = event.content
        if event.kind == "invocation":
            self._arguments[event.index] = []
            return b""
        self._turns.start(event.index)
        if isinstance(content, TextualContentClass):
            return self._delta(Delta(event.index, content.text))
        if isinstance(content, DataContentClass):
            return self._delta(Delta(event.index, content.json))
        return b""

    def _delta(self, event: Delta) -> bytes:
        if event.channel == "arguments":
            self._arguments[event.index].append(event.text)
            return b""
        if not event.text or event.channel not in ("text", "summary"):
            return b""
        if self._turns.open != event.index and self._turns.keeps(event):
            return b""
        return self._said(event)

    def _said(self, event: Delta) -> bytes:
        start = self._kinds[event.index]
        if start.kind == "reasoning":
            is_own = start.origin is not None and start.origin.dialect == self._shape.name
            return self._line(thinking=event.text if is_own else self._thoughts.joined(event))
        return self._line(content=event.text)

    def _part_end(self, event: PartEnd) -> bytes:
        if event.index not in self._arguments:
            return self._next_turn(event)
        self._ended.add(event.index)
        written = []
        for index in [*self._arguments]:
            if index not in self._ended:
                break
            written.append(self._call(index, "".join(self._arguments.pop(index))))
        return b"".join(written)

    def _next_turn(self, event: PartEnd) -> bytes:
        """A text has ended: what waited for it is said, since a line does not tell which text it goes on with."""
        if event.index != self._turns.open:
            self._turns.keeps(event)
            return b""
        late = [each for each in self._turns.end() if isinstance(each, Delta)]
        return b"".join([self._said(each) for each in late])

    def _call(self, index: int, words: str) -> bytes:
        start = self._kinds[index]
        if not self._takes_calls:
            return b""
        given: Any = {FREEFORM_INPUT: words} if start.is_freeform else object_input(words)
        function = {
            "name": start.name,
            "arguments": wrapped_input(words) if given is None else given,
        }
        call: Object = {"id": start.identifier, "function": function}
        residue = own_residue(start, self._shape.name)
        if residue is not None:
            call = recall(call, residue.part)
        return self._line(tool_calls=[call])

    def _failure(self, event: Failure) -> bytes:
        self._finish = None
        own = own_failure(event, self._shape.name)
        return NDJSON.write("", own or {"error": event.message})


def read_error(status: int, body: bytes) -> WireError:
    """The error that a body tells of, whatever it is."""
    try:
        value = read_value("ollama", body)
    except DialectError:
        value = None
    told = value.get("error") if type(value) is dict else None
    if type(told) is dict:
        told = told.get("message")
    if type(told) is str and told:
        return WireError(status, told)
    return WireError(status, body[:500].decode("utf-8", "replace").strip() or f"HTTP {status}")


def write_error(error: WireError) -> bytes:
    """The body of an error."""
    return encode({"error": error.message})
