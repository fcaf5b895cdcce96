"""Ollama streams, one JSON object per line, and Ollama's errors.

Each line has a fragment of the message; the last one is ``done`` and reports usage. A line does not say which text it
continues, so texts come one after the other; calls come whole.
"""

from __future__ import annotations

from typing import Any

from cannery.errors import DialectError
from cannery.families.ollama.answers import (
    COUNTS,
    FINISHES,
    Shape,
    read_time,
    write_time,
)
from cannery.messages.absence import absent
from cannery.messages.content import new_image
from cannery.messages.events import (
    Delta,
    Failure,
    Finish,
    PartEnd,
    PartStart,
    Start,
    UsageReport,
)
from cannery.messages.payload import Base64
from cannery.messages.requests import FinishReason
from cannery.wire.answers import call_stem
from cannery.wire.arguments import argument_text, call_input
from cannery.wire.bodies import Object, encode, read_value
from cannery.wire.contract import StreamOptions, WireError
from cannery.wire.controls import text
from cannery.wire.framing import NDJSON
from cannery.wire.media import sniff
from cannery.wire.residues import nested, recall, set_again, take_usual
from cannery.wire.sse import Frame
from cannery.wire.stream_reading import SPOKEN, EventReader, OpenPart, left_of
from cannery.wire.stream_writing import EventWriter, WrittenPart, words_of

_HEAD = frozenset({"model", "created_at", "done"})
_MESSAGE = frozenset({"role", "content", "response", "thinking", "images", "tool_calls"})


class OllamaStreamReader(EventReader[OpenPart]):
    """Consumes the bytes of a stream and gives events."""

    framing = NDJSON
    part = OpenPart

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.dialect = shape.name
        self._shape = shape
        self._stem = ""
        self._calls = 0
        self._created: Any = absent
        # The last value of every field around the response, and of the message.
        self._around: Object = {}
        self._message: Object = {}

    def event(self, value: Object, frame: Frame) -> None:
        """Read a line."""
        error = value.get("error")
        if type(error) is str and error:
            self._fail(Failure(error, raw=frame.data, dialect=self.dialect))
            return
        if not self._is_started:
            self._is_started = True
            self.start("", value)
        message = self._shape.message_of(value)
        if type(message) is dict:
            self._fragment(message)
        self._around |= left_of(value, self._shape.said)
        if value.get("done") is True:
            self._finish()

    def start(self, kind: str, value: Object) -> None:  # noqa: ARG002 - lines have no kinds
        """Read the response facts in the first line."""
        when, model = value.get("created_at"), value.get("model")
        self._stem = call_stem(when)
        self._model = model if type(model) is str else None
        self._created = read_time(when)
        self._out.append(Start(absent, text(model), self._created, self.dialect))

    def _fragment(self, message: Object) -> None:
        for key, kind in (("thinking", "reasoning"), (self._shape.content, "text")):
            words = message.get(key)
            if type(words) is str and words:
                self._say(kind, words)
        images, calls = message.get("images"), message.get("tool_calls")
        for data in images if type(images) is list else ():
            if type(data) is str:
                self._end_spoken()
                payload = Base64(data)
                self._whole(new_image(payload, sniff(payload) or "image/png"))
        for call in calls if type(calls) is list else ():
            if type(call) is dict and type(call.get("function")) is dict:
                self._end_spoken()
                self._call(call, call["function"])
        self._message |= left_of(message, _MESSAGE)

    def _call(self, call: Object, function: Object) -> None:
        identifier = call.get("id")
        if type(identifier) is not str or not identifier:
            identifier = f"{self._stem}{self._calls}"
        self._calls += 1
        named = {"identifier": identifier, "name": str(function.get("name") or "")}
        residue = self._left_of_call(call, ("id",))
        part = self._start_part(SPOKEN, "invocation", **named, residue=residue)
        self._add(part, argument_text(function.get("arguments")), "arguments")
        self._end_spoken()

    def _finish(self) -> None:
        self._is_over = True
        self._end_spoken()
        if not self._count:
            self._start_part(SPOKEN, "text")
            self._end_spoken()
        around = self._around
        dropped: list[str] = []
        usage = COUNTS.read(around)
        if usage is not absent:
            for key, count in COUNTS.write(usage).items():
                take_usual(around, key, count, dropped)
            self._out.append(UsageReport(usage))
        word, when = around.get("done_reason"), around.get("created_at")
        reason = FINISHES.read(word, has_calls=self._has_calls)
        rest = left_of(around, _HEAD)
        if FINISHES.word(reason) == word:
            del rest["done_reason"]
        if when != write_time(self._created):
            rest["created_at"] = when
        inner = {"message": set_again(self._message)}
        own = self._kept(None, nested(rest, inner, dropped))
        reason = FinishReason.Stop if reason is absent else reason
        self._out.append(Finish(reason, around=own, residue=own))


class OllamaStreamWriter(EventWriter[WrittenPart]):
    """Consumes events and gives lines."""

    part = WrittenPart

    def __init__(self, shape: Shape, options: StreamOptions) -> None:
        super().__init__(options)
        self.dialect = shape.name
        self._shape = shape

    def lane(self, start: PartStart) -> str:
        """The lane of a part: texts and calls wait for their own kind."""
        return "calls" if start.kind == "invocation" else "said"

    def _line(self, message: Object, **fields: Any) -> bytes:
        return NDJSON.write("", self._body(message, **fields))

    def _body(self, message: Object, **fields: Any) -> Object:
        head = {"model": self._model(), "created_at": write_time(self._created())}
        said = self._shape.wrap({"role": "assistant", "content": "", **message})
        return {**head, **said, "done": False, **fields}

    def open(self, part: WrittenPart) -> bytes:
        """Write a part that arrives at once."""
        words = words_of(part.start.content)
        return b"" if words is None else self._line({"content": words})

    def more(self, part: WrittenPart, event: Delta) -> bytes:
        """Write more of a text; a call is written when it is whole."""
        if event.channel == "arguments":
            part.words.append(event.text)
            return b""
        if not event.text or event.channel not in ("text", "summary"):
            return b""
        if part.kind == "reasoning":
            return self._line({"thinking": self._thought(part, event)})
        return self._line({"content": event.text})

    def end(self, part: WrittenPart, event: PartEnd) -> bytes:  # noqa: ARG002 - it says nothing more
        """Write a call, if the response has a message or comes from the same dialect."""
        start = part.start
        if part.kind != "invocation" or not (self._shape.message or self._is_same):
            return b""
        arguments = call_input(part.said, is_freeform=start.is_freeform)
        function = {"name": start.name, "arguments": arguments}
        call = self._recall({"id": start.identifier, "function": function}, start)
        return self._line({"tool_calls": [call]})

    def finish(self, event: Finish) -> bytes:
        """Write the last line."""
        counts = {} if self._usage is None else COUNTS.write(self._usage.usage)
        body = self._body({}, done=True, done_reason=FINISHES.word(event.reason), **counts)
        return NDJSON.write("", recall(body, self._own(event).envelope))

    def fail(self, event: Failure, own: Object | None) -> bytes:
        """End the response with an error."""
        return NDJSON.write("", own or {"error": event.message})


def read_error(status: int, body: bytes) -> WireError:
    """The error in a body, whatever its form."""
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
