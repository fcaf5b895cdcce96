"""Whole Ollama responses, both ways. ``stop`` beside calls means that the model called."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from cannery.errors import DialectError
from cannery.families.ollama.reading import OllamaReader
from cannery.families.ollama.writing import OllamaWriter
from cannery.messages.absence import absent
from cannery.messages.requests import FinishReason, Response
from cannery.wire.answers import Answers, Fact, answer_pieces, call_stem
from cannery.wire.bodies import Fields, Object, decode, fields_reader
from cannery.wire.counts import Counts
from cannery.wire.endings import Finishes
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import nested, take_usual

FINISHES = Finishes(
    {"stop": FinishReason.Stop, "length": FinishReason.Length},
    {FinishReason.ContextWindow: "length"},
)
# A cached prompt is not counted.
COUNTS = Counts({"input": "prompt_eval_count", "output": "eval_count"}, needs=("output",))
# Fields that a response may have beside its text.
_BESIDE = ("images", "tool_calls")
# The time written if none is known.
_EPOCH = 0


class Shape(Struct, frozen=True):
    """One of the two APIs: the message field of a response ("" for the whole response), and its text field."""

    name: str
    message: str = "message"
    content: str = "content"

    @property
    def said(self) -> tuple[str, ...]:
        """The content fields of a response."""
        return (self.message,) if self.message else (self.content, "thinking", *_BESIDE)

    @property
    def answers(self) -> Answers:
        """The fields around the message of a response."""
        facts = (
            Fact("model", "model", ""),
            Fact("created_at", "created", write_time(absent), str, read_time, write_time),
            Fact("done", usual=True),
        )
        return Answers(self.name, FINISHES, COUNTS, facts, "done_reason", "", reads_calls=True)

    def message_of(self, line: Object) -> Any:
        """The message of a response or of a line."""
        if self.message:
            return line.get(self.message)
        return {key: line[key] for key in self.said if key in line}

    def wrap(self, message: Object) -> Object:
        """The response fields for the content of a message."""
        if self.message:
            return {self.message: message}
        named = {"content": self.content}
        return {named.get(key, key): item for key, item in message.items() if key != "role"}


def response_reader(shape: Shape) -> Callable[[bytes, Places], Response]:
    """The reader of a dialect's responses."""

    @fields_reader(shape.name)
    def read(fields: Fields, places: Places) -> Response:
        return _read_response(shape, fields, places)

    return read


def _read_response(shape: Shape, fields: Fields, places: Places) -> Response:
    body = {key: decode(field) for key, field in fields.items()}
    needed = shape.said[0]
    if needed not in body and type(body.get("error")) is str:
        raise DialectError(shape.name, "error", "tells of an error and gives no answer")
    model, when = body.get("model"), body.get("created_at")
    reader = OllamaReader(shape.name, places.canisters, model, call_stem(when), shape.content)
    reader.field(body, needed, "")
    message = reader.object(shape.message_of(body), shape.message)
    for key in shape.said:
        body.pop(key, None)
    apart: Object = {}
    dropped: list[str] = []
    if shape.message:
        take_usual(message, "role", "assistant", dropped)
        if "role" in message:
            apart["role"] = message.pop("role")
    reader.assistant(message, (shape.message,) if shape.message else ())
    inner = {"message": nested(apart, {}, dropped)}
    return shape.answers.read(body, reader.canisters, places, inner)


def read_time(when: Any) -> Any:
    """A time text as whole seconds, or absent; Ollama writes nanoseconds."""
    if type(when) is not str:
        return absent
    try:
        return int(
            datetime.fromisoformat(
                when[:19] + (when[-6:] if when[-6:-5] in "+-" else "Z")
            ).timestamp()
        )
    except (ValueError, OverflowError):
        return absent


def write_time(created: Any) -> str:
    """Seconds as a time text in Ollama's form."""
    second = created if isinstance(created, int) else _EPOCH
    try:
        told = datetime.fromtimestamp(second, UTC)
    except (ValueError, OverflowError, OSError):
        told = datetime.fromtimestamp(_EPOCH, UTC)
    return told.strftime("%Y-%m-%dT%H:%M:%SZ")


def response_writer(shape: Shape) -> Callable[[Response, Report], Object]:
    """The writer of a dialect's responses."""
    return lambda response, report: _write_response(shape, response, report)


def _write_response(shape: Shape, response: Response, report: Report) -> Object:
    is_same = response.source == shape.name
    pieces = answer_pieces(response, shape.name, report)
    takes_calls = bool(shape.message)
    writer = OllamaWriter(
        shape.name, report, is_same=is_same, for_answer=True, takes_calls=takes_calls
    )
    message = writer.assistant(pieces) if pieces else {"role": "assistant", "content": ""}
    return shape.answers.write(response, report, shape.wrap(message))
